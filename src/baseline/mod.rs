//! The DeltaFIFO of client-go, in its own structure: one mutex around a map key → deltas and a queue of keys.
//!
//! Complete in its meaning, so that other structures can be compared with it and every test runs on each; what differs
//! is what one lock costs.

mod change;
mod end;
mod entry;
mod lines;
mod lock;
mod marks;
mod measure;
mod pop;
mod records;
mod replace;
mod replaces;
mod sleepers;
mod state;
mod sweep;
mod table;
mod view;
mod wait;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use ahash::RandomState;
use smallvec::SmallVec;

use crate::alarm::Alarm;
use crate::builder::{Builder, Emit, ErrorHook, Known, OnAbandon, ScopeDecl, Transform};
use crate::clock::Clock;
use crate::delay::Backoff;
use crate::delta::Change;
use crate::error::{
    BeginReplaceError, BoxError, ChangeAllError, ChangeError, Closed, CommitError, MarkError,
    PopTimeoutError, ReplaceError, ResyncError, ResyncKeyError, UpsertError, WaitError,
};
use crate::extras::Extras;
use crate::lease::{Lease, Outcome};
use crate::queue::{DeltaQueue, Discarded};
use crate::raw::{Awaited, BeginReplace, Deadline, Ending, RawQueue};
use crate::replace::{Upsert, Version};
use crate::slow::OnSlow;
use crate::stats::Stats;

use entry::{Held, Origins};
use lock::Sleepers;
use records::Records;
use replace::Ticket;
use replaces::Replaces;
use state::State;
pub use view::{MutexKnown, MutexSnapshot};

/// A DeltaFIFO in client-go's structure: one mutex, one map, one queue of keys; the known objects behind a lock of their
/// own.
///
/// # Progress
///
/// Every call takes the mutex and waits for whoever holds it, but `has_synced`, `has_delivered` and `is_closed`, which
/// are wait-free, and `known` and `snapshot`, which wait for the known objects' own lock. The mutex is held for O(1),
/// except by a list of changes or a batch (O(length)); by `replace`, a `commit`, the end of a streaming replace, `resync`
/// and `close_discard` (O(keys)); by `close` (O(delayed)); by `stats` (O(pending and leased)); by a wait of a thread that holds a borrowed lease (O(pending
/// and leased)); and by [`process`](DeltaQueue::process), which runs user code under it as client-go's `Pop` does. The
/// known objects' lock is held for O(1) by pops, and by the ends of leases while a replace is open; for O(n) by
/// `snapshot`, by iterators when they are made, and by what goes over all keys.
///
/// While a replace is open, the queue remembers every key that is deleted meanwhile; a forgotten replace is open for ever.
///
/// User code runs under no lock, but for a key's `Eq` and for `process`. A call to the queue from inside `process`
/// panics, where client-go would deadlock; the panic abandons the lease. Use leases instead:
///
/// ```
/// use delta_fifo::{DeltaQueue, Outcome, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// let lease = queue.pop()?;
/// queue.add("a", 2)?; // while "a" is being processed
/// lease.done();
/// queue.process(|lease| {
///     assert_eq!(lease.deltas().newest().object(), Some(&2));
///     Outcome::Done
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutexDeltaFifo<K, V, S = RandomState> {
    state: Mutex<State<K, V>>,
    records: RwLock<Records<K, V>>,
    sleepers: Sleepers,
    clock: Clock,
    alarm: Alarm,
    /// The thread that runs user code under the lock; 0 if none does.
    processing: AtomicU32,
    synced: AtomicBool,
    /// The state's flag, for a look without the lock.
    closed: AtomicBool,
    delivered: AtomicBool,
    hasher: Arc<S>,
    known: Known<K, V>,
    emit: Emit,
    transform: Option<Transform<V>>,
    on_error: Option<ErrorHook<K>>,
    on_slow: Option<OnSlow<K>>,
    on_abandon: OnAbandon,
    backoff: Backoff,
    scopes: Vec<ScopeDecl<K>>,
    extras: Extras<V>,
}

impl<K, V> MutexDeltaFifo<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    /// An empty queue with everything at its default. See [`Builder`] for what can be chosen.
    pub fn new() -> Self {
        Builder::new().build()
    }
}

impl<K, V> Default for MutexDeltaFifo<K, V>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
{
    fn default() -> Self {
        Self::new()
    }
}

// Whatever panics leaves the queue consistent: that is part of what it promises.
impl<K, V, S> UnwindSafe for MutexDeltaFifo<K, V, S> {}
impl<K, V, S> RefUnwindSafe for MutexDeltaFifo<K, V, S> {}

impl<K, V, S> fmt::Debug for MutexDeltaFifo<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexDeltaFifo").finish_non_exhaustive()
    }
}

impl<K, V, S> DeltaQueue for MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    type Key = K;
    type Value = V;
    type Hasher = S;
    type Known<'q>
        = MutexKnown<'q, K, V, S>
    where
        Self: 'q;
    type Snapshot = MutexSnapshot<K, V, S>;

    fn from_builder(builder: Builder<K, V, S>) -> Self {
        let mut background = Origins::default();
        if builder.background_resync {
            background.join(Origins::RESYNC);
        }
        if builder.background_initial {
            background.join(Origins::FIRST_REPLACE);
        }
        let replaces = Replaces::new(builder.scopes.len(), builder.disjoint_scopes);
        let sleepers = Sleepers::new();
        let asleep = [Arc::clone(&sleepers.items_async), Arc::clone(&sleepers.progress_async)];
        let wake = move || {
            // All are woken: nobody's place has to be taken.
            asleep.iter().for_each(|asleep| _ = asleep.wake(usize::MAX));
        };
        let clock = Clock::new(builder.timer.clone());
        MutexDeltaFifo {
            state: Mutex::new(State::new(
                clock.clone(),
                replaces,
                builder.compression,
                background,
                builder.measure,
                &builder.extras,
            )),
            records: RwLock::new(Records::new()),
            alarm: Alarm::new(clock.clone(), Arc::new(wake)),
            clock,
            sleepers,
            processing: AtomicU32::new(0),
            synced: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            delivered: AtomicBool::new(false),
            hasher: Arc::new(builder.hasher),
            known: builder.known,
            emit: builder.emit,
            transform: builder.transform,
            on_error: builder.on_error,
            on_slow: builder.on_slow,
            on_abandon: builder.on_abandon,
            backoff: builder.backoff,
            scopes: builder.scopes,
            extras: builder.extras,
        }
    }

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
        self.lock().marks.processed().cloned()
    }

    fn process<O: Into<Outcome>>(&self, f: impl FnOnce(&Lease<'_, Self>) -> O) -> Result<Outcome, Closed> {
        self.process_locked(f)
    }

    fn has_synced(&self) -> bool {
        // Acquire: pairs with `publish_sync` (Release).
        self.synced.load(Ordering::Acquire)
    }

    fn has_delivered(&self) -> bool {
        // Acquire: pairs with `publish_sync` (Release).
        self.delivered.load(Ordering::Acquire)
    }

    fn close(&self) -> bool {
        self.close_now()
    }

    fn is_closed(&self) -> bool {
        // Acquire: pairs with `close_now` (Release); what came before the close is visible.
        self.closed.load(Ordering::Acquire)
    }

    fn close_discard(&self) -> Discarded {
        self.close_and_discard()
    }

    fn known(&self) -> MutexKnown<'_, K, V, S> {
        MutexKnown::new(self)
    }

    fn snapshot(&self) -> MutexSnapshot<K, V, S> {
        self.clone_known()
    }

    fn pending_len(&self) -> usize {
        self.lock().pending
    }

    fn leased_len(&self) -> usize {
        self.lock().leased
    }

    fn merged(&self) -> u64 {
        self.lock().merged
    }

    fn stats(&self) -> Stats {
        self.lock().stats()
    }
}

impl<K, V, S> RawQueue<K, V> for MutexDeltaFifo<K, V, S>
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
        self.pop_blocking(1, deadline).map(one)
    }

    async fn pop_raw_async(&self) -> Result<Held<K, V>, Closed> {
        self.pop_waiting(1).await.map(one)
    }

    fn pop_batch_raw(&self, max: usize, deadline: Deadline) -> Result<Vec<Held<K, V>>, PopTimeoutError> {
        self.pop_blocking(max, deadline).map(SmallVec::into_vec)
    }

    async fn pop_batch_raw_async(&self, max: usize) -> Result<Vec<Held<K, V>>, Closed> {
        self.pop_waiting(max).await.map(SmallVec::into_vec)
    }

    fn end(&self, held: Held<K, V>, ending: Ending) {
        self.end_one(held, ending);
    }

    fn end_all(&self, held: Vec<Held<K, V>>, outcome: Outcome) {
        self.end_batch(held, outcome);
    }

    fn disown(&self, held: &mut Held<K, V>) {
        self.lock().disown(held);
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
        self.abort_replace(&ticket);
    }

    fn mark_raw(&self, version: Version) -> Result<Awaited, MarkError> {
        let mut state = self.lock();
        if state.closed {
            return Err(MarkError { version });
        }
        Ok(Awaited::Mark(state.marks.mark(version)))
    }

    fn forget(&self, awaited: Awaited) {
        // Inside `process` the lock is held; what is not forgotten then is forgotten when it is complete.
        if let (Awaited::Replace(number), false) = (awaited, self.is_processing()) {
            self.lock().replaces.forget(number);
        }
    }

    fn check(&self, awaited: Awaited) -> Option<Result<(), Closed>> {
        self.lock().check(awaited)
    }

    fn wait_raw(&self, awaited: Awaited, deadline: Deadline) -> Result<(), WaitError> {
        self.wait_blocking(awaited, deadline)
    }

    async fn wait_raw_async(&self, awaited: Awaited) -> Result<(), Closed> {
        self.wait_async_for(awaited).await
    }
}

fn one<T>(mut batch: SmallVec<[T; 1]>) -> T {
    batch.pop().expect("a pop takes at least one key")
}
