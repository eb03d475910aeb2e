//! How long a key waits that is added rate-limited: client-go's limiters.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use governor::clock::{Clock, Reference};
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter as Governor};

use crate::RandomState;
use crate::delay::Backoff;

/// Says how long a key waits that is added rate-limited.
///
/// ```
/// use std::time::{Duration, Instant};
/// use delta_fifo::{ItemExponential, RateLimiter};
///
/// let (limiter, now) = (ItemExponential::new(Duration::from_millis(1), Duration::from_secs(1)), Instant::now());
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(1));
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(2));
/// assert_eq!(limiter.num_requeues(&"a"), 2);
/// limiter.forget(&"a");
/// assert_eq!(limiter.when(&"a", now), Duration::from_millis(1));
/// ```
pub trait RateLimiter<K>: Send + Sync {
    /// How long the key waits from `now` on, which is the queue's time; counts as a failure of it. Must not call the queue.
    fn when(&self, key: &K, now: Instant) -> Duration;

    /// The key has not failed, or nobody cares any more.
    fn forget(&self, key: &K);

    /// How often it has failed since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// Each key by itself: `base` after its first failure, doubled for each further one, up to a most.
///
/// The default is client-go's: 5 ms, up to 1,000 s. A key takes memory until it is forgotten.
pub struct ItemExponential<K, S = RandomState> {
    backoff: Backoff,
    failures: Mutex<HashMap<K, u32, S>>,
}

impl<K> ItemExponential<K> {
    /// O(1).
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        ItemExponential { backoff: Backoff::exponential(base, max), failures: Mutex::default() }
    }
}

impl<K> Default for ItemExponential<K> {
    fn default() -> Self {
        ItemExponential { backoff: Backoff::default(), failures: Mutex::default() }
    }
}

impl<K, S> ItemExponential<K, S> {
    fn failures(&self) -> MutexGuard<'_, HashMap<K, u32, S>> {
        // A key's `Hash` or `Eq` that panics has changed nothing.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, S> RateLimiter<K> for ItemExponential<K, S>
where
    K: Hash + Eq + Clone + Send,
    S: BuildHasher + Send,
{
    fn when(&self, key: &K, _: Instant) -> Duration {
        let mut failures = self.failures();
        let count = match failures.get_mut(key) {
            Some(count) => {
                *count = count.saturating_add(1);
                *count
            }
            None => {
                failures.insert(key.clone(), 1);
                1
            }
        };
        drop(failures);
        self.backoff.delay(count)
    }

    fn forget(&self, key: &K) {
        let forgotten = self.failures().remove_entry(key);
        // Outside the lock: it is the user's.
        drop(forgotten);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures().get(key).copied().unwrap_or(0)
    }
}

impl<K, S> fmt::Debug for ItemExponential<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemExponential").field("backoff", &self.backoff).finish_non_exhaustive()
    }
}

/// All keys together: so many in a second, after a burst. Each that is added has its turn, however long that takes: what is limited is how
/// many come in a time, not how many wait.
///
/// The default is client-go's: 10 a second, after a burst of 100. It does not count failures of a key.
///
/// ```
/// use std::time::{Duration, Instant};
/// use delta_fifo::{Bucket, RateLimiter};
///
/// let (limiter, now) = (Bucket::new(10.try_into()?, 1.try_into()?), Instant::now());
/// assert_eq!(limiter.when(&"a", now), Duration::ZERO);
/// assert_eq!(limiter.when(&"b", now), Duration::from_millis(100));
/// assert_eq!(limiter.when(&"c", now), Duration::from_millis(200));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Bucket {
    tokens: Mutex<Tokens>,
    turn: Turn,
}

struct Tokens {
    bucket: Governor<NotKeyed, InMemoryState, Turn>,
    /// The first moment that it was asked about: the earliest, but for threads that came in another order than they looked at the clock.
    start: Option<Instant>,
}

/// The clock of a bucket: the moment that it is asked about, which may be to come.
#[derive(Clone, Debug, Default)]
struct Turn(Arc<AtomicU64>);

impl Turn {
    fn set(&self, moment: Nanos) {
        // Relaxed: set and read under the bucket's lock.
        self.0.store(moment.as_u64(), Ordering::Relaxed);
    }
}

impl Clock for Turn {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        // Relaxed: as above.
        Nanos::from(self.0.load(Ordering::Relaxed))
    }
}

impl Bucket {
    /// `rate` keys a second, after a burst. O(1).
    #[must_use]
    pub fn new(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let (turn, quota) = (Turn::default(), Quota::per_second(rate).allow_burst(burst));
        let bucket = Governor::direct_with_clock(quota, turn.clone());
        Bucket { tokens: Mutex::new(Tokens { bucket, start: None }), turn }
    }
}

impl Default for Bucket {
    fn default() -> Self {
        const RATE: NonZeroU32 = NonZeroU32::new(10).unwrap();
        const BURST: NonZeroU32 = NonZeroU32::new(100).unwrap();
        Bucket::new(RATE, BURST)
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&self, _: &K, now: Instant) -> Duration {
        // Nothing of the user's runs under it.
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let start = *tokens.start.get_or_insert(now);
        let called = Nanos::from(now.saturating_duration_since(start));
        self.turn.set(called);
        // The bucket answers whether it has something now, and if not, when; so it is asked again about then.
        while let Err(later) = tokens.bucket.check() {
            self.turn.set(later.earliest_possible());
        }
        self.turn.now().duration_since(called).into()
    }

    fn forget(&self, _: &K) {}

    fn num_requeues(&self, _: &K) -> u32 {
        0
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}

/// What the stricter of two says. Both are asked, and both forget.
///
/// The default is what client-go's controllers have: [`ItemExponential`] and [`Bucket`], each with its default.
#[derive(Clone, Copy, Debug)]
pub struct Larger<A, B>(pub A, pub B);

impl<K> Default for Larger<ItemExponential<K>, Bucket> {
    fn default() -> Self {
        Larger(ItemExponential::default(), Bucket::default())
    }
}

impl<K, A: RateLimiter<K>, B: RateLimiter<K>> RateLimiter<K> for Larger<A, B> {
    fn when(&self, key: &K, now: Instant) -> Duration {
        self.0.when(key, now).max(self.1.when(key, now))
    }

    fn forget(&self, key: &K) {
        self.0.forget(key);
        self.1.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.0.num_requeues(key).max(self.1.num_requeues(key))
    }
}
