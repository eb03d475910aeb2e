//! An entry: a key with what is known of it, the facts that arrived for it, and its word.
//!
//! ```text
//!               first fact              pop
//!      Retired ────────────▶ Linking ────────▶ Leased ───────────▶ Idle     done; an object is known
//!         ▲  ▲                ▲ │ ▲ ▲           ▲ │ │ ╰───────────▶ Retired  done; nobody asks for it any more
//!         │  │    a new fact  │ │ │ │           │ │ │
//!         │ Idle ─────────────╯ ▼ │ ╰── Queued ─╯ │ │
//!         │  │                Queued │             │ │
//!         ╰──╯                       ╰──────────── ╯ │              done and something arrived, requeue
//!     no replace asks                ╰── Delayed ◀───╯              requeue_after; due, or a new fact
//!
//!      word ── newest fact ─▶ older ─▶ oldest            given back: deltas of an earlier lease, before all facts
//! ```
//!
//! # Invariants
//!
//! - **E1, one word.** Everything that happens to an entry is one compare-and-swap of its word: a fact arrives, a lease
//!   takes all facts, a lease ends. Whoever loses one looks again, and somebody else has gone on.
//! - **E2, tenure.** From the compare-and-swap to Leased until the one that leaves it, the entry has one holder, who has a
//!   [`Tenure`]. What is marked *holder's* below is touched by nobody else. So no key is in two leases.
//! - **E3, facts.** A fact's cell is written by its producer before the compare-and-swap that publishes it. The
//!   word owns the reference to the newest fact, each fact that to the next older. Whoever takes the word's newest fact
//!   away (a lease all of them, a merge those that it replaces) owns what it took.
//! - **E4, in line.** Whoever brings an entry to Linking pushes a handle with the new generation, and wakes. Whoever meets an entry
//!   that is Linking, and returns on the strength of it, does so too, and then marks it Queued, so that nobody has to who comes later. So
//!   when a call that appended has returned, a handle of the current generation is in its line, and its wake-up has been seen to.
//!   A handle is valid while the generation is the same and the entry is Linking or Queued; others are thrown away. There are
//!   two of one generation only where somebody helped, or where the key has moved on from the background line: then who moved it marks it,
//!   as from there on the handle in the background is none. (Who brings it there does not mark it: mostly the key is leased next, and its
//!   line would go to and fro between two processors.) A popper that stands between one of the two and its exchange keeps the key from
//!   its turn, not from the others: they lease it by the second, where that stands.
//! - **E5, generation.** It rises whenever an entry comes to Linking or is recycled, but for a move from the background
//!   line, where both handles stay good. It goes on when a slot is recycled and wraps after 2^27. Who stands between two steps
//!   while its key goes exactly once around can then cost that its place in line, by a stale handle, or end a delay early, or mark it
//!   as in line for somebody else who has stopped on the way there. Nothing else: it is a compare-and-swap that leases, and no memory
//!   depends on generations.
//! - **E6, life.** An entry is in the table from its first fact until it is Retired. That it becomes by the end of a lease,
//!   or from Idle, when nothing is known of its key and no open replace may ask for it. It is unlinked by whoever retires it
//!   or meets it Retired; the one that retired it hands it to the limbo once it is unlinked, under a guard that is older.
//!   Its slot, and its key, change only after a grace period. So whoever met an entry under a guard, or holds its tenure,
//!   can read its key. Whoever has but a handle looks at the word alone until its exchange of that has won.
//! - **E7, numbers.** `settled` only rises while the entry lives, and before a lease takes facts while a replace is open, or calls
//!   of one that a close has cut may be on their way, it is raised to the largest number among them. The numbers of facts do not change once they are published. So whoever reads the newest fact's numbers and `settled`, and then wins a
//!   compare-and-swap of the word it read, has missed no change. As long as a replace may ask, the entry stays; so if
//!   there is none, and one is inserted for an item of the list, no change has been missed either. (Traps: the number in the word
//!   alone wraps; raised after the lease began it comes too late for a replace that looks in between.)
//! - **E8, marks.** `since` is no newer than the newest mark was when the oldest delta that is not completed arrived.
//! - **E9, known.** Where the queue keeps the known objects, an Idle entry's kind says whether it has an object. One without
//!   stays only as long as somebody asks for it: an open replace, or a snapshot that shows an older version. So does every Idle
//!   one where the known objects are elsewhere. Those are counted in the shard's `asked`.

#![expect(unsafe_code, reason = "the word says whose the plain data is (E2, E6)")]

use std::ops::Deref;

use crate::object::{Cell, Draft, Lent, Pool, Shared, Spot};
use crate::slab::{Index, Slab, Slot as _};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::weaken;
use crate::table::MOST_NODES;

use super::measure::Date;
use super::parts::{Cold, Legacy, Parts};
use super::word::{State, Word};

pub(super) use super::head::{EntryHead, MANY, Tenure};

/// An entry with its key.
pub(super) type Slot<K> = Cell<K, EntryHead>;

/// A key that is shared with its entry.
pub(crate) type EntryKey<K> = Shared<K, EntryHead>;

/// An entry with all its parts.
pub(super) struct Entry<'e, V> {
    head: &'e EntryHead,
    parcel: &'e AtomicU32,
    parts: &'e Parts<V>,
    index: Index,
}

impl<V> Clone for Entry<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Entry<'_, V> {}

impl<V> Deref for Entry<'_, V> {
    type Target = EntryHead;

    fn deref(&self) -> &EntryHead {
        self.head
    }
}

impl<V> Entry<'_, V> {
    pub(super) fn index(&self) -> Index {
        self.index
    }

    #[inline(always)]
    pub(super) fn cold(&self) -> &Cold {
        self.parts.cold(self.index)
    }

    /// Since when it waits, where that is measured.
    pub(super) fn date(&self) -> Option<&Date> {
        self.parts.date(self.index)
    }

    /// The cell is a draft: nobody else can reach it. Returns the word that it had in its last life.
    pub(super) fn prepare(&self, since: u64) -> Word {
        let cold = self.cold();
        // Relaxed, all: the insertion into the table publishes them.
        self.parcel.store(0, Ordering::Relaxed);
        cold.since.store(since, Ordering::Relaxed);
        cold.settled.store(0, Ordering::Relaxed);
        Word::from_bits(self.head.word.load(Ordering::Relaxed))
    }

    pub(super) fn settled(&self) -> u64 {
        // Acquire: pairs with `raise` (Release); whoever acts on a number has seen what led to it.
        self.cold().settled.load(weaken("a settled number is read relaxed", Ordering::Acquire))
    }

    /// E7.
    pub(super) fn raise(&self, number: u64) {
        let settled = &self.cold().settled;
        // Relaxed: it only rises, so an old value costs an exchange that changes nothing.
        if settled.load(Ordering::Relaxed) < number {
            // Release: pairs with `settled` (Acquire).
            settled.fetch_max(number, weaken("a settled number is raised relaxed", Ordering::Release));
        }
    }

    /// The entry has become pending after a rest, and `newest` was the newest mark before that. If this comes late the old
    /// number is still there, which is lower; and what came since has come later than `newest` was read (E8).
    pub(super) fn begin_since(&self, newest: u64) {
        // Without marks the line is not touched.
        if newest != 0 {
            let since = &self.cold().since;
            // Relaxed, both: see above.
            if since.load(Ordering::Relaxed) < newest {
                since.fetch_max(newest, Ordering::Relaxed);
            }
        }
    }

    /// Whether the last holder left something to this one.
    #[inline(always)]
    pub(super) fn has_legacy(&self, _: &Tenure) -> bool {
        // Relaxed: only holders change it, who are ordered by the word.
        self.parcel.load(Ordering::Relaxed) != 0
    }

    /// What the last holder left, for this one to take and to leave (E2).
    pub(super) fn legacy<R>(&self, tenure: &mut Tenure, f: impl FnOnce(&mut Legacy<V>) -> R) -> R {
        debug_assert_eq!(self.word().state(), State::Leased);
        let _ = tenure;
        // SAFETY: E2: the caller has the tenure to itself, and there is one.
        unsafe { self.parts.legacy(self.parcel, f) }
    }

    /// The same, when the queue is dropped.
    pub(super) fn take_legacy(&self) -> Legacy<V> {
        // SAFETY: the queue is being dropped: snapshots, which may be left, do not touch it.
        unsafe { self.parts.legacy(self.parcel, std::mem::take) }
    }
}

/// The entries of a shard, with their keys.
pub(super) struct Entries<K, V> {
    cells: Pool<K, EntryHead>,
    parts: Parts<V>,
}

impl<K, V> Entries<K, V> {
    /// `dated`: keys are (`measure.rs`).
    pub(super) fn new(dated: bool) -> Self {
        Entries { cells: Pool::new(), parts: Parts::new(dated) }
    }

    #[inline(always)]
    pub(super) fn get(&self, index: Index) -> Entry<'_, V> {
        self.at(&self.spot(index), index)
    }

    /// Where an entry is.
    #[inline(always)]
    pub(super) fn spot(&self, index: Index) -> Spot<'_, K, EntryHead> {
        self.cells.spot(index)
    }

    #[inline(always)]
    pub(super) fn at<'e>(&'e self, spot: &Spot<'e, K, EntryHead>, index: Index) -> Entry<'e, V> {
        self.of_slot(spot.cell(), index)
    }

    #[inline(always)]
    pub(super) fn of_slot<'e>(&'e self, slot: &'e Slot<K>, index: Index) -> Entry<'e, V> {
        Entry { head: slot.head(), parcel: slot.link(), parts: &self.parts, index }
    }

    /// The same by its key, which [`lend`](Self::lend) has lent for this tenure: it need not be looked up.
    #[inline(always)]
    pub(super) fn of_lease(&self, key: &Lent<K, EntryHead>, tenure: &Tenure) -> Entry<'_, V> {
        // SAFETY: it is of this shard, as its lease is.
        let slot = unsafe { self.cells.cell_of(key) };
        Entry { head: slot.head(), parcel: slot.link(), parts: &self.parts, index: tenure.index() }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, index: Index) {
        self.cells.prefetch_to_write(index);
    }

    /// For the table.
    pub(super) fn slots(&self) -> &Slab<Slot<K>> {
        self.cells.slab()
    }

    /// All that there ever were. Those that nobody has used have no more than a word.
    pub(super) fn for_each(&self, mut f: impl FnMut(Index, Entry<'_, V>)) {
        self.slots().for_each(|index, _| f(index, self.get(index)));
    }

    pub(super) fn draft(&self, key: K) -> Draft<'_, K, EntryHead> {
        let draft = self.cells.draft(Some(key));
        assert!(draft.index().get() < MOST_NODES, "a shard has fewer than 2^28 keys");
        self.parts.provide(draft.index());
        draft
    }

    /// The key of an entry that is met in its table under this guard, shared: good for ever.
    pub(super) fn share(&self, index: Index, _guard: &Guard) -> EntryKey<K> {
        // SAFETY: E6: as above.
        unsafe { self.cells.share(index) }
    }

    /// The key of an entry with a version that a snapshot shows, shared: good for ever.
    pub(super) fn share_shown(&self, index: Index) -> EntryKey<K> {
        // SAFETY: E9: such an entry is not retired before the snapshot has ended, so the table has a reference; and whoever has seen
        // the version has seen the insertion of the entry.
        unsafe { self.cells.share(index) }
    }

    /// The key of a leased entry, as long as it is leased.
    #[inline(always)]
    pub(super) fn lend(&self, spot: &Spot<'_, K, EntryHead>, tenure: &Tenure) -> Lent<K, EntryHead> {
        debug_assert!(std::ptr::eq(spot.head(), self.get(tenure.index()).head));
        // SAFETY: E6: a leased entry is in the table, which has a reference; it is retired by the tenure's end, after which
        // the holder uses the key no more (see `Held`).
        unsafe { spot.lend() }
    }

    /// The table's reference is let go of. The key's `Drop` may run.
    pub(super) fn recycle(&self, index: Index) {
        // SAFETY: E6: the reference that `publish` left for the table; called once, a grace period after it was retired, or when
        // the queue is dropped.
        drop(unsafe { self.cells.adopt(index) });
    }
}

/// The key of an entry that is met in its table under this guard.
pub(super) fn key_met<'g, K>(slot: &'g Slot<K>, _guard: &'g Guard) -> &'g K {
    // SAFETY: E6: whoever met it under the guard sees the key, and the table's reference goes only after a grace period.
    unsafe { slot.value() }.expect("an entry in the table has a key")
}

/// The same of an entry with a version that a snapshot shows, as long as that is not dropped.
pub(super) fn key_shown<K>(slot: &Slot<K>) -> &K {
    // SAFETY: E9: as in `share_shown`.
    unsafe { slot.value() }.expect("an entry in the table has a key")
}
