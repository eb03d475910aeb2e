//! The word of a waiter cell: `ticket:48 | pins:13 | state:3`. All that a compare-and-swap must know stands in it.

use crate::sync::width;

/// What a cell is doing. The waiter's own transitions are on the left, a notifier's on the right.
///
/// ```text
///         take over      ┌──────────┐  claim (no wake needed)
///  Free ───────▶ Held ──▶│ Spinning │────────────────────────┐
///   ▲             │ ▲    └────┬─────┘                        ▼
///   │             │ │  sleep  ▼           claim + pin   ┌──────────┐ issue + unpin ┌────────┐
///   │             └─┼──▶ ┌─────────┐ ──────────────────▶│ Notified │──────────────▶│ Issued │
///   │               │    │ Waiting │                    └────┬─────┘               └───┬────┘
///   │   leave       │    └────┬────┘                         │                         │
///   └───────────────┴─────────┴──────────────────────────────┴─────────────────────────┤ no pin left
///   ▲                                                                                  │
///   └──────────────────────────── Left ◀───────────────────────────────────────────────┘ still pinned
///        the last to unpin
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Belongs to nobody.
    Free = 0,
    /// Belongs to a waiter that is not registered: it may write the handle.
    Held = 1,
    /// Registered, awake, watching this word: a claim needs no wake.
    Spinning = 2,
    /// Registered; asleep, or about to be.
    Waiting = 3,
    /// Claimed; the claimer, or whoever helps it, still owes the wake.
    Notified = 4,
    /// Claimed and woken; the waiter has not come back yet.
    Issued = 5,
    /// The waiter has gone, and somebody still reads the handle.
    Left = 6,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

const STATE: u64 = 0b111;
const PIN: u64 = 1 << 3;
const PINS: u64 = (1 << 13) - 1;
const TICKET_SHIFT: u32 = 16;
const TICKETS: u64 = (1 << width::harmless(48)) - 1;

/// No more threads than this read one handle at a time; a further one leaves the wake to them.
pub(super) const MAX_PINS: u64 = PINS;

impl Word {
    pub(super) const FREE: Word = Word(State::Free as u64);

    pub(super) fn new(ticket: u64, state: State) -> Self {
        Word(((ticket & TICKETS) << TICKET_SHIFT) | state as u64)
    }

    pub(super) fn state(self) -> State {
        match self.0 & STATE {
            0 => State::Free,
            1 => State::Held,
            2 => State::Spinning,
            3 => State::Waiting,
            4 => State::Notified,
            5 => State::Issued,
            6 => State::Left,
            _ => unreachable!("no such state"),
        }
    }

    pub(super) fn pins(self) -> u64 {
        (self.0 >> PIN.trailing_zeros()) & PINS
    }

    pub(super) fn ticket(self) -> u64 {
        self.0 >> TICKET_SHIFT
    }

    /// Whether it took its ticket earlier. Tickets wrap: only their distance counts. Nothing but the order depends on them: who
    /// claims a registration that has come in place of an equal one wakes a waiter as good.
    pub(super) fn is_before(self, other: Word) -> bool {
        let distance = other.ticket().wrapping_sub(self.ticket()) & TICKETS;
        distance != 0 && distance <= TICKETS / 2
    }

    pub(super) fn to(self, state: State) -> Self {
        Word((self.0 & !STATE) | state as u64)
    }

    pub(super) fn pin(self) -> Self {
        debug_assert!(self.pins() < MAX_PINS);
        Word(self.0 + PIN)
    }

    pub(super) fn unpin(self) -> Self {
        debug_assert!(self.pins() > 0);
        Word(self.0 - PIN)
    }

    /// Claimed by nobody yet.
    pub(super) fn is_open(self) -> bool {
        matches!(self.state(), State::Spinning | State::Waiting)
    }

    /// Claimed, and the waiter has not taken note of it.
    pub(super) fn is_notified(self) -> bool {
        matches!(self.state(), State::Notified | State::Issued)
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} #{} pins {}", self.state(), self.ticket(), self.pins())
    }
}

#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let states = [
            State::Free,
            State::Held,
            State::Spinning,
            State::Waiting,
            State::Notified,
            State::Issued,
            State::Left,
        ];
        for ticket in [0, 1, TICKETS - 1, TICKETS] {
            for state in states {
                let word = Word::new(ticket, state);
                assert_eq!((word.ticket(), word.state(), word.pins()), (ticket, state, 0));
                let mut pinned = word;
                for pins in 1..=MAX_PINS {
                    pinned = pinned.pin();
                    assert_eq!((pinned.ticket(), pinned.state(), pinned.pins()), (ticket, state, pins));
                }
                assert_eq!(pinned.to(State::Left).unpin().pins(), MAX_PINS - 1);
            }
        }
    }

    #[test]
    fn tickets_wrap() {
        let at = |ticket| Word::new(ticket, State::Waiting);
        assert!(at(1).is_before(at(2)) && !at(2).is_before(at(1)) && !at(1).is_before(at(1)));
        assert!(at(TICKETS).is_before(at(0)) && !at(0).is_before(at(TICKETS)));
    }
}
