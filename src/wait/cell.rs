//! One waiter's cell: its word, and the handle that wakes the waiter. Every transition is one compare-and-swap with a
//! name. The invariants I1 to I8 are in [`wait`](super).

use std::task::Waker;

use super::word::{MAX_PINS, State, Word};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;
use crate::sync::thread::Thread;
use crate::sync::{pause_point, planted, weaken};

/// What wakes a waiter.
pub(super) enum Handle {
    Thread(Thread),
    Task(Waker),
}

impl Handle {
    /// A task's waker is foreign code: this can panic or take long.
    pub(super) fn wake(&self) {
        match self {
            Handle::Thread(thread) => thread.unpark(),
            Handle::Task(waker) => waker.wake_by_ref(),
        }
    }
}

pub(super) struct Cell {
    word: AtomicU64,
    /// Its number in the registry.
    index: u32,
    handle: UnsafeCell<Option<Handle>>,
}

// SAFETY: a `Handle` may be sent to and used from any thread; I2 keeps its readers and its writer apart.
#[allow(unsafe_code, reason = "the handle is guarded by the cell's word")]
unsafe impl Sync for Cell {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "the handle is guarded by the cell's word")]
unsafe impl Send for Cell {}

/// A claimed waiter whose handle cannot change until [`Cell::unpin`].
#[must_use = "a pin that is never taken back keeps the cell from being used again"]
pub(super) struct Pinned<'a>(pub(super) &'a Cell);

/// How a claim ended.
pub(super) enum Claim<'a> {
    /// The waiter was awake and watches its word: nothing is owed.
    Awake,
    /// The wake is owed.
    Asleep(Pinned<'a>),
    /// The word has changed.
    Lost,
}

/// How a waiter left its cell.
pub(super) struct Departure {
    /// A notifier had claimed it.
    pub(super) notified: bool,
    /// It was in the sleeper count.
    pub(super) counted: bool,
    /// The cell is free again.
    pub(super) freed: bool,
    /// To be dropped by whoever has finished with the cell: dropping a waker is foreign code.
    pub(super) handle: Option<Handle>,
}

impl Cell {
    pub(super) fn new(index: usize) -> Self {
        let index = index.try_into().expect("at most 2^29 cells");
        Cell { word: AtomicU64::new(Word::FREE.0), index, handle: UnsafeCell::new(None) }
    }

    pub(super) fn index(&self) -> usize {
        self.index as usize
    }

    pub(super) fn peek(&self) -> Word {
        // Relaxed: whoever acts on the word does so by a compare-and-swap, which is what synchronizes. That the value
        // is new enough follows from the caller's fence (I4).
        Word(self.word.load(Ordering::Relaxed))
    }

    /// Whether the waiter that owns the cell has been claimed.
    pub(super) fn is_notified(&self) -> bool {
        // Relaxed: whoever has been claimed leaves before it looks, which acquires what was published before the claim.
        Word(self.word.load(Ordering::Relaxed)).is_notified()
    }

    fn swap(&self, from: Word, to: Word, success: Ordering) -> bool {
        // Relaxed on failure: every caller looks again or gives up.
        self.word.compare_exchange(from.0, to.0, success, Ordering::Relaxed).is_ok()
    }

    /// A registering waiter makes a free cell its own.
    #[must_use]
    pub(super) fn take_over(&self) -> bool {
        let word = self.peek();
        // Acquire: pairs with free (Release); the last reader of the old handle is done.
        let acquire = weaken("a waiter cell is taken relaxed", Ordering::Acquire);
        word.state() == State::Free && self.swap(word, word.to(State::Held), acquire)
    }

    /// The owner registers. It counts as a sleeper already (I3).
    pub(super) fn register(&self, ticket: u64, state: State, handle: Handle) {
        debug_assert_eq!(self.peek().state(), State::Held);
        pause_point("register: cell held");
        // SAFETY: I1 and I2: the cell is Held by the caller and has no pins, so nobody else reads or writes the handle.
        #[allow(unsafe_code, reason = "guarded by the word")]
        self.handle.with_mut(|slot| unsafe { *slot = Some(handle) });
        pause_point("register: handle written");
        // Release: pairs with claim and help (Acquire); publishes the handle.
        self.word.store(Word::new(ticket, state).0, weaken("a waiter registers relaxed", Ordering::Release));
    }

    /// A new waker is written beside the readers of the old one: only models plant this bug.
    pub(super) fn overwrite(&self, handle: Handle) {
        // SAFETY: none: this is the planted bug.
        #[allow(unsafe_code, reason = "a planted bug")]
        self.handle.with_mut(|slot| unsafe { *slot = Some(handle) });
    }

    /// The owner goes to sleep. `false`: it has been claimed.
    #[must_use]
    pub(super) fn sleep(&self, ticket: u64) -> bool {
        let (from, to) = (Word::new(ticket, State::Spinning), Word::new(ticket, State::Waiting));
        if planted("asleep by a store") {
            self.word.store(to.0, Ordering::Release);
            return true;
        }
        // Relaxed: a claim (Acquire) that reads this is in the release sequence of register's store, which published the handle.
        self.swap(from, to, Ordering::Relaxed)
    }

    /// A notifier makes the waiter that it saw in `seen` its own to wake. The linearization point of a wake-up.
    pub(super) fn claim(&self, seen: Word) -> Claim<'_> {
        let seen = if planted("no tickets") && self.peek().is_open() { self.peek() } else { seen };
        let hand_over = weaken("a waiter is claimed relaxed", Ordering::AcqRel);
        match seen.state() {
            // AcqRel: Release pairs with is_notified and leave (Acquire); publishes the item. Acquire pairs with
            // register (Release): the sleeper count was raised before the claimer lowers it (I3). No model sees it relaxed: the
            // notifier's fence is between the item and the claim, and loom puts no read-modify-write of the count off.
            State::Spinning if self.swap(seen, seen.to(State::Issued), Ordering::AcqRel) => Claim::Awake,
            // AcqRel: as above, and the handle is visible.
            State::Waiting if self.swap(seen, seen.to(State::Notified).pin(), hand_over) => {
                Claim::Asleep(Pinned(self))
            }
            _ => Claim::Lost,
        }
    }

    /// Joins those who owe the wake, if it is still owed.
    pub(super) fn help(&self) -> Option<Pinned<'_>> {
        loop {
            let seen = self.peek();
            if seen.state() != State::Notified || seen.pins() == MAX_PINS {
                return None;
            }
            // Fails if somebody pins, unpins or issues, or the waiter leaves: each is one step of another call, and
            // the last two end this loop.
            // AcqRel: pairs with register (Release) through the claim, and with leave (Acquire).
            if self.swap(seen, seen.pin(), weaken("a helper pins relaxed", Ordering::AcqRel)) {
                return Some(Pinned(self));
            }
        }
    }

    /// Whether the owner's handle wakes this task.
    pub(super) fn will_wake(&self, waker: &Waker) -> bool {
        #[allow(unsafe_code, reason = "guarded by the word")]
        self.handle.with(|handle| {
            // SAFETY: I2: the caller owns the cell and is not writing; notifiers only read.
            match unsafe { &*handle } {
                Some(Handle::Task(own)) => own.will_wake(waker),
                _ => false,
            }
        })
    }

    /// The owner leaves, whatever has happened meanwhile.
    pub(super) fn leave(&self) -> Departure {
        loop {
            // Relaxed: the exchange below finds out if it is old, and is what acquires.
            let word = self.peek();
            debug_assert!(word.is_open() || word.is_notified(), "{word:?}");
            let stays = word.pins() == 0 || planted("pins are ignored");
            let next = if stays { Word::new(word.ticket(), State::Held) } else { word.to(State::Left) };
            // Fails if a notifier claims, pins, unpins or issues: each is one step of a notify, of which a
            // registration sees one claim, and pins only until its wake is issued.
            // AcqRel: Acquire pairs with unpin (Release): the handle's readers are done; and with claim (Release): the item is
            // visible. Release pairs with unpin (Acquire), which may have to free the handle.
            if !self.swap(word, next, weaken("a waiter leaves relaxed", Ordering::AcqRel)) {
                continue;
            }
            pause_point("leave: left");
            let handle = if stays { self.free() } else { None };
            return Departure {
                notified: word.is_notified(),
                counted: matches!(word.state(), State::Spinning | State::Waiting | State::Notified),
                freed: stays,
                handle,
            };
        }
    }

    /// The caller owns the cell: empties it and gives it up.
    fn free(&self) -> Option<Handle> {
        // SAFETY: I1 and I2: the cell is Held by the caller and has no pins.
        #[allow(unsafe_code, reason = "guarded by the word")]
        let handle = self.handle.with_mut(|slot| unsafe { (*slot).take() });
        // Release: pairs with take_over (Acquire); the handle is gone.
        self.word.store(Word::FREE.0, weaken("a waiter cell is freed relaxed", Ordering::Release));
        handle
    }
}

impl<'a> Pinned<'a> {
    /// Wakes the waiter. Foreign code runs here, outside everything: a pin keeps nobody waiting.
    pub(super) fn wake(&self) {
        #[allow(unsafe_code, reason = "guarded by the word")]
        self.0.handle.with(|handle| {
            // SAFETY: I2: the caller's pin keeps the handle from being written or dropped.
            if let Some(handle) = unsafe { &*handle } {
                handle.wake();
            }
        });
    }

    /// Takes the pin back; the wake counts as issued.
    pub(super) fn unpin(self) -> Departure {
        let cell = self.0;
        loop {
            let word = cell.peek();
            let next = match (word.state(), word.pins()) {
                (State::Left, 1) => word.unpin().to(State::Held),
                (State::Notified, _) => word.unpin().to(State::Issued),
                _ => word.unpin(),
            };
            // Fails if another notifier pins or unpins, or the waiter leaves: one step of theirs each, and nobody new
            // pins once the wake is issued.
            // AcqRel: Release pairs with leave (Acquire): this thread has finished reading the handle. Acquire pairs
            // with leave and with the other unpins (Release): so have the others, if the handle is freed here.
            if !cell.swap(word, next, weaken("unpinned relaxed", Ordering::AcqRel)) {
                continue;
            }
            let freed = next.state() == State::Held;
            return Departure {
                notified: true,
                counted: word.state() == State::Notified,
                freed,
                handle: if freed { cell.free() } else { None },
            };
        }
    }
}
