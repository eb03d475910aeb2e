//! A queue as the trigger of kube's own controllers.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use delta_fifo::{Closed, Delta, DeltaQueue, OwnedLease};
use futures_util::stream::{BoxStream, unfold};
use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{ReconcileReason, ReconcileRequest};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;

use crate::Queue;
use crate::key::ObjectKey;

/// What of a queue kube's `applier` takes: a request for each object that has changed, and the store in which reconcilers look it up.
///
/// It takes the place of `reflector` and `trigger_self`. An object is in the store before it is asked for, and its lease ends then: so
/// who waits until a version is processed (`Progress::wait_processed`) reads his own writes in the store. As in kube's own controller,
/// nobody is asked for before the first list is complete, an object that is gone is not asked for, and requests of one object that
/// wait come to one.
///
/// kube's store has objects of its own, so each is cloned once: a queue beside a store costs twice the memory of its objects.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use delta_fifo_informer::Reflector;
/// use delta_fifo_kube::{ApiListWatch, Requests, queue};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::runtime::controller::{Action, Config, applier};
/// use kube::{Api, Client};
///
/// async fn reconcile(map: Arc<ConfigMap>) -> Result<Action, kube::Error> {
///     println!("{:?}", map.metadata.name);
///     Ok(Action::await_change())
/// }
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let reflector = Reflector::builder(ApiListWatch::new(Api::all(Client::try_default().await?))).build(queue());
/// let requests = Requests::<ConfigMap>::new(reflector.queue().clone());
/// let store = requests.store();
/// tokio::spawn(reflector.run());
/// let reconciled = applier(
///     |map, _| Box::pin(reconcile(map)),
///     |_, _, _| Action::await_change(),
///     Arc::new(()),
///     store,
///     requests,
///     Config::default(),
/// );
/// # Ok(())
/// # }
/// ```
///
/// kube's `Controller`, with all that it watches besides, takes [`into_objects`](Self::into_objects) by `for_shared_stream` (of its
/// feature `unstable-runtime-subscribe`), or [`into_object_refs`](Self::into_object_refs) by `reconcile_on`.
#[must_use = "a stream does nothing unless it is read"]
pub struct Requests<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    changed: BoxStream<'static, Changed<K>>,
    store: Store<K>,
    dyntype: K::DynamicType,
}

struct Changed<K> {
    object: Arc<K>,
    is_resync: bool,
}

impl<K> Requests<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    /// Of a queue from which nobody else takes.
    pub fn new(queue: Arc<Queue<K>>) -> Self
    where
        K::DynamicType: Default,
    {
        Self::with_type(queue, K::DynamicType::default())
    }

    /// The same for a type that is known at run time.
    pub fn with_type(queue: Arc<Queue<K>>, dyntype: K::DynamicType) -> Self {
        let mut writer = Writer::new(dyntype.clone());
        let store = writer.as_reader();
        writer.apply_watcher_event(&Event::Init);
        let state = Filling { queue, writer, gone: Some(HashMap::new()), changed: VecDeque::new() };
        let changed = unfold(state, |mut state| async move { Some((state.next().await?, state)) }).boxed();
        Requests { changed, store, dyntype }
    }

    /// The store in which the objects are; filled by whoever reads the requests.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// The objects that have changed, for `Controller::for_shared_stream`.
    pub fn into_objects(self) -> impl Stream<Item = Arc<K>> + Send + use<K> {
        self.changed.map(|changed| changed.object)
    }

    /// Which objects have changed, for `Controller::reconcile_on`.
    pub fn into_object_refs(self) -> impl Stream<Item = ObjectRef<K>> + Send + use<K> {
        let dyntype = self.dyntype;
        self.changed.map(move |changed| ObjectRef::from_obj_with(&*changed.object, dyntype.clone()))
    }
}

impl<K> Stream for Requests<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Unpin,
{
    type Item = Result<ReconcileRequest<K>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.changed.poll_next_unpin(context));
        let request = |Changed { object, is_resync }: Changed<K>| ReconcileRequest {
            obj_ref: ObjectRef::from_obj_with(&*object, self.dyntype.clone()),
            reason: if is_resync { ReconcileReason::BulkReconcile } else { ReconcileReason::ObjectUpdated },
        };
        Poll::Ready(next.map(request).map(Ok))
    }
}

impl<K> fmt::Debug for Requests<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// Takes from the queue, and fills the store.
struct Filling<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    queue: Arc<Queue<K>>,
    writer: Writer<K>,
    /// Until the first list is complete the store is filled in one step, which knows no deletions: these come after it.
    gone: Option<HashMap<ObjectKey, Arc<K>>>,
    changed: VecDeque<Changed<K>>,
}

impl<K> Filling<K>
where
    K: Resource + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    async fn next(&mut self) -> Option<Changed<K>> {
        loop {
            if self.gone.is_none()
                && let Some(changed) = self.changed.pop_front()
            {
                return Some(changed);
            }
            let lease = if self.gone.is_some() {
                let queue = Arc::clone(&self.queue);
                tokio::select! {
                    biased;
                    synced = queue.wait_synced_async() => {
                        // Closed: it will not come. Then what there is must do.
                        self.complete(synced.is_ok());
                        continue;
                    }
                    lease = queue.pop_async_owned() => lease,
                }
            } else {
                self.queue.pop_async_owned().await
            };
            match lease {
                Ok(lease) => self.take(lease),
                Err(Closed) if self.gone.is_some() => self.complete(false),
                Err(Closed) => return None,
            }
        }
    }

    /// The first list is in the store.
    fn complete(&mut self, is_synced: bool) {
        if !is_synced {
            tracing::warn!("the queue was closed before its first list was complete");
        }
        self.writer.apply_watcher_event(&Event::InitDone);
        for object in self.gone.take().into_iter().flatten().map(|(_, object)| object) {
            self.writer.apply_watcher_event(&Event::Delete(K::clone(&object)));
        }
    }

    fn take(&mut self, lease: OwnedLease<Queue<K>>) {
        let (key, newest) = (lease.key(), lease.deltas().newest());
        let is_resync = lease.deltas().iter().all(|delta| matches!(delta, Delta::Sync(_)));
        let object = newest.object().or(lease.previous()).cloned();
        match (object, newest.is_deletion()) {
            (Some(object), true) => {
                if let Some(gone) = &mut self.gone {
                    gone.insert(key.clone(), object);
                } else {
                    self.writer.apply_watcher_event(&Event::Delete(K::clone(&object)));
                }
            }
            (Some(object), false) => {
                match &mut self.gone {
                    Some(gone) => {
                        gone.remove(key);
                        self.writer.apply_watcher_event(&Event::InitApply(K::clone(&object)));
                    }
                    None if !is_resync => self.writer.apply_watcher_event(&Event::Apply(K::clone(&object))),
                    None => {}
                }
                self.changed.push_back(Changed { object, is_resync });
            }
            // Nobody has ever seen it.
            (None, _) => {}
        }
        lease.done();
    }
}
