//! What the tests of meaning share: every queue type, a notation for what comes out, and ways to wait.

// Each test binary uses its own part of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod notation;
mod random;
mod script;
mod store;
pub(crate) mod threads;
mod wait;

use std::fmt::Debug;
use std::hash::Hash;

use ahash::RandomState;
use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{Builder, DeltaFifo, DeltaQueue};

pub(crate) use notation::{deltas_text, known_text, lease_text};
pub(crate) use random::Random;
pub(crate) use script::{Script, play};
pub(crate) use store::Store;
pub(crate) use wait::{LONG, Woken, block_on, finishes, poll_once, pop_soon, race};

/// A kind of queue, whatever its keys and objects are.
pub(crate) trait Family: 'static {
    /// So many keys may be alive that nobody can see any more, while the queue lives.
    const LATE_KEYS: usize;
    /// So many objects that were merged away may be alive until a consumer comes: a few dozen for each shard.
    const LATE_OBJECTS: usize;
    /// Whether what owes different replaces is merged only when it is handed out.
    const MERGES_LATE: bool;
    /// Whether each call is one moment, but for the beginning of a replace.
    const IS_JOINT: bool;
    /// Whether a lease has a reference of its own to its key, which is leaked with one that is forgotten.
    const LEASES_OWN_KEYS: bool;

    type Queue<K, V>: DeltaQueue<Key = K, Value = V, Hasher = RandomState> + Debug + 'static
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static;
}

pub(crate) struct MutexQueues;

impl Family for MutexQueues {
    const LATE_KEYS: usize = 0;
    const LATE_OBJECTS: usize = 0;
    const MERGES_LATE: bool = false;
    const IS_JOINT: bool = true;
    const LEASES_OWN_KEYS: bool = true;

    type Queue<K, V>
        = MutexDeltaFifo<K, V>
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static;
}

pub(crate) struct ShardedQueues;

impl Family for ShardedQueues {
    const LATE_KEYS: usize = 1000;
    const LATE_OBJECTS: usize = 600;
    const MERGES_LATE: bool = true;
    const IS_JOINT: bool = false;
    const LEASES_OWN_KEYS: bool = false;

    type Queue<K, V>
        = DeltaFifo<K, V>
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static;
}

/// The queue of most tests.
pub(crate) type Queue<F> = <F as Family>::Queue<String, u32>;

/// The builder of most tests.
pub(crate) fn builder() -> Builder<String, u32> {
    Builder::new()
}

/// A queue with everything at its default.
pub(crate) fn queue<F: Family>() -> Queue<F> {
    builder().build()
}

/// The builder with this many key queues, for the queues that have more than one.
pub(crate) fn with_shards<K: Hash + Eq, V>(builder: Builder<K, V>, shards: usize) -> Builder<K, V> {
    builder.shards(shards).lines((shards / 16).max(1))
}

/// `key("a")`.
pub(crate) fn key(name: &str) -> String {
    name.to_owned()
}

/// Runs the named functions, each generic over a [`Family`], as tests of every kind of queue.
macro_rules! for_each_queue {
    ($($test:ident),* $(,)?) => {
        for_each_queue!(@ mutex MutexQueues $($test)*);
        for_each_queue!(@ sharded ShardedQueues $($test)*);
    };
    (@ $module:ident $family:ident $($test:ident)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    super::$test::<crate::common::$family>();
                }
            )*
        }
    };
}
pub(crate) use for_each_queue;
