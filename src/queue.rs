//! The face that every queue of this crate has.

use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::delta::Change;
use crate::error::{
    BeginReplaceError, BoxError, ChangeAllError, ChangeError, Closed, MarkError, PopTimeoutError,
    ReplaceError, ReplaceErrorKind, ResyncError, ResyncKeyError, TryPopError, WaitError,
};
use crate::known::KnownView;
use crate::lease::{Lease, LeaseBatch, Outcome, OwnedLease};
use crate::raw::{Awaited, BeginReplace, Deadline, QueueRef, RawQueue};
use crate::replace::{Completion, OwnedReplace, Replace, Version};
use crate::stats::Stats;
#[cfg(feature = "async")]
use crate::stream::Leases;

/// What [`close_discard`](DeltaQueue::close_discard) dropped.
///
/// ```
/// use delta_fifo::{DeltaQueue, Discarded, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.add("a", 1)?;
/// queue.update("a", 2)?;
/// assert_eq!(queue.close_discard(), Discarded { keys: 1, deltas: 2 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Keys that were pending, or given back later.
    pub keys: u64,
    /// Their deltas.
    pub deltas: u64,
}

/// A DeltaFIFO: producers append changes, consumers lease one key at a time with all that happened to it.
///
/// Implemented by the queues of this crate only, so that it can grow. Write code that takes any of them:
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// fn drain<Q: DeltaQueue>(queue: &Q) -> usize {
///     let mut deltas = 0;
///     while let Ok(lease) = queue.try_pop() {
///         deltas += lease.deltas().len();
///         lease.done();
///     }
///     deltas
/// }
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.update("a", 2)?;
/// assert_eq!(drain(&queue), 2);
/// assert_eq!(queue.known().get("a"), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Costs and progress
///
/// Costs are given per method, for a hash function that spreads the keys; `n` is the number of known keys. No method
/// waits for a consumer, for user code of others or for a replace in progress unless it says so. What else can hold
/// a call up depends on the queue and stands in its own documentation.
///
/// # Panics in user code
///
/// A key's `Hash` and `Eq`, a transform, a key function, a comparison of objects, `Drop`, a store, a hook or a waker may panic: the panic
/// reaches the caller whose call ran the code (of a waker or a hook: nobody), the call has then either happened as a
/// whole or not at all (a list of changes: up to some change; the end of a batch: for some of its leases, the others
/// come back), and the queue stays usable.
pub trait DeltaQueue:
    RawQueue<<Self as DeltaQueue>::Key, <Self as DeltaQueue>::Value> + Send + Sync + Sized
{
    /// What identifies an object. Stored once.
    type Key: Hash + Eq + Send + Sync;
    /// An object. Shared between the queue, the known objects and the leases, never cloned.
    type Value: Send + Sync;
    /// The hash function.
    type Hasher: BuildHasher;
    /// The live view of the known objects.
    type Known<'q>: KnownView<Self::Key, Self::Value>
    where
        Self: 'q;
    /// The known objects as of one moment.
    type Snapshot: KnownView<Self::Key, Self::Value> + Clone + Send + Sync;

    /// A queue as the builder says; the same as [`Builder::build`]. O(1).
    fn from_builder(builder: Builder<Self::Key, Self::Value, Self::Hasher>) -> Self;

    // ---- producers

    /// Appends one change. O(1) expected.
    ///
    /// # Errors
    ///
    /// The queue is closed, or the transform rejected the object. The change comes back, and nothing has changed.
    fn change(
        &self,
        change: Change<Self::Key, Self::Value>,
    ) -> Result<(), ChangeError<Self::Key, Self::Value>>;

    /// Appends many changes, exactly as if made one by one in this order, for less. The transform sees all objects
    /// before the first is appended. O(changes).
    ///
    /// # Errors
    ///
    /// A rejected object rejects all; closed in the middle, the rest comes back.
    fn change_all(
        &self,
        changes: impl IntoIterator<Item = Change<Self::Key, Self::Value>>,
    ) -> Result<(), ChangeAllError<Self::Key, Self::Value>>;

    /// [`change_all`](Self::change_all) for who goes on without what the transform rejects: `rejected` gets each such change,
    /// and may give another in its place, which the transform does not see. O(changes).
    ///
    /// ```
    /// use delta_fifo::{Builder, Change, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// let queue: MutexDeltaFifo<&str, i32> = Builder::new()
    ///     .transform(|v: &mut i32| if *v < 0 { Err("negative".into()) } else { Ok(()) })
    ///     .build();
    /// queue.change_each([Change::Add("a", 1), Change::Add("b", -1)], |change, error| {
    ///     assert_eq!((*change.key(), error.to_string()), ("b", "negative".to_owned()));
    ///     None
    /// })?;
    /// assert_eq!(queue.pending_len(), 1);
    /// # Ok::<(), delta_fifo::ChangeAllError<&str, i32>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The queue was closed before all were appended. The rest comes back as the transform left it, and is counted without what it rejected.
    fn change_each(
        &self,
        changes: impl IntoIterator<Item = Change<Self::Key, Self::Value>>,
        mut rejected: impl FnMut(
            Change<Self::Key, Self::Value>,
            BoxError,
        ) -> Option<Change<Self::Key, Self::Value>>,
    ) -> Result<(), ChangeAllError<Self::Key, Self::Value>> {
        let transform =
            |mut change: Change<_, _>| match change.value_mut().map(|value| self.transform_raw(value)) {
                Some(Err(error)) => rejected(change, error),
                Some(Ok(())) | None => Some(change),
            };
        self.change_all_transformed(changes.into_iter().filter_map(transform).collect())
    }

    /// Appends `Added`. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    #[inline]
    fn add(&self, key: Self::Key, value: Self::Value) -> Result<(), ChangeError<Self::Key, Self::Value>> {
        self.change(Change::Add(key, value))
    }

    /// Appends `Updated`. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    #[inline]
    fn update(&self, key: Self::Key, value: Self::Value) -> Result<(), ChangeError<Self::Key, Self::Value>> {
        self.change(Change::Update(key, value))
    }

    /// Appends `Added` if the key does not exist, else `Updated`: for sources that do not tell the two apart.
    /// O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    #[inline]
    fn apply(&self, key: Self::Key, value: Self::Value) -> Result<(), ChangeError<Self::Key, Self::Value>> {
        self.change(Change::Apply(key, value))
    }

    /// Appends `Deleted` with the final object if the key is pending or known, else nothing. Where a user's store
    /// cannot tell, the key is taken as known. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    #[inline]
    fn delete(&self, key: Self::Key, value: Self::Value) -> Result<(), ChangeError<Self::Key, Self::Value>> {
        self.change(Change::Delete(key, value))
    }

    /// The same without a final object: appends a tombstone with the newest object that the queue has seen.
    /// O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`change`](Self::change).
    fn delete_key(&self, key: Self::Key) -> Result<(), ChangeError<Self::Key, Self::Value>> {
        self.change(Change::DeleteKey(key))
    }

    /// Tells the complete set of objects: each item is appended as `Replaced` (or `Sync`, see
    /// [`Builder::replace_emits`]), and every key that exists and is not in the list gets a tombstone. A change whose
    /// call began after this one wins over the list for its key. O(items + keys that exist).
    ///
    /// # Errors
    ///
    /// Another replace is running, the queue is closed, the transform rejected an item, or the user's store cannot
    /// list its keys. The list comes back, and nothing has changed.
    fn replace(
        &self,
        list: impl IntoIterator<Item = (Self::Key, Self::Value)>,
    ) -> Result<Completion<'_, Self>, ReplaceError<Self::Key, Self::Value>> {
        replace_list(self, BeginReplace::list(None), list)
    }

    /// The same, waiting for a running replace to end first. Waits for the running one, then O(items + keys that
    /// exist).
    ///
    /// # Errors
    ///
    /// As [`replace`](Self::replace), but for the running one. A thread that waits for its own streaming replace
    /// waits for ever.
    fn replace_wait(
        &self,
        list: impl IntoIterator<Item = (Self::Key, Self::Value)>,
    ) -> Result<Completion<'_, Self>, ReplaceError<Self::Key, Self::Value>> {
        replace_list(self, BeginReplace::list(None).waiting(), list)
    }

    /// The same as [`replace`](Self::replace), limited to the keys of one declared scope, whose predicate runs before
    /// anything is applied. O(items + keys that exist).
    ///
    /// # Errors
    ///
    /// Also if no such scope was declared, or an item is outside it.
    fn replace_scope(
        &self,
        scope: &str,
        list: impl IntoIterator<Item = (Self::Key, Self::Value)>,
    ) -> Result<Completion<'_, Self>, ReplaceError<Self::Key, Self::Value>> {
        replace_list(self, BeginReplace::list(Some(scope)), list)
    }

    /// Begins a replace in the streaming form. O(1).
    ///
    /// # Errors
    ///
    /// Another replace is running, or the queue is closed.
    fn begin_replace(&self) -> Result<Replace<'_, Self>, BeginReplaceError> {
        let ticket = self.begin_replace_raw(BeginReplace::stream(None))?;
        Ok(Replace::new(QueueRef::Borrowed(self), ticket))
    }

    /// Begins a replace of one declared scope in the streaming form. O(1).
    ///
    /// # Errors
    ///
    /// Also if no such scope was declared.
    fn begin_replace_scope(&self, scope: &str) -> Result<Replace<'_, Self>, BeginReplaceError> {
        let ticket = self.begin_replace_raw(BeginReplace::stream(Some(scope)))?;
        Ok(Replace::new(QueueRef::Borrowed(self), ticket))
    }

    /// [`begin_replace`](Self::begin_replace) with a handle of the queue instead of a borrow, to be moved into a
    /// spawned task. O(1).
    ///
    /// # Errors
    ///
    /// As [`begin_replace`](Self::begin_replace).
    fn begin_replace_owned(self: &Arc<Self>) -> Result<OwnedReplace<Self>, BeginReplaceError>
    where
        Self: 'static,
    {
        let ticket = self.begin_replace_raw(BeginReplace::stream(None))?;
        Ok(Replace::new(QueueRef::Owned(Arc::clone(self)), ticket))
    }

    /// [`begin_replace_scope`](Self::begin_replace_scope) with a handle of the queue instead of a borrow. O(1).
    ///
    /// # Errors
    ///
    /// As there.
    fn begin_replace_scope_owned(
        self: &Arc<Self>,
        scope: &str,
    ) -> Result<OwnedReplace<Self>, BeginReplaceError>
    where
        Self: 'static,
    {
        let ticket = self.begin_replace_raw(BeginReplace::stream(Some(scope)))?;
        Ok(Replace::new(QueueRef::Owned(Arc::clone(self)), ticket))
    }

    /// Appends `Sync` to every known key that is neither pending nor leased, and says how many. O(n).
    ///
    /// # Errors
    ///
    /// The queue is closed, or the user's store cannot list its keys; nothing has changed.
    fn resync(&self) -> Result<usize, ResyncError>;

    /// The same for one key; whether it was appended. O(1) expected.
    ///
    /// # Errors
    ///
    /// The queue is closed; the key comes back.
    fn resync_key(&self, key: Self::Key) -> Result<bool, ResyncKeyError<Self::Key>>;

    /// A barrier in the stream of changes: `version` is processed when everything that was appended before is
    /// completed. O(1) amortized.
    ///
    /// # Errors
    ///
    /// The queue is closed; the version comes back.
    fn mark(&self, version: impl Into<Version>) -> Result<Completion<'_, Self>, MarkError> {
        let awaited = self.mark_raw(version.into())?;
        Ok(Completion::new(QueueRef::Borrowed(self), awaited))
    }

    /// The newest mark whose predecessors are all completed. Never runs ahead; a key that was dirty when a lease
    /// ended may hold it back by one more lease, a delayed key until it completes, a forgotten lease for ever. At
    /// most O(pending).
    fn processed_through(&self) -> Option<Version>;

    // ---- consumers

    /// Blocks until a key is in line and leases the first. O(1) expected.
    ///
    /// # Errors
    ///
    /// The queue is closed and everything has been handed out.
    fn pop(&self) -> Result<Lease<'_, Self>, Closed> {
        match self.pop_raw(Deadline::Never) {
            Ok(held) => Ok(Lease::new(QueueRef::Borrowed(self), held)),
            Err(_) => Err(Closed),
        }
    }

    /// Leases the first key in line, if there is one now. O(1) expected.
    ///
    /// # Errors
    ///
    /// No key is in line; or none can come any more.
    fn try_pop(&self) -> Result<Lease<'_, Self>, TryPopError> {
        match self.pop_raw(Deadline::Now) {
            Ok(held) => Ok(Lease::new(QueueRef::Borrowed(self), held)),
            Err(PopTimeoutError::Timeout) => Err(TryPopError::Empty),
            Err(PopTimeoutError::Closed) => Err(TryPopError::Closed),
        }
    }

    /// [`pop`](Self::pop) that blocks at most for `timeout`. O(1) expected.
    ///
    /// # Errors
    ///
    /// No key came in line in time; or none can come any more.
    fn pop_timeout(&self, timeout: Duration) -> Result<Lease<'_, Self>, PopTimeoutError> {
        self.pop_raw(self.clock().after(timeout)).map(|held| Lease::new(QueueRef::Borrowed(self), held))
    }

    /// [`pop`](Self::pop) that blocks at most until `deadline`. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`pop_timeout`](Self::pop_timeout).
    fn pop_deadline(&self, deadline: Instant) -> Result<Lease<'_, Self>, PopTimeoutError> {
        self.pop_raw(Deadline::At(deadline)).map(|held| Lease::new(QueueRef::Borrowed(self), held))
    }

    /// [`pop`](Self::pop) that waits without blocking, on any executor. Cancel-safe: dropping the future loses no key
    /// and no wake-up. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn pop_async(&self) -> impl Future<Output = Result<Lease<'_, Self>, Closed>> + Send {
        async move { Ok(Lease::new(QueueRef::Borrowed(self), self.pop_raw_async().await?)) }
    }

    /// Leases up to `max` keys that are in line, in one step; blocks until there is one, but never to fill up.
    /// O(leases).
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn pop_batch(&self, max: usize) -> Result<LeaseBatch<'_, Self>, Closed> {
        self.pop_batch_raw(max, Deadline::Never)
            .map(|held| batch(QueueRef::Borrowed(self), held))
            .map_err(|_| Closed)
    }

    /// [`pop_batch`](Self::pop_batch) that does not block. O(leases).
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    ///
    /// # Errors
    ///
    /// As [`try_pop`](Self::try_pop).
    fn try_pop_batch(&self, max: usize) -> Result<LeaseBatch<'_, Self>, TryPopError> {
        match self.pop_batch_raw(max, Deadline::Now) {
            Ok(held) => Ok(batch(QueueRef::Borrowed(self), held)),
            Err(PopTimeoutError::Timeout) => Err(TryPopError::Empty),
            Err(PopTimeoutError::Closed) => Err(TryPopError::Closed),
        }
    }

    /// [`pop_batch`](Self::pop_batch) that blocks at most for `timeout`. O(leases).
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    ///
    /// # Errors
    ///
    /// As [`pop_timeout`](Self::pop_timeout).
    fn pop_batch_timeout(
        &self,
        max: usize,
        timeout: Duration,
    ) -> Result<LeaseBatch<'_, Self>, PopTimeoutError> {
        self.pop_batch_raw(max, self.clock().after(timeout)).map(|held| batch(QueueRef::Borrowed(self), held))
    }

    /// [`pop_batch`](Self::pop_batch) that waits without blocking. Cancel-safe, on any executor. O(leases).
    ///
    /// # Panics
    ///
    /// If `max` is 0.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn pop_batch_async(
        &self,
        max: usize,
    ) -> impl Future<Output = Result<LeaseBatch<'_, Self>, Closed>> + Send {
        async move { Ok(batch(QueueRef::Borrowed(self), self.pop_batch_raw_async(max).await?)) }
    }

    /// [`pop`](Self::pop) for a lease that owns a handle of the queue. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn pop_owned(self: &Arc<Self>) -> Result<OwnedLease<Self>, Closed>
    where
        Self: 'static,
    {
        self.pop().map(|lease| lease.into_owned(self))
    }

    /// The leases as a stream, until the queue is closed and everything has been handed out. O(1).
    #[cfg(feature = "async")]
    fn leases(&self) -> Leases<'_, Self> {
        Leases::new(QueueRef::Borrowed(self))
    }

    /// [`leases`](Self::leases) that own a handle of the queue, in a stream to be moved into a spawned task. O(1).
    #[cfg(feature = "async")]
    fn leases_owned(self: &Arc<Self>) -> Leases<'static, Self>
    where
        Self: 'static,
    {
        Leases::new(QueueRef::Owned(Arc::clone(self)))
    }

    /// [`pop_async`](Self::pop_async) for a lease that owns a handle of the queue. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn pop_async_owned(self: &Arc<Self>) -> impl Future<Output = Result<OwnedLease<Self>, Closed>> + Send
    where
        Self: 'static,
    {
        async move { Ok(Lease::new(QueueRef::Owned(Arc::clone(self)), self.pop_raw_async().await?)) }
    }

    /// Blocks until a key is in line, calls `f` with it, and ends the lease by its result, as client-go's
    /// `Pop(process)` does. If `f` panics the lease is abandoned, and the panic goes on. Which locks are held while
    /// `f` runs is the queue's to say. O(1) expected, and `f`.
    ///
    /// # Errors
    ///
    /// As [`pop`](Self::pop).
    fn process<O: Into<Outcome>>(&self, f: impl FnOnce(&Lease<'_, Self>) -> O) -> Result<Outcome, Closed> {
        let lease = self.pop()?;
        let outcome = f(&lease).into();
        lease.end(outcome);
        Ok(outcome)
    }

    // ---- first sync, close

    /// Whether the first call that counts was a change, or every key that the first replace touched is completed: its
    /// lease ended with `done` or `give_up`. Never false again. With declared scopes: every scope's first replace.
    /// O(1).
    fn has_synced(&self) -> bool;

    /// The weaker sign: each of those keys has been handed out, and its lease has ended in some way. O(1).
    fn has_delivered(&self) -> bool;

    /// Blocks until [`has_synced`](Self::has_synced). O(1) each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// It can no longer come, or the calling thread would wait for its own lease.
    fn wait_synced(&self) -> Result<(), WaitError> {
        self.wait_raw(Awaited::Synced, Deadline::Never)
    }

    /// The same, at most for `timeout`. O(1) each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// As [`wait_synced`](Self::wait_synced), or the time was up.
    fn wait_synced_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_raw(Awaited::Synced, self.clock().after(timeout))
    }

    /// The same without blocking. Cancel-safe, on any executor. O(1) each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// It can no longer come.
    fn wait_synced_async(&self) -> impl Future<Output = Result<(), Closed>> + Send {
        self.wait_raw_async(Awaited::Synced)
    }

    /// Closes the queue: producers get [`Closed`] and their values back, pops go on until nothing is left, delayed
    /// keys go in line at once, a streaming replace is cut as if dropped. Idempotent; whether this was the first
    /// call. O(delayed + waiting).
    fn close(&self) -> bool;

    /// Whether the queue is closed. O(1).
    fn is_closed(&self) -> bool;

    /// Closes the queue and blocks until nothing is pending and no lease is left. O(delayed), then O(1) each time a
    /// lease ends.
    ///
    /// # Errors
    ///
    /// The calling thread would wait for its own lease. The queue is closed all the same.
    fn close_and_wait(&self) -> Result<(), WaitError> {
        self.close();
        self.wait_raw(Awaited::Drained, Deadline::Never)
    }

    /// The same, at most for `timeout`. O(delayed), then O(1) each time a lease ends.
    ///
    /// # Errors
    ///
    /// As [`close_and_wait`](Self::close_and_wait), or the time was up.
    fn close_and_wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.close();
        self.wait_raw(Awaited::Drained, self.clock().after(timeout))
    }

    /// The same without blocking. Cancel-safe, on any executor; does not notice a lease of the same task.
    /// O(delayed), then O(1) each time a lease ends.
    fn close_and_wait_async(&self) -> impl Future<Output = ()> + Send {
        self.close();
        async move {
            // Never `Closed`: being drained can always come.
            let _ = self.wait_raw_async(Awaited::Drained).await;
        }
    }

    /// Closes the queue and drops what is pending. What is given back later is dropped too; the result of a later
    /// call counts it in. O(pending).
    fn close_discard(&self) -> Discarded;

    // ---- what there is

    /// The live view of the known objects. O(1).
    fn known(&self) -> Self::Known<'_>;

    /// The known objects as of now: it never changes. What it costs stands at the queue's own snapshot.
    fn snapshot(&self) -> Self::Snapshot;

    /// How many keys are in line, dirty or delayed. Exact when nothing runs, never negative. O(1).
    fn pending_len(&self) -> usize;

    /// How many keys are leased. Exact when nothing runs, never negative. O(1).
    fn leased_len(&self) -> usize;

    /// How many deltas have been merged away so far. O(1).
    fn merged(&self) -> u64;

    /// How many keys are where, how long they wait, and so on. Changes nothing, and holds up nobody but as the queue says. O(most keys that
    /// there ever were at once).
    fn stats(&self) -> Stats;
}

fn batch<Q: DeltaQueue>(queue: QueueRef<'_, Q>, held: Vec<Q::Held>) -> LeaseBatch<'_, Q> {
    LeaseBatch::new(held.into_iter().map(|held| Lease::new(queue.clone(), held)).collect())
}

fn replace_list<'q, Q: DeltaQueue>(
    queue: &'q Q,
    how: BeginReplace<'_>,
    list: impl IntoIterator<Item = (Q::Key, Q::Value)>,
) -> Result<Completion<'q, Q>, ReplaceError<Q::Key, Q::Value>> {
    // The replace begins before the list is looked at: changes called from here on are newer.
    match queue.begin_replace_raw(how) {
        Ok(ticket) => {
            let replace = Replace::new(QueueRef::Borrowed(queue), ticket);
            let list = list.into_iter().collect();
            replace.finish_list(list, false)
        }
        Err(error) => {
            Err(ReplaceError { kind: ReplaceErrorKind::Begin(error), list: list.into_iter().collect() })
        }
    }
}
