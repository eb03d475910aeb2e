//! Waiting: for keys, for their time, and for the end of leases and replaces.

use std::hash::{BuildHasher, Hash};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::error::{Closed, ErrorEvent, PopTimeoutError, WaitError};
use crate::owner;
use crate::raw::{Awaited, Deadline};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{now as system_now, planted, weaken};

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
            if self.clock.is_over(deadline) {
                return Err(PopTimeoutError::Timeout);
            }
            // A delay may end, or a seal come, for which nobody wakes it.
            let (until, sealing) = (deadline.or_at(self.delays.earliest()), self.core.closing.is_sealing());
            slept = true;
            looked = self.consumers.wait_until(self.nap(until, sealing), || {
                let look = self.look(&take, thread);
                look.or_else(|| self.is_earlier(until, sealing).then_some(Look::Earlier))
            });
        }
    }

    /// How long a thread may sleep that sleeps until then, in the system's time.
    fn nap(&self, until: Deadline, sealing: bool) -> Deadline {
        self.clock.nap(until).or_at(sealing.then(|| system_now() + SEAL_POLL))
    }

    /// Whether there is something to wake for that was not there when the sleeper decided how long to sleep.
    fn is_earlier(&self, than: Deadline, sealing: bool) -> bool {
        let earlier = match (self.delays.earliest(), than) {
            (Some(now), Deadline::At(than)) => now < than,
            (Some(_), Deadline::Never) => true,
            (_, Deadline::Now) | (None, _) => false,
        };
        earlier || !sealing && self.core.closing.is_sealing() || self.has_come(than)
    }

    /// Whether a time has come by a clock that is not the system's; if not, its timer wakes who is registered by now (C1 in `clock.rs`).
    fn has_come(&self, until: Deadline) -> bool {
        let (Deadline::At(at), true) = (until, self.clock.is_own()) else { return false };
        let over = self.clock.is_over(until);
        if !over && !planted("the clock is not asked to wake") {
            self.arm(at);
        }
        over
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
        if let Some(at) = self.delays.earliest() {
            self.arm(at);
        }
        if self.core.closing.is_sealing() {
            self.arm_for_seal();
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
        self.report_alarm(catch_unwind(AssertUnwindSafe(|| self.alarm.arm(at))));
    }

    /// The same soon: the calls that a seal waits for go on whatever the clock says.
    fn arm_for_seal(&self) {
        let at = system_now() + SEAL_POLL;
        self.report_alarm(catch_unwind(AssertUnwindSafe(|| self.alarm.arm_in_real_time(at))));
    }

    fn report_alarm(&self, armed: std::thread::Result<io::Result<()>>) {
        match armed {
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
            if owner::may_hold_leases() && self.holds_back(awaited, thread) {
                return Some(Err(WaitError::WouldDeadlock));
            }
            self.has_come(deadline).then_some(Err(WaitError::Timeout))
        };
        loop {
            let nap = self.nap(deadline, self.waits_for_seal(awaited));
            if let Some(result) = self.watchers.wait_until(nap, look) {
                return result;
            }
            if self.clock.is_over(deadline) {
                return Err(WaitError::Timeout);
            }
        }
    }

    /// Being drained needs the seal, for which nobody wakes anybody.
    fn waits_for_seal(&self, awaited: Awaited) -> bool {
        awaited == Awaited::Drained && self.core.closing.is_sealing()
    }

    pub(super) async fn wait_async_for(&self, awaited: Awaited) -> Result<(), Closed> {
        self.watchers
            .wait_for(|| {
                if self.waits_for_seal(awaited) {
                    self.arm_for_seal();
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
