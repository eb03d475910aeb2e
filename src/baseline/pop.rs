//! Consumers: leasing keys, waiting for them, and ending leases.

use std::any::Any;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::builder::Known;
use crate::delta::{Compression, Object};
use crate::error::{Closed, ErrorEvent, PopTimeoutError};
use crate::lease::{Lease, Outcome};
use crate::owner::current_thread;
use crate::raw::{Deadline, Ending, QueueRef};
use crate::resolve::{Before, Resolved, resolve_comparing};

use super::MutexDeltaFifo;
use super::entry::{Held, Taken};
use super::lock::{Locked, write};
use super::sleepers::yield_now;
use super::state::{Lists, Next, State};

/// Leases that were taken in one step, in the order of the line.
type Batch<K, V> = SmallVec<[Held<K, V>; 1]>;

/// The same with the lock under which they were taken.
type LockedBatch<'q, K, V, S> = (Locked<'q, K, V, S>, Batch<K, V>);

/// Nobody's thread: leases of async consumers wander.
const NO_THREAD: u32 = 0;

/// A key that was taken while the user's store is asked, or objects are compared. If that panics, the key goes back.
struct Asking<'q, K: Eq, V, S> {
    queue: &'q MutexDeltaFifo<K, V, S>,
    taken: Option<Taken<K, V>>,
}

impl<K: Eq, V, S> Drop for Asking<'_, K, V, S> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            // To the tail: what panics over one key for ever must not hold up all others.
            self.queue.lock().untake(taken, false);
        }
    }
}

/// What was found out of a key without the lock.
struct Found<V> {
    before: Before<Object<V>>,
    previous: Option<Object<V>>,
    resolved: Option<Resolved<Object<V>>>,
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn pop_blocking(
        &self,
        max: usize,
        deadline: Deadline,
    ) -> Result<Batch<K, V>, PopTimeoutError> {
        assert!(max > 0, "a batch has at least one lease");
        let (state, batch) = self.take_blocking(max, deadline)?;
        Ok(self.hand_over(state, batch))
    }

    /// At least one lease, and the lock under which it was taken.
    fn take_blocking(
        &self,
        max: usize,
        deadline: Deadline,
    ) -> Result<LockedBatch<'_, K, V, S>, PopTimeoutError> {
        let thread = current_thread();
        loop {
            let mut state = self.wait_for_key(deadline)?;
            let batch = self.take(&mut state, max, thread);
            if !batch.is_empty() {
                return Ok((state, batch));
            }
        }
    }

    /// Between the last look and the sleep nothing can be missed: it listens first.
    pub(super) async fn pop_waiting(&self, max: usize) -> Result<Batch<K, V>, Closed> {
        assert!(max > 0, "a batch has at least one lease");
        loop {
            if let Some(result) = self.look(max) {
                return result;
            }
            let listener = self.sleepers.items_async.listen();
            if let Some(result) = self.look(max) {
                return result;
            }
            let earliest = self.lock().lines.earliest();
            if let Some(earliest) = earliest {
                self.arm(earliest);
            }
            if !listener.wait().await {
                // A timer that always rings at once must not keep this poll going for ever.
                yield_now().await;
            }
        }
    }

    /// What a consumer that does not block finds; none if it has to wait.
    fn look(&self, max: usize) -> Option<Result<Batch<K, V>, Closed>> {
        let mut state = self.lock();
        state.promote(Some(self.clock.now()));
        let batch = self.take(&mut state, max, NO_THREAD);
        if !batch.is_empty() {
            return Some(Ok(self.hand_over(state, batch)));
        }
        state.is_finished().then_some(Err(Closed))
    }

    /// The state, when a key is in line.
    fn wait_for_key(&self, deadline: Deadline) -> Result<Locked<'_, K, V, S>, PopTimeoutError> {
        let mut state = self.lock();
        loop {
            if state.lines.earliest().is_some() {
                state.promote(Some(self.clock.now()));
            }
            if state.has_key_in_line() {
                return Ok(state);
            }
            if state.is_finished() {
                return Err(PopTimeoutError::Closed);
            }
            if self.clock.is_over(deadline) {
                return Err(PopTimeoutError::Timeout);
            }
            let until = deadline.or_at(state.lines.earliest());
            state.sleep_for_key(until);
        }
    }

    fn take(&self, state: &mut Locked<'_, K, V, S>, max: usize, thread: u32) -> Batch<K, V> {
        let mut batch = Batch::new();
        while batch.len() < max {
            match catch_unwind(AssertUnwindSafe(|| self.take_first(state, thread))) {
                Ok(Some(held)) => batch.push(held),
                Ok(None) => break,
                // The user's store, or a key's `Eq`.
                Err(panic) => self.take_back(state, batch, panic),
            }
        }
        batch
    }

    /// Releases the lock under which the leases were taken, which drops what was merged away.
    fn hand_over(&self, mut state: Locked<'_, K, V, S>, mut batch: Batch<K, V>) -> Batch<K, V> {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| state.release())) {
            self.take_back(&mut state, batch, panic);
        }
        if self.on_slow.is_some() {
            self.note_beginning(&mut batch);
        }
        batch
    }

    /// The leases will reach their caller.
    #[cold]
    fn note_beginning(&self, batch: &mut Batch<K, V>) {
        let now = self.clock.now();
        batch.iter_mut().for_each(|held| held.times.get_or_insert_default().began = Some(now));
    }

    /// The caller will not see the leases, because user code panicked: they go back to where they stood.
    fn take_back(
        &self,
        state: &mut Locked<'_, K, V, S>,
        mut batch: Batch<K, V>,
        panic: Box<dyn Any + Send>,
    ) -> ! {
        state.relock();
        while let Some(held) = batch.pop() {
            state.unlease(held);
        }
        resume_unwind(panic)
    }

    /// Leases the first key in line. The lock is released while the user's store is asked.
    fn take_first(&self, state: &mut Locked<'_, K, V, S>, thread: u32) -> Option<Held<K, V>> {
        loop {
            let (taken, object) = match state.next(&self.known, &self.records, thread)? {
                Next::Held(held) => return Some(held),
                Next::Ask(taken, object) => (taken, object),
            };
            let compression = state.compression;
            let mut asking = Asking { queue: self, taken: Some(taken) };
            let taken = asking.taken.as_ref().expect("just put there");
            let found = state.unlocked(|| self.find(taken, object, compression));
            let taken = asking.taken.take().expect("a key was taken");
            if let Some(held) = self.open_found(state, taken, found) {
                return Some(held);
            }
        }
    }

    /// What is known of a key that was taken, `object` if the queue knows it itself, and what its deltas come to if they
    /// are compared. Runs user code, and changes nothing.
    fn find(&self, taken: &Taken<K, V>, object: Option<Object<V>>, compression: Compression) -> Found<V> {
        let said = match object {
            Some(object) => Before::Known(object),
            None => self.ask_store(&taken.key),
        };
        let before = match &taken.left {
            // What the last lease left is newer than what its consumer may have stored.
            Some(left) => left.clone(),
            // Appended because the store had the key. It has lost the object since: that is a deletion, of an object
            // that nobody can show.
            None if matches!(self.known, Known::Store(_))
                && matches!(said, Before::Absent)
                && taken.is_swept() =>
            {
                Before::CannotTell
            }
            None => said.clone(),
        };
        let resolved = self.extras.any().then(|| {
            let shown = taken.given_back.as_deref().map(|given_back| given_back.deltas.clone());
            let facts = taken.facts.clone();
            resolve_comparing(&before, shown.unwrap_or_default(), facts, compression, &self.extras)
        });
        Found { previous: said.into_object(), before, resolved }
    }

    /// Opens the lease of a key that was taken.
    fn open_found(&self, state: &mut State<K, V>, taken: Taken<K, V>, found: Found<V>) -> Option<Held<K, V>> {
        let Found { before, previous, resolved } = found;
        let settle = |state: &mut State<K, V>, before: &_, (given_back, facts): Lists<V>| match resolved {
            Some(resolved) => {
                state.garbage.deltas.extend(given_back.into_iter().chain(facts));
                resolved
            }
            None => state.settle(before, (given_back, facts)),
        };
        if !matches!(self.known, Known::Inside) {
            return state.open(taken, before, previous, settle);
        }
        // The record may stand elsewhere by now.
        let mut known = write(&self.records);
        match catch_unwind(AssertUnwindSafe(|| state.known_of(taken.slot, &known).0)) {
            Ok(record) => state.open_inside(taken, before, previous, settle, (record, &mut known)),
            // The key's `Eq`.
            Err(panic) => {
                drop(known);
                state.untake(taken, false);
                resume_unwind(panic)
            }
        }
    }

    /// What the user's store knows of a key.
    pub(super) fn ask_store(&self, key: &K) -> Before<Object<V>> {
        let Known::Store(store) = &self.known else { return Before::Absent };
        match store.get(key) {
            Ok(Some(object)) => Before::Known(Object::alone(object)),
            Ok(None) => Before::Absent,
            Err(error) => {
                self.report(&ErrorEvent::StoreGet { key, error: &*error });
                Before::CannotTell
            }
        }
    }

    /// client-go's `Pop(process)`: user code runs under the lock, the user's back-off policy included.
    pub(super) fn process_locked<O: Into<Outcome>>(
        &self,
        f: impl FnOnce(&Lease<'_, Self>) -> O,
    ) -> Result<Outcome, Closed> {
        let (mut state, mut batch) = self.take_blocking(1, Deadline::Never).map_err(|_| Closed)?;
        if self.on_slow.is_some() {
            self.note_beginning(&mut batch);
        }
        let held = batch.pop().expect("at least one");
        let lease = Lease::new(QueueRef::Borrowed(self), held);
        // Relaxed: written and cleared under the lock; another thread that reads an old value waits for the lock.
        self.processing.store(current_thread(), Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| f(&lease).into()));
        let ending = match &result {
            Ok(outcome) => Ending::By(*outcome),
            Err(_) => Ending::Abandoned,
        };
        let how = self.decide(ending, lease.attempts());
        // Relaxed: as above.
        self.processing.store(0, Ordering::Relaxed);
        let mut held = lease.into_held();
        let ended = self.end_locked(&mut state, &mut held, how);
        self.release_and_report(state, [ended]);
        result.map_err(|panic| resume_unwind(panic))
    }
}
