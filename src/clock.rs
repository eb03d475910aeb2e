//! What time it is: the one place that asks. A queue's delays, time-outs and ages are counted by its timer's clock, if that has one of its
//! own, else by the system's. Only what is about real waiting asks the system itself: how long a thread spins, and the short naps of who
//! looks again for something that nobody tells (`fifo/close.rs`).
//!
//! # Invariants
//!
//! - **C1, told.** Where the clock is the timer's, whoever goes to sleep for a time has asked the timer to wake it then, after it was
//!   registered with those who are woken; and has looked at the clock after that, or the timer is one that rings at once for what
//!   has been. So a clock that jumps leaves nobody asleep.
//! - **C2, not alone.** A thread sleeps by the system's clock even so, as long as its time would take if the timer's clock ran as that
//!   does: a timer that loses a wake-up delays it and does not stop it.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::delay::Timer;
use crate::raw::Deadline;
use crate::sync::now as system_now;

/// The clock of a queue, and its timer.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Timer>>);

/// A clock that stands may be looked at again so often.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Clock {
    pub(crate) fn new(timer: Option<Arc<dyn Timer>>) -> Self {
        Clock(timer)
    }

    pub(crate) fn timer(&self) -> Option<&Arc<dyn Timer>> {
        self.0.as_ref()
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.own_now().unwrap_or_else(system_now)
    }

    /// None where it is the system's.
    #[inline]
    fn own_now(&self) -> Option<Instant> {
        let timer = self.0.as_ref()?;
        // Maybe in the middle of a panic: a second one would abort.
        catch_unwind(AssertUnwindSafe(|| timer.now())).ok().flatten()
    }

    /// Whether it is not the system's.
    pub(crate) fn is_own(&self) -> bool {
        self.own_now().is_some()
    }

    /// When so much has passed.
    pub(crate) fn after(&self, timeout: Duration) -> Deadline {
        self.now().checked_add(timeout).map_or(Deadline::Never, Deadline::At)
    }

    /// The same, where it must come: a delay that no clock can count ends in a century.
    pub(crate) fn after_at_most(&self, delay: Duration) -> Instant {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        let now = self.now();
        now.checked_add(delay).unwrap_or(now + CENTURY)
    }

    /// Whether a deadline has come.
    pub(crate) fn is_over(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Now => true,
            Deadline::At(at) => at <= self.now(),
            Deadline::Never => false,
        }
    }

    /// How long a thread sleeps at most that sleeps until then, in the system's time (C2).
    pub(crate) fn nap(&self, until: Deadline) -> Deadline {
        let (Deadline::At(at), Some(now)) = (until, self.own_now()) else { return until };
        let left = at.saturating_duration_since(now).max(LOOK_AGAIN);
        system_now().checked_add(left).map_or(Deadline::Never, Deadline::At)
    }
}

/// A clock that stands until it is told to go on, as the [`Timer`] of queues under test.
///
/// Clones are the same clock. What has become due when it is moved wakes before [`advance`](ManualClock::advance) returns: blocking
/// consumers as well as async ones, delays as well as time-outs.
///
/// ```
/// use std::time::Duration;
/// use delta_fifo::{Builder, DeltaFifo, DeltaQueue, ManualClock};
///
/// let clock = ManualClock::new();
/// let queue: DeltaFifo<&str, u32> = Builder::new().timer(clock.clone()).build();
/// queue.add("a", 1)?;
/// queue.pop()?.requeue_after(Duration::from_secs(3_600));
/// assert!(queue.try_pop().is_err());
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(queue.try_pop()?.attempts(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<Hands>>);

struct Hands {
    now: Instant,
    /// By time, and as which of those for the same time.
    rings: BTreeMap<(Instant, u64), Ring>,
    next: u64,
}

type Ring = Box<dyn FnOnce() + Send>;

impl ManualClock {
    /// It stands at the system's time. O(1).
    #[must_use]
    pub fn new() -> Self {
        ManualClock(Arc::new(Mutex::new(Hands { now: system_now(), rings: BTreeMap::new(), next: 0 })))
    }

    /// Its time. O(1).
    #[must_use]
    pub fn now(&self) -> Instant {
        self.hands().now
    }

    /// Moves it on and wakes all who sleep until then or earlier, the earliest first. O(log asleep) for each.
    ///
    /// # Panics
    ///
    /// If the time cannot be counted.
    pub fn advance(&self, time: Duration) {
        let mut hands = self.hands();
        hands.now += time;
        let now = hands.now;
        loop {
            let Some(first) = hands.rings.first_entry().filter(|first| first.key().0 <= now) else { return };
            let ring = first.remove();
            // Not under the lock: who is woken may sleep again.
            drop(hands);
            ring();
            hands = self.hands();
        }
    }

    /// The earliest time for which somebody sleeps: who waits for another thread to go to sleep looks here. O(1).
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        self.hands().rings.keys().next().map(|place| place.0)
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        // Nothing of the user's runs under it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer for ManualClock {
    fn wake_at(&self, at: Instant, wake: Ring) {
        let mut hands = self.hands();
        if at > hands.now {
            let place = (at, hands.next);
            hands.next += 1;
            hands.rings.insert(place, wake);
            return;
        }
        drop(hands);
        wake();
    }

    fn now(&self) -> Option<Instant> {
        Some(ManualClock::now(self))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hands = self.hands();
        f.debug_struct("ManualClock").field("now", &hands.now).field("asleep", &hands.rings.len()).finish()
    }
}
