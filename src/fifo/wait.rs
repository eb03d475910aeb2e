//! Waiting: for keys, for their time, and for the end of leases and replaces.

use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::error::{Closed, ErrorEvent, PopTimeoutError, WaitError};
use crate::owner;
use crate::raw::{Awaited, Deadline};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{now, planted, weaken};

use super::DeltaFifo;
use super::close::SEAL_POLL;
use super::entry::{Entry, MANY};
use super::shard::{Gone, Shard};
use super::word::State;

/// So many sweeps does a look make that finds nothing in line, and looks again after each.
const SWEEPS: usize = 64;

/// Nobody's thread: leases of async consumers wander.
const NO_THREAD: u32 = 0;

/// What a look at the line comes to.
enum Look<T> {
    Leased(T),
    Closed,
    /// Something is due earlier than the sleeper thought.
    Earlier,
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// Until `take` has leased something, which is told whose thread this is.
    #[inline(always)]
    pub(super) fn pop_blocking<T>(
        &self,
        take: impl Fn(u32) -> Option<T>,
        deadline: Deadline,
    ) -> Result<T, PopTimeoutError> {
        let thread = owner::current_thread();
        match take(thread) {
            Some(leased) => {
                self.note_last();
                Ok(leased)
            }
            None => self.pop_later(take, thread, deadline),
        }
    }

    /// The same when nothing was in line.
    #[cold]
    #[inline(never)]
    fn pop_later<T>(
        &self,
        take: impl Fn(u32) -> Option<T>,
        thread: u32,
        deadline: Deadline,
    ) -> Result<T, PopTimeoutError> {
        let mut looked = self.look_on(None, &take, thread);
        let mut slept = false;
        loop {
            match looked {
                Some(Look::Leased(leased)) => {
                    if slept {
                        self.pass_on();
                    }
                    return Ok(leased);
                }
                Some(Look::Closed) => return Err(PopTimeoutError::Closed),
                Some(Look::Earlier) | None => {}
            }
            if self.is_over(deadline) {
                return Err(PopTimeoutError::Timeout);
            }
            let until = self.sleep_until(deadline);
            slept = true;
            looked = self.consumers.wait_until(until, || {
                self.look(&take, thread).or_else(|| self.is_earlier(until).then_some(Look::Earlier))
            });
        }
    }

    fn is_over(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Now => true,
            Deadline::At(at) => at <= now(),
            Deadline::Never => false,
        }
    }

    /// How long a consumer may sleep: a delay may end, or a seal come, for which nobody wakes it.
    fn sleep_until(&self, deadline: Deadline) -> Deadline {
        let sealing = self.core.closing.is_sealing();
        let poll = sealing.then(|| now() + SEAL_POLL);
        let until = deadline.or_at(self.delays.earliest());
        until.or_at(poll)
    }

    /// Whether there is something to wake for that was not there when the sleeper decided how long to sleep.
    fn is_earlier(&self, than: Deadline) -> bool {
        match (self.sleep_until(Deadline::Never), than) {
            (Deadline::At(now), Deadline::At(than)) => now < than,
            (Deadline::At(_), Deadline::Never) => true,
            (Deadline::Never | Deadline::Now, _) | (_, Deadline::Now) => false,
        }
    }

    /// Whoever was to wake another consumer for the key that this one has found may be stopped before it could.
    fn pass_on(&self) {
        if self.pending_len_now() > 0 {
            self.wake_consumers(1);
        }
    }

    /// The same without blocking.
    pub(super) async fn pop_waiting<T>(&self, take: impl Fn(u32) -> Option<T>) -> Result<T, Closed> {
        let found = self.consumers.wait_for(|| self.look_async(&take)).await;
        if found.is_ok() {
            self.pass_on();
        }
        found
    }

    fn look_async<T>(&self, take: impl Fn(u32) -> Option<T>) -> Option<Result<T, Closed>> {
        match self.look(take, NO_THREAD) {
            Some(Look::Leased(leased)) => return Some(Ok(leased)),
            Some(Look::Closed) => return Some(Err(Closed)),
            Some(Look::Earlier) | None => {}
        }
        if let Deadline::At(at) = self.sleep_until(Deadline::Never) {
            self.arm(at);
        }
        None
    }

    fn look<T>(&self, take: impl Fn(u32) -> Option<T>, thread: u32) -> Option<Look<T>> {
        self.look_on(take(thread), take, thread)
    }

    /// Whether there is something to do besides, after a first try.
    fn look_on<T>(
        &self,
        mut leased: Option<T>,
        take: impl Fn(u32) -> Option<T>,
        thread: u32,
    ) -> Option<Look<T>> {
        // There is some time for what snapshots have left.
        for _ in 0..SWEEPS {
            if leased.is_some() || !self.core.sweep_if_due() {
                break;
            }
            leased = take(thread);
        }
        if let Some(leased) = leased {
            self.note_last();
            return Some(Look::Leased(leased));
        }
        let closed = self.core.closing.is_closed() && self.core.closing.hasten();
        (closed && self.is_finished()).then_some(Look::Closed)
    }

    /// Something was leased. If it was the last of a closed queue, nobody else has anything to wait for.
    #[inline(always)]
    fn note_last(&self) {
        if self.core.closing.is_closed() && self.is_finished() {
            self.wake_consumers(usize::MAX);
        }
    }

    /// Sees to it that async consumers wake at `at`.
    fn arm(&self, at: Instant) {
        match catch_unwind(AssertUnwindSafe(|| self.alarm.arm(at))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.report(&ErrorEvent::TimerThread { error: &error }),
            Err(_) => self.report(&ErrorEvent::WakerPanicked),
        }
    }

    pub(super) fn wait_blocking(&self, awaited: Awaited, deadline: Deadline) -> Result<(), WaitError> {
        let thread = owner::current_thread();
        let look = || {
            if let Some(result) = self.check_now(awaited) {
                return Some(result.map_err(|Closed| WaitError::Closed));
            }
            let own = owner::may_hold_leases() && self.holds_back(awaited, thread);
            own.then_some(Err(WaitError::WouldDeadlock))
        };
        loop {
            let until = deadline.or_at(self.seal_poll(awaited));
            if let Some(result) = self.watchers.wait_until(until, look) {
                return result;
            }
            if self.is_over(deadline) {
                return Err(WaitError::Timeout);
            }
        }
    }

    /// Being drained needs the seal, for which nobody wakes anybody.
    fn seal_poll(&self, awaited: Awaited) -> Option<Instant> {
        let waits = awaited == Awaited::Drained && self.core.closing.is_sealing();
        waits.then(|| now() + SEAL_POLL)
    }

    pub(super) async fn wait_async_for(&self, awaited: Awaited) -> Result<(), Closed> {
        self.watchers
            .wait_for(|| {
                if let Some(poll) = self.seal_poll(awaited) {
                    self.arm(poll);
                }
                self.check_now(awaited)
            })
            .await
    }

    /// None while it can still come.
    pub(super) fn check_now(&self, awaited: Awaited) -> Option<Result<(), Closed>> {
        let (reached, lost) = match awaited {
            Awaited::Synced => {
                let closed = self.core.closing.is_closed() && !self.core.replaces.running();
                (self.core.replaces.synced(), closed && !self.core.replaces.can_sync())
            }
            Awaited::Replace(number) => match self.core.replaces.is_complete(number) {
                Some(complete) => (complete, false),
                None => (false, true),
            },
            Awaited::Mark(number) => {
                self.process_marks();
                (self.marks.is_processed(number), self.marks.is_lost(number))
            }
            Awaited::Drained => (self.is_drained(), false),
        };
        match (reached, lost) {
            (true, _) => Some(Ok(())),
            (false, true) => Some(Err(Closed)),
            (false, false) => None,
        }
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    /// How many keys are in line, dirty or delayed.
    pub(super) fn pending_len_now(&self) -> usize {
        self.core.shards.iter().map(Shard::pending).sum()
    }

    /// How many keys are in line, and neither dirty nor delayed. Looks at every entry.
    pub(crate) fn line_len(&self) -> usize {
        let mut len = 0;
        self.visit_entries(|entry| {
            len += usize::from(matches!(entry.word().state(), State::Linking | State::Queued));
        });
        len
    }

    /// Whether a pop has nothing more to wait for.
    pub(super) fn is_finished(&self) -> bool {
        let running = self.core.replaces.running() && !planted("closed does not wait for a list");
        self.core.closing.is_sealed() && !running && self.agree(|gone| &gone.taken)
    }

    pub(super) fn is_drained(&self) -> bool {
        fn ended(gone: &Gone) -> &AtomicU64 {
            if planted("drained does not wait for leases") { &gone.taken } else { &gone.ended }
        }
        self.core.closing.hasten() && !self.core.replaces.running() && self.agree(ended)
    }

    /// Whether there was a moment when everything that has come had got so far. Both counters only rise and the second
    /// never passes the first; so if all of the first, read later, equal the second, they did in between.
    fn agree(&self, reached: impl Fn(&Gone) -> &AtomicU64) -> bool {
        // Acquire: pairs with `ended` and `lease` (Release): what came before is counted in what is read below.
        let acquire = weaken("what was reached is read relaxed", Ordering::Acquire);
        let reached: Vec<u64> =
            self.core.shards.iter().map(|shard| reached(&shard.gone).load(acquire)).collect();
        self.core.shards.iter().zip(reached).all(|(shard, reached)| {
            // Relaxed: after the loads above, and as new as what they have seen; nothing is read after it.
            shard.came.keys.load(Ordering::Relaxed) == reached
        })
    }

    /// Whether a lease that this thread holds as a borrow keeps `awaited` from coming.
    fn holds_back(&self, awaited: Awaited, thread: u32) -> bool {
        let mut found = false;
        self.visit_entries(|entry| {
            let word = entry.word();
            let Some(owes) = entry.is_held_by(thread).filter(|_| word.state() == State::Leased) else {
                return;
            };
            // Relaxed, all: what this thread wrote it sees, and other threads' leases do not matter.
            let owed = || entry.cold().note.load(Ordering::Relaxed);
            found |= match awaited {
                Awaited::Synced => owes && (owed() == MANY || self.core.replaces.is_first(owed())),
                Awaited::Replace(number) => owes && [number, MANY].contains(&owed()),
                Awaited::Mark(number) => entry.cold().since.load(Ordering::Relaxed) < number,
                Awaited::Drained => true,
            };
        });
        found
    }

    /// Every slot of an entry, whatever it is at the moment.
    pub(super) fn visit_entries(&self, mut f: impl FnMut(Entry<'_, V>)) {
        self.core.shards.iter().for_each(|shard| shard.entries.for_each(|_, entry| f(entry)));
    }
}
