//! What leads to a segment: its index, and which of its lives is meant.

use crate::slab::Index;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{planted, weaken};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u64);

impl Link {
    /// In `first` and `last` before the first push.
    pub(super) const NONE: Link = Link(!0 << 32);

    #[inline]
    pub(super) fn new(life: u32, index: Index) -> Self {
        Link(u64::from(life) << 32 | u64::from(index.get()))
    }

    /// From a segment of this life, to none.
    pub(super) fn nowhere(life: u32) -> Self {
        Link(u64::from(life) << 32)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn life(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(super) fn index(self) -> Option<Index> {
        Index::new(self.0 as u32)
    }

    #[inline(always)]
    pub(super) fn load(place: &AtomicU64) -> Self {
        // Acquire: pairs with `swap` (Release); publishes the segment as it was when its life began.
        Link(place.load(weaken("a link is read by a relaxed load", Acquire)))
    }

    /// Whether the place held this link and holds the other now. Links of earlier lives are not there any more (L1).
    pub(super) fn swap(self, place: &AtomicU64, new: Self) -> bool {
        let mut old = self.0;
        let now = || place.load(Relaxed);
        if planted("links of any life") && now() as u32 == old as u32 {
            old = now();
        }
        // Release: pairs with `load` (Acquire); publishes the segment, as this thread made it or has it from another. Relaxed: a
        // failure says only that another has written the place.
        let publish = weaken("a link is written by a relaxed exchange", Release);
        place.compare_exchange(old, new.0, publish, Relaxed).is_ok()
    }
}
