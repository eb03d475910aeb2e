//! More buckets, and fewer.

use super::directory::{FIRST, MOST, begin};
use super::extent::{Extent, Phase};
use super::list::List;
use super::{Node, Table};
use crate::slab::Slab;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
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
        // Acquire: as in `bucket`. No model misses it: who finds a phase that a grace period has led to has begun after that was
        // deferred, and the fences of both order what this call reads; marking a bucket acquires what was done to its link.
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
            // Acquire: as in `bucket`; that an array has gone, too, which this call would have to provide anew.
            let extent = self.extent(weaken("who grows reads the count relaxed", Acquire));
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
        // Acquire, here and at a failed exchange: pairs with the exchange below (Release); what others have unlinked.
        let acquire = weaken("what others have unlinked is read relaxed", Acquire);
        let mut done = self.unlinked.load(acquire);
        if done < count {
            let end = count.min(done + STEP);
            (done..end).for_each(|at| list.unlink(first + at));
            pause_point("shrink: unlinked");
            // Release: pairs with the load above, which has acquired what this replaces; publishes marks and links.
            let publish = weaken("buckets are unlinked relaxed", Release);
            done = match self.unlinked.compare_exchange(done, end, publish, acquire) {
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
        // Relaxed: it stays behind the load of the array, which is Acquire: if that is a later array, this is a later extent.
        // What the same extent publishes this call has.
        self.directory.vacate(extent.doomed(), || self.extent(Relaxed) == extent, guard);
        pause_point("shrink: freed");
        self.change(extent, extent.at(Phase::Steady));
    }

    /// The callback may run when the table is gone, so it touches nothing of it.
    fn begin_grace(&self, extent: Extent, guard: &Guard) {
        let (over, term) = (Arc::clone(&self.over), extent.term());
        // Release: pairs with `is_over` (Acquire); what was done under the guards that have ended. No model misses it: what
        // must come later are writes, and in loom nobody reads or overtakes a write that is not there yet.
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
        // Acquire: pairs with the callback's store (Release); as there.
        self.over.load(Acquire) == extent.term()
    }

    fn change(&self, from: Extent, to: Extent) -> bool {
        // Release: pairs with `extent` (Acquire); publishes a new array, or what was done in the phase before. Relaxed: a
        // failure says that somebody else was faster.
        let publish = weaken("the count is doubled relaxed", Release);
        self.extent.compare_exchange(from.word(), to.word(), publish, Relaxed).is_ok()
    }
}
