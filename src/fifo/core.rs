//! The part of a queue that its snapshots share, and keep alive.

use crate::sync::atomic::AtomicUsize;

use super::close::Closing;
use super::epochs::Epochs;
use super::kept::Lists;
use super::replaces::Replaces;
use super::shard::Shard;

pub(super) struct Core<K, V> {
    pub(super) shards: Box<[Shard<K, V>]>,
    pub(super) replaces: Replaces,
    pub(super) closing: Closing,
    /// Whether the queue keeps the known objects itself.
    pub(super) keeps_known: bool,
    pub(super) epochs: Epochs,
    /// Of versions that stay.
    pub(super) lists: Lists,
    /// How many chains of versions are to be looked at (`kept.rs`), at most.
    pub(super) due: AtomicUsize,
    /// With which shard a sweep begins.
    pub(super) turn: AtomicUsize,
}

impl<K, V> Core<K, V> {
    /// `measured`: keys are dated.
    pub(super) fn new(shards: usize, replaces: Replaces, keeps_known: bool, measured: bool) -> Self {
        Core {
            shards: (0..shards).map(|number| Shard::new(number, measured)).collect(),
            replaces,
            closing: Closing::new(),
            keeps_known,
            epochs: Epochs::new(),
            lists: Lists::new(shards),
            due: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }
}
