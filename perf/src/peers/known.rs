//! The known objects, or a shard of them: the part that stands behind a reader-writer lock.

use hashbrown::HashTable;

use super::pending::{Lease, Value};
use crate::workload::{Key, Object};

/// A clone has handles of the same objects.
#[derive(Clone, Default)]
pub struct Known {
    table: HashTable<Record>,
}

#[derive(Clone)]
struct Record {
    hash: u64,
    key: Key,
    value: Value,
}

impl Known {
    /// The newest object of a lease becomes known, or is forgotten if it was deleted; the one before it goes to the lease.
    #[inline]
    pub(super) fn update(&mut self, lease: &mut Lease) {
        let (kind, newest) = lease.deltas.last().expect("a lease has deltas");
        if kind.deletes() {
            return self.forget(lease);
        }
        lease.previous = self.insert(lease.handle.hash, &lease.key, Value::clone(newest));
    }

    /// The object becomes the known one of its key; the one before it is given back.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, key: &Key, value: Value) -> Option<Value> {
        match self.table.find_mut(hash, |record| record.key == *key) {
            Some(record) => Some(std::mem::replace(&mut record.value, value)),
            None => {
                let record = Record { hash, key: Key::clone(key), value };
                self.table.insert_unique(hash, record, |record| record.hash);
                None
            }
        }
    }

    #[cold]
    fn forget(&mut self, lease: &mut Lease) {
        lease.forgotten = self.remove(lease.handle.hash, &lease.key);
    }

    pub(super) fn remove(&mut self, hash: u64, key: &Key) -> Option<(Key, Value)> {
        let found = self.table.find_entry(hash, |record| record.key == *key).ok()?;
        let Record { key, value, .. } = found.remove().0;
        Some((key, value))
    }

    pub(super) fn contains(&self, hash: u64, key: &Key) -> bool {
        self.table.find(hash, |record| record.key == *key).is_some()
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &Key) -> Option<Value> {
        self.table.find(hash, |record| record.key == *key).map(|record| Value::clone(&record.value))
    }

    /// Each key with its object, in any order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(&Key, &Object)) {
        self.table.iter().for_each(|record| see(&record.key, &record.value));
    }

    /// The same with their hashes and handles.
    pub(super) fn records(&self) -> impl Iterator<Item = (u64, &Key, &Value)> {
        self.table.iter().map(|record| (record.hash, &record.key, &record.value))
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
