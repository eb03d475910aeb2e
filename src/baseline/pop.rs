//! Consumers: leasing keys, waiting for them, and ending leases.

use std::any::Any;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::builder::{Known, OnAbandon};
use crate::error::{Closed, ErrorEvent, PopTimeoutError};
use crate::lease::{Lease, Outcome};
use crate::raw::{Deadline, Ending, QueueRef};
use crate::resolve::Before;

use super::MutexDeltaFifo;
use super::entry::{Held, Taken};
use super::lock::{Locked, current_thread};
use super::state::{Next, State};

/// A lease, and the lock under which it was taken.
type LockedLease<'q, K, V, S> = (Locked<'q, K, V, S>, Held<K, V>);

/// Nobody's thread: leases of async consumers wander.
const NO_THREAD: u64 = 0;

/// A key that was taken while the user's store is asked. If that panics, the key goes back.
struct Asking<'q, K: Eq, V, S> {
    queue: &'q MutexDeltaFifo<K, V, S>,
    taken: Option<Taken<K, V>>,
}

impl<K: Eq, V, S> Drop for Asking<'_, K, V, S> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.queue.lock().untake(taken);
        }
    }
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn pop_blocking(&self, deadline: Deadline) -> Result<Held<K, V>, PopTimeoutError> {
        let thread = current_thread();
        self.take_first_blocking(deadline, thread).map(|(_, held)| held)
    }

    fn take_first_blocking(
        &self,
        deadline: Deadline,
        thread: u64,
    ) -> Result<LockedLease<'_, K, V, S>, PopTimeoutError> {
        loop {
            let mut state = self.wait_for_key(deadline)?;
            if let Some(held) = self.take_first(&mut state, thread) {
                return Ok((state, held));
            }
        }
    }

    pub(super) fn pop_batch_blocking(
        &self,
        max: usize,
        deadline: Deadline,
    ) -> Result<Vec<Held<K, V>>, PopTimeoutError> {
        assert!(max > 0, "a batch has at least one lease");
        let thread = current_thread();
        loop {
            let mut state = self.wait_for_key(deadline)?;
            let batch = self.take_batch(&mut state, max, thread);
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }

    pub(super) async fn pop_waiting(&self) -> Result<Held<K, V>, Closed> {
        self.wait_async(|state| self.take_first(state, NO_THREAD)).await
    }

    pub(super) async fn pop_batch_waiting(&self, max: usize) -> Result<Vec<Held<K, V>>, Closed> {
        assert!(max > 0, "a batch has at least one lease");
        self.wait_async(|state| {
            let batch = self.take_batch(state, max, NO_THREAD);
            (!batch.is_empty()).then_some(batch)
        })
        .await
    }

    /// Takes what `take` finds, sleeping until it finds something. Between its last look and its sleep nothing can be
    /// missed: it listens first.
    async fn wait_async<T>(&self, take: impl Fn(&mut Locked<'_, K, V, S>) -> Option<T>) -> Result<T, Closed> {
        let look = || {
            let mut state = self.lock();
            state.promote(Some(Instant::now()));
            match take(&mut state) {
                Some(taken) => Some(Ok(taken)),
                None if state.is_finished() => Some(Err(Closed)),
                None => None,
            }
        };
        loop {
            if let Some(result) = look() {
                return result;
            }
            let listener = self.sleepers.items_async.listen();
            if let Some(result) = look() {
                return result;
            }
            let earliest = self.lock().lines.earliest();
            if let Some(earliest) = earliest {
                self.arm(earliest);
            }
            listener.await;
        }
    }

    /// The state, when a key is in line.
    fn wait_for_key(&self, deadline: Deadline) -> Result<Locked<'_, K, V, S>, PopTimeoutError> {
        let mut state = self.lock();
        loop {
            if state.lines.earliest().is_some() {
                state.promote(Some(Instant::now()));
            }
            if state.has_key_in_line() {
                return Ok(state);
            }
            if state.is_finished() {
                return Err(PopTimeoutError::Closed);
            }
            let due = match deadline {
                Deadline::Now => true,
                Deadline::At(at) => at <= Instant::now(),
                Deadline::Never => false,
            };
            if due {
                return Err(PopTimeoutError::Timeout);
            }
            let until = match (deadline, state.lines.earliest()) {
                (Deadline::At(at), Some(earliest)) => Deadline::At(at.min(earliest)),
                (_, Some(earliest)) => Deadline::At(earliest),
                (deadline, None) => deadline,
            };
            state.sleep(&self.sleepers.items, until);
        }
    }

    fn take_batch(&self, state: &mut Locked<'_, K, V, S>, max: usize, thread: u64) -> Vec<Held<K, V>> {
        // Not `max`: the caller may ask for more than there will ever be.
        let mut batch = Vec::with_capacity(max.min(state.pending));
        while batch.len() < max {
            match catch_unwind(AssertUnwindSafe(|| self.take_first(state, thread))) {
                Ok(Some(held)) => batch.push(held),
                Ok(None) => break,
                Err(panic) => {
                    // The user's store or a key's `Eq`: the caller will not see the batch.
                    state.relock();
                    while let Some(held) = batch.pop() {
                        state.unlease(held);
                    }
                    resume_unwind(panic);
                }
            }
        }
        batch
    }

    /// Leases the first key in line. The lock is released while the user's store is asked.
    fn take_first(&self, state: &mut Locked<'_, K, V, S>, thread: u64) -> Option<Held<K, V>> {
        loop {
            let taken = match state.next(&self.known, &self.records, thread)? {
                Next::Held(held) => return Some(held),
                Next::Ask(taken) => taken,
            };
            let (taken, known) = state.unlocked(|| {
                let mut asking = Asking { queue: self, taken: Some(taken) };
                let key = Arc::clone(&asking.taken.as_ref().expect("a key was taken").key);
                let known = self.ask_store(&key);
                (asking.taken.take().expect("a key was taken"), known)
            });
            if let Some(held) = self.open_asked(state, taken, known) {
                return Some(held);
            }
        }
    }

    /// Opens the lease of a key of which the user's store said `known`.
    fn open_asked(
        &self,
        state: &mut State<K, V>,
        mut taken: Taken<K, V>,
        known: Before<Arc<V>>,
    ) -> Option<Held<K, V>> {
        let previous = known.object().cloned();
        let before = match taken.left.take() {
            // What the last lease left is newer than what its consumer may have stored.
            Some(left) => left,
            // Appended because the store listed the key. It has lost the object since: that is a deletion, of an
            // object that nobody can show.
            None if matches!(known, Before::Absent) && taken.is_swept() => Before::CannotTell,
            None => known,
        };
        state.open(taken, before, previous)
    }

    /// What the user's store knows of a key.
    pub(super) fn ask_store(&self, key: &K) -> Before<Arc<V>> {
        let Known::Store(store) = &self.known else { return Before::Absent };
        match store.get(key) {
            Ok(Some(object)) => Before::Known(Arc::new(object)),
            Ok(None) => Before::Absent,
            Err(error) => {
                self.report(&ErrorEvent::StoreGet { key, error: &*error });
                Before::CannotTell
            }
        }
    }

    /// client-go's `Pop(process)`: user code runs under the lock.
    pub(super) fn process_locked<O: Into<Outcome>>(
        &self,
        f: impl FnOnce(&Lease<'_, Self>) -> O,
    ) -> Result<Outcome, Closed> {
        let thread = current_thread();
        let (mut state, held) = self.take_first_blocking(Deadline::Never, thread).map_err(|_| Closed)?;
        let lease = Lease::new(QueueRef::Borrowed(self), held);
        // Relaxed: written and cleared under the lock; another thread that reads an old value waits for the lock.
        self.processing.store(thread, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| f(&lease).into()));
        self.processing.store(0, Ordering::Relaxed);
        let mut held = lease.into_held();
        let ending = match &result {
            Ok(outcome) => Ending::By(*outcome),
            Err(_) => Ending::Abandoned,
        };
        let how = self.decide(ending, held.attempts);
        let ended = self.end_locked(&mut state, &mut held, how);
        drop(state);
        self.report_end(ended);
        result.map_err(|panic| resume_unwind(panic))
    }

    pub(super) fn end_one(&self, mut held: Held<K, V>, ending: Ending) {
        let how = self.decide(ending, held.attempts);
        let ended = self.end_locked(&mut self.lock(), &mut held, how);
        self.report_end(ended);
    }

    pub(super) fn end_batch(&self, mut batch: Vec<Held<K, V>>, outcome: Outcome) {
        let how: Vec<How> =
            batch.iter().map(|held| self.decide(Ending::By(outcome), held.attempts)).collect();
        let mut state = self.lock();
        let mut loud = Vec::new();
        for (held, how) in batch.iter_mut().zip(how) {
            match self.end_locked(&mut state, held, how) {
                Ended::Quietly => {}
                ended => loud.push(ended),
            }
        }
        drop(state);
        for ended in loud {
            self.report_end(ended);
        }
    }

    /// What an ending means for the deltas. Runs the user's back-off policy, so it comes before the lock.
    fn decide(&self, ending: Ending, attempts: u32) -> How {
        let outcome = match ending {
            Ending::By(outcome) => outcome,
            Ending::Abandoned => match self.on_abandon {
                OnAbandon::Backoff => Outcome::RequeueWithBackoff,
                OnAbandon::Requeue => Outcome::Requeue,
                OnAbandon::GiveUp => Outcome::GiveUp,
            },
        };
        match outcome {
            Outcome::Done => How::Finish,
            Outcome::GiveUp => How::GiveUp,
            Outcome::Requeue => How::GiveBack(None),
            Outcome::RequeueAfter(delay) => How::GiveBack(Some(from_now(delay))),
            Outcome::RequeueWithBackoff => How::GiveBack(Some(from_now(self.backoff.delay(attempts)))),
        }
    }

    fn end_locked(&self, state: &mut State<K, V>, held: &mut Held<K, V>, how: How) -> Ended<K> {
        if let How::GiveBack(until) = how {
            state.give_back(held, until);
            return Ended::Quietly;
        }
        match catch_unwind(AssertUnwindSafe(|| state.memory(held, &self.records))) {
            Ok(memory) => {
                state.finish(held, memory);
                match how {
                    How::GiveUp => Ended::GaveUp(Arc::clone(&held.key), held.attempts),
                    How::Finish | How::GiveBack(_) => Ended::Quietly,
                }
            }
            Err(panic) => {
                // A key's `Eq`. The deltas are processed, but that cannot be noted down: they come once more.
                state.give_back(held, None);
                Ended::Panicked(panic)
            }
        }
    }

    fn report_end(&self, ended: Ended<K>) {
        match ended {
            Ended::Quietly => {}
            Ended::GaveUp(key, attempts) => self.report(&ErrorEvent::GaveUp { key: &key, attempts }),
            // A second panic would abort, and the first one tells enough.
            Ended::Panicked(_) if std::thread::panicking() => {}
            Ended::Panicked(panic) => resume_unwind(panic),
        }
    }
}

#[derive(Clone, Copy)]
enum How {
    Finish,
    GiveUp,
    /// At this time, or at once.
    GiveBack(Option<Instant>),
}

enum Ended<K> {
    Quietly,
    GaveUp(Arc<K>, u32),
    Panicked(Box<dyn Any + Send>),
}

/// A delay that no clock can count ends in a century.
fn from_now(delay: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(delay).unwrap_or(now + CENTURY)
}
