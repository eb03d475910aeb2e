//! The queues that are compared, and the little that a workload asks of one.
//!
//! A peer is the whole pipeline: the queue and the known objects. The newest object of a key becomes known at the pop,
//! before the handler sees the lease; a key is leased to one consumer at a time, and what arrives meanwhile waits for the
//! end of the lease. What the rivals do *not* pay for (replaces, requeues, marks, first-sync accounting) makes them faster
//! than a complete queue of their structure would be, never slower.

mod known;
mod papaya;
mod parking;
mod pending;
mod queue;
mod real_fifo;
mod sharded_mutex;
mod sleep;
mod slow;
#[cfg(test)]
mod tests;
mod visit;

use std::hash::BuildHasher;

use delta_fifo::DeltaFifo;
use delta_fifo::baseline::MutexDeltaFifo;

use crate::workload::growth::{self, Growth};
use crate::workload::memory::{self, Counted, Memory, Shape};
use crate::workload::paced::{self, Calls, Pace};
use crate::workload::{Case, Key, KeySet, Object, Outcome, Parts, windowed};

pub use known::Known;
pub use papaya::Papaya;
pub use parking::{FairParking, Parking};
pub use queue::Queue;
pub use real_fifo::RealFifo;
pub use sharded_mutex::ShardedMutex;
pub use slow::Slow;
pub use visit::{Visit, VisitLists, visit, visit_lists};

/// What the workloads need from a queue with its known objects.
///
/// Objects come by value, and every pipeline puts them into an `Arc` once, as kube-runtime's store does: the one allocation
/// per change is the same for all.
pub trait Peer: Sync + Sized {
    /// Buffers that one thread keeps from call to call, so that a batch need not allocate.
    type Scratch: Default;

    /// Changes of a key that wait share a lease. Where they do not, each counts as pending by itself, and a deletion of what
    /// is not known is sorted out at the pop.
    const GATHERS: bool = true;

    fn new() -> Self;

    /// `None`: it has no such setting.
    fn with(settings: Settings) -> Option<Self> {
        (settings == Settings::default()).then(Self::new)
    }

    /// For those that can be told.
    fn set_up(setup: &Setup) -> Self {
        _ = setup;
        Self::new()
    }

    fn add(&self, key: Key, object: Object);
    fn update(&self, key: Key, object: Object);
    /// With the final object; nothing if the key is neither pending nor known.
    fn delete(&self, key: Key, object: Object);
    /// Takes all of the batch, as if updated one by one in that order.
    fn update_all(&self, batch: &mut Vec<(Key, Object)>, scratch: &mut Self::Scratch);

    /// Waits for a key, leases it, handles it, ends the lease. `false`: closed and nothing left.
    fn pop(&self, handler: &mut impl Handler) -> bool;
    /// The same for up to `max` keys that are in line now. How many; none: closed and nothing left.
    fn pop_batch(&self, max: usize, handler: &mut impl Handler, scratch: &mut Self::Scratch) -> usize;

    /// Wakes all consumers; they still get what is pending.
    fn close(&self);

    /// Lends the known object of a key to `f`.
    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R>;
    fn known_len(&self) -> usize;
    /// Keys that are in line or dirty.
    fn pending_len(&self) -> usize;
    fn leased_len(&self) -> usize;
    /// Changes that compression has merged away.
    fn merged(&self) -> u64;
}

/// One that can be told everything at once.
pub trait Lists: Peer {
    /// Whether a tombstone has the newest object even if a consumer has just leased it.
    const BURIES_NEWEST: bool = true;

    /// These are all objects that there are: a key that exists and is not among them gets a tombstone.
    fn replace(&self, list: Vec<(Key, Object)>);
    /// Hands out every known key that is neither pending nor leased.
    fn resync(&self);
}

/// What some workloads need; by default all is as the queue has it by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// What is pending for a key is merged into its newest change.
    pub latest: bool,
    /// Keys that only a resync puts in line stand behind the others.
    pub background_resync: bool,
}

/// What a queue may be told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// So many will be known.
    pub keys: usize,
    pub parts: Parts,
}

impl Setup {
    pub fn of(keys: &KeySet) -> Self {
        Self { keys: keys.len(), parts: Parts::default() }
    }
}

/// What a consumer does with a lease. Its deltas are never empty, oldest first.
pub trait Handler {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Added,
    Updated,
    Deleted,
    /// Deleted unseen: missing in a list.
    Tombstone,
    /// In a list.
    Replaced,
    /// By a resync.
    Sync,
}

impl Kind {
    #[inline]
    pub fn deletes(self) -> bool {
        matches!(self, Self::Deleted | Self::Tombstone)
    }
}

/// Every peer hashes with the same function and the same seeds, so that none is luckier than another.
#[derive(Clone)]
pub struct Hashing(ahash::RandomState);

impl Default for Hashing {
    fn default() -> Self {
        Self(ahash::RandomState::with_seeds(0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344))
    }
}

impl BuildHasher for Hashing {
    type Hasher = ahash::AHasher;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }

    #[inline]
    fn hash_one<T: std::hash::Hash>(&self, value: T) -> u64 {
        // Not the default: ahash has a faster way for strings.
        self.0.hash_one(value)
    }
}

/// The peers for handlers that take time: with [`CLIENT_GO`], and without those that gather nothing, whose backlog grows until
/// producers wait.
pub fn gathering() -> Vec<&'static Entry> {
    ALL.iter().filter(|peer| peer.gathers).chain([&CLIENT_GO]).collect()
}

/// A peer under its name. The type is gone here, but not inside: each `run` is compiled for its peer alone.
#[derive(Clone, Copy)]
pub struct Entry {
    pub id: &'static str,
    pub about: &'static str,
    /// [`Peer::GATHERS`].
    pub gathers: bool,
    pub run: fn(&Case, &KeySet) -> Outcome,
    pub paced: fn(&Pace, &KeySet) -> Calls,
    /// With a consumer at work or without.
    pub growth: fn(bool, &KeySet) -> Growth,
    /// With what counts the allocator's calls.
    pub memory: fn(&Shape, &KeySet, fn() -> Counted) -> Memory,
}

impl Entry {
    pub const fn new<P: Peer>(id: &'static str, about: &'static str) -> Self {
        Self {
            id,
            about,
            gathers: P::GATHERS,
            run: |case, keys| {
                windowed::run(&P::set_up(&Setup { parts: case.parts, ..Setup::of(keys) }), case, keys)
            },
            paced: |pace, keys| paced::run(&P::set_up(&Setup::of(keys)), pace, keys),
            // Not told how many: the tables are to grow.
            growth: |with_consumer, keys| growth::run(&P::new(), with_consumer, keys),
            memory: memory::run::<P>,
        }
    }
}

/// The name says which.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The sharded, lock-free queue.
pub type Sharded = Queue<DeltaFifo<Key, Object, Hashing>>;
/// B0.
pub type Baseline = Queue<MutexDeltaFifo<Key, Object, Hashing>>;
/// B0 with its handlers under the lock.
pub type ClientGo = Queue<MutexDeltaFifo<Key, Object, Hashing>, true>;

/// All peers. A new `DeltaQueue` enters by a line of its own: `Entry::new::<Queue<Its<Key, Object, Hashing>>>(…)`.
///
/// Static, not constant: so the workloads are compiled here, together with the peers, and not for each user anew.
pub static ALL: &[Entry] = &[
    Entry::new::<Sharded>("sharded", "DeltaFifo: this crate's sharded, lock-free queue"),
    Entry::new::<Baseline>(
        "B0",
        "MutexDeltaFifo: client-go's structure, std Mutex + Condvar, notify per add",
    ),
    Entry::new::<Parking>("B1", "one parking_lot mutex, wakes only a sleeper, RwLock store"),
    Entry::new::<Papaya>("B2", "naive: papaya's map with room for all keys, a lock for each key, SegQueue"),
    Entry::new::<ShardedMutex>(
        "B3",
        "64 parking_lot shards of pending keys, SegQueue, 64 RwLock shards of store",
    ),
    Entry::new::<RealFifo>(
        "B4",
        "RealFIFO's structure: a line of deltas, one consumer, a batch known at once",
    ),
];

/// Only where handlers take time it differs from B0.
pub static CLIENT_GO: Entry =
    Entry::new::<ClientGo>("B0p", "B0 by process: handlers under the lock, as client-go has it");

/// Only where a producer waits for a lock it differs from B1.
pub static FAIR: Entry = Entry::new::<FairParking>("B1f", "B1 with fair unlocks");

pub fn by_id(id: &str) -> Option<&'static Entry> {
    ALL.iter().chain([&CLIENT_GO, &FAIR]).find(|entry| entry.id.eq_ignore_ascii_case(id))
}
