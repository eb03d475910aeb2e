//! client-go's work queue: keys alone, each in line once, in the hands of one worker at a time; added later, and less often the more
//! often it failed.

mod builder;
mod limiter;
mod waiting;
mod work;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::RandomState;
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::error::{AddError, Closed, PopTimeoutError, TryPopError, WaitError};
use crate::fifo::DeltaFifo;
use crate::lease::Lease;
use crate::queue::DeltaQueue;
use crate::raw::QueueRef;
use crate::stats::Stats;

pub use builder::WorkQueueBuilder;
pub use limiter::{Bucket, ItemExponential, Larger, RateLimiter};
use waiting::Waiting;
pub use work::{OwnedWork, Work};

type Queue<K, S> = DeltaFifo<K, (), S>;

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
    /// Counted by itself for the sake of leases that own a handle of it.
    queue: Arc<Queue<K, S>>,
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

    /// [`get`](WorkQueue::get) for work that owns a handle of the queue. Blocks.
    ///
    /// # Errors
    ///
    /// As [`get`](WorkQueue::get).
    pub fn get_owned(self: &Arc<Self>) -> Result<OwnedWork<K, S>, Closed>
    where
        K: 'static,
        S: 'static,
    {
        Ok(Work { lease: Some(self.shared.queue.pop_owned()?), queue: QueueRef::Owned(Arc::clone(self)) })
    }

    /// The same for tasks; cancel-safe.
    ///
    /// # Errors
    ///
    /// As [`get`](WorkQueue::get).
    pub async fn get_async_owned(self: &Arc<Self>) -> Result<OwnedWork<K, S>, Closed>
    where
        K: 'static,
        S: 'static,
    {
        let lease = self.shared.queue.pop_async_owned().await?;
        Ok(Work { lease: Some(lease), queue: QueueRef::Owned(Arc::clone(self)) })
    }

    fn work<'q>(&'q self, lease: Lease<'q, Queue<K, S>>) -> Work<'q, K, S> {
        Work { lease: Some(lease), queue: QueueRef::Borrowed(self) }
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

    /// As [`DeltaQueue::stats`]: `depth` is how many keys are in line, `leased` how many are worked on, `delayed` how many are to be added later,
    /// or again. Takes a mutex for a moment.
    pub fn stats(&self) -> Stats {
        let stats = self.shared.queue.stats();
        Stats { delayed: stats.delayed + self.waiting_len(), ..stats }
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

    /// The same for tasks: waits without blocking.
    pub async fn shut_down_with_drain_async(&self) {
        self.shut_down();
        self.shared.queue.close_and_wait_async().await;
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
