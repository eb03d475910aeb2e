//! A work queue that is measured.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{AddError, Closed, OwnedWork, WorkQueue, WorkQueueBuilder};
use tokio::task::JoinHandle;

use crate::metrics::{QueueMetrics, Working, looks};

/// A [`WorkQueue`] under a name, with client-go's metrics. It dereferences to the queue, of which everything is there that is not here.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use delta_fifo::WorkQueue;
/// use delta_fifo_informer::NamedWorkQueue;
///
/// let queue = NamedWorkQueue::new("deployments", WorkQueue::builder());
/// queue.add("prod/web")?;
/// let work = queue.get().await?; // workqueue_depth, workqueue_queue_duration_seconds …
/// assert_eq!(*work, "prod/web");
/// work.done(); // workqueue_work_duration_seconds
/// # Ok(())
/// # }
/// ```
pub struct NamedWorkQueue<K: Hash + Eq + Clone + Send + Sync + 'static> {
    name: String,
    queue: Arc<WorkQueue<K>>,
    metrics: Arc<QueueMetrics>,
    looking: JoinHandle<()>,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> NamedWorkQueue<K> {
    /// A queue with these options. O(shards).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: a task looks at what is under way.
    pub fn new(name: impl Into<String>, options: WorkQueueBuilder<K>) -> Self {
        let name = name.into();
        let (queue, metrics) = (Arc::new(options.measure().build()), Arc::new(QueueMetrics::new(&name)));
        let looking = tokio::spawn({
            let (queue, metrics) = (Arc::clone(&queue), Arc::clone(&metrics));
            async move {
                let mut looks = looks();
                loop {
                    looks.tick().await;
                    metrics.look(queue.stats().depth);
                }
            }
        });
        NamedWorkQueue { name, queue, metrics, looking }
    }

    /// As [`WorkQueue::add`].
    ///
    /// # Errors
    ///
    /// As there; here and below.
    pub fn add(&self, key: K) -> Result<(), AddError<K>> {
        self.metrics.added(1);
        self.queue.add(key)
    }

    /// As [`WorkQueue::add_after`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add_after(&self, key: K, delay: Duration) -> Result<(), AddError<K>> {
        self.metrics.retried();
        self.metrics.added(1);
        self.queue.add_after(key, delay)
    }

    /// As [`WorkQueue::add_rate_limited`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add_rate_limited(&self, key: K) -> Result<(), AddError<K>> {
        self.metrics.retried();
        self.metrics.added(1);
        self.queue.add_rate_limited(key)
    }

    /// As [`WorkQueue::get_async_owned`].
    ///
    /// # Errors
    ///
    /// It is shut down, and all has been handed out.
    pub async fn get(&self) -> Result<NamedWork<K>, Closed> {
        let work = self.queue.get_async_owned().await?;
        let working = QueueMetrics::begin(&self.metrics, work.waited());
        Ok(NamedWork { work, _working: working })
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Deref for NamedWorkQueue<K> {
    type Target = WorkQueue<K>;

    fn deref(&self) -> &WorkQueue<K> {
        &self.queue
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Drop for NamedWorkQueue<K> {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Debug for NamedWorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedWorkQueue").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A key in the hands of a worker. It dereferences to the key; dropped without [`done`](NamedWork::done), it comes back as failed.
#[must_use = "work that is dropped comes back as failed"]
pub struct NamedWork<K: Hash + Eq + Send + Sync + 'static> {
    work: OwnedWork<K>,
    _working: Working,
}

impl<K: Hash + Eq + Send + Sync + 'static> NamedWork<K> {
    /// The work is over. If the key was added meanwhile it goes in line.
    pub fn done(self) {
        self.work.done();
    }
}

impl<K: Hash + Eq + Send + Sync + 'static> Deref for NamedWork<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.work
    }
}

impl<K: Hash + Eq + Send + Sync + Debug + 'static> Debug for NamedWork<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedWork").field(&**self).finish()
    }
}
