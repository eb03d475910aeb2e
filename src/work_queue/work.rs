//! A key in the hands of a worker.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::RandomState;
use crate::delay::Backoff;
use crate::lease::Lease;
use crate::raw::QueueRef;

use super::{Queue, WorkQueue};

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
    pub(super) lease: Option<Lease<'q, Queue<K, S>>>,
    pub(super) queue: QueueRef<'q, WorkQueue<K, S>>,
}

/// [`Work`] that owns a handle of its queue, and can be moved into a spawned task.
///
/// ```
/// use std::sync::Arc;
/// use delta_fifo::{OwnedWork, WorkQueue};
///
/// let queue = Arc::new(WorkQueue::new());
/// queue.add("a")?;
/// let work: OwnedWork<_> = queue.get_owned()?;
/// std::thread::spawn(move || work.done()).join().unwrap();
/// assert_eq!(queue.stats().leased, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedWork<K, S = RandomState> = Work<'static, K, S>;

impl<K, S> Work<'_, K, S>
where
    K: Hash + Eq + Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// The same work with a handle of its queue instead of a borrow. O(1).
    ///
    /// # Panics
    ///
    /// If `queue` is another queue (the work comes back as failed).
    pub fn into_owned(mut self, queue: &Arc<WorkQueue<K, S>>) -> OwnedWork<K, S>
    where
        K: 'static,
        S: 'static,
    {
        assert!(std::ptr::eq::<WorkQueue<K, S>>(&*self.queue, &**queue), "the work is of another queue");
        let lease = self.lease.take().expect("it is not over").into_owned(&queue.shared.queue);
        Work { lease: Some(lease), queue: QueueRef::Owned(Arc::clone(queue)) }
    }

    /// How long the key had stood in line, if the queue [measures](super::WorkQueueBuilder::measure): as [`Lease::waited`]. Wait-free, O(1).
    pub fn waited(&self) -> Option<Duration> {
        self.lease.as_ref().and_then(Lease::waited)
    }

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
