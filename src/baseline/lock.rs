//! The lock, and what happens when it is released: sleepers are woken, and what was removed is dropped, outside it.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use smallvec::SmallVec;

use crate::delta::{Object, RawDelta};
use crate::error::ErrorEvent;
use crate::object::Key;
use crate::owner::current_thread;
use crate::raw::Deadline;
use crate::sync::now as system_now;

use super::MutexDeltaFifo;
use super::entry::{GivenBack, Held};
use super::records::Records;
use super::sleepers::AsyncSleepers;
use super::state::State;

/// Whom to wake.
#[derive(Default)]
pub(super) struct Wakes {
    /// So many keys have come in line.
    pub(super) items: usize,
    /// Nobody need wait any more.
    pub(super) all: bool,
    /// A lease or a replace has ended.
    pub(super) progress: bool,
    /// Threads sleep until then.
    pub(super) progress_sleepers: bool,
    /// Sleepers must wake earlier than they thought.
    pub(super) earliest: Option<Instant>,
}

impl Wakes {
    fn is_due(&self) -> bool {
        self.items > 0 || self.all || self.progress || self.earliest.is_some()
    }
}

/// What to drop outside the lock: it is the user's.
pub(super) struct Garbage<K, V> {
    pub(super) keys: SmallVec<[Key<K>; 2]>,
    pub(super) objects: SmallVec<[Object<V>; 2]>,
    pub(super) deltas: Vec<RawDelta<Object<V>>>,
    pub(super) given_back: Vec<GivenBack<V>>,
    pub(super) leases: Vec<Held<K, V>>,
    pub(super) records: Vec<Records<K, V>>,
}

impl<K, V> Garbage<K, V> {
    fn is_empty(&self) -> bool {
        self.keys.is_empty()
            && self.objects.is_empty()
            && self.deltas.is_empty()
            && self.given_back.is_empty()
            && self.leases.is_empty()
            && self.records.is_empty()
    }
}

impl<K, V> Default for Garbage<K, V> {
    fn default() -> Self {
        Garbage {
            keys: SmallVec::new(),
            objects: SmallVec::new(),
            deltas: Vec::new(),
            given_back: Vec::new(),
            leases: Vec::new(),
            records: Vec::new(),
        }
    }
}

/// Those who sleep.
pub(super) struct Sleepers {
    /// For keys.
    pub(super) items: Condvar,
    pub(super) items_async: Arc<AsyncSleepers>,
    /// For the end of leases and replaces.
    pub(super) progress: Condvar,
    pub(super) progress_async: Arc<AsyncSleepers>,
}

impl Sleepers {
    pub(super) fn new() -> Self {
        Sleepers {
            items: Condvar::new(),
            items_async: Arc::default(),
            progress: Condvar::new(),
            progress_async: Arc::default(),
        }
    }
}

/// The state, locked. Dropping it wakes and drops what the steps made under the lock asked for.
pub(super) struct Locked<'q, K, V, S> {
    queue: &'q MutexDeltaFifo<K, V, S>,
    /// None only while it is dropped or waits.
    guard: Option<MutexGuard<'q, State<K, V>>>,
}

impl<K, V, S> MutexDeltaFifo<K, V, S> {
    /// # Panics
    ///
    /// Inside `process`, on the same thread: the lock is held.
    pub(super) fn lock(&self) -> Locked<'_, K, V, S> {
        assert!(
            !self.is_processing(),
            "a MutexDeltaFifo is locked while `process` runs user code, as client-go's DeltaFIFO is; \
             use leases to call the queue while processing"
        );
        // A panic under the lock comes from a key's `Eq`, before anything has changed.
        Locked { queue: self, guard: Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// Whether this thread runs user code under the lock.
    pub(super) fn is_processing(&self) -> bool {
        // Relaxed: a thread only looks for its own number, which it wrote itself.
        let processing = self.processing.load(Ordering::Relaxed);
        processing != 0 && processing == current_thread()
    }

    /// Tells the error hook, whose panics end here.
    pub(super) fn report(&self, event: &ErrorEvent<'_, K>) {
        if let Some(hook) = &self.on_error {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(event)));
        }
    }

    fn wake(&self, wakes: &Wakes) {
        let sleepers = &self.sleepers;
        if wakes.all || wakes.earliest.is_some() || wakes.items > 1 {
            sleepers.items.notify_all();
        } else if wakes.items == 1 {
            sleepers.items.notify_one();
        }
        let items = if wakes.all { usize::MAX } else { wakes.items };
        self.wake_async(&sleepers.items_async, items);
        if let Some(earliest) = wakes.earliest {
            if !sleepers.items_async.is_empty() {
                self.arm(earliest);
            }
        }
        if wakes.progress {
            // std's condition variables make a system call even if nobody sleeps.
            if wakes.progress_sleepers {
                sleepers.progress.notify_all();
            }
            self.wake_async(&sleepers.progress_async, usize::MAX);
        }
    }

    fn wake_async(&self, sleepers: &AsyncSleepers, count: usize) {
        if sleepers.wake(count) {
            self.report(&ErrorEvent::WakerPanicked);
        }
    }

    /// Sees to it that async sleepers wake at `at`.
    pub(super) fn arm(&self, at: Instant) {
        match catch_unwind(AssertUnwindSafe(|| self.alarm.arm(at))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.report(&ErrorEvent::TimerThread { error: &error }),
            Err(_) => self.report(&ErrorEvent::WakerPanicked),
        }
    }
}

impl<'q, K, V, S> Locked<'q, K, V, S> {
    /// Runs `f` without the lock.
    pub(super) fn unlocked<T>(&mut self, f: impl FnOnce() -> T) -> T {
        self.release();
        let result = f();
        self.relock();
        result
    }

    /// Takes the lock again if a panic in [`unlocked`](Self::unlocked) has lost it.
    pub(super) fn relock(&mut self) {
        if self.guard.is_none() {
            *self = self.queue.lock();
        }
    }

    /// Releases the lock, wakes, and drops. A panic is that of a user's `Drop`, and the lock is free by then.
    pub(super) fn release(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        let mut wakes = std::mem::take(&mut guard.wakes);
        wakes.progress |= self.queue.publish_sync(&guard);
        wakes.progress_sleepers = guard.progress_sleepers > 0;
        let garbage = (!guard.garbage.is_empty()).then(|| std::mem::take(&mut guard.garbage));
        drop(guard);
        self.queue.wake(&wakes);
        drop(garbage);
    }

    /// Sleeps until a lease or a replace ends, or the deadline has come.
    pub(super) fn sleep_for_progress(&mut self, deadline: Deadline) {
        let sleepers = &self.queue.sleepers;
        self.progress_sleepers += 1;
        self.sleep(&sleepers.progress, &sleepers.progress_async, deadline);
        self.progress_sleepers -= 1;
    }

    /// Sleeps until a key has come in line, or the deadline has come.
    pub(super) fn sleep_for_key(&mut self, deadline: Deadline) {
        let sleepers = &self.queue.sleepers;
        self.sleep(&sleepers.items, &sleepers.items_async, deadline);
    }

    /// Sleeps until the condition is notified or the deadline has come. By a clock that is not the system's as a task does, `beside` those.
    fn sleep(&mut self, condition: &Condvar, beside: &AsyncSleepers, deadline: Deadline) {
        if self.wakes.is_due() {
            // Not under the lock: wakers are user code. The caller looks again.
            return self.unlocked(|| ());
        }
        let queue = self.queue;
        if let (Deadline::At(at), true) = (deadline, queue.clock.is_own()) {
            // Under the lock, under which the caller has looked: what comes from here on is told.
            let listening = beside.listen();
            return self.unlocked(|| {
                queue.arm(at);
                // The clock may have rung before that (C1 in `clock.rs`).
                if !queue.clock.is_over(deadline) {
                    listening.block(queue.clock.nap(deadline));
                }
            });
        }
        let guard = self.guard.take().expect("the state is locked");
        let guard = match deadline {
            Deadline::Now => guard,
            Deadline::Never => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Deadline::At(at) => {
                let timeout = at.saturating_duration_since(system_now());
                condition.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.guard = Some(guard);
    }
}

impl<K, V, S> Deref for Locked<'_, K, V, S> {
    type Target = State<K, V>;

    fn deref(&self) -> &State<K, V> {
        self.guard.as_ref().expect("the state is locked")
    }
}

impl<K, V, S> DerefMut for Locked<'_, K, V, S> {
    fn deref_mut(&mut self) -> &mut State<K, V> {
        self.guard.as_mut().expect("the state is locked")
    }
}

impl<K, V, S> Drop for Locked<'_, K, V, S> {
    fn drop(&mut self) {
        self.release();
    }
}

pub(super) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
