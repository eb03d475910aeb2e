//! A shard: its tables and the memory behind them, and its counters.

use std::borrow::Borrow;
use std::hash::Hash;

use crate::object::Pool;
use crate::slab::Index;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::epoch::{self, Guard};
use crate::sync::hint::spin_loop;
use crate::sync::{CHECKED, CachePadded, planted, weaken};
use crate::table::{Position, Table};

use super::Objects;
use super::chain::Grip;
use super::entry::{Entries, Entry, Slot, key_met};
use super::kept::Kept;
use super::limbo::Limbo;
use super::word::Word;

/// So many objects that were merged away wait for a consumer to drop them.
const BACKLOG: u32 = 64;

/// So many entries are looked at under one guard.
const STRIDE: usize = 64;

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
    /// How many deltas have a number, in a queue that numbers them.
    pub(super) numbered: AtomicU64,
    /// Entries with an object.
    pub(super) objects_known: AtomicUsize,
    /// Idle entries that are kept for the sake of an open replace (E9).
    pub(super) asked: AtomicUsize,
    pub(super) table: Table,
    pub(super) entries: Entries<K, V>,
    pub(super) limbo: Limbo,
    pub(super) objects: Objects<V>,
    pub(super) kept: Kept,
}

/// The word of an entry is not what it was.
pub(super) struct Changed;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Brings near where the search for a key's entry begins.
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        if !CHECKED {
            self.table.prefetch_bucket(hash);
        }
    }

    /// Brings near where the entry of a key probably is, once the bucket is.
    pub(super) fn prefetch_entry(&self, hash: u64, guard: &Guard) {
        if !CHECKED {
            self.table.prefetch_node(self.entries.slots(), hash, guard);
        }
    }

    /// Puts an entry into the table, unless the key has one. The entry is not in it yet, and has its reference. Runs the key's
    /// `Eq`.
    pub(super) fn insert_entry(&self, hash: u64, index: Index, guard: &Guard) -> Result<(), Index> {
        let slots = self.entries.slots();
        let key = key_met(slots.get(index), guard);
        self.table.insert(
            slots,
            hash,
            index,
            |slot| *key_met(slot, guard) == *key,
            || self.entries_about(),
            guard,
        )
    }
}

impl<K, V> Shard<K, V> {
    pub(super) fn new(number: usize, measured: bool) -> Self {
        Shard {
            came: CachePadded::new(Came { keys: AtomicU64::new(0) }),
            gone: CachePadded::new(Gone { taken: AtomicU64::new(0), ended: AtomicU64::new(0) }),
            merged: AtomicU64::new(0),
            numbered: AtomicU64::new(0),
            objects_known: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            table: Table::new(),
            entries: Entries::new(measured),
            limbo: Limbo::new(),
            objects: Pool::new(),
            kept: Kept::new(number),
        }
    }

    /// The entry of a key, which may be retired by now. Runs the key's `Eq`.
    #[inline(always)]
    pub(super) fn find_entry<'c, Q>(&'c self, hash: u64, key: &Q, guard: &'c Guard) -> Option<Entry<'c, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let is_it = |slot: &Slot<K>| key_met(slot, guard).borrow() == key;
        let (index, slot) = self.table.find(self.entries.slots(), hash, is_it, guard)?;
        Some(self.entries.of_slot(slot, index))
    }

    /// Unlinks an entry that the caller has retired (E6).
    pub(super) fn retire_entry(&self, index: Index, guard: &Guard) {
        // At most one, of nothing.
        self.entries.get(index).version.dismantle(&self.objects).for_each(drop);
        if planted("an entry is handed over before it is unlinked") {
            self.limbo.retire(self.entries.slots(), index, guard);
            self.table.remove(self.entries.slots(), index, guard);
            return;
        }
        self.table.remove(self.entries.slots(), index, guard);
        self.limbo.retire(self.entries.slots(), index, guard);
        self.table.shrink(self.entries.slots(), || self.entries_about(), guard);
    }

    /// Roughly how many entries there are.
    fn entries_about(&self) -> usize {
        // Relaxed: an estimate, as a known key may be pending.
        let idle = self.objects_known.load(Ordering::Relaxed) + self.asked.load(Ordering::Relaxed);
        idle.max(self.pending() + self.leased())
    }

    /// What `pick` makes of the next few entries from a position on, and where to go on.
    pub(super) fn stretch<T>(
        &self,
        from: Position,
        guard: &Guard,
        pick: impl Fn(Index, &Slot<K>) -> Option<T>,
    ) -> (Vec<T>, Option<Position>) {
        let mut picked = Vec::new();
        let next = self.table.walk(self.entries.slots(), from, STRIDE, guard, |index, slot| {
            picked.extend(pick(index, slot));
        });
        (picked, next)
    }

    /// Goes over all entries in stretches, each under a guard of its own, which `each` gets with what was picked.
    pub(super) fn stretches<T>(
        &self,
        pick: impl Fn(Index, &Slot<K>, &Guard) -> Option<T>,
        mut each: impl FnMut(Vec<T>, Guard),
    ) {
        let mut from = Some(Position::default());
        while let Some(position) = from {
            let guard = epoch::pin();
            let (picked, next) = self.stretch(position, &guard, |index, slot| pick(index, slot, &guard));
            from = next;
            each(picked, guard);
        }
    }

    /// Drops keys and objects that consumers have to drop, and recycles their memory. Runs user code: not under a guard.
    #[inline(always)]
    pub(super) fn tidy(&self) {
        if self.is_untidy() {
            self.tidy_up();
        }
    }

    #[cold]
    fn tidy_up(&self) {
        if self.objects.has_dead() {
            self.objects.bury_dead();
        }
        self.limbo.recycle(self.entries.slots(), |index| self.entries.recycle(index));
    }

    /// What was merged away is dropped by consumers. Where none come, whoever merges drops it: so what waits is bounded.
    #[inline(always)]
    pub(super) fn tidy_if_left_alone(&self) {
        if self.objects.dead_backlog() > BACKLOG {
            self.objects.bury_dead();
        }
    }

    /// Whether there is something for [`tidy`](Self::tidy).
    #[inline(always)]
    pub(super) fn is_untidy(&self) -> bool {
        self.objects.has_dead() || self.limbo.is_ripe()
    }

    /// Holds the newest fact of an entry whose word is `word`, if there is one.
    pub(super) fn grip(&self, entry: Entry<'_, V>, word: Word) -> Result<Option<Grip<'_, V>>, Changed> {
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
    pub(super) fn settled(&self, entry: Entry<'_, V>, grip: Option<&Grip<'_, V>>) -> u64 {
        grip.map_or(0, Grip::settled).max(entry.settled())
    }

    /// Whether the newest fact of `word` is one that replace `number` has placed, an item or a tombstone, and no later change is merged
    /// into it. Once the calls that placed them have returned it needs no sweep, nor help: they have put the key in line (E4).
    pub(super) fn has_placed(&self, entry: Entry<'_, V>, word: Word, number: u64) -> bool {
        let Ok(Some(grip)) = self.grip(entry, word) else { return false };
        let fact = grip.fact();
        let is_later = fact.settled > 2 * number && planted("a sweep believes a change that is not in line");
        is_later || (fact.debt, fact.settled) == (number, 2 * number)
    }

    /// Before a lease takes the facts of `word` (E7). What is returned is to be kept until it has.
    pub(super) fn raise_settled(
        &self,
        entry: Entry<'_, V>,
        word: Word,
    ) -> Result<Option<Grip<'_, V>>, Changed> {
        let grip = self.grip(entry, word)?;
        let settled = grip.as_ref().map_or(0, Grip::settled);
        // What was read of the chain may have been taken and recycled meanwhile, and a number that is too high stays.
        if grip.is_some() && !entry.is_still(word) {
            return Err(Changed);
        }
        entry.raise(settled);
        Ok(grip)
    }

    /// How many keys are in line, dirty or delayed.
    pub(super) fn pending(&self) -> usize {
        // The one that lags behind first, so that the difference is not negative. Acquire: pairs with
        // `lease` (Release): who took one key after another became pending shows that one, too.
        let taken = self.gone.taken.load(weaken("what is pending is read relaxed", Ordering::Acquire));
        // Relaxed: as far as it got.
        self.came.keys.load(Ordering::Relaxed).saturating_sub(taken) as usize
    }

    pub(super) fn leased(&self) -> usize {
        // Acquire: pairs with `ended` (Release): as in `pending`.
        let ended = self.gone.ended.load(weaken("what is leased is read relaxed", Ordering::Acquire));
        // Relaxed: as far as it got.
        self.gone.taken.load(Ordering::Relaxed).saturating_sub(ended) as usize
    }
}
