//! What keeps known objects and shows them as of one moment, and the little that a workload asks of it.
//!
//! A queue is a store by its whole pipeline: what is written is updated, popped and done, by one thread. A map only inserts.
//! So queues do more for each write than maps do, and a ratio to a map is in the map's favour.
//!
//! Every write is visible to whoever asks after it: nobody publishes several at once.

#[cfg(feature = "maps")]
mod maps;
mod plain;
mod queues;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::peers::{Baseline, Parking, Sharded};
use crate::workload::readers::{self, Gets, Reading, Times, Written};
use crate::workload::{Key, KeySet, Object};

#[cfg(feature = "maps")]
pub use maps::{Copied, Persistent};
pub use plain::{Locked, Plain};

pub trait Store: Sync + Sized {
    type Snapshot: Snapshot;

    /// With all keys known: producer 0, change 1.
    fn filled(keys: &KeySet) -> Self;

    /// One writer at a time.
    fn write(&self, key: &Key, object: Object);
    /// What everybody sees who looks now. It does not change.
    fn snapshot(&self) -> Self::Snapshot;
    /// Lends the newest object of a key to `f`.
    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R>;
}

pub trait Snapshot {
    /// Each key with its object, once, in any order.
    fn scan(&self, see: impl FnMut(&Key, &Object));
}

/// A store under its name, as [`peers::Entry`](crate::peers::Entry) is.
#[derive(Clone, Copy)]
pub struct Entry {
    pub id: &'static str,
    pub about: &'static str,
    pub measure: fn(&Plan, &KeySet, &KeySet, &Plain) -> Measured,
}

/// How long things are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "description", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// Snapshots that are timed, and writes between two rounds of them.
    pub snapshots: usize,
    /// Objects that are scanned, at least: all of a snapshot, over and over.
    pub scanned: usize,
    /// How long gets, and writes, are counted in each case.
    #[cfg_attr(feature = "description", serde(with = "crate::workload::description::nanoseconds"))]
    pub time: Duration,
}

/// All that is measured of one store, filled once.
#[derive(Debug)]
pub struct Measured {
    pub times: Times,
    pub hits: Gets,
    pub misses: Gets,
    /// In the order of [`READINGS`].
    pub written: [Written; READINGS.len()],
    pub violations: Vec<String>,
}

/// What goes on while a writer's rate is taken.
pub const READINGS: [(&str, Reading); 4] = [
    ("0 readers", Reading::Of(0)),
    ("1 reader", Reading::Of(1)),
    ("8 readers", Reading::Of(8)),
    ("1 elsewhere", Reading::Elsewhere),
];

impl Entry {
    pub const fn new<S: Store>(id: &'static str, about: &'static str) -> Self {
        Self { id, about, measure: measure::<S> }
    }
}

/// The name says which.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

fn measure<S: Store>(plan: &Plan, keys: &KeySet, absent: &KeySet, elsewhere: &Plain) -> Measured {
    let store = S::filled(keys);
    let mut run = readers::Run::new(&store, keys);
    let times = run.times(plan);
    let hits = run.gets(keys, true, plan.time);
    let misses = run.gets(absent, false, plan.time);
    let written = READINGS.map(|(_, reading)| run.writes(reading, elsewhere, plan.time));
    Measured { times, hits, misses, written, violations: run.into_violations() }
}

/// All stores.
pub static ALL: &[Entry] = &[
    Entry::new::<Sharded>("sharded", "DeltaFifo: this crate's sharded, lock-free queue"),
    Entry::new::<Baseline>("B0", "MutexDeltaFifo: clones its table of handles under the store's lock"),
    Entry::new::<Parking>("B1", "the parking_lot queue: clones its table of handles under the store's lock"),
    Entry::new::<Locked>("lock", "a hash map behind parking_lot's RwLock, cloned under it"),
    #[cfg(feature = "maps")]
    Entry::new::<Copied>("arcswap", "a hash map behind ArcSwap, copied for every write"),
    #[cfg(feature = "maps")]
    Entry::new::<Persistent>("imbl", "imbl's persistent map behind ArcSwap"),
];

pub fn by_id(id: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.id.eq_ignore_ascii_case(id))
}
