//! Delays: how long a key that failed waits, and who wakes consumers when its time has come.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a key waits after its n-th failed attempt.
///
/// ```
/// use std::time::Duration;
/// use delta_fifo::Backoff;
///
/// let backoff = Backoff::default(); // 5 ms, doubling up to 1,000 s, as client-go's limiter
/// assert_eq!(backoff.delay(1), Duration::from_millis(5));
/// assert_eq!(backoff.delay(3), Duration::from_millis(20));
/// assert_eq!(backoff.delay(100), Duration::from_secs(1000));
/// ```
#[derive(Clone)]
pub struct Backoff(Policy);

#[derive(Clone)]
enum Policy {
    Exponential { base: Duration, max: Duration },
    Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl Backoff {
    /// `base` after the first attempt, doubled for each further one, at most `max`. Wait-free, O(1).
    pub fn exponential(base: Duration, max: Duration) -> Self {
        Backoff(Policy::Exponential { base, max })
    }

    /// Whatever `delay` says for the number of attempts so far, from 1. If it panics, the delay is the default's.
    /// O(1).
    pub fn custom(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Backoff(Policy::Custom(Arc::new(delay)))
    }

    /// The delay after this many attempts. O(1).
    pub fn delay(&self, attempts: u32) -> Duration {
        match &self.0 {
            Policy::Exponential { base, max } => {
                // A `Duration` overflows within 128 doublings of a nanosecond.
                let doublings = attempts.saturating_sub(1).min(128);
                (0..doublings).fold(*base, |delay, _| delay.saturating_mul(2).min(*max)).min(*max)
            }
            // A lease asks while it is dropped, maybe in the middle of a panic: a second one would abort.
            Policy::Custom(delay) => catch_unwind(AssertUnwindSafe(|| delay(attempts)))
                .unwrap_or_else(|_| Backoff::default().delay(attempts)),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Policy::Exponential { base, max } => {
                f.debug_struct("Backoff").field("base", base).field("max", max).finish()
            }
            Policy::Custom(_) => f.write_str("Backoff(custom)"),
        }
    }
}

/// Wakes async consumers when the first delayed key is due; and may be the queue's clock.
///
/// Blocking consumers wake by themselves. Where only async ones wait, the queue asks its timer; without one it starts
/// a thread of its own when it first needs it. A timer on tokio's clock is `TokioTimer`, behind the feature
/// `tokio`.
///
/// With a clock of its own ([`now`](Timer::now)) all delays, time-outs and ages of the queue are counted by that, and blocking consumers
/// ask the timer as well. [`ManualClock`](crate::ManualClock) is one for tests.
///
/// ```
/// use std::time::Instant;
/// use delta_fifo::{Builder, Timer, baseline::MutexDeltaFifo};
///
/// struct OneThreadEach;
///
/// impl Timer for OneThreadEach {
///     fn wake_at(&self, at: Instant, wake: Box<dyn FnOnce() + Send>) {
///         std::thread::spawn(move || {
///             std::thread::sleep(at.saturating_duration_since(Instant::now()));
///             wake();
///         });
///     }
/// }
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().timer(OneThreadEach).build();
/// # let _ = queue;
/// ```
pub trait Timer: Send + Sync {
    /// Calls `wake` at `at` or soon after, from anywhere; must not block. A `wake` that comes too early or once more
    /// than needed does no harm; one that never comes leaves delayed keys waiting for the next event. Called at
    /// most once per sleeping consumer and earliest delay.
    fn wake_at(&self, at: Instant, wake: Box<dyn FnOnce() + Send>);

    /// The time of its own clock; none, as by default: the system's is meant. It must not go back, and may jump if `wake_at` rings for
    /// what has become due by that. Called under locks and guards of the queue: it must not call the queue, nor block. If it panics
    /// the system's clock is looked at instead.
    fn now(&self) -> Option<Instant> {
        None
    }
}

/// A [`Timer`] on tokio's clock: each wake-up is a task on the runtime that is current when it is created.
///
/// As long as tokio's clock runs with the system's, blocking consumers need no task to wake them. Where `tokio::time::pause` has stopped it, it is
/// the queue's clock as well, and `advance` moves that.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use delta_fifo::{Builder, DeltaQueue, TokioTimer, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().timer(TokioTimer::current()).build();
/// queue.add("a", 1).unwrap();
/// queue.pop_async().await.unwrap().requeue_after(Duration::from_millis(1));
/// assert_eq!(queue.pop_async().await.unwrap().attempts(), 2);
/// # }
/// ```
#[cfg(feature = "tokio")]
#[derive(Clone, Debug)]
pub struct TokioTimer(tokio::runtime::Handle);

#[cfg(feature = "tokio")]
impl TokioTimer {
    /// On the current runtime. O(1).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn current() -> Self {
        TokioTimer(tokio::runtime::Handle::current())
    }
}

#[cfg(feature = "tokio")]
impl From<tokio::runtime::Handle> for TokioTimer {
    fn from(handle: tokio::runtime::Handle) -> Self {
        TokioTimer(handle)
    }
}

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    fn wake_at(&self, at: Instant, wake: Box<dyn FnOnce() + Send>) {
        self.0.spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            wake();
        });
    }

    fn now(&self) -> Option<Instant> {
        let before = Instant::now();
        let shown = {
            let _in_runtime = self.0.enter();
            tokio::time::Instant::now().into_std()
        };
        (shown < before || shown > Instant::now()).then_some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_never_overflows() {
        let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60));
        let delays: Vec<u64> = [0, 1, 2, 6, 7, 31, 32, 33, 34, u32::MAX]
            .into_iter()
            .map(|attempts| backoff.delay(attempts).as_secs())
            .collect();
        assert_eq!(delays, [1, 1, 2, 32, 60, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn exponential_doubles_all_the_way() {
        let backoff = Backoff::exponential(Duration::from_nanos(1), Duration::from_secs(1000));
        assert_eq!(backoff.delay(39), Duration::from_nanos(1 << 38));
        assert_eq!(backoff.delay(60), Duration::from_secs(1000));
    }

    #[test]
    fn a_panicking_policy_falls_back() {
        let backoff = Backoff::custom(|_| panic!("no"));
        assert_eq!(backoff.delay(2), Duration::from_millis(10));
    }
}
