//! What is measured: keys, objects, the shape of a run and what came out of it.

mod checks;
pub mod churn;
#[cfg(feature = "description")]
pub mod description;
pub mod floors;
pub mod growth;
pub mod hot;
pub mod memory;
pub mod overload;
pub mod paced;
pub mod parallel;
pub mod readers;
pub mod relist;
pub mod replay;
pub mod resync;
#[cfg(feature = "program")]
pub mod stopped;
#[cfg(feature = "program")]
pub mod sustained;
pub mod sweep;
#[cfg(test)]
mod tests;
#[cfg(feature = "program")]
pub mod wake;
mod window;
pub mod windowed;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Shared between all changes of the key, as an informer would.
pub type Key = Arc<str>;
/// New for every change: 80 bytes, 96 in an `Arc`. It says what the checks must know.
#[derive(Clone, Debug)]
pub struct Object {
    pub producer: u32,
    /// Number of the key in its [`KeySet`].
    pub key: u32,
    /// 1 for the first change of a key, one more for each later one.
    pub seq: u64,
    payload: [u64; 8],
}

impl Object {
    #[inline]
    pub fn new(producer: u32, key: u32, seq: u64) -> Self {
        Self { producer, key, seq, payload: [seq; 8] }
    }

    /// Whether all of it is of one change; looks at all of it.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.payload.iter().fold(0, |other, word| other | (word ^ self.seq)) == 0
    }
}

/// The keys of a run in a random permutation: their number says nothing about where they lie in memory.
pub struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    pub fn new(count: usize, seed: u64) -> Self {
        Self::of(0..count, seed)
    }

    /// So many keys that are not in a set of as many.
    pub fn absent(count: usize, seed: u64) -> Self {
        Self::of(count..2 * count, seed)
    }

    fn of(numbers: Range<usize>, seed: u64) -> Self {
        let mut keys: Vec<Key> = numbers.map(name).collect();
        shuffle(&mut keys, seed);
        Self { keys }
    }

    #[expect(clippy::len_without_is_empty, reason = "there is no run without keys")]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub fn key(&self, number: usize) -> &Key {
        &self.keys[number]
    }

    /// The keys that belong to one of several producers.
    pub fn of_producer(&self, producer: usize, producers: usize) -> Range<usize> {
        let bound = |i| i * self.keys.len() / producers;
        bound(producer)..bound(producer + 1)
    }
}

/// Fisher and Yates's, with numbers of SplitMix64: a rule that programs in other languages follow too, so that all have the same
/// keys in the same order.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = state;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^= number >> 31;
        // With so few items the remainder favours none by anything that could be seen.
        items.swap(last, (number % (last as u64 + 1)) as usize);
    }
}

/// `namespace/name-hash`, 36 bytes, like most keys of a cluster.
fn name(number: usize) -> Key {
    // A multiplicative hash, only to look like the suffix of a replica set.
    let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    format!("team-{:03}/api-server-{hash:010x}-{:05}", number % 200, number % 100_000).into()
}

/// The shape of a run.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "description", derive(serde::Serialize, serde::Deserialize))]
pub struct Case {
    pub producers: usize,
    pub consumers: usize,
    /// Changes in one call, and keys in one pop; 1 is the single form, not a batch of one.
    pub batch: usize,
    /// Changes that are timed, by all producers together.
    pub changes: usize,
    /// How long nothing may move before the run counts as stuck.
    #[cfg_attr(feature = "description", serde(with = "description::nanoseconds"))]
    pub patience: Duration,
    /// Programs outside have none.
    #[cfg_attr(feature = "description", serde(skip))]
    pub parts: Parts,
}

/// Into what a queue is divided, if it is. `None`: into as many as it thinks best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub shards: Option<usize>,
    pub lines: Option<usize>,
}

/// What came out of a run.
#[derive(Debug)]
pub struct Outcome {
    pub elapsed: Duration,
    pub changes: usize,
    /// A run that violates anything is void, whatever its time.
    pub violations: Vec<String>,
}

impl Outcome {
    pub fn ns_per_change(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.changes as f64
    }
}
