//! A hash table that stores each key once and lends it: slots in a vector, found by hash through a standard map.
//!
//! `std`'s map cannot be asked for a `Key<K>` by a borrowed form of `K`, and keys need not be `Clone`.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use crate::object::Key;

/// A place in a [`Table`], good until its key is removed.
pub(super) type Slot = u32;

struct Cell<K, T> {
    hash: u64,
    key: Key<K>,
    value: T,
    /// The next cell with the same hash.
    next: Option<Slot>,
}

pub(super) struct Table<K, T> {
    /// First cell of each hash.
    heads: HashMap<u64, Slot, BuildHasherDefault<Identity>>,
    cells: Vec<Option<Cell<K, T>>>,
    free: Vec<Slot>,
}

impl<K, T> Table<K, T> {
    pub(super) fn new() -> Self {
        Table { heads: HashMap::default(), cells: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len() - self.free.len()
    }

    /// The slot of `key`. Runs the key's `Eq`, and nothing has changed if that panics.
    pub(super) fn find<Q>(&self, hash: u64, key: &Q) -> Option<Slot>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut next = self.heads.get(&hash).copied();
        while let Some(slot) = next {
            let cell = self.cell(slot);
            if (*cell.key).borrow() == key {
                return Some(slot);
            }
            next = cell.next;
        }
        None
    }

    /// Inserts a key that is not in the table.
    pub(super) fn insert(&mut self, hash: u64, key: Key<K>, value: T) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.cells.push(None);
            // The index of a cell fits: 2^32 cells would not fit into memory.
            (self.cells.len() - 1) as Slot
        });
        let next = self.heads.insert(hash, slot);
        self.cells[slot as usize] = Some(Cell { hash, key, value, next });
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> (Key<K>, T) {
        let cell = self.cells[slot as usize].take().expect("the slot is in use");
        self.free.push(slot);
        let Entry::Occupied(mut head) = self.heads.entry(cell.hash) else {
            unreachable!("the cell is in a chain")
        };
        match (*head.get(), cell.next) {
            (first, Some(next)) if first == slot => {
                head.insert(next);
            }
            (first, None) if first == slot => {
                head.remove();
            }
            (mut before, next) => {
                while self.cell(before).next != Some(slot) {
                    before = self.cell(before).next.expect("the cell is in its chain");
                }
                self.cell_mut(before).next = next;
            }
        }
        (cell.key, cell.value)
    }

    pub(super) fn get(&self, slot: Slot) -> &T {
        &self.cell(slot).value
    }

    /// None if the slot is not in use.
    pub(super) fn try_get(&self, slot: Slot) -> Option<&T> {
        self.cells[slot as usize].as_ref().map(|cell| &cell.value)
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.cell_mut(slot).value
    }

    pub(super) fn key(&self, slot: Slot) -> &Key<K> {
        &self.cell(slot).key
    }

    pub(super) fn hash(&self, slot: Slot) -> u64 {
        self.cell(slot).hash
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Key<K>, &T)> {
        self.cells
            .iter()
            .enumerate()
            .filter_map(|(slot, cell)| cell.as_ref().map(|cell| (slot as Slot, &cell.key, &cell.value)))
    }

    fn cell(&self, slot: Slot) -> &Cell<K, T> {
        self.cells[slot as usize].as_ref().expect("the slot is in use")
    }

    fn cell_mut(&mut self, slot: Slot) -> &mut Cell<K, T> {
        self.cells[slot as usize].as_mut().expect("the slot is in use")
    }
}

/// Hashes a hash to itself.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests {
    use super::*;

    /// Any number of keys with the same hash live together, and slots are used again.
    #[test]
    fn chains_of_equal_hashes() {
        for hashes in [1, 2, 7] {
            let mut table = Table::<u32, u32>::new();
            let mut model = HashMap::new();
            for step in 0..2_000_u32 {
                let key = (step.wrapping_mul(2_654_435_761) >> 7) % 23;
                let hash = u64::from(key) % hashes;
                match table.find(hash, &key) {
                    Some(slot) => {
                        assert_eq!(model.remove(&key), Some(*table.get(slot)));
                        assert_eq!(*table.remove(slot).0, key);
                    }
                    None => {
                        assert_eq!(model.insert(key, step), None);
                        table.insert(hash, Key::alone(key), step);
                    }
                }
                assert_eq!(table.len(), model.len());
                assert!(table.iter().all(|(_, key, value)| model[&**key] == *value));
            }
            assert!(table.cells.len() <= 23);
        }
    }
}
