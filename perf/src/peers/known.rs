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
        let value = Value::clone(newest);
        match self.table.find_mut(lease.handle.hash, |record| record.key == lease.key) {
            Some(record) => lease.previous = Some(std::mem::replace(&mut record.value, value)),
            None => {
                let record = Record { hash: lease.handle.hash, key: Key::clone(&lease.key), value };
                self.table.insert_unique(lease.handle.hash, record, |record| record.hash);
            }
        }
    }

    #[cold]
    fn forget(&mut self, lease: &mut Lease) {
        let found = self.table.find_entry(lease.handle.hash, |record| record.key == lease.key);
        lease.forgotten = found.ok().map(|entry| {
            let Record { key, value, .. } = entry.remove().0;
            (key, value)
        });
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
