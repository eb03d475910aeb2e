//! Handlers, and the task that tells one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delta_fifo::{DeltaQueue, KnownView};
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tracing::Instrument;

use super::distributor::Start;
use super::registration::{Teller, Telling};
use crate::notification::Notification;
use crate::source::ListWatch;
use crate::tasks::{contained, end_of};

/// What wants to be told of a source's objects.
///
/// What it is told of one key comes one after the other. A panic is contained and counted, and that notification does not come again:
/// work that can fail belongs in a [`WorkQueue`](delta_fifo::WorkQueue), or a [`Controller`](crate::Controller).
pub trait EventHandler<K: Sync, V: Send + Sync>: Send + Sync + 'static {
    /// There is an object. `is_initial`: it was there before the handler, or stems from the first list.
    fn on_add(&self, key: &K, object: Arc<V>, is_initial: bool) -> impl Future<Output = ()> + Send {
        let _ = (key, object, is_initial);
        std::future::ready(())
    }

    /// An object is another; or the same, after a resync or another list.
    fn on_update(&self, key: &K, old: Arc<V>, new: Arc<V>) -> impl Future<Output = ()> + Send {
        let _ = (key, old, new);
        std::future::ready(())
    }

    /// An object is gone; as it was last, as far as anybody saw. `is_missed`: a list without it said so.
    fn on_delete(&self, key: &K, last: Arc<V>, is_missed: bool) -> impl Future<Output = ()> + Send {
        let _ = (key, last, is_missed);
        std::future::ready(())
    }
}

/// Options of a handler.
#[derive(Clone, Debug)]
pub struct HandlerOptions {
    /// What it is called in metrics and spans, after the informer's name; default: its number.
    pub name: Option<String>,
    /// So many keys at once; default 1.
    pub workers: usize,
    /// Every known object is told again so often, as an update to itself; default: never. A handler that is not through with the last
    /// time yet is left out.
    pub resync_every: Option<Duration>,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        HandlerOptions { name: None, workers: 1, resync_every: None }
    }
}

/// Tells one handler.
pub(super) struct Runner<L: ListWatch, H> {
    handler: Arc<H>,
    workers: usize,
    teller: Teller<L>,
    start: Start<L>,
}

impl<L: ListWatch, H: EventHandler<L::Key, L::Object>> Runner<L, H> {
    pub(super) fn new(handler: H, workers: usize, telling: Arc<Telling<L>>, start: Start<L>) -> Self {
        Runner { handler: Arc::new(handler), workers, teller: Teller(telling), start }
    }

    /// Until the handler's queue is closed, and what is in it told.
    pub(super) async fn run(self) {
        let Runner { handler, workers, teller, start } = self;
        let Ok(snapshot) = start.await else { return };
        teller.0.begins();
        // Handles of the objects, so that the snapshot, which keeps all that changes meanwhile, can go.
        let known: Vec<_> = snapshot.iter().collect();
        drop(snapshot);
        let known = Arc::new(Mutex::new(known.into_iter()));
        let call = || Call { handler: Arc::clone(&handler), telling: Arc::clone(&teller.0) };

        // What is known first, as a whole: a key that is in both must not be told by two.
        let mut all = JoinSet::new();
        (0..workers).for_each(|_| {
            let (known, call) = (Arc::clone(&known), call());
            all.spawn(async move {
                let next = || known.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(known) = next().filter(|_| !call.telling.is_removed()) {
                    let object = Arc::clone(known.object());
                    call.tell(known.key(), Notification::Added { object, is_initial: true }).await;
                }
            });
        });
        end_of(&mut all).await;
        teller.0.follows();

        let mut all = JoinSet::new();
        (0..workers).for_each(|_| _ = all.spawn(call().follow()));
        end_of(&mut all).await;
    }
}

/// One of the workers of a handler.
struct Call<L: ListWatch, H> {
    handler: Arc<H>,
    telling: Arc<Telling<L>>,
}

impl<L: ListWatch, H: EventHandler<L::Key, L::Object>> Call<L, H> {
    async fn follow(self) {
        while let Ok(lease) = self.telling.queue.pop_async_owned().await {
            let key = lease.key();
            let all: Vec<_> = lease.deltas().iter().filter_map(|delta| delta.object().cloned()).collect();
            let depth = || self.telling.queue.pending_len();
            let span = tracing::debug_span!(
                "handle",
                handler = self.telling.name,
                ?key,
                deltas = all.len(),
                depth = depth()
            );
            let _working = self.telling.metrics.begin(lease.waited());
            for notification in all {
                if self.telling.is_removed() {
                    break;
                }
                self.tell(key, notification).instrument(span.clone()).await;
            }
            lease.done();
        }
    }

    async fn tell(&self, key: &L::Key, notification: Notification<L::Object>) {
        let handler = &*self.handler;
        let told = async {
            match notification {
                Notification::Added { object, is_initial } => handler.on_add(key, object, is_initial).await,
                Notification::Updated { old, new } => handler.on_update(key, old, new).await,
                Notification::Deleted { last, is_missed } => handler.on_delete(key, last, is_missed).await,
            }
        };
        match contained(told).await {
            Some(()) => self.telling.counts.count_handled(),
            None => {
                self.telling.counts.count_panicked();
                tracing::error!(handler = self.telling.name, ?key, "a handler panicked");
            }
        }
        // A handler that never waits must not keep others from the thread.
        consume_budget().await;
    }
}
