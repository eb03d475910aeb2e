//! How far the stream of changes has been processed.
//!
//! Marks are numbered from 1. An entry remembers the newest number at a moment before its oldest fact that is not
//! completed was appended. Mark `n` is processed when every entry's number is at least `n`: then no fact that was
//! appended before the mark is left.
//!
//! # Invariants
//!
//! - **I1, read before.** Whoever reads the newest number as an entry's, or as a query's before it looks at the entries,
//!   notes in the word that it was read. So of a mark that was followed by the next one unread, no entry has the
//!   number and no query will: its version is never the answer, and is dropped at the next mark.
//! - **I2, kept.** The versions that are kept have rising numbers; the last is the newest mark's, and the first is not
//!   below `reported`.
//! - **I3, never back.** `reported` only rises. A query that overtook a slower one decides for both.
//!
//! # Progress
//!
//! `newest`, `is_processed`, `lose` and `is_lost` are wait-free. `mark` and `processed` take a mutex for O(1) amortized;
//! nothing of the user's runs under it: versions are handed out of it before they drop.
//!
//! A version is kept from its mark until a later one is reported, if somebody read the newest number in between: while a
//! key is stuck, a version for each mark that a change or a query followed. To drop more, one would have to know that no
//! call that has read the number is still on its way to its entry.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::replace::Version;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Mutex, MutexGuard, pause_point, planted, weaken};

#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

/// In the word of the newest number: somebody has read it.
const READ: u64 = 1;

pub(crate) struct Marks {
    /// The newest number, shifted by one, and [`READ`].
    newest: AtomicU64,
    /// The newest number that was found processed.
    reported: AtomicU64,
    /// The lowest number of an entry whose facts were discarded; `u64::MAX` if none were.
    lost: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// As in the word and in `reported`.
    newest: u64,
    reported: u64,
    versions: VecDeque<(u64, Version)>,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Marks {
            // There is no version to keep for 0.
            newest: AtomicU64::new(READ),
            reported: AtomicU64::new(0),
            lost: AtomicU64::new(u64::MAX),
            kept: Mutex::new(Kept::default()),
        }
    }

    /// The number of the newest mark, 0 if there is none: for an entry before its first fact, a lease before it takes
    /// facts, and a query before it looks at the entries. One load, but for the first call after a mark.
    #[inline(always)]
    pub(crate) fn newest(&self) -> u64 {
        // Acquire: pairs with `mark` (Release); what follows comes after the mark.
        let word = self.newest.load(weaken("a number is read relaxed", Acquire));
        if word & READ != 0 || planted("read and not noted") { word >> 1 } else { self.note_read() }
    }

    #[cold]
    fn note_read(&self) -> u64 {
        pause_point("marks: read");
        // Acquire: pairs with `mark` (Release). The number may be a newer one by now; that is the one noted. Nothing is published
        // but the bit (I1), and who reads it after that comes after the mark as well: an exchange hands that on.
        self.newest.fetch_or(READ, weaken("a number is noted relaxed", Acquire)) >> 1
    }

    /// Whether there is any.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        // Relaxed: a hint. Who needs to see a mark has come after it.
        self.newest.load(Relaxed) > READ
    }

    /// A new mark; its number. O(1).
    pub(crate) fn mark(&self, version: Version) -> u64 {
        let mut kept = self.kept();
        kept.newest += 1;
        let number = kept.newest;
        // Release: pairs with `newest` (Acquire): what the caller did before comes before whatever reads the number. Of who read the
        // one before nothing but the bit matters.
        let unread = self.newest.swap(number << 1, weaken("a mark is numbered relaxed", Release)) & READ == 0;
        pause_point("marks: numbered");
        // I1.
        let dropped = if unread { kept.versions.pop_back() } else { None };
        kept.versions.push_back((number, version));
        drop(kept);
        drop(dropped);
        number
    }

    /// The newest processed mark, of which the caller found that `through` is processed: the lowest number of the
    /// entries, or the newest number as read before it looked at them. O(1) amortized.
    pub(crate) fn processed(&self, through: u64) -> Option<Version> {
        let mut kept = self.kept();
        // Acquire: pairs with `lose` (Release). What was discarded is never processed: whoever saw the entry gone sees the loss by the
        // entry's word, too.
        let through = through.min(self.lost.load(Acquire));
        let reported = kept.reported.max(through);
        kept.reported = reported;
        // Release: pairs with `is_processed` (Acquire); publishes what the caller saw completed.
        self.reported.store(reported, weaken("reported relaxed", Release));
        pause_point("marks: reported");
        let passed = kept.versions.partition_point(|(number, _)| *number < reported);
        let passed: Vec<_> = kept.versions.drain(..passed).collect();
        let first = kept.versions.front().filter(|(number, _)| *number == reported);
        let version = first.map(|(_, version)| version.clone());
        drop(kept);
        drop(passed);
        version
    }

    /// Whether a query has found the mark processed.
    pub(crate) fn is_processed(&self, number: u64) -> bool {
        // Acquire: pairs with `processed` (Release).
        number <= self.reported.load(weaken("what is reported is read relaxed", Acquire))
    }

    /// The facts of an entry with this number were discarded. They are never completed.
    pub(crate) fn lose(&self, since: u64) {
        // Release: pairs with `is_lost` (Acquire); publishes that the queue is closed.
        self.lost.fetch_min(since, weaken("a loss is shown relaxed", Release));
    }

    /// Whether facts that were appended before the mark were discarded.
    pub(crate) fn is_lost(&self, number: u64) -> bool {
        // Acquire: pairs with `lose` (Release): who is told so sees that the queue is closed.
        self.lost.load(weaken("a loss is read relaxed", Acquire)) < number
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
