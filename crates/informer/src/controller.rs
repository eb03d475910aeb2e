//! The loop around a queue: pop, tell the handler, end the lease.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delta_fifo::{DeltaFifo, DeltaQueue};
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tracing::Instrument;

use crate::indexer::{Indexer, IndexerBuilder};
use crate::metrics::{QueueMetrics, looks};
use crate::notification::{Notification, left_by, notifications};
use crate::reflector::{Reflector, ReflectorError, SourceQueue};
use crate::source::ListWatch;
use crate::tasks::{contained, end_of};

/// What a controller does with an object.
///
/// What it is told of one key comes one after the other; of different keys, side by side. An error, or a panic, brings the key back
/// after a back-off, with everything it was told of in this turn: so it must be able to see a notification twice.
pub trait Handler<K, V>: Send + Sync + 'static {
    /// Why it could not.
    type Error: Display + Send;

    /// Something has happened to the object of this key.
    fn handle(
        &self,
        key: &K,
        notification: Notification<V>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// What a controller has done so far.
#[derive(Debug, Default)]
pub struct Counts {
    handled: AtomicU64,
    failed: AtomicU64,
    panicked: AtomicU64,
    given_up: AtomicU64,
}

impl Counts {
    /// Notifications that a handler has dealt with.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Errors of handlers.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Panics of handlers.
    pub fn panicked(&self) -> u64 {
        self.panicked.load(Ordering::Relaxed)
    }

    /// Keys whose deltas were dropped after too many attempts.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn count_handled(&self) {
        count(&self.handled);
    }

    pub(crate) fn count_panicked(&self) {
        count(&self.panicked);
    }
}

fn count(of: &AtomicU64) {
    // Relaxed: nothing hangs on it.
    of.fetch_add(1, Ordering::Relaxed);
}

/// The loop of client-go's `newInformer`, with any number of workers.
pub struct Controller<L: ListWatch, H> {
    reflector: Reflector<L>,
    workers: usize,
    attempts: Option<u32>,
    indexer: Arc<Indexer<L::Key, L::Object>>,
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    handler: H,
    counts: Arc<Counts>,
}

impl<L: ListWatch, H: Handler<L::Key, L::Object>> Controller<L, H> {
    /// One worker, and any number of attempts.
    pub fn new(reflector: Reflector<L>, handler: H) -> Self {
        let shared = Arc::new(Shared { handler, counts: Arc::default() });
        let indexer = Arc::new(IndexerBuilder::default().build());
        Controller { reflector, workers: 1, attempts: None, indexer, shared }
    }

    /// So many keys at once.
    ///
    /// # Panics
    ///
    /// None is no number of workers.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "nobody would work");
        self.workers = workers;
        self
    }

    /// After so many failures in a row a key's deltas are dropped; default: never.
    #[must_use]
    pub fn give_up_after(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Which indexes it keeps of the known objects; default: none.
    #[must_use]
    pub fn indexes(mut self, indexes: IndexerBuilder<L::Key, L::Object>) -> Self {
        self.indexer = Arc::new(indexes.build());
        self
    }

    /// The indexes, for whoever reads them while it runs. A handler finds there what it is told of, or newer.
    pub fn indexer(&self) -> Arc<Indexer<L::Key, L::Object>> {
        Arc::clone(&self.indexer)
    }

    /// What it has done; goes on counting while it runs.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.shared.counts)
    }

    /// Who is told.
    pub fn handler(&self) -> &H {
        &self.shared.handler
    }

    /// The queue, whose known objects are the controller's store.
    pub fn queue(&self) -> &Arc<SourceQueue<L>> {
        self.reflector.queue()
    }

    /// Works until `stop` comes, then drains: what is in the queue is handled, and nothing more is watched. Ends when all that is done: with a
    /// handler that goes on failing never, unless by [`give_up_after`](Self::give_up_after). Dropped, it ends at once: so whoever waits no
    /// longer than so long for what is left races it with a timer.
    ///
    /// # Errors
    ///
    /// Somebody else has closed the queue, or the source has ended; what was in the queue is handled then as well.
    ///
    /// # Panics
    ///
    /// If a key's `Hash`, `Eq`, `Clone` or `Debug` does, or the `Drop` of an object, in which case nobody can say what was handled.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ReflectorError> {
        let queue = Arc::clone(self.reflector.queue());
        let metrics = Arc::new(QueueMetrics::new(self.reflector.name()));
        let mut watching = JoinSet::new();
        watching.spawn(look(Arc::clone(&metrics), Arc::clone(&queue)));
        let work = Arc::new(Work {
            queue: Arc::clone(&queue),
            shared: self.shared,
            indexer: self.indexer,
            in_vain: Mutex::default(),
            metrics,
            attempts: self.attempts,
        });
        let mut workers = JoinSet::new();
        (0..self.workers).for_each(|_| _ = workers.spawn(Arc::clone(&work).run()));
        let ended = tokio::select! {
            ended = self.reflector.run() => ended.map(|never| match never {}),
            () = stop => Ok(()),
            // They end by themselves only where somebody has closed the queue, which the reflector may not have seen yet.
            () = end_of(&mut workers) => return Err(ReflectorError::Closed),
        };
        queue.close();
        end_of(&mut workers).await;
        ended
    }
}

async fn look<Q: DeltaQueue>(metrics: Arc<QueueMetrics>, queue: Arc<Q>) {
    let mut looks = looks();
    loop {
        looks.tick().await;
        metrics.look(queue.pending_len());
    }
}

/// What stands in the indexes of keys that come back: what was left by the deltas that were told in vain.
type InVain<K, V> = HashMap<K, Option<Arc<V>>>;

/// What all workers share.
struct Work<K, V, H> {
    queue: Arc<DeltaFifo<K, Arc<V>>>,
    shared: Arc<Shared<H>>,
    indexer: Arc<Indexer<K, V>>,
    in_vain: Mutex<InVain<K, V>>,
    metrics: Arc<QueueMetrics>,
    attempts: Option<u32>,
}

impl<K, V, H> Work<K, V, H>
where
    K: std::hash::Hash + Eq + Clone + Debug + Send + Sync + 'static,
    V: Send + Sync + 'static,
    H: Handler<K, V>,
{
    fn in_vain(&self) -> MutexGuard<'_, InVain<K, V>> {
        self.in_vain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One worker, until the queue is closed and drained.
    async fn run(self: Arc<Self>) {
        while let Ok(lease) = self.queue.pop_async_owned().await {
            let (key, attempts) = (lease.key(), lease.attempts());
            let depth = || self.queue.pending_len();
            let span = tracing::debug_span!(
                "handle",
                ?key,
                attempts,
                deltas = lease.deltas().len(),
                depth = depth()
            );
            let left = left_by(lease.deltas());
            let indexed = self.in_vain().remove(key);
            self.indexer.change(key, indexed.as_ref().map_or(lease.previous(), Option::as_ref), left);
            let was_told = attempts > 1;
            let all = notifications(lease.previous().cloned(), lease.deltas(), lease.is_initial(), was_told);
            let working = self.metrics.begin(lease.waited());
            let is_well = tell(&self.shared, key, all).instrument(span).await;
            drop(working);
            if is_well {
                lease.done();
            } else if self.attempts.is_some_and(|most| attempts >= most) {
                count(&self.shared.counts.given_up);
                lease.give_up();
            } else {
                self.metrics.retried();
                self.in_vain().insert(key.clone(), left.cloned());
                lease.requeue_with_backoff();
            }
            // A handler that never waits must not keep others from the thread.
            consume_budget().await;
        }
    }
}

/// Whether all went well.
async fn tell<K, V, H>(shared: &Shared<H>, key: &K, notifications: Vec<Notification<V>>) -> bool
where
    K: Sync,
    V: Send + Sync,
    H: Handler<K, V>,
{
    for notification in notifications {
        // What comes before its future may panic as well.
        match contained(async { shared.handler.handle(key, notification).await }).await {
            Some(Ok(())) => shared.counts.count_handled(),
            Some(Err(error)) => {
                count(&shared.counts.failed);
                tracing::warn!(%error, "a handler failed");
                return false;
            }
            None => {
                shared.counts.count_panicked();
                tracing::error!("a handler panicked");
                return false;
            }
        }
    }
    true
}
