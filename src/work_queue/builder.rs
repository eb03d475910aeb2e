//! What can be chosen when a work queue is built.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::alarm::{Alarm, Wake};
use crate::clock::Clock;
use crate::delay::Timer;
use crate::delta::Compression;
use crate::slow::SlowEvent;
use crate::{Builder, RandomState};

use super::limiter::{Larger, RateLimiter};
use super::waiting::Waiting;
use super::{Queue, Shared, WorkQueue};

/// Options of a [`WorkQueue`].
///
/// ```
/// use std::time::Duration;
/// use delta_fifo::{ItemExponential, WorkQueue};
///
/// let limiter = ItemExponential::new(Duration::from_millis(1), Duration::from_secs(1));
/// let queue: WorkQueue<&str> = WorkQueue::builder().rate_limiter(limiter).build();
/// queue.add_rate_limited("a")?;
/// assert_eq!(*queue.get()?, "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkQueueBuilder<K, S = RandomState> {
    builder: Builder<K, (), S>,
    limiter: Option<Box<dyn RateLimiter<K>>>,
}

impl<K: Hash + Eq, S: BuildHasher> WorkQueueBuilder<K, S> {
    /// The same with another hash function for the keys in line. O(1).
    pub fn with_hasher(hasher: S) -> Self {
        WorkQueueBuilder { builder: Builder::with_hasher(hasher), limiter: None }
    }

    /// How long a key waits that is added by [`add_rate_limited`](WorkQueue::add_rate_limited); default:
    /// [`Larger::default`], client-go's. O(1).
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<K> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// Who says that a key's time has come; default: a thread of the queue's, started when it is first needed. O(1).
    #[must_use]
    pub fn timer(mut self, timer: impl Timer + 'static) -> Self {
        self.builder = self.builder.timer(timer);
        self
    }

    /// As [`Builder::on_slow`], of work that took long. O(1).
    #[must_use]
    pub fn on_slow(
        mut self,
        threshold: Duration,
        hook: impl Fn(&SlowEvent<'_, K>) + Send + Sync + 'static,
    ) -> Self {
        self.builder = self.builder.on_slow(threshold, hook);
        self
    }

    /// As [`Builder::measure`]. O(1).
    #[must_use]
    pub fn measure(mut self) -> Self {
        self.builder = self.builder.measure();
        self
    }

    /// As [`Builder::shards`]. O(1).
    ///
    /// # Panics
    ///
    /// As that.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.builder = self.builder.shards(shards);
        self
    }

    /// The queue. O(shards).
    pub fn build(self) -> WorkQueue<K, S>
    where
        K: Clone + Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        // Of what is added later, and of dropped work, which the queue itself delays.
        let clock = Clock::new(self.builder.timer.clone());
        let queue: Queue<K, S> = self.builder.compression(Compression::Latest).no_known_objects().build();
        let shared = Arc::new_cyclic(|shared: &Weak<Shared<K, S>>| {
            let shared = Weak::clone(shared);
            let ring: Arc<Wake> = Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.add_due();
                }
            });
            Shared {
                queue: Arc::new(queue),
                waiting: Waiting::default(),
                alarm: Alarm::new(clock.clone(), ring),
                clock,
            }
        });
        let limiter = self.limiter.unwrap_or_else(|| Box::new(Larger::default()));
        WorkQueue { shared, limiter }
    }
}

impl<K, S> fmt::Debug for WorkQueueBuilder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder").finish_non_exhaustive()
    }
}
