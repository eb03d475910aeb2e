//! A key and its deltas in the hands of one consumer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::delta::Deltas;
use crate::queue::DeltaQueue;
use crate::raw::{Ending, HeldLease, QueueRef};

/// What becomes of a lease: what [`process`](crate::DeltaQueue::process) wants to hear from its closure.
///
/// `()` stands for `Done`, and a `Result` for `Done` or `RequeueWithBackoff`.
///
/// ```
/// use delta_fifo::{DeltaQueue, Outcome, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.add("a", 1)?;
/// assert_eq!(queue.process(|_| Err::<(), _>("not yet"))?, Outcome::RequeueWithBackoff);
/// assert_eq!(queue.process(|_| ())?, Outcome::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The deltas are processed.
    Done,
    /// The deltas come back at the tail of the line.
    Requeue,
    /// The deltas come back after this time.
    RequeueAfter(Duration),
    /// The deltas come back after the back-off for this number of attempts.
    RequeueWithBackoff,
    /// The deltas are given up, which the error hook is told.
    GiveUp,
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::Done
    }
}

impl<T, E> From<Result<T, E>> for Outcome {
    fn from(result: Result<T, E>) -> Self {
        if result.is_ok() { Outcome::Done } else { Outcome::RequeueWithBackoff }
    }
}

/// A key that one consumer has to itself, with all that happened to it.
///
/// No other consumer gets the key until the lease ends; other keys can be processed meanwhile. A lease ends with
/// [`done`](Self::done), [`give_up`](Self::give_up) or one of the requeues. **Dropping it ends it too**: the deltas
/// come back as [`Builder::on_abandon`](crate::Builder::on_abandon) says, so a panic or a cancelled task loses
/// nothing. A forgotten lease (`mem::forget`) keeps its own key leased for ever and harms nothing else.
///
/// A lease borrows the queue, or owns a handle of it ([`into_owned`](Self::into_owned), [`OwnedLease`]) and can then
/// be moved into a spawned task. Threads may look at one lease together, and a borrow of it may be held over an await:
/// only what takes it by value ends it. Ending it costs O(1), plus the objects that are dropped; the drops run in the
/// caller, outside every lock.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
///
/// drop(queue.pop()?); // comes back after a back-off of 5 ms
/// let lease = queue.pop()?;
/// assert_eq!((*lease.key(), lease.attempts()), ("a", 2));
/// assert_eq!(lease.previous(), None);
/// lease.done();
/// assert_eq!(queue.leased_len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped lease gives its deltas back"]
pub struct Lease<'q, Q: DeltaQueue> {
    queue: QueueRef<'q, Q>,
    /// Taken when the lease ends.
    held: Option<Q::Held>,
}

/// A [`Lease`] that owns a handle of its queue.
///
/// ```
/// use delta_fifo::{DeltaQueue, OwnedLease, baseline::MutexDeltaFifo};
///
/// use std::sync::Arc;
///
/// let queue = Arc::new(MutexDeltaFifo::<&str, u32>::new());
/// queue.add("a", 1)?;
/// let lease: OwnedLease<_> = queue.pop_owned()?;
/// std::thread::spawn(move || lease.done()).join().unwrap();
/// assert_eq!(queue.leased_len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedLease<Q> = Lease<'static, Q>;

impl<'q, Q: DeltaQueue> Lease<'q, Q> {
    pub(crate) fn new(queue: QueueRef<'q, Q>, held: Q::Held) -> Self {
        Lease { queue, held: Some(held) }
    }

    fn held(&self) -> &Q::Held {
        self.held.as_ref().expect("the lease is open")
    }

    /// The key. Wait-free, O(1).
    pub fn key(&self) -> &Q::Key {
        self.held().key()
    }

    /// What happened to it since it was last handed out, oldest first. Wait-free, O(1).
    pub fn deltas(&self) -> Deltas<'_, Q::Key, Q::Value> {
        self.held().deltas()
    }

    /// The known object before these deltas, as of the last completed lease: the *old* object of an update.
    /// Wait-free, O(1).
    pub fn previous(&self) -> Option<&Q::Value> {
        self.held().previous()
    }

    /// Whether at least one delta stems from the first replace. Stays through requeues. Wait-free, O(1).
    pub fn is_initial(&self) -> bool {
        self.held().is_initial()
    }

    /// How often these deltas have been handed out, this time included: 1 at first. Wait-free, O(1).
    pub fn attempts(&self) -> u32 {
        self.held().attempts()
    }

    /// How long the key had waited in line when it was leased, since the first of what it stood there for. None if the queue does not
    /// [measure](crate::Builder::measure), or nobody can tell: see [`Stats::oldest_age`](crate::Stats::oldest_age). Wait-free, O(1).
    pub fn waited(&self) -> Option<Duration> {
        self.held().waited()
    }

    /// Ends the lease: the deltas are processed. What arrived meanwhile goes in line. O(1); progress is the queue's.
    pub fn done(self) {
        self.end(Outcome::Done);
    }

    /// Gives the deltas back: they come before anything that arrived meanwhile, and the key goes to the tail. O(1);
    /// progress is the queue's.
    pub fn requeue(self) {
        self.end(Outcome::Requeue);
    }

    /// Gives the deltas back: the key goes in line when `delay` has passed, or at once when a new delta arrives.
    /// O(log delayed); progress is the queue's.
    pub fn requeue_after(self, delay: Duration) {
        self.end(Outcome::RequeueAfter(delay));
    }

    /// Gives the deltas back for the time that the queue's [`Backoff`](crate::Backoff) says for
    /// [`attempts`](Self::attempts). O(log delayed); progress is the queue's.
    pub fn requeue_with_backoff(self) {
        self.end(Outcome::RequeueWithBackoff);
    }

    /// Ends the lease like [`done`](Self::done), for syncs, marks and handles too, and tells the error hook. O(1);
    /// progress is the queue's.
    pub fn give_up(self) {
        self.end(Outcome::GiveUp);
    }

    /// Ends the lease as `outcome` says. Costs what the method of that name costs.
    pub fn end(mut self, outcome: Outcome) {
        if let Some(held) = self.held.take() {
            self.queue.end(held, Ending::By(outcome));
        }
    }

    /// The same lease with a handle of its queue instead of a borrow. O(1); progress is the queue's.
    ///
    /// # Panics
    ///
    /// If `queue` is another queue (the deltas are given back).
    pub fn into_owned(mut self, queue: &Arc<Q>) -> OwnedLease<Q> {
        assert!(std::ptr::eq::<Q>(&*self.queue, &**queue), "the lease is of another queue");
        let mut held = self.held.take().expect("the lease is open");
        queue.disown(&mut held);
        Lease::new(QueueRef::Owned(Arc::clone(queue)), held)
    }

    /// The lease's content, which the caller must end.
    pub(crate) fn into_held(mut self) -> Q::Held {
        self.held.take().expect("the lease is open")
    }
}

impl<Q: DeltaQueue> Drop for Lease<'_, Q> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.queue.end(held, Ending::Abandoned);
        }
    }
}

impl<Q: DeltaQueue> fmt::Debug for Lease<'_, Q>
where
    Q::Key: fmt::Debug,
    Q::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", self.key())
            .field("deltas", &self.deltas())
            .field("previous", &self.previous())
            .field("is_initial", &self.is_initial())
            .field("attempts", &self.attempts())
            .finish()
    }
}

/// Leases of distinct keys that were taken in one step: at least one.
///
/// Each can be ended by itself ([`into_iter`](IntoIterator::into_iter)), or all together for less.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.add("b", 2)?;
/// let batch = queue.pop_batch(10)?;
/// let keys: Vec<_> = batch.iter().map(|lease| *lease.key()).collect();
/// assert_eq!(keys, ["a", "b"]);
/// batch.done();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropped leases give their deltas back"]
pub struct LeaseBatch<'q, Q: DeltaQueue> {
    leases: Vec<Lease<'q, Q>>,
}

impl<'q, Q: DeltaQueue> LeaseBatch<'q, Q> {
    pub(crate) fn new(leases: Vec<Lease<'q, Q>>) -> Self {
        LeaseBatch { leases }
    }

    /// How many leases there are: at least one. Wait-free, O(1).
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// The leases in the order of the line. Wait-free, O(1).
    pub fn iter(&self) -> std::slice::Iter<'_, Lease<'q, Q>> {
        self.leases.iter()
    }

    /// Ends all leases in one step: what they handed out is processed. O(len).
    pub fn done(self) {
        self.end(Outcome::Done);
    }

    /// Ends all leases in one step, as `outcome` says. Costs what the method of that name costs.
    pub fn end(self, outcome: Outcome) {
        let mut leases = self.leases.into_iter();
        let Some(first) = leases.next() else { return };
        // The queue must live until `end_all` returns, and the leases may own the last handles of it.
        let queue = first.queue.clone();
        let held = std::iter::once(first).chain(leases).map(Lease::into_held).collect();
        queue.end_all(held, outcome);
    }
}

impl<'q, Q: DeltaQueue> IntoIterator for LeaseBatch<'q, Q> {
    type Item = Lease<'q, Q>;
    type IntoIter = std::vec::IntoIter<Lease<'q, Q>>;

    fn into_iter(self) -> Self::IntoIter {
        self.leases.into_iter()
    }
}

impl<'b, 'q, Q: DeltaQueue> IntoIterator for &'b LeaseBatch<'q, Q> {
    type Item = &'b Lease<'q, Q>;
    type IntoIter = std::slice::Iter<'b, Lease<'q, Q>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<Q: DeltaQueue> fmt::Debug for LeaseBatch<'_, Q>
where
    Q::Key: fmt::Debug,
    Q::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.leases).finish()
    }
}
