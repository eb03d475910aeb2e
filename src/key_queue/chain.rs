//! The list of segments: where it begins and ends, how it grows, and how what was used up leaves it.

use crate::sync::atomic::AtomicU64;
use crate::sync::{CachePadded, pause_point, planted};

use super::Handle;
use super::link::Link;
use super::pool::Pool;
use super::segment::Live;

#[derive(Debug)]
pub(super) struct Chain<const N: usize> {
    /// Where handles are popped.
    first: CachePadded<AtomicU64>,
    /// Where handles are pushed, or a segment before that.
    last: CachePadded<AtomicU64>,
    pool: Pool<N>,
}

impl<const N: usize> Chain<N> {
    /// Without a segment.
    pub(super) fn new() -> Self {
        let place = || CachePadded::new(AtomicU64::new(Link::NONE.bits()));
        Chain { first: place(), last: place(), pool: Pool::new() }
    }

    /// None if there was no push yet.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<Live<'_, N>> {
        self.live(Link::load(&self.first))
    }

    #[inline(always)]
    pub(super) fn last(&self) -> Live<'_, N> {
        self.live(Link::load(&self.last)).unwrap_or_else(|| self.begin())
    }

    #[inline(always)]
    fn live(&self, link: Link) -> Option<Live<'_, N>> {
        link.index().map(|index| Live { segment: self.pool.get(index), link })
    }

    /// Makes the first segment, unless another has.
    #[cold]
    fn begin(&self) -> Live<'_, N> {
        if Link::load(&self.first) == Link::NONE {
            let index = self.pool.take();
            let new = Link::new(self.pool.get(index).revive(&[]), index);
            pause_point("push: first segment ready");
            if !Link::NONE.swap(&self.first, new) && !planted("who loses the beginning keeps it") {
                self.pool.give(index);
            }
        }
        pause_point("push: first segment there");
        // Nothing is pushed as long as `last` is nowhere, so `first` is where the list begins until this has succeeded.
        Link::NONE.swap(&self.last, Link::load(&self.first));
        self.live(Link::load(&self.last)).expect("a chain has a first and a last segment")
    }

    /// Sees to it that there is a segment after this one, which is full (I4), and that `last` is not here any more. Returns
    /// whether `handles`, up to `N`, stand in the new one.
    #[cold]
    pub(super) fn extend(&self, full: &Live<'_, N>, handles: &[Handle]) -> bool {
        let nowhere = Link::nowhere(full.link.life());
        let mut linked = false;
        let mut next = Link::load(&full.segment.next);
        if next == nowhere {
            pause_point("push: segment full");
            let index = self.pool.take();
            pause_point("push: segment taken");
            let new = Link::new(self.pool.get(index).revive(handles), index);
            pause_point("push: segment ready");
            linked = nowhere.swap(&full.segment.next, new);
            if !linked {
                self.pool.give(index);
                linked = planted("who loses the link thinks it won");
            }
            pause_point("push: segment linked");
            next = Link::load(&full.segment.next);
        }
        // If the life of `full` is over, `last` has left it (I5), and this fails whatever `next` is.
        full.link.swap(&self.last, next);
        linked
    }

    /// Moves `first` on from this segment, whose cells are all popped, and frees it, unless another has. False if there is
    /// none after it.
    #[cold]
    pub(super) fn remove_first(&self, used: &Live<'_, N>) -> bool {
        let next = Link::load(&used.segment.next);
        if next == Link::nowhere(used.link.life()) {
            return false;
        }
        pause_point("pop: used up");
        if !planted("last is left behind") {
            // I5: or else pushers would find a free segment by `last`.
            used.link.swap(&self.last, next);
        }
        pause_point("pop: last moved");
        // As in `extend`: if the life is over, both exchanges fail.
        if used.link.swap(&self.first, next) || planted("everybody frees") {
            pause_point("pop: first moved");
            if !planted("nobody frees") {
                self.pool.give(used.link.index().expect("it leads to a segment"));
            }
        }
        true
    }

    /// How many segments there are, how many are free, and how many in line; at rest.
    #[cfg(test)]
    pub(super) fn census(&self) -> (u32, u32, u32) {
        let (made, free) = self.pool.census();
        let Some(mut at) = self.first() else { return (made, free, 0) };
        let mut lined = 1;
        while Link::load(&at.segment.next) != Link::nowhere(at.link.life()) {
            lined += 1;
            assert!(lined <= made, "in line twice");
            at = self.live(Link::load(&at.segment.next)).expect("it leads to a segment");
        }
        (made, free, lined)
    }
}
