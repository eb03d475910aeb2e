//! What `DeltaFifo` can say of its snapshots, and other queues cannot.

use std::hash::{BuildHasher, Hash};

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{DeltaFifo, DeltaQueue};

pub(crate) trait Moments: DeltaQueue {
    /// The snapshot that listers share; one of the caller's own where none is shared.
    fn shared(&self) -> Self::Snapshot {
        self.snapshot()
    }

    /// Which moment it is: the later of two snapshots has the higher number.
    fn moment(_: &Self::Snapshot) -> Option<u64> {
        None
    }

    /// The keys of which two snapshots show different things, each once.
    fn changed(_newer: &Self::Snapshot, _older: &Self::Snapshot) -> Option<Vec<Self::Key>> {
        None
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
    K: Hash + Eq + Clone + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn shared(&self) -> Self::Snapshot {
        self.published().clone()
    }

    fn moment(snapshot: &Self::Snapshot) -> Option<u64> {
        Some(snapshot.epoch())
    }

    fn changed(newer: &Self::Snapshot, older: &Self::Snapshot) -> Option<Vec<K>> {
        let changes = newer.changes_since(older).expect("both are of one queue");
        Some(changes.map(|change| change.key().clone()).collect())
    }
}
