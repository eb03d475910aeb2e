//! What `DeltaFifo` can say of its snapshots, and other queues cannot.

use std::hash::{BuildHasher, Hash};

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{DeltaFifo, DeltaQueue};

pub(crate) trait Moments: DeltaQueue {
    /// The snapshot that listers share; one of the caller's own where none is shared.
    fn shared(&self) -> Self::Snapshot {
        self.snapshot()
    }
}

impl<K, V, S> Moments for MutexDeltaFifo<K, V, S>
where
    Self: DeltaQueue<Key = K, Value = V>,
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
}

impl<K, V, S> Moments for DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn shared(&self) -> Self::Snapshot {
        self.published().clone()
    }
}
