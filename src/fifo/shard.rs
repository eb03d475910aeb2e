//! A shard: its tables and the memory behind them, and its counters.

use std::hash::Hash;

use crate::object::{Key, Pool};
use crate::slab::{Index, Slab};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::hint::spin_loop;
use crate::sync::{CachePadded, planted};
use crate::table::Table;

use super::Objects;
use super::chain::Grip;
use super::entry::Entry;
use super::limbo::Limbo;
use super::records::Record;
use super::word::Word;

/// What producers write.
pub(super) struct Came {
    /// Keys that have become pending, ever. Raised before it shows.
    pub(super) keys: AtomicU64,
}

/// What consumers write. All only rise.
pub(super) struct Gone {
    /// Keys that were leased. With `Came` this says how many are pending.
    pub(super) taken: AtomicU64,
    /// Leases that have ended.
    pub(super) ended: AtomicU64,
}

pub(super) struct Shard<K, V> {
    pub(super) came: CachePadded<Came>,
    pub(super) gone: CachePadded<Gone>,
    pub(super) merged: AtomicU64,
    /// Records with an object.
    pub(super) objects_known: AtomicUsize,
    /// Records without one, kept for the sake of an open replace.
    pub(super) absent: AtomicUsize,
    pub(super) active: Table,
    pub(super) entries: Slab<Entry<K, V>>,
    entry_limbo: Limbo,
    pub(super) known: Table,
    pub(super) records: Slab<Record<K>>,
    record_limbo: Limbo,
    pub(super) keys: Pool<K>,
    pub(super) objects: Objects<V>,
}

/// The word of an entry is not what it was.
pub(super) struct Changed;

impl<K: Hash + Eq, V> Shard<K, V> {
    pub(super) fn new() -> Self {
        Shard {
            came: CachePadded::new(Came { keys: AtomicU64::new(0) }),
            gone: CachePadded::new(Gone { taken: AtomicU64::new(0), ended: AtomicU64::new(0) }),
            merged: AtomicU64::new(0),
            objects_known: AtomicUsize::new(0),
            absent: AtomicUsize::new(0),
            active: Table::new(),
            entries: Slab::new(),
            entry_limbo: Limbo::new(),
            known: Table::new(),
            records: Slab::new(),
            record_limbo: Limbo::new(),
            keys: Pool::new(),
            objects: Pool::new(),
        }
    }

    /// The entry of a key, which may be retired by now. Runs the key's `Eq`.
    pub(super) fn find_entry(&self, hash: u64, key: &K, guard: &Guard) -> Option<Index> {
        self.active.find(&self.entries, hash, |entry| **entry.key(guard) == *key, guard)
    }

    /// The record of a key. Runs the key's `Eq`.
    pub(super) fn find_record(&self, hash: u64, key: &K, guard: &Guard) -> Option<Index> {
        self.known.find(&self.records, hash, |record| **record.key() == *key, guard)
    }

    /// Puts an entry into the table, unless the key has one. Runs the key's `Eq`.
    pub(super) fn insert_entry(&self, hash: u64, index: Index, guard: &Guard) -> Result<(), Index> {
        let key: &K = self.entries.get(index).key(guard);
        let len = || self.pending() + self.leased();
        self.active.insert(&self.entries, hash, index, |entry| **entry.key(guard) == *key, len, guard)
    }

    /// Puts a record into the table, unless there is one that is not removed yet. Runs the key's `Eq`.
    pub(super) fn insert_record(&self, hash: u64, index: Index, guard: &Guard) -> Result<(), Index> {
        let key: &K = self.records.get(index).key();
        // Relaxed: an estimate.
        let len = || self.objects_known.load(Ordering::Relaxed) + self.absent.load(Ordering::Relaxed);
        self.known.insert(&self.records, hash, index, |record| **record.key() == *key, len, guard)
    }

    /// Unlinks an entry that the caller has retired (E6).
    pub(super) fn retire_entry(&self, index: Index, guard: &Guard) {
        if planted("an entry is handed over before it is unlinked") {
            self.entry_limbo.retire(&self.entries, index, guard);
            self.active.remove(&self.entries, index, guard);
            return;
        }
        self.active.remove(&self.entries, index, guard);
        self.entry_limbo.retire(&self.entries, index, guard);
    }

    /// Unlinks a record that the caller has removed (R3).
    pub(super) fn retire_record(&self, index: Index, guard: &Guard) {
        self.known.remove(&self.records, index, guard);
        self.record_limbo.retire(&self.records, index, guard);
    }
}

impl<K, V> Shard<K, V> {
    /// Drops keys and objects that consumers have to drop, and recycles their memory. Runs user code: not under a guard.
    pub(super) fn tidy(&self) {
        if self.objects.has_dead() {
            self.objects.bury_dead();
        }
        let drop_key = |key: Option<Key<K>>| drop(key);
        self.entry_limbo.recycle(&self.entries, |entry| drop_key(entry.clear()));
        self.record_limbo.recycle(&self.records, |record| drop_key(record.clear()));
    }

    /// Holds the newest fact of an entry whose word is `word`, if there is one.
    pub(super) fn grip(&self, entry: &Entry<K, V>, word: Word) -> Result<Option<Grip<'_, V>>, Changed> {
        match word.newest() {
            None => Ok(None),
            Some(newest) => {
                let grip = Grip::take(&self.objects, newest, || entry.word() == word);
                grip.map(Some).ok_or_else(|| {
                    // Before the word is looked at again: models let a thread read an old value for ever.
                    spin_loop();
                    Changed
                })
            }
        }
    }

    /// The largest number of a change, or of a list, that has reached an entry. Right if an exchange of the word that led to
    /// `grip` then succeeds (E7).
    pub(super) fn settled(&self, entry: &Entry<K, V>, grip: Option<&Grip<'_, V>>) -> u64 {
        // Acquire: pairs with `raise_settled` (Release).
        let of_leases = entry.settled.load(Ordering::Acquire);
        grip.map_or(0, Grip::settled).max(of_leases)
    }

    /// Before a lease takes the facts of `word` (E7). What is returned is to be kept until it has.
    pub(super) fn raise_settled(
        &self,
        entry: &Entry<K, V>,
        word: Word,
    ) -> Result<Option<Grip<'_, V>>, Changed> {
        let grip = self.grip(entry, word)?;
        let settled = self.settled(entry, grip.as_ref());
        // Release: pairs with `settled` (Acquire).
        entry.settled.fetch_max(settled, Ordering::Release);
        Ok(grip)
    }

    /// How many keys are in line, dirty or delayed.
    pub(super) fn pending(&self) -> usize {
        // The one that lags behind first, so that the difference is not negative. Acquire: the second load comes after it.
        let taken = self.gone.taken.load(Ordering::Acquire);
        // Relaxed: as far as it got.
        self.came.keys.load(Ordering::Relaxed).saturating_sub(taken) as usize
    }

    pub(super) fn leased(&self) -> usize {
        // Acquire: as in `pending`.
        let ended = self.gone.ended.load(Ordering::Acquire);
        // Relaxed: as far as it got.
        self.gone.taken.load(Ordering::Relaxed).saturating_sub(ended) as usize
    }
}
