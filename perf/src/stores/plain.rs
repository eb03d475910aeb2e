//! Hash maps as anybody would write them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Snapshot, Store};
use crate::peers::Hashing;
use crate::workload::{Key, KeySet, Object};

pub(super) type Map = HashMap<Key, Arc<Object>, Hashing>;

/// What a plain hash map has: the measure for a scan, and what readers scan that have nothing to do with the writer.
pub struct Plain(Map);

impl Plain {
    pub fn filled(keys: &KeySet) -> Self {
        Self(map(keys))
    }
}

impl Snapshot for Plain {
    fn scan(&self, see: impl FnMut(&Key, &Object)) {
        self.0.scan(see);
    }
}

/// Each object for itself, in the order of the keys' numbers, as a writer would have made them.
pub(super) fn objects(keys: &KeySet) -> impl Iterator<Item = (Key, Object)> {
    (0..keys.len()).map(|number| (keys.key(number).clone(), Object::new(0, number as u32, 1)))
}

pub(super) fn map(keys: &KeySet) -> Map {
    let mut map = Map::default();
    map.extend(objects(keys).map(|(key, object)| (key, Arc::new(object))));
    map
}

impl Snapshot for Map {
    fn scan(&self, mut see: impl FnMut(&Key, &Object)) {
        self.iter().for_each(|(key, object)| see(key, object));
    }
}

/// The whole map behind a lock; a snapshot is a clone that is made under it.
pub struct Locked(RwLock<Map>);

impl Store for Locked {
    type Snapshot = Map;

    fn filled(keys: &KeySet) -> Self {
        Self(RwLock::new(map(keys)))
    }

    fn write(&self, key: &Key, object: Object) {
        let (key, object) = (key.clone(), Arc::new(object));
        // The old object is dropped outside the lock.
        let before = self.0.write().insert(key, object);
        drop(before);
    }

    fn snapshot(&self) -> Map {
        self.0.read().clone()
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let object = self.0.read().get(key).cloned()?;
        Some(f(&object))
    }
}
