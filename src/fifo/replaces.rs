//! Which replaces are open, what each still waits for, and what the first of them means for `has_synced`.
//!
//! A replace has a *batch* while somebody may ask for it: how many of its facts are not completed and how many are not
//! delivered, both with one more while it is open. Whoever takes the last away *settles* it.
//!
//! # Invariants
//!
//! - **I1, batch.** It is in the map before the replace is the first of any scope, and before its number is shown.
//! - **I2, counts.** A fact is counted before it is pushed, and taken away at most once, by who holds it. While the
//!   replace is open both counts have one more. So a count of an open replace is never zero, and once zero it stays.
//! - **I3, settled.** One call brings `outstanding` to zero. It marks the scopes, then takes the batch out of the map:
//!   who no longer finds the batch sees the scopes synced.
//! - **I4, dropped.** A dropped replace gives its scopes back before its batch leaves the map, and both before the
//!   next one can begin.
//! - **I5, open.** `oldest_open` and `running` are written under the mutex, before `newest` shows a number, and after
//!   what the end of a replace has to publish.
//!
//! Numbers only rise. Of their 64 bits facts take one to tell changes from lists: with a replace every nanosecond there would be none left
//! after 292 years. So they do not wrap, and are compared by size. The same
//! goes for marks and epochs.
//!
//! # Linearization
//!
//! A begin takes place where `newest` is stored, a first sync at the exchange of the last scope's word (`first.rs`), the
//! end of a completion where the batch leaves the map.
//!
//! # Progress
//!
//! `begin`, `commit`, `abort` and `close` take a mutex, which is held for O(open replaces and scopes) and under which
//! nothing of the user's runs. Everything else is lock-free and costs O(log batches). A batch is some 100 bytes, from
//! begin until it is complete, forgotten or dropped, or its replace's discarded facts forgotten.

use std::ops::{BitOr, BitOrAssign};
use std::sync::PoisonError;

use crate::error::BeginReplaceError;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::map::{Map, hold_garbage_back};
use crate::sync::{Arc, Mutex, MutexGuard, pause_point, planted, weaken};

use super::batch::{BIAS, Batch};
use super::debts::{Debt, Debts};
use super::first::{First, State};

#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

/// Whether somebody may have waited for this: the caller then notifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "somebody may wait for this"]
pub(crate) struct Progress(bool);

impl Progress {
    pub(crate) const NONE: Self = Progress(false);
    pub(crate) const MADE: Self = Progress(true);

    pub(crate) fn is_made(self) -> bool {
        self.0
    }
}

impl BitOr for Progress {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Progress(self.0 | other.0)
    }
}

impl BitOrAssign for Progress {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// A replace that has begun.
#[derive(Debug)]
pub(crate) struct Open {
    number: u64,
    scope: Option<usize>,
    cut: Arc<AtomicBool>,
}

impl Open {
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Index of its scope; none for all keys.
    pub(crate) fn scope(&self) -> Option<usize> {
        self.scope
    }

    /// Whether a close has dropped it. After a commit: whether that came too late.
    pub(crate) fn is_cut(&self) -> bool {
        // Acquire: pairs with `close` (Release): who is told so sees that the queue is closed.
        self.cut.load(weaken("a cut is read relaxed", Acquire))
    }
}

/// A replace in the book of open ones.
struct Running {
    number: u64,
    scope: Option<usize>,
    streaming: bool,
    cut: Arc<AtomicBool>,
}

#[derive(Default)]
struct Book {
    newest: u64,
    /// In the order of their numbers.
    open: Vec<Running>,
    closed: bool,
}

pub(crate) struct Replaces {
    newest: AtomicU64,
    oldest_open: AtomicU64,
    running: AtomicBool,
    firsts: Box<[First]>,
    /// Scopes were declared: changes decide nothing.
    scoped: bool,
    disjoint: bool,
    batches: Map<u64, Batch>,
    /// How many batches were complete. Read only for the edge.
    settled: AtomicU64,
    book: Mutex<Book>,
}

const NONE_OPEN: u64 = u64::MAX;

impl Replaces {
    pub(crate) fn new(scopes: usize, disjoint: bool) -> Self {
        Replaces {
            newest: AtomicU64::new(0),
            oldest_open: AtomicU64::new(NONE_OPEN),
            running: AtomicBool::new(false),
            firsts: (0..scopes.max(1)).map(|_| First::new()).collect(),
            scoped: scopes > 0,
            disjoint,
            batches: Map::new(),
            settled: AtomicU64::new(0),
            book: Mutex::new(Book::default()),
        }
    }

    // ---- begin and end

    /// The number of the newest replace that has begun; 0 if none has.
    #[inline(always)]
    pub(crate) fn newest(&self) -> u64 {
        // Acquire: pairs with `begin` (Release).
        self.newest.load(weaken("the newest is read relaxed", Acquire))
    }

    /// The lowest number of an open replace; `u64::MAX` if none is open. Who saw `newest() == n` gets at most `n` while
    /// that one is open.
    #[inline(always)]
    pub(crate) fn oldest_open(&self) -> u64 {
        // Acquire: pairs with `publish_open` (Release): who finds none open sees the close that has cut the last (`is_listing`).
        self.oldest_open.load(weaken("the oldest is read relaxed", Acquire))
    }

    /// Whether a replace is open that a close does not cut.
    pub(crate) fn running(&self) -> bool {
        // Acquire: pairs with `publish_open` (Release); an ended replace has appended everything.
        self.running.load(weaken("running is read relaxed", Acquire))
    }

    pub(crate) fn begin(&self, scope: Option<usize>, streaming: bool) -> Result<Open, BeginReplaceError> {
        let _garbage = hold_garbage_back();
        let mut book = self.book();
        if book.closed {
            return Err(BeginReplaceError::Closed);
        }
        let overlaps =
            |open: &Running| !self.disjoint || open.scope.is_none() || scope.is_none() || open.scope == scope;
        if book.open.iter().any(overlaps) {
            return Err(BeginReplaceError::ReplaceInProgress);
        }
        book.newest += 1;
        let number = book.newest;
        let cut = Arc::new(AtomicBool::new(false));
        book.open.push(Running { number, scope, streaming, cut: Arc::clone(&cut) });
        self.batches.insert(number, Batch::new());
        pause_point("replaces: in the book");
        for first in self.in_scope(scope) {
            first.begin(number);
        }
        if planted("the newest before the oldest") {
            self.newest.store(number, Release);
        }
        self.publish_open(&book);
        // Release: pairs with `newest` (Acquire); publishes the batch, the scopes and `oldest_open` (I1, I5).
        self.newest.store(number, weaken("the newest is shown relaxed", Release));
        Ok(Open { number, scope, cut })
    }

    /// A streaming replace begins to be committed: a close no longer cuts it, but waits for it. Whether it was not cut yet.
    pub(crate) fn begin_commit(&self, open: &Open) -> bool {
        let mut book = self.book();
        let Some(running) = book.open.iter_mut().find(|running| running.number == open.number) else {
            return false;
        };
        running.streaming = false;
        pause_point("replaces: committing");
        self.publish_open(&book);
        true
    }

    /// All that the replace appends is appended. Nothing if it has ended already; then see [`Open::is_cut`].
    pub(crate) fn commit(&self, open: &Open) -> Progress {
        if !self.strike(&mut self.book(), open.number) {
            return Progress::NONE;
        }
        pause_point("replaces: no longer open");
        let _ = self.discharge(&Debt { replace: open.number, ..BIAS });
        Progress::MADE
    }

    /// The replace is dropped: it is as if it had never begun, but for what it has put in line. Nothing if it has ended
    /// already.
    pub(crate) fn abort(&self, open: &Open) -> Progress {
        let _garbage = hold_garbage_back();
        let mut book = self.book();
        if !book.open.iter().any(|running| running.number == open.number) {
            return Progress::NONE;
        }
        self.drop_one(&mut book, open.number);
        Progress::MADE
    }

    /// No replace begins any more, and the streaming ones are dropped.
    pub(crate) fn close(&self) -> Progress {
        let _garbage = hold_garbage_back();
        let mut book = self.book();
        book.closed = true;
        let streaming: Vec<u64> = book
            .open
            .iter()
            .filter(|running| running.streaming)
            .map(|running| {
                // Release: pairs with `is_cut` (Acquire); publishes that the queue is closed.
                running.cut.store(true, weaken("a cut is shown relaxed", Release));
                running.number
            })
            .collect();
        for number in streaming {
            self.drop_one(&mut book, number);
        }
        Progress::MADE
    }

    fn drop_one(&self, book: &mut Book, number: u64) {
        // I4.
        self.firsts.iter().for_each(|first| first.abort(number));
        pause_point("replaces: first dropped");
        self.batches.remove(&number);
        pause_point("replaces: batch dropped");
        self.strike(book, number);
    }

    /// Whether it was open.
    fn strike(&self, book: &mut Book, number: u64) -> bool {
        let before = book.open.len();
        book.open.retain(|running| running.number != number);
        self.publish_open(book);
        book.open.len() < before
    }

    fn publish_open(&self, book: &Book) {
        let oldest = book.open.first().map_or(NONE_OPEN, |running| running.number);
        // Release: pairs with `oldest_open` and `running` (Acquire); publishes what an ended replace has appended, and
        // the close that has cut one.
        self.oldest_open.store(oldest, weaken("the oldest is shown relaxed", Release));
        pause_point("replaces: oldest published");
        let publish = weaken("running is shown relaxed", Release);
        self.running.store(book.open.iter().any(|running| !running.streaming), publish);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_scope(&self, scope: Option<usize>) -> &[First] {
        match scope {
            Some(scope) => &self.firsts[scope..=scope],
            None => &self.firsts,
        }
    }

    // ---- what is owed

    /// A fact of this replace is about to be pushed.
    pub(crate) fn owe(&self, number: u64) {
        self.batches.with(&number, Batch::owe);
    }

    /// It was not pushed, or was merged into another undelivered one that owes the same.
    pub(crate) fn release(&self, number: u64) -> Progress {
        self.discharge(&Debt { replace: number, ..BIAS })
    }

    /// Whether somebody may still ask for this replace.
    pub(crate) fn is_awaited(&self, number: u64) -> bool {
        self.batches.contains(&number)
    }

    /// The lease that took these facts ended well.
    #[inline(always)]
    pub(crate) fn complete(&self, debts: &Debts) -> Progress {
        debts.iter().fold(Progress::NONE, |progress, debt| progress | self.discharge(debt))
    }

    /// The lease ended in some way, and the facts come back. Forgets what nobody asks for any more, so that a key that
    /// always comes back owes no more replaces than there are batches.
    pub(crate) fn deliver(&self, debts: &mut Debts) -> Progress {
        let mut progress = Progress::NONE;
        debts.retain(|debt| {
            let undelivered = std::mem::take(&mut debt.undelivered);
            let last = self.batches.with(&debt.replace, |batch| batch.deliver(undelivered));
            progress |= Progress(last == Some(true));
            last.is_some()
        });
        progress
    }

    /// The facts were discarded.
    pub(crate) fn fail(&self, debts: &Debts) -> Progress {
        debts.iter().fold(Progress::NONE, |progress, debt| {
            progress | Progress(self.batches.with(&debt.replace, Batch::fail).is_some())
        })
    }

    /// Nobody asks for this replace any more. The first of a scope is kept until it is complete.
    pub(crate) fn forget(&self, number: u64) {
        if !self.is_first(number) {
            self.batches.remove(&number);
        }
    }

    fn discharge(&self, debt: &Debt) -> Progress {
        let last = self.batches.with(&debt.replace, |batch| batch.discharge(debt)) == Some(true);
        if last {
            self.settle(debt.replace);
        }
        Progress(last)
    }

    /// I3.
    fn settle(&self, number: u64) {
        let early = planted("the batch goes before the first sync");
        if early {
            self.batches.remove(&number);
        }
        pause_point("replaces: all completed");
        self.firsts.iter().for_each(|first| first.settle(number));
        // Release: pairs with `is_complete` (Acquire); publishes what the consumers did.
        self.settled.fetch_add(1, weaken("a completion is shown relaxed", Release));
        pause_point("replaces: first sync");
        if !early {
            self.batches.remove(&number);
        }
    }

    // ---- questions

    /// A producer made a change: that decides the first sync if nothing has. Whether the queue has synced just now.
    #[inline]
    pub(crate) fn change(&self) -> bool {
        !self.scoped && self.firsts[0].change()
    }

    /// Whether it is the first of a scope, and that has not synced.
    pub(crate) fn is_first(&self, number: u64) -> bool {
        self.firsts.iter().any(|first| first.state() == State::Replace(number))
    }

    pub(crate) fn owes_first(&self, debts: &Debts) -> bool {
        debts.numbers().any(|number| self.is_first(number))
    }

    /// One load, and one more for each further declared scope.
    pub(crate) fn synced(&self) -> bool {
        self.firsts.iter().all(|first| first.state() == State::Synced)
    }

    pub(crate) fn delivered(&self) -> bool {
        self.firsts.iter().all(|first| self.ask_first(first, Batch::is_delivered))
    }

    /// Whether the first sync can still come after a close.
    pub(crate) fn can_sync(&self) -> bool {
        self.firsts.iter().all(|first| self.ask_first(first, |batch| !batch.is_failed()))
    }

    /// What `ask` says of the first replace's batch; yes if the scope has synced.
    fn ask_first(&self, first: &First, ask: impl Fn(&Batch) -> bool) -> bool {
        let mut state = first.state();
        loop {
            let number = match state {
                State::Undecided => return false,
                State::Synced => return true,
                State::Replace(number) => number,
            };
            if let Some(answer) = self.batches.with(&number, &ask) {
                return answer;
            }
            // The word has changed since (I3, I4): at most once for each replace that begins.
            state = first.newest_state();
        }
    }

    /// Whether everything that a committed replace appended is completed; none if it can no longer be.
    pub(crate) fn is_complete(&self, number: u64) -> Option<bool> {
        match self.batches.with(&number, Batch::is_failed) {
            None => {
                // Acquire: pairs with `settle` (Release). A read-modify-write does not read an old value.
                self.settled.fetch_add(0, weaken("a relaxed answer", Acquire));
                Some(true)
            }
            Some(true) => None,
            Some(false) => Some(false),
        }
    }
}
