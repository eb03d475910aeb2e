//! A `kube::runtime::watcher` stream as a source.
//!
//! ```text
//!   watch_list:  Init ──▶ InitApply, as additions ──▶ InitDone, the end of the initial events ──▶ Apply, Delete
//!                  ▲                                                                                   │
//!                  ╰──── Init again, at any time: gone, so that the reflector lists anew ◀─────────────╯
//! ```
//!
//! - **S1.** Whoever reads has the stream to himself, and gives it back when he is dropped: the next one goes on where he was.
//! - **S2.** The end of the initial events is told only of a list whose beginning was seen: it is what deletes.

use std::fmt;
use std::sync::Arc;

use delta_fifo_informer::{ListWatch, Page, PageRequest, ResourceVersion, SourceError, WatchEvent};
use futures_util::stream::{BoxStream, unfold};
use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::key::{Interner, ObjectKey, key_of};

/// A [`kube::runtime::watcher()`] stream as a source, for [`delta_fifo_informer`]'s controller and shared informer. By value, no object is cloned.
///
/// For who has such a stream; [`ApiListWatch`](crate::ApiListWatch) says more, and [`WatcherFeed`](crate::WatcherFeed) needs no reflector. A list
/// has no version there: the newest of its objects' stands for it.
///
/// ```no_run
/// use delta_fifo_informer::Reflector;
/// use delta_fifo_kube::{WatcherListWatch, queue};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::runtime::{WatchStreamExt, watcher};
/// use kube::{Api, Client};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Api::<Pod>::all(Client::try_default().await?);
/// let events = watcher(pods, watcher::Config::default()).default_backoff();
/// let reflector = Reflector::builder(WatcherListWatch::new(events)).build(queue());
/// # Ok(())
/// # }
/// ```
pub struct WatcherListWatch<K> {
    reading: Arc<Mutex<Reading<K>>>,
}

struct Reading<K> {
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    keys: Option<Arc<Interner>>,
    /// An `Init` has been read of which nobody has been told.
    has_begun: bool,
}

impl<K> fmt::Debug for WatcherListWatch<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatcherListWatch").finish_non_exhaustive()
    }
}

impl<K: Resource + Send + 'static> WatcherListWatch<K> {
    /// What this stream tells. It has to wait by itself after errors (`default_backoff`); they are logged. One that ends, which a watcher does
    /// not, ends who reads it.
    pub fn new(events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static) -> Self {
        let reading = Reading { events: events.boxed(), keys: None, has_begun: false };
        WatcherListWatch { reading: Arc::new(Mutex::new(reading)) }
    }

    /// Shares keys with other sources of the same objects.
    ///
    /// # Panics
    ///
    /// Somebody reads it already.
    #[must_use]
    pub fn intern_keys_in(self, keys: Arc<Interner>) -> Self {
        self.reading.try_lock().expect("nobody reads it yet").keys = Some(keys);
        self
    }
}

/// Where one reader is.
enum Place {
    /// `Init` has still to come.
    BeforeList,
    /// The newest version so far.
    List(ResourceVersion),
    Changes,
    End,
}

struct Reader<K> {
    reading: OwnedMutexGuard<Reading<K>>,
    place: Place,
}

type Told<K> = Result<WatchEvent<ObjectKey, K>, SourceError>;

impl<K: Resource> Reader<K> {
    fn named(&self, object: &K) -> Result<(ObjectKey, ResourceVersion), SourceError> {
        let version = object.meta().resource_version.as_deref().filter(|version| !version.is_empty());
        match (key_of(self.reading.keys.as_deref(), object), version) {
            (Some(key), Some(version)) => Ok((key, version.into())),
            _ => Err(SourceError::transient("an object without a name or a version")),
        }
    }

    fn end(&mut self, error: SourceError) -> Option<Told<K>> {
        self.place = Place::End;
        Some(Err(error))
    }

    /// `Init`, when the list before it, if there was one, is done with.
    fn begin(&mut self) -> Option<Told<K>> {
        match self.place {
            Place::BeforeList => {
                // No version is older.
                self.place = Place::List("0".into());
                None
            }
            // This reader's replace has to go first.
            Place::List(_) => {
                self.reading.has_begun = true;
                self.end(SourceError::Expired("the list has begun anew".into()))
            }
            Place::Changes | Place::End => {
                self.reading.has_begun = true;
                self.end(SourceError::Gone("the watcher lists again".into()))
            }
        }
    }

    /// What is to be told of one event, if anything.
    fn take(&mut self, event: Event<K>) -> Option<Told<K>> {
        match event {
            Event::Init => self.begin(),
            Event::InitDone => match std::mem::replace(&mut self.place, Place::Changes) {
                Place::List(newest) => Some(Ok(WatchEvent::InitialEnd(newest))),
                before => {
                    tracing::warn!("a list whose beginning is missing deletes nothing");
                    self.place = before;
                    None
                }
            },
            Event::InitApply(object) | Event::Apply(object) => {
                Some(self.named(&object).map(|(key, version)| {
                    if let Place::List(newest) = &mut self.place
                        && version > *newest
                    {
                        *newest = version.clone();
                    }
                    WatchEvent::Applied(key, object, version)
                }))
            }
            Event::Delete(object) => {
                Some(self.named(&object).map(|(key, version)| WatchEvent::Deleted(key, object, version)))
            }
        }
    }

    async fn next(&mut self) -> Option<Told<K>> {
        loop {
            if matches!(self.place, Place::End) {
                return None;
            }
            if std::mem::take(&mut self.reading.has_begun) {
                match self.begin() {
                    Some(told) => return Some(told),
                    None => continue,
                }
            }
            match self.reading.events.next().await {
                Some(Ok(event)) => {
                    if let Some(told) = self.take(event) {
                        return Some(told);
                    }
                }
                // A list may go on after it: only another `Init` says that it does not.
                Some(Err(error)) => tracing::warn!(%error, "watcher failed"),
                None => return self.end(SourceError::Ended("the stream of events has ended".into())),
            }
        }
    }
}

impl<K: Resource + Send + Sync + 'static> WatcherListWatch<K> {
    async fn read(&self, place: Place) -> BoxStream<'static, Told<K>> {
        let reading = Arc::clone(&self.reading).lock_owned().await;
        let reader = Reader { reading, place };
        unfold(reader, |mut reader| async move { Some((reader.next().await?, reader)) }).boxed()
    }
}

impl<K: Resource + Send + Sync + 'static> ListWatch for WatcherListWatch<K> {
    type Key = ObjectKey;
    type Object = K;
    type Watch = BoxStream<'static, Told<K>>;

    async fn list(&self, _: PageRequest) -> Result<Page<ObjectKey, K>, SourceError> {
        Err(SourceError::Ended("a watcher has no pages".into()))
    }

    async fn watch(&self, _: ResourceVersion) -> Result<Self::Watch, SourceError> {
        Ok(self.read(Place::Changes).await)
    }

    async fn watch_list(&self) -> Result<Option<Self::Watch>, SourceError> {
        Ok(Some(self.read(Place::BeforeList).await))
    }
}
