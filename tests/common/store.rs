//! A user's own store of known objects.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use delta_fifo::{BoxError, DeltaQueue, KnownObjects, Lease};

/// Handles of one store; the consumer notes in it what it was handed.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Inner>);

#[derive(Default)]
struct Inner {
    objects: Mutex<BTreeMap<String, u32>>,
    keys_fail: AtomicBool,
    get_fails: AtomicBool,
}

impl Store {
    pub(crate) fn new(objects: impl IntoIterator<Item = (&'static str, u32)>) -> Self {
        let store = Store::default();
        store.set(objects.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        store
    }

    pub(crate) fn set(&self, objects: BTreeMap<String, u32>) {
        *self.0.objects.lock().unwrap() = objects;
    }

    pub(crate) fn objects(&self) -> BTreeMap<String, u32> {
        self.0.objects.lock().unwrap().clone()
    }

    /// From now on the store can, or cannot, list its keys.
    pub(crate) fn fail_keys(&self, fail: bool) {
        self.0.keys_fail.store(fail, Ordering::SeqCst);
    }

    /// From now on the store can, or cannot, find objects.
    pub(crate) fn fail_get(&self, fail: bool) {
        self.0.get_fails.store(fail, Ordering::SeqCst);
    }

    /// What an informer's handler does with its index.
    pub(crate) fn note<Q: DeltaQueue<Key = String, Value = u32>>(&self, lease: &Lease<'_, Q>) {
        let newest = lease.deltas().newest();
        let mut objects = self.0.objects.lock().unwrap();
        match newest.object() {
            Some(&object) if !newest.is_deletion() => objects.insert(lease.key().clone(), object),
            _ => objects.remove(lease.key()),
        };
    }
}

impl KnownObjects<String, u32> for Store {
    fn keys(&self) -> Result<Vec<String>, BoxError> {
        if self.0.keys_fail.load(Ordering::SeqCst) {
            return Err("the store cannot list".into());
        }
        Ok(self.objects().into_keys().collect())
    }

    fn get(&self, key: &String) -> Result<Option<u32>, BoxError> {
        if self.0.get_fails.load(Ordering::SeqCst) {
            return Err("the store cannot tell".into());
        }
        Ok(self.objects().get(key).copied())
    }
}
