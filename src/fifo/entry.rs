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
//!   two of one generation only where somebody helped. (Who brings it there does not mark it: mostly the key is leased next, and its
//!   line would go to and fro between two processors.)
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
//!   of one that a close has cut may be on their way, it is raised to the largest number among them. So whoever reads the newest fact's numbers and `settled`, and then wins a
//!   compare-and-swap of the word it read, has missed no change. As long as a replace may ask, the entry stays; so if
//!   there is none, and one is inserted for an item of the list, no change has been missed either. (Traps: the number in the word
//!   alone wraps; raised after the lease began it comes too late for a replace that looks in between.)
//! - **E8, marks.** `since` is no newer than the newest mark was when the oldest delta that is not completed arrived.
//! - **E9, known.** Where the queue keeps the known objects, an Idle entry's kind says whether it has an object. One without
//!   stays only as long as somebody asks for it: an open replace, or a snapshot that shows an older version. So does every Idle
//!   one where the known objects are elsewhere. Those are counted in the shard's `asked`.

#![expect(unsafe_code, reason = "the word says whose the plain data is (E2, E6)")]

use std::marker::PhantomData;
use std::ops::Deref;

use crate::object::{Body, Cell, Draft, Head, Lent, Pool, Shared, Spot};
use crate::slab::{Index, Slab, Slot as _};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::epoch::Guard;
use crate::sync::{planted, weaken};
use crate::table::{Links, MOST_NODES};

use super::cells::Own;
use super::parts::{Cold, Legacy, Parts};
use super::version::Version;
use super::word::{State, Word};

/// What every change and every lease touch of an entry: the head of the cell that has its key ([`Slot`]), of a line with keys of up
/// to 24 bytes. Everything else is among its [`Parts`]; while the entry is in the table, the link of the cell leads to what one
/// holder has left to the next.
pub(crate) struct EntryHead {
    word: AtomicU64,
    /// The holder's: the largest number among the facts that leases of this entry have resolved. That is `settled`, but for facts
    /// that a lease is only about to take.
    judged: Own<u64>,
    next: AtomicU32,
    order: AtomicU32,
    pub(super) version: Version,
    /// The thread that holds the lease as a borrow; 0 if nobody can tell. With [`OWES`].
    holder: AtomicU32,
}

/// An entry with its key.
pub(super) type Slot<K> = Cell<K, EntryHead>;

/// A key that is shared with its entry.
pub(crate) type EntryKey<K> = Shared<K, EntryHead>;

/// The lease owes a replace: its note says which.
pub(super) const OWES: u32 = 1 << 31;

/// In a note: more than one.
pub(super) const MANY: u64 = u64::MAX;

/// Whole lines.
#[repr(align(64))]
pub(crate) struct Lines;

impl Head for EntryHead {
    type Align = Lines;

    /// Every entry has a key.
    fn body(&self) -> Option<&Body> {
        None
    }
}

/// The right to an entry's holder's part (E2), and the duty to end the lease. Not `Clone`.
#[must_use = "the key stays leased"]
pub(super) struct Tenure {
    index: Index,
    // A tenure is used by one thread at a time: it is what makes the holder's part exclusive.
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

impl Tenure {
    pub(super) fn index(&self) -> Index {
        self.index
    }
}

impl Default for EntryHead {
    fn default() -> Self {
        EntryHead {
            word: AtomicU64::new(Word::NEW.bits()),
            judged: Own::default(),
            next: AtomicU32::new(0),
            order: AtomicU32::new(0),
            version: Version::default(),
            holder: AtomicU32::new(0),
        }
    }
}

impl Links for EntryHead {
    fn next(&self) -> &AtomicU32 {
        &self.next
    }

    fn order(&self) -> &AtomicU32 {
        &self.order
    }
}

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

impl EntryHead {
    #[inline(always)]
    pub(super) fn word(&self) -> Word {
        // Acquire: pairs with `exchange` (Release); publishes facts, what was given back, and whatever the thread that
        // brought the entry here had done.
        Word::from_bits(self.word.load(weaken("the word is read relaxed", Ordering::Acquire)))
    }

    /// Whether what was read of its chain was read while the word was this.
    pub(super) fn is_still(&self, word: Word) -> bool {
        // Acquire fence: what was read before is read before the word, and who has raised a number of it has been seen.
        if !planted("no fence before the word is read again") {
            fence(Ordering::Acquire);
        }
        self.word() == word
    }

    /// E1.
    #[inline(always)]
    fn exchange(&self, from: Word, to: Word) -> bool {
        if planted("the word is stored") {
            self.word.store(to.bits(), Ordering::Release);
            return true;
        }
        // AcqRel: pairs with itself and with `word`; hands the facts, and the holder's part, from one to the next.
        // Relaxed on failure: the loser loads the word again.
        let hand_over = weaken("the word is exchanged relaxed", Ordering::AcqRel);
        self.word.compare_exchange(from.bits(), to.bits(), hand_over, Ordering::Relaxed).is_ok()
    }

    /// A producer, the line, a delay or the end of a replace moves the entry on. Not for steps that begin or end a lease.
    #[inline(always)]
    pub(super) fn advance(&self, from: Word, to: Word) -> bool {
        debug_assert_eq!(from.state() == State::Leased, to.state() == State::Leased);
        self.exchange(from, to)
    }

    /// A lease begins.
    #[inline(always)]
    pub(super) fn begin(&self, index: Index, from: Word, to: Word) -> Option<Tenure> {
        debug_assert!(from.state() != State::Leased && to.state() == State::Leased);
        self.exchange(from, to).then_some(Tenure { index, _not_sync: PhantomData })
    }

    /// The holder says what the facts came to.
    pub(super) fn correct(&self, _: &Tenure, from: Word, to: Word) -> bool {
        from == to || self.exchange(from, to)
    }

    /// The facts that came during somebody else's lease are taken away.
    pub(super) fn drain(&self, from: Word, to: Word) -> bool {
        self.exchange(from, to)
    }

    /// A lease ends. The tenure comes back if the word has changed meanwhile.
    #[inline(always)]
    pub(super) fn end(&self, tenure: Tenure, from: Word, to: Word) -> Result<(), Tenure> {
        debug_assert!(from.state() == State::Leased && to.state() != State::Leased);
        // Relaxed: published by the exchange. The next lease is nobody's as long as it is not known whose.
        self.holder.store(0, Ordering::Relaxed);
        if self.exchange(from, to) { Ok(()) } else { Err(tenure) }
    }

    /// Before it is in the table.
    pub(super) fn set_first(&self, word: Word) {
        // Release: pairs with `word` (Acquire), for who has the entry from elsewhere than the table: goes over all slots, as for marks.
        // Without, that one would read a `since` of an earlier life, which is lower (E8); all others are served by the insertion.
        self.word.store(word.bits(), Ordering::Release);
    }

    /// Undoes `prepare`, where the entry did not get into the table. The generation goes on.
    pub(super) fn unprepare(&self) {
        self.set_first(self.word().unused());
    }

    /// Whose lease it is, and whether it owes a replace. Of the lease that is open; while there is none it is nobody's.
    #[inline(always)]
    pub(super) fn set_holder(&self, thread: u32, owes: bool) {
        debug_assert_eq!(thread & OWES, 0, "thread numbers are small");
        // Relaxed: who asks for its own leases has written it itself, or what it reads is too old to matter.
        self.holder.store(thread | if owes { OWES } else { 0 }, Ordering::Relaxed);
    }

    /// Whether it is a lease of this thread's, and if so whether it owes a replace.
    pub(super) fn is_held_by(&self, thread: u32) -> Option<bool> {
        // Relaxed: as above.
        let holder = self.holder.load(Ordering::Relaxed);
        (holder & !OWES == thread).then_some(holder & OWES != 0)
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

    /// The cell is a draft: nobody else can reach it. Returns the word that it had in its last life.
    pub(super) fn prepare(&self, since: u64) -> Word {
        // SAFETY: E6: the cell is a draft, so this thread alone can reach it, and it came by way of who gave it.
        unsafe { self.head.judged.with_mut(|judged| *judged = 0) };
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

    /// The largest number among the facts that were resolved, for the holder to raise (E2).
    #[inline(always)]
    pub(super) fn judged<R>(&self, tenure: &mut Tenure, f: impl FnOnce(&mut u64) -> R) -> R {
        debug_assert_eq!(self.word().state(), State::Leased);
        let _ = tenure;
        // SAFETY: E2: the caller's tenure is of this entry and the only one, and is borrowed as long as `f` runs; the
        // exchange that gave it came after the one that ended the last.
        unsafe { self.head.judged.with_mut(f) }
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
        // SAFETY: E2: as above.
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
    pub(super) fn new() -> Self {
        Entries { cells: Pool::new(), parts: Parts::new() }
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
