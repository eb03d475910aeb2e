//! The head of an entry: its word, and what else every change and every lease touch. The invariants are those of `entry.rs`.

use crate::object::{Body, Head};
use crate::slab::Index;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::sync::{planted, weaken};
use crate::table::Links;

use super::version::Version;
use super::word::{State, Word};

/// What every change and every lease touch of an entry: the head of the cell that has its key ([`Slot`](super::entry::Slot)), of a line with keys of up
/// to 32 bytes. Everything else is among its [`Parts`](super::parts::Parts); while the entry is in the table, the link of the cell leads to what one
/// holder has left to the next.
pub(crate) struct EntryHead {
    pub(super) word: AtomicU64,
    next: AtomicU32,
    order: AtomicU32,
    pub(super) version: Version,
    /// The thread that holds the lease as a borrow; 0 if nobody can tell. With [`OWES`].
    holder: AtomicU32,
}

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

/// The right to an entry's holder's part (E2), and the duty to end the lease. Not `Clone`. What is plain data there is for who has it
/// alone (`&mut`, or by value). Shared it only says which entry it is, lets the word be exchanged, and lets atomics be read that
/// nobody changes meanwhile: so threads may share a lease.
#[must_use = "the key stays leased"]
pub(super) struct Tenure {
    index: Index,
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
        self.exchange(from, to).then_some(Tenure { index })
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
