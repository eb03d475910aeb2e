//! The part of a queue that its snapshots share, and keep alive.

use super::aged::Aged;
use super::close::Closing;
use super::epochs::Epochs;
use super::replaces::Replaces;
use super::shard::Shard;

pub(super) struct Core<K, V> {
    pub(super) shards: Box<[Shard<K, V>]>,
    pub(super) replaces: Replaces,
    pub(super) closing: Closing,
    /// Whether the queue keeps the known objects itself.
    pub(super) keeps_known: bool,
    pub(super) epochs: Epochs,
    pub(super) aged: Aged,
}

impl<K, V> Core<K, V> {
    pub(super) fn new(shards: usize, replaces: Replaces, keeps_known: bool) -> Self {
        Core {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            replaces,
            closing: Closing::new(),
            keeps_known,
            epochs: Epochs::new(),
            aged: Aged::new(),
        }
    }
}
