//! More buckets, and fewer.

use super::directory::{FIRST, MOST, begin};
use super::extent::{Extent, Phase};
use super::list::List;
use super::{Node, Table};
use crate::slab::Slab;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, CHECKED, pause_point, planted, weaken};

/// A table with this many buckets for a node, or more, shrinks. It grows at fewer than one, so half of them is enough for long.
const SPARSE: usize = 8;

/// One call unlinks so many buckets at most.
const STEP: u32 = if CHECKED { 1 } else { 64 };

impl Table {
    /// Goes on with the shrinking that is under way, or begins one, if there are few nodes for so many buckets. Does a bounded
    /// piece of it; whoever removes nodes calls it now and then.
    ///
    /// `len` says roughly how many nodes there are; it is asked once at most.
    #[inline]
    pub(crate) fn shrink<N: Node>(&self, nodes: &Slab<N>, len: impl FnOnce() -> usize, guard: &Guard) {
        // Acquire: as in `bucket`: this call hands on what it reads.
        let extent = self.extent(Acquire);
        let is_due = match extent.phase() {
            Phase::Steady => {
                extent.buckets() > FIRST
                    && len().saturating_mul(SPARSE) < extent.buckets() as usize
                    && self.is_over(extent)
            }
            Phase::Leaving | Phase::Resting => self.is_over(extent),
            Phase::Unlinking | Phase::Freeing => true,
        };
        if is_due {
            self.step(extent, &self.list(nodes, guard));
        }
    }

    #[cold]
    fn step<N: Node>(&self, extent: Extent, list: &List<'_, N>) {
        match extent.phase() {
            Phase::Steady => {
                let halved = extent.halved();
                if self.change(extent, halved) {
                    pause_point("shrink: begun");
                    self.begin_grace(halved, list.guard);
                }
            }
            Phase::Leaving => {
                let unlinking = extent.at(Phase::Unlinking);
                if self.change(extent, unlinking) {
                    pause_point("shrink: left");
                    self.unlink(unlinking, list);
                }
            }
            Phase::Unlinking => _ = self.unlink(extent, list),
            Phase::Resting => self.settle(extent, list.guard),
            Phase::Freeing => self.free(extent, list.guard),
        }
    }

    /// Doubles the count of buckets, if there is memory for them. Helps on a shrinking first where it must not be cut off.
    #[cold]
    pub(super) fn grow<N: Node>(&self, list: &List<'_, N>) {
        loop {
            // Acquire: as in `bucket`: this call hands on what it reads.
            let extent = self.extent(Acquire);
            match extent.phase() {
                Phase::Unlinking => {
                    if !self.unlink(extent, list) {
                        return;
                    }
                }
                Phase::Freeing => self.free(extent, list.guard),
                Phase::Steady | Phase::Leaving | Phase::Resting => {
                    let buckets = extent.buckets();
                    // What is doomed is there, or the exchange fails, and must not be provided anew (I10).
                    if buckets < MOST && (extent.dooms(buckets) || self.directory.provide(buckets)) {
                        pause_point("grow: provided");
                        // A failure says that somebody else has changed the extent: maybe doubled it.
                        self.change(extent, extent.doubled());
                    }
                    return;
                }
            }
        }
    }

    /// Unlinks some of the doomed buckets. Returns whether there are no more.
    fn unlink<N: Node>(&self, extent: Extent, list: &List<'_, N>) -> bool {
        // As many as there are before them.
        let (first, count) = (begin(extent.doomed()), begin(extent.doomed()));
        // Acquire: pairs with the exchange below (Release); what others have unlinked.
        let mut done = self.unlinked.load(Acquire);
        if done < count {
            let end = count.min(done + STEP);
            (done..end).for_each(|at| list.unlink(first + at));
            pause_point("shrink: unlinked");
            // Release: pairs with the load above; publishes marks and links. Acquire: what others have unlinked, if it fails.
            done = match self.unlinked.compare_exchange(done, end, AcqRel, Acquire) {
                Ok(_) => end,
                Err(now) => now,
            };
        }
        if done < count {
            return false;
        }
        let resting = extent.resting();
        if self.change(extent, resting) {
            pause_point("shrink: resting");
            self.begin_grace(resting, list.guard);
        }
        true
    }

    /// Nobody has anything to do with the doomed buckets any more: they are free to be used again, or to be freed.
    fn settle(&self, extent: Extent, guard: &Guard) {
        // Relaxed: published by the exchanges below. No later shrinking counts while this call runs (I9).
        self.unlinked.store(0, Relaxed);
        if extent.mask() >= begin(extent.doomed()) {
            self.change(extent, extent.at(Phase::Steady));
            return;
        }
        let freeing = extent.at(Phase::Freeing);
        if self.change(extent, freeing) {
            pause_point("shrink: freeing");
            self.free(freeing, guard);
        }
    }

    fn free(&self, extent: Extent, guard: &Guard) {
        // Acquire: as in `bucket`. It stays behind the load of the array, which is Acquire too.
        self.directory.vacate(extent.doomed(), || self.extent(Acquire) == extent, guard);
        pause_point("shrink: freed");
        self.change(extent, extent.at(Phase::Steady));
    }

    /// The callback may run when the table is gone, so it touches nothing of it.
    fn begin_grace(&self, extent: Extent, guard: &Guard) {
        let (over, term) = (Arc::clone(&self.over), extent.term());
        // Release: pairs with `is_over` (Acquire); what was done under the guards that have ended.
        let end = move || over.store(term, Release);
        let skipped = match extent.phase() {
            Phase::Leaving => planted("the doomed are not left before they are unlinked"),
            _ => planted("the doomed do not rest"),
        };
        if skipped {
            end();
            return;
        }
        guard.defer(end);
        // Soon, and on the side of whoever removes.
        guard.flush();
    }

    /// Whether the last grace period that was begun is over.
    fn is_over(&self, extent: Extent) -> bool {
        // Acquire: pairs with the callback's store (Release).
        self.over.load(Acquire) == extent.term()
    }

    fn change(&self, from: Extent, to: Extent) -> bool {
        // Release: pairs with `extent` (Acquire); publishes a new array, or what was done in the phase before. Relaxed: a
        // failure says that somebody else was faster.
        let publish = weaken("the count is doubled relaxed", Release);
        self.extent.compare_exchange(from.word(), to.word(), publish, Relaxed).is_ok()
    }
}
