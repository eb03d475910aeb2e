//! Stands in for the skip list, and orders no more than that promises: every call is a step at which others may come
//! in between, it takes place at one moment, and the one edge is from an insertion to whoever gets the value.

use std::collections::BTreeMap;
// Not loom's, which would order all calls and add steps.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::atomic::AtomicUsize;
use super::atomic::Ordering::{Acquire, Relaxed, Release};

/// Nothing is deferred here.
#[must_use = "it holds garbage back while it lives"]
pub(crate) struct HeldBack;

pub(crate) fn hold_garbage_back() -> HeldBack {
    HeldBack
}

struct Node<V> {
    value: V,
    /// Written by the insertion, read by whoever gets the value.
    inserted: AtomicUsize,
}

pub(crate) struct Map<K, V> {
    book: Mutex<BTreeMap<K, Arc<Node<V>>>>,
    steps: AtomicUsize,
}

impl<K: Ord + Send + 'static, V: Send + 'static> Map<K, V> {
    pub(crate) fn new() -> Self {
        Map { book: Mutex::default(), steps: AtomicUsize::new(0) }
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let node = Node { value, inserted: AtomicUsize::new(0) };
        // Release: pairs with the one in `with` (Acquire); publishes what came before the insertion.
        node.inserted.store(1, Release);
        let old = self.step().insert(key, Arc::new(node));
        assert!(old.is_none(), "inserted twice");
    }

    pub(crate) fn with<R>(&self, key: &K, f: impl FnOnce(&V) -> R) -> Option<R> {
        let node = self.step().get(key).cloned()?;
        // Acquire: pairs with `insert` (Release). A read-modify-write, since a load could read the old value.
        node.inserted.fetch_add(0, Acquire);
        Some(f(&node.value))
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.step().contains_key(key)
    }

    pub(crate) fn remove(&self, key: &K) -> bool {
        let removed = self.step().remove(key);
        removed.is_some()
    }

    pub(crate) fn first(&self) -> Option<K>
    where
        K: Copy,
    {
        self.step().first_key_value().map(|(key, _)| *key)
    }

    pub(crate) fn first_from(&self, from: &K) -> Option<K>
    where
        K: Copy,
    {
        self.step().range(from..).next().map(|(key, _)| *key)
    }

    /// Nothing of loom's happens while this guard is alive: others would wait for it on the same thread.
    fn step(&self) -> MutexGuard<'_, BTreeMap<K, Arc<Node<V>>>> {
        // Relaxed: no edge. A write, since loom takes two loads for steps whose order does not matter.
        self.steps.fetch_add(1, Relaxed);
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
