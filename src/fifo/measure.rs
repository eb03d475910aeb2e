//! What is measured where [`Builder::measure`](crate::Builder::measure) asks for it: since when each key waits, and how many were in line
//! at most.
//!
//! # Invariants
//!
//! - **M1, dated first.** Before an exchange of the word that makes a key wait, or lets it wait on with another generation, its date is
//!   written, and says of which generation it is. So whoever has read a word that waits, and then a date of its generation, knows since
//!   when: to within the calls that run at the time, of which one that loses its exchange may have dated it, too. Any other date is that
//!   of a thread that has stood for so long: then nothing is said of the key until it moves on.
//! - **M2, counted by who moved it.** Whose exchange brings a key in line, or takes it out, counts that, after the exchange: so while
//!   calls run the count may be off by as many, and a high-water mark is missed by no more.

use std::time::Duration;

use crate::stats::Stats;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, pause_point, planted};

use super::DeltaFifo;
use super::entry::Entry;
use super::word::{State, Word};

pub(super) struct Measure {
    /// M2. All calls meet here. It wraps: who takes a key out may be counted first.
    in_line: CachePadded<AtomicU64>,
    most: AtomicU64,
}

/// Since when a key waits, in microseconds of the delays' count, and with which generation (M1).
#[derive(Default)]
pub(super) struct Date(AtomicU64);

const GENERATION_BITS: u32 = 16;
const NANOS: u64 = 1_000;

fn tag(word: Word) -> u64 {
    u64::from(word.generation()) & ((1 << GENERATION_BITS) - 1)
}

impl Date {
    fn set(&self, of: Word, stamp: u64) {
        // Relaxed: published by the exchange that follows.
        self.0.store((stamp / NANOS) << GENERATION_BITS | tag(of), Ordering::Relaxed);
    }

    /// A stamp, if there is one of this generation.
    fn get(&self, of: Word) -> Option<u64> {
        // Relaxed: read after the word, with whose exchange it came (M1).
        let date = self.0.load(Ordering::Relaxed);
        let same = date & ((1 << GENERATION_BITS) - 1) == tag(of) || planted("a date is good for ever");
        same.then_some((date >> GENERATION_BITS) * NANOS)
    }
}

/// Whether it has waited, or will, for a consumer.
fn waits(word: Word) -> bool {
    word.is_pending() && word.state() != State::Delayed
}

fn is_in_line(word: Word) -> bool {
    matches!(word.state(), State::Linking | State::Queued)
}

impl Measure {
    pub(super) fn new() -> Self {
        Measure { in_line: CachePadded::new(AtomicU64::new(0)), most: AtomicU64::new(0) }
    }

    // Relaxed, all: only the count matters (M2).
    fn enter(&self) {
        let now = self.in_line.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if now <= i64::MAX as u64 && self.most.load(Ordering::Relaxed) < now {
            self.most.fetch_max(now, Ordering::Relaxed);
        }
    }

    fn leave(&self) {
        self.in_line.fetch_sub(1, Ordering::Relaxed);
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed) as usize
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    #[inline(always)]
    pub(super) fn is_measured(&self) -> bool {
        self.measure.is_some()
    }

    /// Before an exchange of the word from `word` to `next` (M1).
    #[inline(always)]
    pub(super) fn date(&self, entry: Entry<'_, V>, word: Word, next: Word) {
        if self.measure.is_some() {
            self.date_it(entry, word, next);
        }
    }

    /// After that (M2).
    #[inline(always)]
    pub(super) fn moved(&self, word: Word, next: Word) {
        if let Some(measure) = &self.measure {
            measure_move(measure, word, next);
        }
    }

    /// How long a key has waited, with this word, that its holder has just leased.
    #[inline(always)]
    pub(super) fn waited(&self, entry: Entry<'_, V>, word: Word) -> Option<Duration> {
        if self.measure.is_some() { self.waited_since(entry, word) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn waited_since(&self, entry: Entry<'_, V>, word: Word) -> Option<Duration> {
        let since = entry.date().and_then(|date| date.get(word))?;
        Some(Duration::from_nanos(self.delays.stamp(self.clock.now()).saturating_sub(since)))
    }

    #[cold]
    #[inline(never)]
    fn date_it(&self, entry: Entry<'_, V>, word: Word, next: Word) {
        let Some(date) = entry.date().filter(|_| waits(next)) else { return };
        if !waits(word) {
            let due = word.state() == State::Delayed;
            let now = self.delays.stamp(self.clock.now());
            // Relaxed: written before the word came to Delayed, and not changed as long as it is.
            let since = if due { now.min(entry.cold().note.load(Ordering::Relaxed)) } else { now };
            pause_point("measure: to be dated");
            date.set(next, since);
        } else if word.generation() != next.generation() && !planted("a date stays behind") {
            // It waits on.
            if let Some(since) = date.get(word) {
                date.set(next, since);
            }
        }
    }

    /// What there is. Looks at every entry.
    pub(super) fn gather_stats(&self) -> Stats {
        let now = self.delays.stamp(self.clock.now());
        let mut stats = Stats { high_water: self.measure.as_ref().map(Measure::most), ..Stats::default() };
        self.visit_entries(|entry| {
            let word = entry.word();
            let mut since = entry.date().filter(|_| waits(word)).and_then(|date| date.get(word));
            match word.state() {
                State::Retired | State::Idle => return,
                State::Linking | State::Queued => stats.depth += 1,
                State::Leased => {
                    stats.leased += 1;
                    stats.dirty += usize::from(word.newest().is_some());
                }
                State::Delayed => {
                    // Relaxed: of this delay, if the word is still the same then.
                    let due = entry.cold().note.load(Ordering::Relaxed);
                    if due <= now && entry.is_still(word) {
                        stats.depth += 1;
                        since = entry.date().map(|_| due);
                    } else {
                        stats.delayed += 1;
                    }
                }
            }
            if let Some(since) = since {
                stats.waits(Duration::from_nanos(now.saturating_sub(since)));
            }
        });
        stats
    }
}

#[cold]
#[inline(never)]
fn measure_move(measure: &Measure, word: Word, next: Word) {
    match (is_in_line(word), is_in_line(next)) {
        (false, true) => measure.enter(),
        (true, false) => measure.leave(),
        (true, true) | (false, false) => {}
    }
}
