//! Where keys stand while they wait: the line, the background line, and delayed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::table::Slot;

/// The background line is served at least every so many pops.
const BACKGROUND_TURN: u32 = 16;

/// Where an entry stands. Tickets are unique, so that what an entry left behind in a line is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no line: leased, or about to go in line.
    Nowhere,
    First(u64),
    Background(u64),
    Delayed(Instant, u64),
}

#[derive(Default)]
pub(super) struct Lines {
    first: VecDeque<(Slot, u64)>,
    /// May hold keys that have moved to the first line since.
    background: VecDeque<(Slot, u64)>,
    delayed: BTreeMap<(Instant, u64), Slot>,
    tickets: u64,
    /// Pops from the first line since the last from the background line.
    since_background: u32,
}

impl Lines {
    pub(super) fn push_first(&mut self, slot: Slot) -> Place {
        let ticket = self.ticket();
        self.first.push_back((slot, ticket));
        Place::First(ticket)
    }

    pub(super) fn push_background(&mut self, slot: Slot) -> Place {
        let ticket = self.ticket();
        self.background.push_back((slot, ticket));
        Place::Background(ticket)
    }

    /// Back to where it stood: for a lease that never reached anybody.
    pub(super) fn push_front(&mut self, slot: Slot) -> Place {
        let ticket = self.ticket();
        self.first.push_front((slot, ticket));
        Place::First(ticket)
    }

    pub(super) fn delay(&mut self, slot: Slot, until: Instant) -> Place {
        let ticket = self.ticket();
        self.delayed.insert((until, ticket), slot);
        Place::Delayed(until, ticket)
    }

    pub(super) fn undelay(&mut self, until: Instant, ticket: u64) {
        self.delayed.remove(&(until, ticket));
    }

    /// The key whose turn it is, which stays in line. `place` says where an entry stands now.
    pub(super) fn peek(&mut self, place: impl Fn(Slot) -> Place) -> Option<Slot> {
        while let Some(&(slot, ticket)) = self.background.front() {
            // The slot may be of another key by now; tickets are not used twice.
            if place(slot) == Place::Background(ticket) {
                break;
            }
            self.background.pop_front();
        }
        let line = if self.serves_background() { &self.background } else { &self.first };
        line.front().map(|&(slot, _)| slot)
    }

    /// Takes the key that [`peek`](Self::peek) showed out of its line.
    pub(super) fn pop(&mut self) {
        if self.serves_background() {
            self.background.pop_front();
            self.since_background = 0;
        } else {
            self.first.pop_front();
            self.since_background += u32::from(!self.background.is_empty());
        }
    }

    fn serves_background(&self) -> bool {
        !self.background.is_empty() && (self.first.is_empty() || self.since_background >= BACKGROUND_TURN - 1)
    }

    /// When the first delayed key is due.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|(&(until, _), _)| until)
    }

    /// Takes a key out whose time has come; all of them, one by one, if `now` is none.
    pub(super) fn pop_due(&mut self, now: Option<Instant>) -> Option<Slot> {
        let first = self.delayed.first_entry()?;
        (now.is_none_or(|now| first.key().0 <= now)).then(|| first.remove())
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
}
