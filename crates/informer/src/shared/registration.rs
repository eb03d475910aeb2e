//! What a handler is known by to those who have added it.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delta_fifo::DeltaQueue;
use tokio::sync::watch;

use super::distributor::{Changes, HandlerQueue, all_told};
use crate::controller::Counts;
use crate::metrics::QueueMetrics;
use crate::source::ListWatch;
use crate::synced::{Synced, SyncedSender};

/// The informer has ended: no handler can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer has ended")]
pub struct InformerEnded;

/// How far a handler is; shared by its registration, its task and the distributor.
pub(super) struct Telling<L: ListWatch> {
    pub(super) name: String,
    pub(super) queue: Arc<HandlerQueue<L>>,
    pub(super) counts: Arc<Counts>,
    pub(super) metrics: Arc<QueueMetrics>,
    synced: SyncedSender,
    removed: AtomicBool,
    stage: watch::Sender<Stage>,
}

/// It only goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Until the distributor comes round.
    Joining,
    /// Is told of what was known when it joined.
    Beginning,
    /// Is told of what happens.
    Following,
    /// Nobody is told anything any more.
    Ended,
}

impl<L: ListWatch> Telling<L> {
    /// H3: the handler has, once it was told its own first objects, and what is in its queue now.
    pub(super) fn source_has_synced(self: &Arc<Self>) {
        let telling = Arc::clone(self);
        tokio::spawn(async move {
            telling.reached(Stage::Following).await;
            all_told(&telling.queue).await;
            telling.synced.has_synced();
        });
    }

    async fn reached(&self, stage: Stage) {
        // Its sender is held.
        _ = self.stage.subscribe().wait_for(|now| *now >= stage).await;
    }

    pub(super) fn append(&self, changes: Changes<L>) {
        self.metrics.added(changes.len());
        // Closed: it has been removed.
        let _ = self.queue.change_all(changes);
    }

    pub(super) fn begins(&self) {
        self.stage.send_replace(Stage::Beginning);
    }

    pub(super) fn follows(&self) {
        self.stage.send_replace(Stage::Following);
    }

    pub(super) fn remove(&self) {
        // Before what would be waited for is thrown away.
        self.synced.never();
        // Relaxed: who does not see it yet tells one more; `remove_and_wait` is ordered by the lock of `stage`.
        self.removed.store(true, Ordering::Relaxed);
        self.queue.close_discard();
    }

    pub(super) fn is_removed(&self) -> bool {
        // Relaxed: see `remove`.
        self.removed.load(Ordering::Relaxed)
    }
}

/// Held by whoever tells a handler; when it goes, however that happens, nobody does any more.
pub(super) struct Teller<L: ListWatch>(pub(super) Arc<Telling<L>>);

impl<L: ListWatch> Drop for Teller<L> {
    fn drop(&mut self) {
        self.0.remove();
        self.0.stage.send_replace(Stage::Ended);
    }
}

/// A handler that was added to an informer. It stays when this is dropped.
pub struct Registration<L: ListWatch>(Arc<Telling<L>>);

impl<L: ListWatch> Debug for Registration<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Telling { name, queue, counts, .. } = &*self.0;
        f.debug_struct("Registration")
            .field("name", name)
            .field("pending", &queue.pending_len())
            .field("counts", counts)
            .finish()
    }
}

impl<L: ListWatch> Registration<L> {
    pub(super) fn new(queue: Arc<HandlerQueue<L>>, name: String) -> Self {
        Registration(Arc::new(Telling {
            queue,
            counts: Arc::default(),
            metrics: Arc::new(QueueMetrics::new(&name)),
            name,
            synced: SyncedSender::default(),
            removed: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Joining),
        }))
    }

    pub(super) fn telling(&self) -> Arc<Telling<L>> {
        Arc::clone(&self.0)
    }

    /// Whether the handler was told of the whole first list; for a late one, of all that was known.
    pub fn synced(&self) -> Synced {
        self.0.synced.subscribe()
    }

    /// What it has been told so far; goes on counting.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.0.counts)
    }

    /// Keys of which the handler is still to be told something. O(shards).
    pub fn pending_len(&self) -> usize {
        self.0.queue.pending_len()
    }

    /// Waits until the handler was told everything that waits for it now, or was removed. In the handler itself it would wait for itself.
    pub async fn caught_up(&self) {
        self.0.reached(Stage::Following).await;
        all_told(&self.0.queue).await;
    }

    /// Removes the handler: it is told nothing more once what it does now is done. Does not wait for that.
    pub fn remove(&self) {
        self.0.remove();
    }

    /// Removes the handler, and waits until it is at rest. Never call it from the handler itself.
    pub async fn remove_and_wait(&self) {
        self.remove();
        // Who has not begun will see that it is removed.
        let has_begun = *self.0.stage.borrow() > Stage::Joining;
        if has_begun {
            self.0.reached(Stage::Ended).await;
        }
    }
}
