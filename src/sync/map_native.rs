//! An ordered map that any number of threads read and change without waiting: crossbeam's skip list, which frees
//! through this crate's collector.

use std::ops::Bound;

use crossbeam_skiplist::base::SkipList;

use super::epoch::{self, pin};

/// While it is alive, no call of a map runs what others have deferred: for callers that hold a lock.
#[must_use = "it holds garbage back while it lives"]
pub(crate) struct HeldBack(#[expect(dead_code, reason = "it is there to be dropped")] epoch::Guard);

pub(crate) fn hold_garbage_back() -> HeldBack {
    HeldBack(pin())
}

pub(crate) struct Map<K, V>(SkipList<K, V>);

impl<K: Ord + Send + 'static, V: Send + 'static> Map<K, V> {
    pub(crate) fn new() -> Self {
        Map(SkipList::new(epoch::collector()))
    }

    /// The key must not be in the map.
    pub(crate) fn insert(&self, key: K, value: V) {
        let guard = pin();
        self.0.insert(key, value, guard.inner()).release(guard.inner());
    }

    /// What `f` says of the value of `key`. What came before its insertion is visible to `f`.
    pub(crate) fn with<R>(&self, key: &K, f: impl FnOnce(&V) -> R) -> Option<R> {
        let guard = pin();
        self.0.get(key, guard.inner()).map(|entry| f(entry.value()))
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        let guard = pin();
        self.0.contains_key(key, guard.inner())
    }

    /// Whether it was in the map. Of several calls for one insertion one says so.
    pub(crate) fn remove(&self, key: &K) -> bool {
        let guard = pin();
        // Not by `SkipList::remove`, which gives the entry to everybody who races for it (0.1.3).
        self.0.get(key, guard.inner()).is_some_and(|entry| entry.remove())
    }

    /// The lowest key.
    pub(crate) fn first(&self) -> Option<K>
    where
        K: Copy,
    {
        let guard = pin();
        self.0.front(guard.inner()).map(|entry| *entry.key())
    }

    /// The lowest key that is not below `from`.
    pub(crate) fn first_from(&self, from: &K) -> Option<K>
    where
        K: Copy,
    {
        let guard = pin();
        self.0.lower_bound(Bound::Included(from), guard.inner()).map(|entry| *entry.key())
    }
}
