//! The list of segments, and all that is `unsafe` about it: what a link leads to is alive.
//!
//! Nothing outside can break this. Segments come in as [`Owned`] and are lent for as long as a guard lives, and each
//! call looks up by itself what follows what.

#![expect(unsafe_code, reason = "links are pointers to memory that the epoch collector frees")]

use std::ptr;

use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::epoch::Guard;
use crate::sync::{CachePadded, bury, pause_point, planted, weaken};

use super::segment::{Owned, Segment};

/// Leads to a segment, or nowhere yet.
#[derive(Debug)]
pub(super) struct Link<const N: usize>(AtomicPtr<Segment<N>>);

impl<const N: usize> Link<N> {
    pub(super) fn null() -> Self {
        Link(AtomicPtr::new(ptr::null_mut()))
    }

    fn to(segment: *mut Segment<N>) -> Self {
        Link(AtomicPtr::new(segment))
    }

    fn load<'g>(&'g self, _guard: &'g Guard) -> Option<&'g Segment<N>> {
        // Acquire: pairs with `set` and `advance` (Release); publishes the segment's first state.
        let segment = self.0.load(weaken("a link is read by a relaxed load", Acquire));
        // SAFETY: by I6 a segment is freed only when no guard is alive that was when it was retired, and from then on no
        // link that can be reached leads to it. So it is alive as long as `_guard`, or the link was null. The Acquire
        // makes its initialisation visible. Only shared references exist while it is linked.
        let segment = unsafe { segment.as_ref() };
        if let Some(segment) = segment {
            segment.canary.touch();
        }
        segment
    }

    /// Sets the link if it leads nowhere.
    fn set(&self, segment: Owned<N>) -> Result<(), Owned<N>> {
        let segment = into_raw(segment);
        // Release: pairs with `load` (Acquire); publishes the segment. Relaxed: a failure says only that there is one; who
        // needs it loads it. Another pusher made it fail.
        let publish = weaken("a segment is linked by a relaxed exchange", Release);
        match self.0.compare_exchange(ptr::null_mut(), segment, publish, Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: it came from `into_raw` above and nobody has seen it.
            Err(_) => Err(unsafe { from_raw(segment) }),
        }
    }

    /// Moves the link from `segment` to the next, if it leads there. Returns whether it was this call.
    fn advance(&self, segment: &Segment<N>, next: &Segment<N>) -> bool {
        // Release: pairs with `load` (Acquire); publishes `next`, as this thread may have it from another one. Relaxed: a
        // failure says only that somebody else has moved it.
        let (from, to) = (ptr::from_ref(segment).cast_mut(), ptr::from_ref(next).cast_mut());
        self.0.compare_exchange(from, to, weaken("a relaxed advance", Release), Relaxed).is_ok()
    }
}

fn into_raw<const N: usize>(segment: Owned<N>) -> *mut Segment<N> {
    Box::into_raw(segment.0).cast()
}

/// # Safety
///
/// `segment` came from [`into_raw`], and nobody uses it any more or ever gets it.
unsafe fn from_raw<const N: usize>(segment: *mut Segment<N>) -> Owned<N> {
    // SAFETY: the caller's promise; the cast undoes the one in `into_raw`.
    Owned(unsafe { Box::from_raw(segment.cast()) })
}

#[derive(Debug)]
pub(super) struct Chain<const N: usize> {
    /// Where handles are popped.
    first: CachePadded<Link<N>>,
    /// Where handles are pushed, or a segment before that.
    last: CachePadded<Link<N>>,
}

impl<const N: usize> Chain<N> {
    pub(super) fn new(segment: Owned<N>) -> Self {
        let segment = into_raw(segment);
        Chain { first: CachePadded::new(Link::to(segment)), last: CachePadded::new(Link::to(segment)) }
    }

    #[inline]
    pub(super) fn first<'g>(&'g self, guard: &'g Guard) -> &'g Segment<N> {
        self.first.load(guard).expect("a chain has a first segment")
    }

    #[inline]
    pub(super) fn last<'g>(&'g self, guard: &'g Guard) -> &'g Segment<N> {
        self.last.load(guard).expect("a chain has a last segment")
    }

    /// Links `segment` after `last`, unless there is one already. `last` must be full (I4).
    pub(super) fn link(&self, last: &Segment<N>, segment: Owned<N>) -> Result<(), Owned<N>> {
        debug_assert!(last.is_full());
        last.next.set(segment)
    }

    pub(super) fn has_next(&self, segment: &Segment<N>, guard: &Guard) -> bool {
        segment.next.load(guard).is_some()
    }

    /// Moves `last` on if it leads to `segment` and there is a next one.
    pub(super) fn advance_last(&self, segment: &Segment<N>, guard: &Guard) {
        if let Some(next) = segment.next.load(guard) {
            self.last.advance(segment, next);
        }
    }

    /// Moves `first` on if it leads to `segment` and there is a next one, and retires the segment. Returns whether there
    /// is a next one. Every cell of `segment` must be popped.
    #[cold]
    pub(super) fn remove_first(&self, segment: &Segment<N>, guard: &Guard) -> bool {
        let Some(next) = segment.next.load(guard) else { return false };
        pause_point("pop: used up");
        if !planted("last is left behind") {
            // I5: or else a pusher that begins later would find a retired segment by `last`.
            self.last.advance(segment, next);
        }
        pause_point("pop: last moved");
        if self.first.advance(segment, next) || planted("everybody retires") {
            pause_point("pop: first moved");
            let retired = Retired(Link::to(ptr::from_ref(segment).cast_mut()));
            if planted("a segment is freed at once") {
                retired.free();
            } else if !planted("nobody retires") {
                guard.defer(move || retired.free());
                // Here, on a popper's side, and not some day in a pusher's pin. Else each thread would keep dozens.
                guard.flush();
            }
        }
        true
    }
}

impl<const N: usize> Drop for Chain<N> {
    fn drop(&mut self) {
        // Relaxed: by `&mut` all that was done to the queue happened before.
        let mut segment = self.first.0.load(Relaxed);
        while !segment.is_null() {
            // SAFETY: segments from `first` on are not retired (I6) and the `&mut` says that no call runs that could read
            // them; each is met once (I4).
            let owned = unsafe { from_raw(segment) };
            segment = owned.next.0.load(Relaxed);
            bury(owned);
        }
    }
}

/// A segment that `first` was moved off.
struct Retired<const N: usize>(Link<N>);

impl<const N: usize> Retired<N> {
    fn free(self) {
        // Relaxed: the closure was handed to this thread with all that was before.
        let segment = self.0.0.load(Relaxed);
        // SAFETY: only the thread that moved `first` off it makes this value, so once (I6); by I5 and I6 no link that can
        // be reached leads to it, and the collector calls when no guard from before that is alive.
        bury(unsafe { from_raw(segment) });
    }
}
