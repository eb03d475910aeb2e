//! The segments of a line, all there ever were, and a stack of those that are free.
//!
//! Not the lists of the slab itself: who refills those has all that is free in its hands for a moment, and others would make
//! new ones meanwhile. Here one is made only if all others are in line or in the hands of somebody who has just taken one.
//!
//! # Invariants
//!
//! - **P1** A segment is free, in line, or in the hands of one thread, which took it or moved `first` off it.
//! - **P2** `head` is changed by read-modify-writes only. So what any of them released is acquired by whoever reads a later value.
//! - **P3** Each take raises the tag of `head` by one. While it is the same nothing was taken, so one that is on top again was
//!   there all along, and what follows it is what was read. The segment whose link a late taker reads may be in use; that
//!   is harmless, as its exchange fails. (Only 2^32 takes while one thread stands between two instructions would deceive it.)

use crate::slab::{Index, Slab};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{CachePadded, pause_point, planted, weaken, width};

use super::segment::Segment;

/// Where the tag begins (P3).
const TAG: u32 = 32;
const INDEX: u64 = u32::MAX as u64;

#[derive(Debug)]
pub(super) struct Pool<const N: usize> {
    slab: Slab<Segment<N>>,
    /// The upper half is the tag, the lower the index of the first free segment.
    head: CachePadded<AtomicU64>,
}

impl<const N: usize> Pool<N> {
    /// Makes no segment yet.
    pub(super) fn new() -> Self {
        Pool { slab: Slab::new(), head: CachePadded::new(AtomicU64::new((width::FIRST as u64) << TAG)) }
    }

    #[inline]
    pub(super) fn get(&self, index: Index) -> &Segment<N> {
        self.slab.get(index)
    }

    /// A free segment, else a new one. Ends the process if there is no memory for it. What was done to it before it was given
    /// happens before.
    pub(super) fn take(&self) -> Index {
        // Acquire, here and at a failed exchange: pairs with `give` (Release); publishes the link, and the segment (P2).
        let acquire = weaken("the free ones are read by a relaxed load", Acquire);
        let mut head = self.head.load(acquire);
        while let Some(index) = Index::new(head as u32) {
            // Relaxed: `head` has acquired it, or else the exchange fails (P3).
            let next = self.get(index).free.load(Relaxed);
            pause_point("take a segment: link read");
            let tag = (head >> TAG) as u32;
            let raised = if planted("a take leaves the tag") { tag } else { width::after(tag) };
            let new = u64::from(raised) << TAG | u64::from(next);
            // Relaxed: the load that read `head` has acquired; nothing is published. It fails if others took or gave.
            match self.head.compare_exchange(head, new, Relaxed, acquire) {
                Ok(_) => return index,
                Err(now) => head = now,
            }
        }
        self.slab.take()
    }

    /// Frees a segment that the caller took, or moved `first` off (P1).
    pub(super) fn give(&self, index: Index) {
        let free = &self.get(index).free;
        // Relaxed: the exchange finds out if it is old.
        let mut head = self.head.load(Relaxed);
        loop {
            // Relaxed: the exchange publishes it.
            free.store(head as u32, Relaxed);
            pause_point("give a segment: link written");
            let new = head & !INDEX | u64::from(index.get());
            // Release: pairs with `take` (Acquire); publishes the link and what was done to the segment. Relaxed: on failure
            // the head is only compared again. It fails if others took or gave.
            let publish = weaken("a segment is given by a relaxed exchange", Release);
            match self.head.compare_exchange(head, new, publish, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// How many segments there are, and how many are free; at rest.
    #[cfg(test)]
    pub(super) fn census(&self) -> (u32, u32) {
        let made = self.slab.allocated();
        let mut next = Index::new(self.head.load(Acquire) as u32);
        let mut free = 0;
        while let Some(index) = next {
            free += 1;
            assert!(free <= made, "free twice");
            next = Index::new(self.get(index).free.load(Relaxed));
        }
        (made, free)
    }
}
