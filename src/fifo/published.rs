//! The latest snapshot, shared by many listers: taken anew at most every so often, and only if something has changed.
//!
//! # Invariants
//!
//! - **B1, moved.** Something has changed since a snapshot was taken if a version was stamped with a later epoch than its own.
//! - **B2, forward.** A snapshot is published only in place of an older one.
//! - **B3, nobody waits.** Whoever finds the snapshot too old notes the time, and takes a new one. Others are handed the old one
//!   until then; and if that thread is stopped, the next one tries after the same time again.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};

use crate::clock::Clock;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::known::FifoSnapshot;

pub(super) struct Publishing<K, V, S> {
    latest: ArcSwapOption<FifoSnapshot<K, V, S>>,
    every: Duration,
    clock: Clock,
    start: Instant,
    /// When somebody last began to take one: nanoseconds after `start`, and one more.
    tried: AtomicU64,
}

/// The snapshot that [`DeltaFifo::published`](crate::DeltaFifo::published) shares.
///
/// Not to be held for long: a clone of the snapshot is better then.
pub struct Published<K, V, S>(Guard<Option<Arc<FifoSnapshot<K, V, S>>>>);

impl<K, V, S> Deref for Published<K, V, S> {
    type Target = FifoSnapshot<K, V, S>;

    fn deref(&self) -> &FifoSnapshot<K, V, S> {
        self.0.as_deref().expect("only made of what is published")
    }
}

impl<K, V, S> std::fmt::Debug for Published<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<K, V, S> Publishing<K, V, S> {
    pub(super) fn new(every: Duration, clock: Clock) -> Self {
        let start = clock.now();
        Publishing { latest: ArcSwapOption::empty(), every, clock, start, tried: AtomicU64::new(0) }
    }

    /// The published one. `newest`: the latest epoch in which anything has changed; `take` takes a new one.
    pub(super) fn read(
        &self,
        newest: u64,
        take: impl FnOnce() -> FifoSnapshot<K, V, S>,
    ) -> Published<K, V, S> {
        let latest = self.latest.load();
        match &*latest {
            // The first counts too, for who comes next.
            None => _ = self.is_my_turn(),
            Some(shown) if newest <= shown.epoch() || !self.is_my_turn() => return Published(latest),
            Some(_) => {}
        }
        drop(latest);
        self.publish(take());
        Published(self.latest.load())
    }

    /// B3.
    fn is_my_turn(&self) -> bool {
        let now = u64::try_from(self.clock.now().saturating_duration_since(self.start).as_nanos())
            .unwrap_or(u64::MAX - 1)
            + 1;
        // Relaxed, both: only the time matters.
        let tried = self.tried.load(Ordering::Relaxed);
        let is_due = u128::from(now.saturating_sub(tried)) >= self.every.as_nanos();
        is_due && self.tried.compare_exchange(tried, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// B2.
    fn publish(&self, new: FifoSnapshot<K, V, S>) {
        let new = Arc::new(new);
        let mut now = self.latest.load();
        // Repeats when somebody else has published one.
        while now.as_ref().is_none_or(|now| now.epoch() < new.epoch()) {
            let before = self.latest.compare_and_swap(&*now, Some(Arc::clone(&new)));
            let is_done = match (&*before, &*now) {
                (None, None) => true,
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                _ => false,
            };
            if is_done {
                return;
            }
            now = before;
        }
    }

    /// It is shared no more.
    pub(super) fn clear(&self) {
        self.latest.store(None);
    }
}
