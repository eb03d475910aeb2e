//! How far the first sync of one scope is, in one word. A queue without declared scopes has one that holds every key.
//!
//! ```text
//!            begin(n)              change              settle(n)
//! Undecided ─────────▶ Replace(n) ────────▶ Replace(n), ────────▶ Synced
//!   ▲  │                 │     │            changed       abort(n)  ▲  ▲
//!   │  │     abort(n)    │     │  settle(n)                         │  │
//!   │  └─────────────────│─────│────────────────────────────────────┘  │
//!   └────────────────────┘     └───────────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - **I1** Each arrow is one compare-and-swap, and whoever made it knows. So a change that is called while the first
//!   replace is open either stands in the word when that replace is dropped, or finds it dropped.
//! - **I2** An odd word never becomes even: after one of those, changes have nothing to decide.
//!
//! All are wait-free in effect: a compare-and-swap fails only where another arrow was taken, of which there are at most
//! four for each replace that begins.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{pause_point, planted, weaken};

const UNDECIDED: u64 = 0;
/// Odd, as is the number of no replace.
const SYNCED: u64 = u64::MAX;
/// A change was called while the replace was the first; it decides if that is dropped.
const CHANGED: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Neither a replace has begun, nor (without declared scopes) a change been made.
    Undecided,
    /// This replace is the first, unless it is dropped.
    Replace(u64),
    Synced,
}

impl State {
    fn of(word: u64) -> Self {
        match word {
            UNDECIDED => State::Undecided,
            SYNCED => State::Synced,
            word => State::Replace(word >> 1),
        }
    }
}

#[derive(Debug)]
pub(crate) struct First(AtomicU64);

impl First {
    pub(super) fn new() -> Self {
        First(AtomicU64::new(UNDECIDED))
    }

    pub(super) fn state(&self) -> State {
        // Acquire: pairs with `settle` and `begin` (Release).
        State::of(self.0.load(weaken("the first is read relaxed", Acquire)))
    }

    /// The newest state: who has seen what follows a change of it sees that change.
    pub(super) fn newest_state(&self) -> State {
        // Acquire: as in `state`. A read-modify-write does not read an old value.
        State::of(self.0.fetch_or(0, weaken("the first is read again relaxed", Acquire)))
    }

    /// The replace is the first if nothing was before.
    pub(super) fn begin(&self, replace: u64) {
        // Release: pairs with `state` (Acquire); publishes the replace's batch. Models do not see that, since what is in their map
        // everybody finds (I1 of `replaces.rs`). Fails if the first sync is decided.
        let _ = self.0.compare_exchange(UNDECIDED, replace << 1, Release, Relaxed);
    }

    /// A change was made. Whether that was the first sync.
    #[inline]
    pub(super) fn change(&self) -> bool {
        // Relaxed: an odd word stays odd (I2), and the exchange below notices if an even one is old.
        let word = self.0.load(Relaxed);
        word & CHANGED == 0 && self.decide(word)
    }

    #[cold]
    fn decide(&self, mut word: u64) -> bool {
        while word & CHANGED == 0 {
            let next = if word == UNDECIDED { SYNCED } else { word | CHANGED };
            pause_point("first: change");
            // Release: pairs with `state` (Acquire); publishes the change. Fails if the replace has begun or was dropped.
            let release = weaken("a change decides relaxed", Release);
            match self.0.compare_exchange(word, next, release, Relaxed) {
                Ok(_) => return next == SYNCED,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The replace is dropped: as if it had never begun.
    pub(super) fn abort(&self, replace: u64) {
        let decided = |word| if word & CHANGED == 0 { UNDECIDED } else { SYNCED };
        if planted("a drop is a store") {
            return self.0.store(decided(self.0.load(Acquire)), Release);
        }
        self.leave(replace, decided);
    }

    /// All that the replace appended is completed.
    pub(super) fn settle(&self, replace: u64) {
        self.leave(replace, |_| SYNCED);
    }

    fn leave(&self, replace: u64, next: impl Fn(u64) -> u64) {
        // Mostly it is. Nobody but the one who ends it takes the word away from this replace.
        let mut word = replace << 1;
        while State::of(word) == State::Replace(replace) {
            // Release: pairs with `state` (Acquire); publishes what the consumers did. Fails once, if a change comes.
            match self.0.compare_exchange(
                word,
                next(word),
                weaken("the first sync is relaxed", Release),
                Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
    }
}
