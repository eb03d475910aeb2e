//! Keys that wait for their time: an ordered map from time and handle, which any number of threads change at once.
//!
//! # Invariants
//!
//! - **I1, counted.** `len` is never less than the number of handles in the map: it is raised before one is inserted
//!   and lowered after it was removed. So whoever comes after an `add` does not miss what it added.
//! - **I2, once.** A handle leaves by the one removal that says it removed it.
//!
//! An `add` takes place at the insertion, a `remove` or pop at the removal, `earliest` at its look for the first, or
//! at its load of `len` if that is zero.
//!
//! # Progress
//!
//! Lock-free, O(log delayed). A pop repeats only if another took the handle that it saw first.

use std::time::{Duration, Instant};

use crate::key_queue::Handle;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::map::Map;
use crate::sync::{pause_point, planted};

#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

/// Nanoseconds since the origin, then the handle.
type Place = (u64, u64);

pub(crate) struct Delays {
    origin: Instant,
    len: AtomicUsize,
    places: Map<Place, ()>,
}

impl std::fmt::Debug for Delays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delays").field("first", &self.places.first()).field("len", &self.len).finish()
    }
}

impl Delays {
    /// `origin` is now.
    pub(crate) fn new(origin: Instant) -> Self {
        Delays { origin, len: AtomicUsize::new(0), places: Map::new() }
    }

    /// `handle` is due at `until`, or now if that was before this queue. It must not be in here for the same time.
    /// Whether nothing else is due earlier: then who sleeps must look again.
    pub(crate) fn add(&self, until: Instant, handle: Handle) -> bool {
        let place = self.place(until, handle);
        let late = planted("counted late");
        if !late {
            self.count();
        }
        pause_point("delays: counted");
        self.places.insert(place, ());
        if late {
            self.count();
        }
        pause_point("delays: inserted");
        // A first one that has been taken meanwhile is no reason not to look.
        self.places.first().is_none_or(|(first, _)| first >= place.0)
    }

    /// A time in this queue's own count.
    pub(crate) fn stamp(&self, until: Instant) -> u64 {
        let nanos = until.saturating_duration_since(self.origin).as_nanos();
        // 584 years.
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Whether it was in here for this time. If not, it is due, and another has popped it.
    pub(crate) fn remove(&self, stamp: u64, handle: Handle) -> bool {
        self.take((stamp, handle.get()))
    }

    /// Whether there is one. One load.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        // Relaxed: as in `first`.
        self.len.load(Relaxed) != 0
    }

    /// When the first is due. One load if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.first().map(|(nanos, _)| self.origin + Duration::from_nanos(nanos))
    }

    /// The first that is due at `now`.
    pub(crate) fn pop_due(&self, now: Instant) -> Option<Handle> {
        self.pop(|nanos| self.origin + Duration::from_nanos(nanos) <= now)
    }

    /// The first, due or not.
    pub(crate) fn pop_any(&self) -> Option<Handle> {
        self.pop(|_| true)
    }

    fn pop(&self, is_due: impl Fn(u64) -> bool) -> Option<Handle> {
        loop {
            let place = self.first().filter(|(nanos, _)| is_due(*nanos))?;
            pause_point("delays: first seen");
            if self.take(place) {
                return Handle::new(place.1);
            }
        }
    }

    fn first(&self) -> Option<Place> {
        // Relaxed: who comes after an `add` reads its count or a later one, and that is 0 only when all were removed (I1).
        if self.len.load(Relaxed) == 0 { None } else { self.places.first() }
    }

    fn take(&self, place: Place) -> bool {
        let taken = self.places.remove(&place);
        if taken {
            pause_point("delays: removed");
            // Relaxed: the removal came after the insertion, and so this after its count (I1).
            self.len.fetch_sub(1, Relaxed);
        }
        taken || planted("everybody took it")
    }

    fn count(&self) {
        // Relaxed: who comes after the `add` sees it, and who does not may miss it.
        self.len.fetch_add(1, Relaxed);
    }

    fn place(&self, until: Instant, handle: Handle) -> Place {
        (self.stamp(until), handle.get())
    }
}
