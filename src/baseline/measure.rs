//! How many keys are in line, and at most; and since when each waits, where that is measured.

use std::time::Instant;

use crate::clock::Clock;
use crate::stats::Stats;

use super::entry::{Entry, Times};
use super::lines::Place;
use super::state::State;

pub(super) struct Measure {
    is_on: bool,
    in_line: usize,
    most: usize,
}

impl Measure {
    pub(super) fn new(is_on: bool) -> Self {
        Measure { is_on, in_line: 0, most: 0 }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// None where it is not measured.
    #[inline]
    pub(super) fn now(&self, clock: &Clock) -> Option<Box<Instant>> {
        self.is_on.then(|| Box::new(clock.now()))
    }

    /// Before an entry goes in line, unless it stands in the other one.
    #[inline]
    pub(super) fn enter<V>(&mut self, entry: &mut Entry<V>, clock: &Clock) {
        if self.is_on {
            self.count(entry, clock);
        }
    }

    #[cold]
    #[inline(never)]
    fn count<V>(&mut self, entry: &mut Entry<V>, clock: &Clock) {
        let due = match entry.place {
            Place::Nowhere => None,
            Place::Delayed(until, _) => Some(until),
            Place::First(_) | Place::Background(_) => return,
        };
        if let (Some(due), None) = (due, &entry.waits) {
            entry.waits = Some(Box::new(clock.now().min(due)));
        }
        self.in_line += 1;
        self.most = self.most.max(self.in_line);
    }

    /// An entry is taken out of its line. How long it has waited, where that is measured.
    #[inline]
    pub(super) fn leave<V>(&mut self, entry: &mut Entry<V>, clock: &Clock) -> Option<Box<Times>> {
        if self.is_on { self.discount(entry, clock) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn discount<V>(&mut self, entry: &mut Entry<V>, clock: &Clock) -> Option<Box<Times>> {
        self.in_line -= 1;
        let waited = entry.waits.take().map(|since| clock.now().saturating_duration_since(*since));
        waited.map(|waited| Box::new(Times { waited: Some(waited), began: None }))
    }

    /// Nothing is in line.
    pub(super) fn clear(&mut self) {
        self.in_line = 0;
    }
}

impl<K, V> State<K, V> {
    pub(super) fn stats(&self) -> Stats {
        let (is_on, now) = (self.measure.is_on, self.clock.now());
        let mut stats = Stats {
            leased: self.leased,
            merged: self.merged,
            high_water: is_on.then_some(self.measure.most),
            ..Stats::default()
        };
        for (_, _, entry) in self.entries.iter() {
            let mut since = entry.waits.as_deref().copied();
            match entry.place {
                Place::Nowhere => stats.dirty += usize::from(entry.lease.is_some() && entry.is_pending()),
                Place::First(_) | Place::Background(_) => stats.depth += 1,
                Place::Delayed(until, _) if until <= now => {
                    stats.depth += 1;
                    since = is_on.then_some(until);
                }
                Place::Delayed(..) => stats.delayed += 1,
            }
            if let Some(since) = since {
                stats.waits(now.saturating_duration_since(since));
            }
        }
        stats
    }
}
