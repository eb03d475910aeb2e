//! client-go's work queue: keys alone, each in line once, in the hands of one worker at a time; added later, and less often the more
//! often it failed.

mod limiter;
mod waiting;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::alarm::{Alarm, Wake};
use crate::clock::Clock;
use crate::delay::{Backoff, Timer};
use crate::delta::Compression;
use crate::error::{AddError, Closed, PopTimeoutError, TryPopError, WaitError};
use crate::fifo::DeltaFifo;
use crate::lease::Lease;
use crate::queue::DeltaQueue;
use crate::{Builder, RandomState};

pub use limiter::{Bucket, ItemExponential, Larger, RateLimiter};
use waiting::Waiting;

type Queue<K, S> = DeltaFifo<K, (), S>;

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
            Shared { queue, waiting: Waiting::default(), alarm: Alarm::new(clock.clone(), ring), clock }
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

/// client-go's work queue: a set of keys to be worked on, by any number of workers.
///
/// A key stands in line once however often it is added, and is in the hands of one worker at a time. One that is added while it is worked on
/// comes again when that work is done. [`add_after`](WorkQueue::add_after) and [`add_rate_limited`](WorkQueue::add_rate_limited) add it when
/// its time has come; how often a key has failed outlives its work, until [`forget`](WorkQueue::forget).
///
/// It is a [`DeltaFifo`] over no known objects and keys without objects: what that promises of progress, drops and panics holds here.
/// Where it differs from client-go: an add after a shut down is an error and not ignored; a key that was added while it was worked on
/// is handed out after a shut down as well; [`Work`] that is dropped without [`done`](Work::done), as by a panic, comes back as if it had been
/// added rate-limited.
///
/// ```
/// use delta_fifo::WorkQueue;
///
/// let queue = WorkQueue::new();
/// queue.add("prod/web")?;
/// queue.add("prod/web")?; // stands in line already
/// let work = queue.get()?;
/// assert_eq!(*work, "prod/web");
/// queue.add_rate_limited(*work)?; // it failed: again in 5 ms
/// work.done();
/// queue.get()?.done();
/// queue.forget(&"prod/web"); // it did not: the next failure is its first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkQueue<K, S = RandomState> {
    shared: Arc<Shared<K, S>>,
    limiter: Box<dyn RateLimiter<K>>,
}

/// What the alarm comes back to.
struct Shared<K, S> {
    queue: Queue<K, S>,
    waiting: Waiting<K>,
    alarm: Alarm,
    clock: Clock,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> WorkQueue<K> {
    /// With client-go's limits. O(shards).
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// O(1).
    #[must_use]
    pub fn builder() -> WorkQueueBuilder<K> {
        WorkQueueBuilder::with_hasher(RandomState::new())
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, S> WorkQueue<K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// Puts a key in line, unless it stands there; one that is worked on comes when that is done. Lock-free, O(1).
    ///
    /// # Errors
    ///
    /// The queue is shut down; the key comes back.
    pub fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.shared.add(key)
    }

    /// The same when `delay` has passed, unless it is to be added earlier anyway. In line meanwhile or worked on, it is added again
    /// then. Takes a mutex, under which keys are hashed and compared: `Hash` and `Eq` must not call the queue. O(log waiting).
    ///
    /// # Errors
    ///
    /// The queue is shut down, or the thread that keeps the time could not be started; the key comes back.
    pub fn add_after(&self, key: K, delay: Duration) -> Result<(), AddError<K>> {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = self.shared.clock.now().checked_add(delay);
        // One that no clock can count never comes.
        at.map_or(Ok(()), |at| self.shared.add_at(key, at))
    }

    /// The same after what the rate limiter says. O(log waiting), and what that takes.
    ///
    /// # Errors
    ///
    /// As [`add_after`](WorkQueue::add_after).
    pub fn add_rate_limited(&self, key: K) -> Result<(), AddError<K>> {
        let delay = self.delay_of(&key);
        self.add_after(key, delay)
    }

    fn delay_of(&self, key: &K) -> Duration {
        self.limiter.when(key, self.shared.clock.now())
    }

    /// The key has not failed, or nobody cares any more: what the rate limiter counts of it is gone. O(1).
    pub fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    /// How often the key was added rate-limited since it was last forgotten. O(1).
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }

    /// The first key in line, when there is one; the caller has it to itself until it is [`done`](Work::done). Blocks.
    ///
    /// # Errors
    ///
    /// The queue is shut down, and nothing is in line or will be: no key is worked on that was added meanwhile.
    pub fn get(&self) -> Result<Work<'_, K, S>, Closed> {
        self.shared.queue.pop().map(|lease| self.work(lease))
    }

    /// The same without waiting. Lock-free, O(1).
    ///
    /// # Errors
    ///
    /// Nothing is in line, or as [`get`](WorkQueue::get).
    pub fn try_get(&self) -> Result<Work<'_, K, S>, TryPopError> {
        self.shared.queue.try_pop().map(|lease| self.work(lease))
    }

    /// The same for so long. Blocks.
    ///
    /// # Errors
    ///
    /// The time is over, or as [`get`](WorkQueue::get).
    pub fn get_timeout(&self, timeout: Duration) -> Result<Work<'_, K, S>, PopTimeoutError> {
        self.shared.queue.pop_timeout(timeout).map(|lease| self.work(lease))
    }

    /// The same for tasks; cancel-safe.
    ///
    /// # Errors
    ///
    /// As [`get`](WorkQueue::get).
    pub async fn get_async(&self) -> Result<Work<'_, K, S>, Closed> {
        Ok(self.work(self.shared.queue.pop_async().await?))
    }

    fn work<'q>(&'q self, lease: Lease<'q, Queue<K, S>>) -> Work<'q, K, S> {
        Work { lease: Some(lease), queue: self }
    }

    /// How many keys are in line: not those that are worked on, nor those whose time has not come. Exact when nothing runs. O(keys in line or
    /// worked on).
    pub fn len(&self) -> usize {
        self.shared.queue.line_len()
    }

    /// Whether none is. As [`len`](WorkQueue::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are to be added later. Takes a mutex, O(1).
    pub fn waiting_len(&self) -> usize {
        self.shared.waiting.len()
    }

    /// From here on nothing is added; what is in line is handed out, and what was to be added later is dropped. Whether this was the
    /// first call. O(waiting).
    pub fn shut_down(&self) -> bool {
        let first = self.shared.queue.close();
        drop(self.shared.waiting.clear());
        first
    }

    /// The same, and waits until all work is done, for which workers must go on. Blocks.
    ///
    /// # Errors
    ///
    /// [`WaitError::WouldDeadlock`] if this thread has work of its own, which would never be done.
    pub fn shut_down_with_drain(&self) -> Result<(), WaitError> {
        self.shut_down();
        self.shared.queue.close_and_wait()
    }

    /// The same for so long. Blocks.
    ///
    /// # Errors
    ///
    /// As that, or the time is over.
    pub fn shut_down_with_drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.shut_down();
        self.shared.queue.close_and_wait_timeout(timeout)
    }

    /// Wait-free, O(1).
    pub fn is_shut_down(&self) -> bool {
        self.shared.queue.is_closed()
    }
}

impl<K, S> Shared<K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.queue.update(key, ()).map_err(|error| AddError::ShutDown(error.change.into_key()))
    }

    fn add_at(&self, key: K, at: Instant) -> Result<(), AddError<K>> {
        if self.queue.is_closed() {
            return Err(AddError::ShutDown(key));
        }
        let Some(entry) = self.waiting.put(key, at) else { return Ok(()) };
        if let Err(error) = self.alarm.arm(at) {
            return match self.waiting.take_back(entry) {
                Some(key) => Err(AddError::NoTimer(key, error)),
                // Somebody has added it meanwhile.
                None => Ok(()),
            };
        }
        // A shut down that came in between has not seen it.
        if self.queue.is_closed() {
            drop(self.waiting.clear());
        }
        Ok(())
    }

    /// Called by the alarm.
    fn add_due(&self) {
        while let Some(key) = self.waiting.take_due(self.clock.now()) {
            // Shut down: it is dropped, as all that waits.
            let _ = self.add(key);
        }
        if let Some(at) = self.waiting.earliest() {
            // Where no thread can be started it was started before.
            let _ = self.alarm.arm(at);
        }
    }
}

impl<K, S> fmt::Debug for WorkQueue<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

/// A key to work on, which nobody else has. It dereferences to the key.
///
/// Dropped without [`done`](Work::done), as by a panic or a cancelled task, it comes back after what the rate limiter says.
#[must_use = "work that is dropped comes back as failed"]
pub struct Work<'q, K, S = RandomState>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// None only while it is dropped.
    lease: Option<Lease<'q, Queue<K, S>>>,
    queue: &'q WorkQueue<K, S>,
}

impl<K, S> Work<'_, K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// The work is over. If the key was added meanwhile it goes in line. Lock-free, O(1).
    pub fn done(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.done();
        }
    }
}

impl<K, S> Deref for Work<'_, K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    type Target = K;

    fn deref(&self) -> &K {
        self.lease.as_ref().expect("it is not over").key()
    }
}

impl<K, S> Drop for Work<'_, K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // Maybe in the middle of a panic: a second one would abort.
            let delay = catch_unwind(AssertUnwindSafe(|| self.queue.delay_of(lease.key())));
            let delay = delay.unwrap_or_else(|_| Backoff::default().delay(lease.attempts()));
            lease.requeue_after(delay);
        }
    }
}

impl<K, S> fmt::Debug for Work<'_, K, S>
where
    K: Hash + Eq + Send + Sync + fmt::Debug,
    S: BuildHasher + Send + Sync,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&**self).finish()
    }
}
