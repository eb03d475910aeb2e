//! The lock-free, sharded DeltaFIFO: its public face. Wiring only.

mod ahead;
mod batch;
mod cells;
mod chain;
mod close;
mod core;
mod debts;
mod delays;
mod drop;
mod due;
mod end;
mod entry;
mod epochs;
mod extras;
mod fact;
mod first;
mod hashing;
mod head;
mod kept;
mod known;
mod limbo;
mod lines;
mod link;
mod marks;
mod measure;
mod merging;
#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, delta_fifo_loom))]
mod models_replace;
mod open;
mod panics;
mod parts;
mod pop;
mod processed;
mod produce;
mod published;
mod push;
mod replace;
mod replaces;
mod resync;
mod rules;
mod shard;
mod snapshots;
mod store;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;
mod undo;
mod version;
mod wait;
mod word;

use std::hash::{BuildHasher, Hash};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use ahash::RandomState;

use crate::alarm::Alarm;
use crate::builder::{Builder, Emit, ErrorHook, Known, OnAbandon, ScopeDecl, Transform};
use crate::clock::Clock;
use crate::delay::Backoff;
use crate::delta::{Change, Compression, FactHead};
use crate::error::{
    BeginReplaceError, BoxError, ChangeAllError, ChangeError, Closed, CommitError, MarkError,
    PopTimeoutError, ReplaceError, ResyncError, ResyncKeyError, UpsertError, WaitError,
};
use crate::extras::Extras;
use crate::lease::Outcome;
use crate::object::Pool;
use crate::queue::{DeltaQueue, Discarded};
use crate::raw::{Awaited, BeginReplace, Deadline, Ending, RawQueue};
use crate::replace::{Upsert, Version};
use crate::slow::OnSlow;
use crate::stats::Stats;
use crate::sync::Arc as Shared;
use crate::sync::atomic::Ordering;
use crate::wait::Waiters;

use core::Core;
use delays::Delays;
pub(crate) use entry::EntryKey;
pub use known::{FifoKnown, FifoSnapshot, KnownChange, OtherQueueError};
use lines::Lines;
use marks::Marks;
use measure::Measure;
use pop::Held;
use processed::LastLook;
pub use published::Published;
use published::Publishing;
use replace::Ticket;
use replaces::Replaces;
use shard::Shard;

/// Where the facts and objects of a shard live.
type Objects<V> = Pool<V, FactHead>;

/// The lock-free, sharded DeltaFIFO.
///
/// Keys are spread over shards by their hashes, each with a table of its pending keys, one of the known objects, and the
/// memory of both; one line leads through all of them, or [several](Builder::lines). No call of a producer or a consumer takes a lock: see *Progress*
/// below, line by line.
///
/// ```
/// use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
///
/// let queue = DeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.update("a", 2)?;
/// let lease = queue.pop()?;
/// queue.update("a", 3)?; // while it is being processed: it comes when the lease has ended
/// assert_eq!((lease.deltas().len(), queue.known().get("a")), (2, Some(2)));
/// lease.done();
/// assert_eq!(queue.pending_len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc = ""]
#[doc = include_str!("fifo/progress.md")]
pub struct DeltaFifo<K, V, S = RandomState> {
    core: Shared<Core<K, V>>,
    lines: Lines,
    delays: Delays,
    /// Who waits for a key in line.
    consumers: Arc<Waiters>,
    /// Who waits for the end of a lease or a replace.
    watchers: Arc<Waiters>,
    marks: Marks,
    last_look: LastLook,
    publishing: Publishing<K, V, S>,
    clock: Clock,
    alarm: Alarm,
    hasher: Arc<S>,
    known: Known<K, V>,
    emit: Emit,
    compression: Compression,
    background_resync: bool,
    background_initial: bool,
    transform: Option<Transform<V>>,
    on_error: Option<ErrorHook<K>>,
    on_slow: Option<OnSlow<K>>,
    measure: Option<Measure>,
    on_abandon: OnAbandon,
    backoff: Backoff,
    scopes: Vec<ScopeDecl<K>>,
    extras: Extras<V>,
    /// Whether there is any.
    with_extras: bool,
}

impl<K, V> DeltaFifo<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    /// An empty queue with everything at its default. See [`Builder`] for what can be chosen.
    pub fn new() -> Self {
        Builder::new().build()
    }
}

impl<K, V> Default for DeltaFifo<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn default() -> Self {
        Self::new()
    }
}

// Whatever panics leaves the queue consistent: that is part of what it promises.
impl<K, V, S> UnwindSafe for DeltaFifo<K, V, S> {}
impl<K, V, S> RefUnwindSafe for DeltaFifo<K, V, S> {}

impl<K, V, S> DeltaQueue for DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    type Key = K;
    type Value = V;
    type Hasher = S;
    type Known<'q>
        = FifoKnown<'q, K, V, S>
    where
        Self: 'q;
    type Snapshot = FifoSnapshot<K, V, S>;

    fn from_builder(builder: Builder<K, V, S>) -> Self {
        let consumers = Arc::new(Waiters::new());
        let watchers = Arc::new(Waiters::new());
        let (wake_consumers, wake_watchers) = (Arc::clone(&consumers), Arc::clone(&watchers));
        let wake = move || {
            wake_consumers.notify_all();
            wake_watchers.notify_all();
        };
        let clock = Clock::new(builder.timer.clone());
        DeltaFifo {
            core: Shared::new(Core::new(
                builder.shard_count(),
                Replaces::new(builder.scopes.len(), builder.disjoint_scopes),
                matches!(builder.known, Known::Inside),
                builder.measure,
            )),
            lines: Lines::new(
                builder.lines.min(builder.shard_count()),
                builder.background_resync || builder.background_initial,
            ),
            delays: Delays::new(clock.now()),
            consumers,
            watchers,
            marks: Marks::new(),
            last_look: LastLook::default(),
            publishing: Publishing::new(builder.publish_every, clock.clone()),
            alarm: Alarm::new(clock.clone(), Arc::new(wake)),
            clock,
            hasher: Arc::new(builder.hasher),
            known: builder.known,
            emit: builder.emit,
            compression: builder.compression,
            background_resync: builder.background_resync,
            background_initial: builder.background_initial,
            transform: builder.transform,
            on_error: builder.on_error,
            on_slow: builder.on_slow,
            measure: builder.measure.then(Measure::new),
            on_abandon: builder.on_abandon,
            backoff: builder.backoff,
            scopes: builder.scopes,
            with_extras: builder.extras.any(),
            extras: builder.extras,
        }
    }

    #[inline]
    fn change(&self, change: Change<K, V>) -> Result<(), ChangeError<K, V>> {
        self.change_one(change)
    }

    fn change_all(
        &self,
        changes: impl IntoIterator<Item = Change<K, V>>,
    ) -> Result<(), ChangeAllError<K, V>> {
        self.change_many(changes)
    }

    fn resync(&self) -> Result<usize, ResyncError> {
        self.resync_all()
    }

    fn resync_key(&self, key: K) -> Result<bool, ResyncKeyError<K>> {
        self.resync_one(key)
    }

    fn processed_through(&self) -> Option<Version> {
        self.process_marks()
    }

    fn has_synced(&self) -> bool {
        self.core.replaces.synced()
    }

    fn has_delivered(&self) -> bool {
        self.core.replaces.delivered()
    }

    fn close(&self) -> bool {
        self.close_now()
    }

    fn is_closed(&self) -> bool {
        self.core.closing.is_closed()
    }

    fn close_discard(&self) -> Discarded {
        self.close_and_discard()
    }

    fn known(&self) -> FifoKnown<'_, K, V, S> {
        self.known_view()
    }

    fn snapshot(&self) -> FifoSnapshot<K, V, S> {
        self.take_snapshot()
    }

    fn pending_len(&self) -> usize {
        self.pending_len_now()
    }

    fn leased_len(&self) -> usize {
        self.core.shards.iter().map(Shard::leased).sum()
    }

    fn merged(&self) -> u64 {
        // Relaxed: as far as it got.
        self.core.shards.iter().map(|shard| shard.merged.load(Ordering::Relaxed)).sum()
    }

    fn stats(&self) -> Stats {
        Stats { merged: self.merged(), ..self.gather_stats() }
    }
}

impl<K, V, S> RawQueue<K, V> for DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    type Held = Held<K, V>;
    type Ticket = Ticket;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn transform_raw(&self, value: &mut V) -> Result<(), BoxError> {
        match &self.transform {
            Some(transform) => transform(value),
            None => Ok(()),
        }
    }

    fn change_transformed(&self, change: Change<K, V>) -> Result<(), Change<K, V>> {
        self.offer_one(change)
    }

    fn change_all_transformed(&self, changes: Vec<Change<K, V>>) -> Result<(), ChangeAllError<K, V>> {
        self.offer_many(changes)
    }

    fn pop_raw(&self, deadline: Deadline) -> Result<Held<K, V>, PopTimeoutError> {
        self.pop_blocking(|thread| self.take_one(thread), deadline)
    }

    async fn pop_raw_async(&self) -> Result<Held<K, V>, Closed> {
        self.pop_waiting(|thread| self.take_one(thread)).await
    }

    fn pop_batch_raw(&self, max: usize, deadline: Deadline) -> Result<Vec<Held<K, V>>, PopTimeoutError> {
        assert!(max > 0, "a batch has at least one lease");
        self.pop_blocking(|thread| Some(self.take(max, thread)).filter(|batch| !batch.is_empty()), deadline)
    }

    async fn pop_batch_raw_async(&self, max: usize) -> Result<Vec<Held<K, V>>, Closed> {
        assert!(max > 0, "a batch has at least one lease");
        self.pop_waiting(|thread| Some(self.take(max, thread)).filter(|batch| !batch.is_empty())).await
    }

    fn end(&self, held: Held<K, V>, ending: Ending) {
        self.end_one(held, ending);
    }

    fn end_all(&self, held: Vec<Held<K, V>>, outcome: Outcome) {
        self.end_batch(held, outcome);
    }

    fn disown(&self, held: &mut Held<K, V>) {
        self.disown_one(held);
    }

    fn begin_replace_raw(&self, how: BeginReplace<'_>) -> Result<Ticket, BeginReplaceError> {
        self.begin(how)
    }

    fn replace_list_raw(
        &self,
        ticket: Ticket,
        list: Vec<(K, V)>,
        transformed: bool,
    ) -> Result<Awaited, ReplaceError<K, V>> {
        self.replace_listed(ticket, list, transformed)
    }

    fn upsert_raw(
        &self,
        ticket: &Ticket,
        key: K,
        value: V,
        transformed: bool,
    ) -> Result<Upsert, UpsertError<K, V>> {
        self.upsert_one(ticket, key, value, transformed)
    }

    fn commit_raw(&self, ticket: Ticket) -> Result<Awaited, CommitError> {
        self.commit_streamed(ticket)
    }

    fn abort_raw(&self, ticket: Ticket) {
        self.abort_replace(&ticket.0);
    }

    fn mark_raw(&self, version: Version) -> Result<Awaited, MarkError> {
        if self.core.closing.is_closed() {
            return Err(MarkError { version });
        }
        Ok(Awaited::Mark(self.marks.mark(version)))
    }

    fn forget(&self, awaited: Awaited) {
        if let Awaited::Replace(number) = awaited {
            self.core.replaces.forget(number);
        }
    }

    fn check(&self, awaited: Awaited) -> Option<Result<(), Closed>> {
        self.check_now(awaited)
    }

    fn wait_raw(&self, awaited: Awaited, deadline: Deadline) -> Result<(), WaitError> {
        self.wait_blocking(awaited, deadline)
    }

    async fn wait_raw_async(&self, awaited: Awaited) -> Result<(), Closed> {
        self.wait_async_for(awaited).await
    }
}
