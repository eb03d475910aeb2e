//! From the source's queue to the queues of the handlers.
//!
//! # Invariants
//!
//! - **H1, one order.** The distributor alone pops the source's queue, and tells every handler's queue before it ends a lease. So each
//!   handler is told of a key in the order of its deltas.
//! - **H2, joining.** Who joins does so while the distributor holds no lease, and gets a snapshot of that moment. All that was popped
//!   is in it, and nothing that will be.
//! - **H3, synced.** The source's queue has synced when the leases of the whole first list are done; by H1 it is in the handlers'
//!   queues then. So a mark that is set there after that, and after the handler's own first objects, covers it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{Builder, Change, DeltaFifo, DeltaQueue, KnownView, Lease};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};

use super::registration::{Registration, Telling};
use super::{Shared, StoreSnapshot};
use crate::metrics::looks;
use crate::notification::{Notification, left_by, notifications};
use crate::reflector::SourceQueue;
use crate::resync;
use crate::source::ListWatch;
use crate::synced::SyncedSender;

/// So many leases at a time, and so many times, before somebody may join.
const BATCH: usize = 64;
const BATCHES: usize = 16;

/// What waits to be told to one handler.
pub(super) type HandlerQueue<L> = DeltaFifo<<L as ListWatch>::Key, Notification<<L as ListWatch>::Object>>;
pub(super) type Changes<L> = Vec<Change<<L as ListWatch>::Key, Notification<<L as ListWatch>::Object>>>;

/// What a handler knows when it joins.
pub(super) type Start<L> = oneshot::Receiver<StoreSnapshot<L>>;

/// The distributor's end of one handler.
pub(super) struct Subscriber<L: ListWatch> {
    start: Option<oneshot::Sender<StoreSnapshot<L>>>,
    /// Tells the handler what is in its queue. None: somebody else reads it.
    runner: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    resync: Option<Resync>,
    telling: Arc<Telling<L>>,
}

struct Resync {
    period: Duration,
    next: Instant,
    /// Runs until the last one is told, so that a handler that is slower than its period is not told ever more.
    last: Option<JoinHandle<()>>,
}

impl<L: ListWatch> Subscriber<L> {
    pub(super) fn new(name: String, resync_every: Option<Duration>) -> (Self, Registration<L>, Start<L>) {
        let queue = Builder::new().no_known_objects().measure().build::<HandlerQueue<L>>();
        let (start, started) = oneshot::channel();
        let registration = Registration::new(Arc::new(queue), name);
        let resync = resync::from_now(resync_every).map(|(next, period)| Resync { period, next, last: None });
        let telling = registration.telling();
        (Subscriber { start: Some(start), runner: None, resync, telling }, registration, started)
    }

    pub(super) fn run_by(mut self, runner: impl Future<Output = ()> + Send + 'static) -> Self {
        self.runner = Some(Box::pin(runner));
        self
    }

    fn look(&self) {
        self.telling.metrics.look(self.telling.queue.pending_len());
    }

    fn next_resync(&self) -> Option<Instant> {
        self.resync.as_ref().map(|resync| resync.next)
    }

    fn resync_if_due(&mut self, now: Instant, queue: &SourceQueue<L>) {
        let Some(resync) = self.resync.as_mut().filter(|resync| resync.next <= now) else { return };
        resync.next = now + resync.period;
        if resync.last.as_ref().is_some_and(|last| !last.is_finished()) {
            return;
        }
        let snapshot = queue.snapshot();
        let known = snapshot.iter().map(|known| {
            let object = Arc::clone(known.object());
            Change::Update(
                known.key().clone(),
                Notification::Updated { old: Arc::clone(&object), new: object },
            )
        });
        self.telling.append(known.collect());
        let queue = Arc::clone(&self.telling.queue);
        resync.last = Some(tokio::spawn(async move { all_told(&queue).await }));
    }
}

/// The informer was dropped before it ran: nobody will be told anything.
impl<L: ListWatch> Drop for Subscriber<L> {
    fn drop(&mut self) {
        if self.start.is_some() {
            self.telling.remove();
        }
    }
}

/// Until everything that is in a handler's queue now has been told.
pub(super) async fn all_told<K, V>(queue: &DeltaFifo<K, Notification<V>>)
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    match queue.mark("told") {
        Ok(told) => _ = told.wait_async().await,
        // Closed by the end of the informer, it is still to be told what is in it.
        Err(_) => queue.close_and_wait_async().await,
    }
}

pub(super) struct Distributor<L: ListWatch> {
    shared: Arc<Shared<L>>,
    synced: SyncedSender,
    subscribers: Vec<Subscriber<L>>,
    /// The tasks of the handlers.
    runners: JoinSet<()>,
}

impl<L: ListWatch> Distributor<L> {
    pub(super) fn new(shared: Arc<Shared<L>>, synced: SyncedSender) -> Self {
        Distributor { shared, synced, subscribers: Vec::new(), runners: JoinSet::new() }
    }

    /// Until the queue is closed, drained, and everything told.
    pub(super) async fn run(mut self, mut joining: mpsc::UnboundedReceiver<Subscriber<L>>) {
        let queue = Arc::clone(&self.shared.queue);
        let mut looks = looks();
        loop {
            let is_synced = self.synced.is_synced();
            let next_resync = self.subscribers.iter().filter_map(Subscriber::next_resync).min();
            tokio::select! {
                biased;
                Some(subscriber) = joining.recv() => self.join(subscriber),
                // Before more is leased, as it is the distributor that notices.
                Ok(()) = queue.wait_synced_async(), if !is_synced => self.say_synced(),
                () = due(next_resync) => self.resync(),
                _ = looks.tick() => self.subscribers.iter().for_each(Subscriber::look),
                first = queue.pop_async() => match first {
                    Ok(first) => self.distribute(first),
                    Err(_closed) => break,
                },
            }
            // There may be always more: others want to run as well.
            yield_now().await;
        }
        // Nobody can join any more, and who has just done so is told of what is known.
        joining.close();
        while let Some(subscriber) = joining.recv().await {
            self.join(subscriber);
        }
        for subscriber in self.subscribers.drain(..) {
            subscriber.telling.queue.close();
        }
        while self.runners.join_next().await.is_some() {}
    }

    /// H2.
    fn join(&mut self, mut subscriber: Subscriber<L>) {
        self.subscribers.retain(|other| !other.telling.queue.is_closed());
        if let Some(start) = subscriber.start.take() {
            // Nobody is there: it has been removed.
            let _ = start.send(self.shared.queue.snapshot());
        }
        if let Some(runner) = subscriber.runner.take() {
            self.runners.spawn(runner);
        }
        if self.synced.is_synced() {
            subscriber.telling.source_has_synced();
        }
        self.subscribers.push(subscriber);
    }

    /// H3.
    fn say_synced(&mut self) {
        self.synced.has_synced();
        self.subscribers.iter().for_each(|subscriber| subscriber.telling.source_has_synced());
    }

    fn resync(&mut self) {
        let now = Instant::now();
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.resync_if_due(now, &self.shared.queue));
    }

    /// What is there, beginning with what was popped already; H1.
    fn distribute(&mut self, first: Lease<'_, SourceQueue<L>>) {
        self.subscribers.retain(|subscriber| !subscriber.telling.queue.is_closed());
        self.tell([&first]);
        first.done();
        let queue = Arc::clone(&self.shared.queue);
        for _ in 0..BATCHES {
            let Ok(batch) = queue.try_pop_batch(BATCH) else { break };
            self.tell(batch.iter());
            batch.done();
        }
    }

    fn tell<'l, 'q: 'l>(&self, leases: impl IntoIterator<Item = &'l Lease<'q, SourceQueue<L>>>) {
        let mut all: Changes<L> = Vec::new();
        for lease in leases {
            let (key, before) = (lease.key(), lease.previous());
            self.shared.indexer.change(key, before, left_by(lease.deltas()));
            let told = notifications(before.cloned(), lease.deltas(), lease.is_initial(), false);
            all.extend(told.into_iter().map(|notification| Change::Update(key.clone(), notification)));
        }
        let mut subscribers = self.subscribers.iter();
        let last = subscribers.next_back();
        for subscriber in subscribers {
            subscriber.telling.append(all.clone());
        }
        if let Some(last) = last {
            last.telling.append(all);
        }
    }
}

/// Never, without a time.
async fn due(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
