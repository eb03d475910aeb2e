//! One source, many handlers: client-go's `SharedInformer`.
//!
//! ```text
//!  source ─▶ Reflector ─▶ queue ─▶ distributor ─▶ a queue of each handler ─▶ its task ─▶ handler
//!                           │           ╰─▶ indexer
//!                           ╰ known objects ─▶ snapshot ─▶ a late handler's adds
//! ```

mod distributor;
mod handler;
mod registration;
mod subscription;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delta_fifo::DeltaQueue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::indexer::{IndexSnapshot, Indexer, IndexerBuilder};
use crate::progress::Progress;
use crate::reflector::{Reflector, ReflectorError, SourceQueue};
use crate::source::ListWatch;
use crate::synced::{Synced, SyncedSender};
use crate::tasks::end_of;

use distributor::{Distributor, Subscriber};
use handler::Runner;
pub use handler::{EventHandler, HandlerOptions};
pub use registration::{InformerEnded, Registration};
pub use subscription::Subscription;

/// One source, many handlers.
///
/// Each handler has a queue of its own, so that a slow one holds up neither the others nor the source. What a handler is told of one
/// key comes one after the other, in the order of its deltas; one that joins late is told of all known objects first.
///
/// ```text
/// let informer = SharedInformer::new(reflector, IndexerBuilder::default().by_namespace());
/// let handle = informer.handle();
/// let mirror = handle.add_handler(Mirror::default(), HandlerOptions::default())?;
/// tokio::spawn(informer.run(stop));
/// mirror.synced().wait().await?;
/// ```
pub struct SharedInformer<L: ListWatch> {
    reflector: Reflector<L>,
    shared: Arc<Shared<L>>,
    joining: mpsc::UnboundedReceiver<Subscriber<L>>,
    synced: SyncedSender,
    handle: InformerHandle<L>,
}

struct Shared<L: ListWatch> {
    name: String,
    /// Handlers so far.
    count: AtomicUsize,
    queue: Arc<SourceQueue<L>>,
    indexer: Indexer<L::Key, L::Object>,
}

impl<L: ListWatch> Debug for SharedInformer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer").field("synced", &self.synced.is_synced()).finish_non_exhaustive()
    }
}

impl<L: ListWatch> SharedInformer<L> {
    /// Of a reflector. Handlers say how often they want to be resynced; what a resync of the reflector itself brings, all are told.
    pub fn new(reflector: Reflector<L>, indexes: IndexerBuilder<L::Key, L::Object>) -> Self {
        let shared = Arc::new(Shared {
            name: reflector.name().to_owned(),
            count: AtomicUsize::new(0),
            queue: Arc::clone(reflector.queue()),
            indexer: indexes.build(),
        });
        let (join, joining) = mpsc::unbounded_channel();
        let synced = SyncedSender::default();
        let handle = InformerHandle {
            shared: Arc::clone(&shared),
            join,
            synced: synced.subscribe(),
            progress: reflector.progress(),
        };
        SharedInformer { reflector, shared, joining, synced, handle }
    }

    /// For whoever adds handlers and reads, before and while it runs.
    pub fn handle(&self) -> InformerHandle<L> {
        self.handle.clone()
    }

    /// Works until `stop` comes; then what has arrived is told to all handlers, and it ends.
    ///
    /// # Errors
    ///
    /// Somebody else has closed the queue, or the source has ended; what was in the queue is told then as well.
    ///
    /// # Panics
    ///
    /// If a key's `Hash`, `Eq`, `Clone` or `Debug` does, or the `Drop` of an object, in which case nobody can say what handlers were told.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ReflectorError> {
        let SharedInformer { reflector, shared, joining, synced, handle } = self;
        // Its end of the channel is the handles'.
        drop(handle);
        let queue = Arc::clone(&shared.queue);
        // A set, so that it ends when this future is dropped.
        let mut distributor = JoinSet::new();
        distributor.spawn(Distributor::new(shared, synced).run(joining));
        let ended = tokio::select! {
            ended = reflector.run() => ended.map(|never| match never {}),
            () = stop => Ok(()),
            // It ends by itself only where somebody has closed the queue, which the reflector may not have seen yet.
            () = end_of(&mut distributor) => return Err(ReflectorError::Closed),
        };
        queue.close();
        end_of(&mut distributor).await;
        ended
    }
}

/// Adds handlers to a [`SharedInformer`], and reads what it knows. Any number, cheap to clone.
pub struct InformerHandle<L: ListWatch> {
    shared: Arc<Shared<L>>,
    join: mpsc::UnboundedSender<Subscriber<L>>,
    synced: Synced,
    progress: Progress<L>,
}

impl<L: ListWatch> Clone for InformerHandle<L> {
    fn clone(&self) -> Self {
        InformerHandle {
            shared: Arc::clone(&self.shared),
            join: self.join.clone(),
            synced: self.synced.clone(),
            progress: self.progress.clone(),
        }
    }
}

impl<L: ListWatch> Debug for InformerHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerHandle").field("synced", &self.synced.has_synced()).finish_non_exhaustive()
    }
}

/// All known objects of an informer, as of one moment.
pub type StoreSnapshot<L> = <SourceQueue<L> as DeltaQueue>::Snapshot;

impl<L: ListWatch> InformerHandle<L> {
    /// Adds a handler, before the informer runs or at any time after; it is first told of all known objects.
    ///
    /// # Errors
    ///
    /// The informer has ended.
    ///
    /// # Panics
    ///
    /// The options ask for no workers.
    pub fn add_handler(
        &self,
        handler: impl EventHandler<L::Key, L::Object>,
        options: HandlerOptions,
    ) -> Result<Registration<L>, InformerEnded> {
        assert!(options.workers > 0, "nobody would work");
        let (subscriber, registration, start) =
            Subscriber::new(self.name(options.name), options.resync_every);
        let runner = Runner::new(handler, options.workers, registration.telling(), start);
        self.join.send(subscriber.run_by(runner.run())).map_err(|_| InformerEnded)?;
        Ok(registration)
    }

    /// What a handler would be told, as a stream: all known objects first, then what happens. Ends when the informer does, after
    /// everything was told. `resync_every`: as in [`HandlerOptions`].
    ///
    /// # Errors
    ///
    /// The informer has ended.
    pub fn subscribe(
        &self,
        resync_every: impl Into<Option<std::time::Duration>>,
    ) -> Result<Subscription<L>, InformerEnded> {
        let (subscriber, registration, start) = Subscriber::new(self.name(None), resync_every.into());
        self.join.send(subscriber).map_err(|_| InformerEnded)?;
        Ok(Subscription::new(registration, start))
    }

    fn name(&self, handler: Option<String>) -> String {
        // Relaxed: only that no two are the same.
        let number = self.shared.count.fetch_add(1, Ordering::Relaxed);
        format!("{}/{}", self.shared.name, handler.unwrap_or_else(|| number.to_string()))
    }

    /// All known objects as of one moment. As cheap as [`DeltaQueue::snapshot`].
    pub fn store(&self) -> StoreSnapshot<L> {
        self.shared.queue.snapshot()
    }

    /// All indexes as of one moment. Wait-free, O(1).
    pub fn indexes(&self) -> Arc<IndexSnapshot<L::Key, L::Object>> {
        self.shared.indexer.snapshot()
    }

    /// Whether the first list is in the store and the indexes, and in the queue of each handler that was there.
    pub fn synced(&self) -> Synced {
        self.synced.clone()
    }

    /// How far the source is read, and how far that is in the store, the indexes and the handlers' queues.
    pub fn progress(&self) -> Progress<L> {
        self.progress.clone()
    }
}
