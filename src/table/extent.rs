//! How many buckets a table has, and how far it has got in having fewer: one word.

use crate::sync::width;

use super::directory::{FIRST, array};

/// The count of buckets less one is in the low half, alone: a search needs nothing else of the word.
///
/// Above it: the phase, the doomed array (I9), and the term of the last grace period that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent(u64);

const PHASE_AT: u32 = 32;
const PHASE: u64 = 0b111 << PHASE_AT;
const ARRAY_AT: u32 = 35;
const ARRAY: u64 = 0x1f << ARRAY_AT;
const TERM_AT: u32 = 40;
const TERMS: u32 = (1 << width::harmless(24)) - 1;

/// See I9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Steady = 0,
    Leaving = 1,
    Unlinking = 2,
    Resting = 3,
    Freeing = 4,
}

impl Extent {
    pub(super) const NEW: Extent = Extent(FIRST as u64 - 1);

    #[inline(always)]
    pub(super) fn of_word(word: u64) -> Self {
        Extent(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The count of buckets less one.
    #[inline(always)]
    pub(super) fn mask(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(super) fn buckets(self) -> u32 {
        self.mask() + 1
    }

    pub(super) fn phase(self) -> Phase {
        match (self.0 & PHASE) >> PHASE_AT {
            0 => Phase::Steady,
            1 => Phase::Leaving,
            2 => Phase::Unlinking,
            3 => Phase::Resting,
            _ => Phase::Freeing,
        }
    }

    /// The array that is to go, or went last.
    pub(super) fn doomed(self) -> usize {
        ((self.0 & ARRAY) >> ARRAY_AT) as usize
    }

    /// Whether the bucket's array is to go.
    pub(super) fn dooms(self, bucket: u32) -> bool {
        self.phase() != Phase::Steady && array(bucket) == self.doomed()
    }

    /// Whether the bucket's array is to go, and everybody who begins sees it so.
    pub(super) fn has_closed(self, bucket: u32) -> bool {
        self.phase() != Phase::Leaving && self.dooms(bucket)
    }

    /// Tells the grace period that was begun last from the one before.
    pub(super) fn term(self) -> u32 {
        (self.0 >> TERM_AT) as u32 & TERMS
    }

    pub(super) fn at(self, phase: Phase) -> Self {
        Extent(self.0 & !PHASE | (phase as u64) << PHASE_AT)
    }

    fn at_next_term(self) -> Self {
        // Wraps: at most one grace period is under way, and two terms in a row are told apart. Who acts on an extent has a guard:
        // while it stands, the period ends that was under way, and one more begins, so two bits would do.
        Extent(self.0.wrapping_add(1 << TERM_AT))
    }

    pub(super) fn doubled(self) -> Self {
        let steady = if self.phase() == Phase::Leaving { self.at(Phase::Steady) } else { self };
        Extent(steady.0 | u64::from(self.buckets()))
    }

    pub(super) fn halved(self) -> Self {
        let mask = self.mask() >> 1;
        let doomed = array(mask + 1) as u64;
        let rest = self.0 & !(ARRAY | u64::from(u32::MAX));
        Extent(rest | doomed << ARRAY_AT | u64::from(mask)).at(Phase::Leaving).at_next_term()
    }

    pub(super) fn resting(self) -> Self {
        self.at(Phase::Resting).at_next_term()
    }
}
