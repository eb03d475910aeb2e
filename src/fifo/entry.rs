//! An entry: a key that is pending or leased, the facts that arrived for it, and its word.
//!
//! ```text
//!                 producer: first fact                       pop                      done, nothing arrived
//!      Retired ───────────────────────▶ Linking ──▶ Queued ─────▶ Leased ─────────────────────────────▶ Retired
//!                                        ▲ ▲  ╰───────────────────▶ │  │
//!                                        │ ╰────── done, requeue ───╯  │ requeue_after
//!                                        ╰──── due, or a new fact ── Delayed ◀╯
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
//! - **E4, in line.** Whoever brings an entry to Linking pushes a handle with the new generation, wakes, and then marks it
//!   Queued. Whoever appends to an entry that is Linking does all of that too before it returns. So when a call that
//!   appended has returned, a handle of the current generation is in its line, and its wake-up has been seen to.
//!   A handle is valid while the generation is the same and the entry is Linking or Queued; others are thrown away.
//! - **E5, generation.** It rises whenever an entry comes to Linking or is recycled, but for a move from the background
//!   line, where both handles stay good. It goes on when a slot is recycled and wraps after 2^26: a handle that stale can
//!   cost a key its place in line and nothing else, as it is the compare-and-swap that leases.
//! - **E6, life.** An entry is in the table from its first fact until it is Retired. It is unlinked by whoever retires it
//!   or meets it Retired; the one that retired it hands it to the limbo once it is unlinked, under a guard that is older.
//!   Its slot, and its key, change only after a grace period. So whoever met an entry under a guard, or holds its tenure,
//!   can read its key.
//! - **E7, numbers.** Before a lease takes facts while a replace is open, `settled` is raised to the largest
//!   number among them. So whoever reads the newest fact's numbers, or with none `settled`, and then wins a compare-and-swap
//!   of the word it read, has missed no change. (Traps: the number in the word alone dies with the entry; raised after
//!   the lease began it comes too late for a replace that looks in between.)
//! - **E8, marks.** `since` is no newer than the newest mark was when the oldest delta that is not completed arrived.

#![expect(unsafe_code, reason = "the word says whose the plain data is (E2, E6)")]

use std::cell::Cell;

use crate::delta::{DeltaList, Object};
use crate::object::Key;
use crate::resolve::{Before, known_after};
use crate::slab::{Index, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::{planted, weaken};
use crate::table::Node;

use super::cells::{Kept, Own};
use super::chain::Facts;
use super::debts::Debts;
use super::word::{Newest, State, Word};

/// What a lease gave back, or a pop that came to nothing.
pub(super) struct GivenBack<V> {
    /// Empty if no lease has shown any.
    pub(super) deltas: DeltaList<Object<V>>,
    /// Taken by a pop that panicked before it resolved them.
    pub(super) facts: Facts<V>,
    pub(super) previous: Option<Object<V>>,
    pub(super) attempts: u32,
    pub(super) debts: Debts,
    pub(super) background: bool,
}

impl<V> GivenBack<V> {
    /// What the key is after its deltas, which have been resolved.
    pub(super) fn newest(&self) -> Newest {
        if known_after(&self.deltas).is_some() { Newest::Live } else { Newest::Deleted }
    }
}

/// The holder's part of an entry (E2).
pub(super) struct Holders<V> {
    /// Comes before the facts. Rare, and most of an entry's size if it stood here.
    pub(super) given_back: Option<Box<GivenBack<V>>>,
    /// What the last lease left, if the known objects are elsewhere: newer than a user's store may be.
    pub(super) left: Option<Before<Object<V>>>,
    /// The largest number among the facts that leases of this entry have resolved.
    pub(super) judged: u64,
}

impl<V> Default for Holders<V> {
    fn default() -> Self {
        Holders { given_back: None, left: None, judged: 0 }
    }
}

#[repr(align(64))]
pub(super) struct Entry<K, V> {
    word: AtomicU64,
    next: AtomicU64,
    order: AtomicU64,
    key: Kept<Key<K>>,
    /// E7.
    pub(super) settled: AtomicU64,
    /// E8.
    pub(super) since: AtomicU64,
    /// The same for what arrives while the key is leased: the newest mark before the lease.
    pub(super) next_since: AtomicU64,
    holders: Own<Holders<V>>,
    /// The thread that holds the lease as a borrow; 0 if nobody can tell.
    pub(super) thread: AtomicU64,
    /// The replace that the lease owes: 0 none, `MANY` more than one.
    pub(super) owes: AtomicU64,
    /// When its delay ends, in the delays' own count.
    pub(super) due: AtomicU64,
    link: AtomicU32,
}

pub(super) const MANY: u64 = u64::MAX;

/// The right to an entry's holder's part (E2), and the duty to end the lease. Not `Clone`.
#[must_use = "the key stays leased"]
pub(super) struct Tenure {
    index: Index,
    // A tenure is used by one thread at a time: it is what makes the holder's part exclusive.
    _not_sync: std::marker::PhantomData<Cell<()>>,
}

impl Tenure {
    pub(super) fn index(&self) -> Index {
        self.index
    }
}

impl<K, V> Default for Entry<K, V> {
    fn default() -> Self {
        Entry {
            word: AtomicU64::new(Word::NEW.bits()),
            next: AtomicU64::new(0),
            order: AtomicU64::new(0),
            key: Kept::default(),
            settled: AtomicU64::new(0),
            since: AtomicU64::new(0),
            next_since: AtomicU64::new(0),
            holders: Own::default(),
            thread: AtomicU64::new(0),
            owes: AtomicU64::new(0),
            due: AtomicU64::new(0),
            link: AtomicU32::new(0),
        }
    }
}

impl<K, V> Slot for Entry<K, V> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl<K, V> Node for Entry<K, V> {
    fn next(&self) -> &AtomicU64 {
        &self.next
    }

    fn order(&self) -> &AtomicU64 {
        &self.order
    }
}

impl<K, V> Entry<K, V> {
    pub(super) fn word(&self) -> Word {
        // Acquire: pairs with `exchange` (Release); publishes facts, what was given back, and whatever the thread that
        // brought the entry here had done.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// E1.
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

    /// A producer, the line or a delay moves the entry on. Not for steps that begin or end a lease.
    pub(super) fn advance(&self, from: Word, to: Word) -> bool {
        debug_assert_eq!(from.state() == State::Leased, to.state() == State::Leased);
        self.exchange(from, to)
    }

    /// A lease begins.
    pub(super) fn begin(&self, index: Index, from: Word, to: Word) -> Option<Tenure> {
        debug_assert!(from.state() != State::Leased && to.state() == State::Leased);
        self.exchange(from, to).then_some(Tenure { index, _not_sync: std::marker::PhantomData })
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
    pub(super) fn end(&self, tenure: Tenure, from: Word, to: Word) -> Result<(), Tenure> {
        debug_assert!(from.state() == State::Leased && to.state() != State::Leased);
        if self.exchange(from, to) { Ok(()) } else { Err(tenure) }
    }

    /// The slot is fresh from the slab: nobody else can reach it. Returns the word that it had in its last life.
    pub(super) fn prepare(&self, key: Key<K>, since: u64) -> Word {
        // SAFETY: E6: the slot is fresh from the slab, so this thread alone can reach it, and it came by way of who gave it.
        unsafe {
            self.key.put(key);
            self.holders.with_mut(|own| own.judged = 0);
        }
        // Relaxed, all: the insertion into the table publishes them.
        self.since.store(since, Ordering::Relaxed);
        self.settled.store(0, Ordering::Relaxed);
        Word::from_bits(self.word.load(Ordering::Relaxed))
    }

    /// Before it is in the table.
    pub(super) fn set_first(&self, word: Word) {
        // Release: pairs with `word` (Acquire), for who has the entry from elsewhere than the table.
        self.word.store(word.bits(), Ordering::Release);
    }

    /// Undoes `prepare`, where the entry did not get into the table. The generation goes on.
    pub(super) fn unprepare(&self) -> Key<K> {
        self.set_first(self.word().unused());
        // SAFETY: it never got into the table: this thread alone can reach it.
        unsafe { self.key.take() }.expect("it was prepared")
    }

    /// The key of an entry that was met in its table under this guard, or whose tenure the caller holds.
    pub(super) fn key<'g>(&'g self, _guard: &'g Guard) -> &'g Key<K> {
        // SAFETY: E6: whoever met it under the guard sees the key, and it changes only after a grace period.
        unsafe { self.key.get() }.expect("an entry in the table has a key")
    }

    pub(super) fn key_of<'t>(&'t self, _tenure: &'t Tenure) -> &'t Key<K> {
        // SAFETY: E6: a leased entry is in the table, and is retired by the tenure's end only.
        unsafe { self.key.get() }.expect("a leased entry has a key")
    }

    /// The holder's part (E2).
    pub(super) fn own<R>(&self, tenure: &mut Tenure, f: impl FnOnce(&mut Holders<V>) -> R) -> R {
        debug_assert_eq!(self.word().state(), State::Leased);
        let _ = tenure;
        // SAFETY: E2: the caller's tenure is of this entry and the only one, and is borrowed as long as `f` runs; the
        // exchange that gave it came after the one that ended the last.
        unsafe { self.holders.with_mut(f) }
    }

    /// Takes the key out after a grace period (E6).
    pub(super) fn clear(&self) -> Option<Key<K>> {
        // SAFETY: E6: called by the limbo, after the grace period.
        unsafe { self.key.take() }
    }

    /// Everything of the user's, when the queue is dropped.
    pub(super) fn dismantle(&self) -> (Option<Key<K>>, Holders<V>) {
        // SAFETY: the queue is being dropped, by `&mut`: nobody else has anything of it.
        unsafe { (self.key.take(), self.holders.with_mut(std::mem::take)) }
    }
}
