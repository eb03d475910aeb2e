//! The known objects, behind a lock of their own as in client-go.

use crate::delta::Object;
use crate::object::Key;

use super::table::{Slot, Table};

pub(super) struct Record<V> {
    pub(super) object: Option<Object<V>>,
    /// Where the known objects are elsewhere: whether the key existed when its last lease ended.
    pub(super) live: bool,
    /// The settled number of a key whose entry is gone. Kept current only while a replace is open: later replaces
    /// have higher numbers.
    pub(super) settled: u64,
}

impl<V> Record<V> {
    pub(super) fn exists(&self) -> bool {
        self.object.is_some() || self.live
    }
}

/// What is known of keys that may have no entry.
///
/// In a queue that keeps the known objects itself, a record stands for a known object, or, while a replace is open,
/// for a key that is gone. Otherwise there are records while a replace is open only, of the keys whose leases ended
/// meanwhile. So an open replace remembers keys, never objects.
pub(super) struct Records<K, V> {
    pub(super) table: Table<K, Record<V>>,
    /// Records with an object.
    objects: usize,
}

impl<K, V> Records<K, V> {
    pub(super) fn new() -> Self {
        Records { table: Table::new(), objects: 0 }
    }

    /// How many objects are known.
    pub(super) fn len(&self) -> usize {
        self.objects
    }

    /// Whether an object of the key is known. Runs the key's `Eq`.
    pub(super) fn knows(&self, hash: u64, key: &K) -> bool
    where
        K: Eq,
    {
        self.table.find(hash, key).is_some_and(|slot| self.table.get(slot).object.is_some())
    }

    /// Makes `object` that of the key, whose record stands at `slot` if there is one. Returns the record's place.
    pub(super) fn set(
        &mut self,
        slot: Option<Slot>,
        hash: u64,
        key: &Key<K>,
        object: Option<Object<V>>,
    ) -> (Slot, Option<Object<V>>) {
        self.objects += usize::from(object.is_some());
        match slot {
            Some(slot) => {
                let old = std::mem::replace(&mut self.table.get_mut(slot).object, object);
                self.objects -= usize::from(old.is_some());
                (slot, old)
            }
            None => {
                (self.table.insert(hash, Key::clone(key), Record { object, live: false, settled: 0 }), None)
            }
        }
    }

    /// Keeps what an open replace may ask of a key whose entry goes.
    pub(super) fn remember(&mut self, slot: Option<Slot>, hash: u64, key: &Key<K>, live: bool, settled: u64) {
        let slot = slot.unwrap_or_else(|| {
            self.table.insert(hash, Key::clone(key), Record { object: None, live, settled })
        });
        let record = self.table.get_mut(slot);
        record.live = live && record.object.is_none();
        record.settled = record.settled.max(settled);
    }

    /// Removes a record without an object. Its key goes to the caller, to be dropped outside the locks.
    pub(super) fn remove_absent(&mut self, slot: Slot) -> Key<K> {
        debug_assert!(self.table.get(slot).object.is_none());
        self.table.remove(slot).0
    }

    /// Removes everything, to be dropped outside the locks.
    pub(super) fn clear(&mut self) -> Self {
        std::mem::replace(self, Records::new())
    }

    /// Removes what was kept for the sake of an open replace.
    pub(super) fn forget_absent(&mut self) -> Vec<Key<K>> {
        if self.table.len() == self.objects {
            return Vec::new();
        }
        let absent: Vec<Slot> = self
            .table
            .iter()
            .filter(|(_, _, record)| record.object.is_none())
            .map(|(slot, _, _)| slot)
            .collect();
        absent.into_iter().map(|slot| self.remove_absent(slot)).collect()
    }
}
