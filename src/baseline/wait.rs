//! Waiting for the first sync, a replace, a mark or the end; and closing.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

use crate::error::{Closed, WaitError};
use crate::owner::{current_thread, may_hold_leases};
use crate::queue::Discarded;
use crate::raw::{Awaited, Deadline};

use super::MutexDeltaFifo;

use super::state::State;

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn wait_blocking(&self, awaited: Awaited, deadline: Deadline) -> Result<(), WaitError> {
        let thread = current_thread();
        let mut state = self.lock();
        loop {
            if let Some(result) = state.check(awaited) {
                return result.map_err(|Closed| WaitError::Closed);
            }
            if may_hold_leases() && state.holds_back(awaited, thread) {
                return Err(WaitError::WouldDeadlock);
            }
            if self.clock.is_over(deadline) {
                return Err(WaitError::Timeout);
            }
            state.sleep_for_progress(deadline);
        }
    }

    pub(super) async fn wait_async_for(&self, awaited: Awaited) -> Result<(), Closed> {
        loop {
            let listener = self.sleepers.progress_async.listen();
            let checked = self.lock().check(awaited);
            if let Some(result) = checked {
                return result;
            }
            listener.wait().await;
        }
    }

    pub(super) fn close_now(&self) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.closed = true;
        // Release: pairs with `is_closed` (Acquire).
        self.closed.store(true, Ordering::Release);
        state.replaces.cut_streaming();
        state.promote(None);
        self.replace_ended(&mut state);
        state.wakes.all = true;
        true
    }

    pub(super) fn close_and_discard(&self) -> Discarded {
        self.close_now();
        let mut state = self.lock();
        state.discard();
        state.discarded.unwrap_or_default()
    }
}

impl<K, V, S> MutexDeltaFifo<K, V, S> {
    /// Makes what the state says of the first sync visible without the lock. Whether the queue has synced just now.
    pub(super) fn publish_sync<T>(&self, state: &State<K, T>) -> bool {
        // Relaxed: written under the lock only, by who looks here.
        if !self.delivered.load(Ordering::Relaxed) && state.replaces.delivered() {
            // Release: pairs with `has_delivered` (Acquire); publishes what the consumers did.
            self.delivered.store(true, Ordering::Release);
        }
        // Relaxed: as above.
        if self.synced.load(Ordering::Relaxed) || !state.replaces.synced() {
            return false;
        }
        // Release: pairs with `has_synced` (Acquire); publishes what the consumers did.
        self.synced.store(true, Ordering::Release);
        true
    }
}

impl<K: Eq, V> State<K, V> {
    /// None while it can still come.
    pub(super) fn check(&self, awaited: Awaited) -> Option<Result<(), Closed>> {
        let (reached, lost) = match awaited {
            Awaited::Synced => {
                let undecided = self.closed && !self.replaces.running() && !self.replaces.can_sync();
                (self.replaces.synced(), undecided)
            }
            Awaited::Replace(number) => match self.replaces.is_complete(number) {
                Some(complete) => (complete, false),
                None => (false, true),
            },
            Awaited::Mark(number) => (self.marks.is_processed(number), self.marks.is_lost(number)),
            Awaited::Drained => (self.is_drained(), false),
        };
        match (reached, lost) {
            (true, _) => Some(Ok(())),
            (false, true) => Some(Err(Closed)),
            (false, false) => None,
        }
    }

    /// Whether a lease that this thread holds as a borrow keeps `awaited` from coming.
    fn holds_back(&self, awaited: Awaited, thread: u32) -> bool {
        let mut own = self
            .entries
            .iter()
            .filter_map(|(_, _, entry)| entry.lease.as_ref())
            .filter(|lease| lease.thread == thread);
        own.any(|lease| match awaited {
            Awaited::Synced => self.replaces.owes_first(&lease.debts),
            Awaited::Replace(number) => lease.debts.iter().any(|debt| debt.is_of(number)),
            Awaited::Mark(number) => lease.since < number,
            Awaited::Drained => true,
        })
    }
}
