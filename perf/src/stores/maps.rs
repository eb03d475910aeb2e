//! Whole maps behind `ArcSwap`: a snapshot is the current one, and a write publishes another.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::plain::{self, Map, objects};
use super::{Snapshot, Store};
use crate::peers::Hashing;
use crate::workload::{Key, KeySet, Object};

/// Copied for every write. Batches would be faster, and readers would see writes later: they are not taken.
pub struct Copied {
    current: ArcSwap<Map>,
    writers: Mutex<()>,
}

impl Store for Copied {
    type Snapshot = Arc<Map>;

    fn filled(keys: &KeySet) -> Self {
        Self { current: ArcSwap::from_pointee(plain::map(keys)), writers: Mutex::default() }
    }

    fn write(&self, key: &Key, object: Object) {
        let object = Arc::new(object);
        let _writing = self.writers.lock();
        let mut next = Map::clone(&self.current.load());
        next.insert(key.clone(), object);
        self.current.store(Arc::new(next));
    }

    fn snapshot(&self) -> Arc<Map> {
        self.current.load_full()
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.current.load().get(key).map(|object| f(object))
    }
}

impl Snapshot for Arc<Map> {
    fn scan(&self, see: impl FnMut(&Key, &Object)) {
        (**self).scan(see);
    }
}

type Tree = imbl::GenericHashMap<Key, Arc<Object>, Hashing, imbl::shared_ptr::DefaultSharedPtr>;

/// A write copies the nodes on the way to its key; the others are shared with the versions before it.
pub struct Persistent {
    current: ArcSwap<Tree>,
    /// The writer's own, so that it need not ask for the current one.
    newest: Mutex<Tree>,
}

impl Store for Persistent {
    type Snapshot = Arc<Tree>;

    fn filled(keys: &KeySet) -> Self {
        let mut newest = Tree::with_hasher(Hashing::default());
        newest.extend(objects(keys).map(|(key, object)| (key, Arc::new(object))));
        Self { current: ArcSwap::from_pointee(newest.clone()), newest: Mutex::new(newest) }
    }

    fn write(&self, key: &Key, object: Object) {
        let object = Arc::new(object);
        let mut newest = self.newest.lock();
        newest.insert(key.clone(), object);
        self.current.store(Arc::new(newest.clone()));
    }

    fn snapshot(&self) -> Arc<Tree> {
        self.current.load_full()
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.current.load().get(key).map(|object| f(object))
    }
}

impl Snapshot for Arc<Tree> {
    fn scan(&self, mut see: impl FnMut(&Key, &Object)) {
        self.iter().for_each(|(key, object)| see(key, object));
    }
}
