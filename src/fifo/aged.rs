//! Keys with versions that only snapshots still show, in a line of their own, so that those versions also go where the key
//! never changes again.
//!
//! # Invariants
//!
//! - **G1, one handle.** A version's AGED flag says that there is a handle of its slot in the line, or in the hands of a thread
//!   that is about to put it there, or has taken it out and not yet taken off the flag. Whoever takes it off looks at the slot
//!   after that, and puts a handle back if there are old versions. The flag stays when the slot is recycled, and so does the
//!   handle's meaning: it is the slot that is looked at, whatever key it has by now.
//! - **G2, due.** When a snapshot ends, everything that is in the line is to be looked at: `goal` is how many handles
//!   came, ever; `gone`, how many were taken out. A handle is counted before it is put there, and whoever put it there looks at
//!   its key again after a fence: it sees the end of every snapshot that has not seen its handle.
//!
//! Who has counted one out and finds the line empty, as whoever counted it in is not there yet, counts it in again; in between others
//! may find nothing due, and leave it to the next call.
//!
//! A thread that is stopped with a handle in its hands keeps the old versions of that key from being found, until it goes on or
//! the key changes.

use crate::key_queue::{FEW, KeyQueue, OutOfMemory, Room};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::lines::{At, no_memory};

pub(super) struct Aged {
    line: KeyQueue<FEW>,
    came: AtomicU64,
    gone: AtomicU64,
    goal: AtomicU64,
}

impl Aged {
    pub(super) fn new() -> Self {
        Aged {
            line: KeyQueue::new().unwrap_or_else(|OutOfMemory| no_memory()),
            came: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            goal: AtomicU64::new(0),
        }
    }

    /// G1: the caller has set the flag; G2: and looks at the key again after this.
    pub(super) fn push(&self, at: At, guard: &Guard) {
        // Relaxed: ordered by the fences.
        self.came.fetch_add(1, Ordering::Relaxed);
        pause_point("aged: counted");
        self.line.push(at.handle(), &mut Room::new(), guard).unwrap_or_else(|OutOfMemory| no_memory());
        pause_point("aged: in line");
        // SeqCst fence: pairs with that in `all_due`.
        if !planted("no fence behind an aged key") {
            fence(Ordering::SeqCst);
        }
    }

    /// A snapshot has ended.
    pub(super) fn all_due(&self) {
        // SeqCst fence: pairs with that in `push`.
        if !planted("no fence when a snapshot ends") {
            fence(Ordering::SeqCst);
        }
        // Relaxed, both: ordered by the fence; counts only rise.
        self.goal.fetch_max(self.came.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn is_due(&self) -> bool {
        self.due() > 0
    }

    /// How many keys are to be looked at.
    pub(super) fn due(&self) -> u64 {
        // Relaxed, both: a hint.
        self.goal.load(Ordering::Relaxed).saturating_sub(self.gone.load(Ordering::Relaxed))
    }

    /// A key that is to be looked at, if one is. G1: the caller takes its flag off.
    pub(super) fn take(&self, guard: &Guard) -> Option<At> {
        // Relaxed, all: only the counts matter.
        let mut gone = self.gone.load(Ordering::Relaxed);
        // Repeats when somebody else has taken one.
        loop {
            if gone >= self.goal.load(Ordering::Relaxed) {
                return None;
            }
            match self.gone.compare_exchange(gone, gone + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => gone = now,
            }
        }
        pause_point("aged: counted out");
        let handle = self.line.pop(guard);
        if handle.is_none() {
            // Whoever has counted it has not put it there yet.
            self.gone.fetch_sub(1, Ordering::Relaxed);
        }
        pause_point("aged: in hand");
        handle.map(At::of)
    }
}
