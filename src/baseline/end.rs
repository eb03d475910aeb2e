//! How a lease ends: its deltas are processed, or come back, or are discarded.

use std::any::Any;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::RwLock;
use std::time::{Duration, Instant};

use crate::builder::OnAbandon;
use crate::error::ErrorEvent;
use crate::lease::Outcome;
use crate::object::Key;
use crate::owner::note_ended;
use crate::raw::Ending;
use crate::resolve::{Before, known_after};
use crate::slow::OnSlow;

use super::MutexDeltaFifo;
use super::entry::{GivenBack, Held, Origins};
use super::lines::Lines;
use super::lock::{Locked, read, write};
use super::records::Records;
use super::replaces::join;
use super::state::State;
use super::table::Slot;

/// What an ending means for the deltas.
#[derive(Clone, Copy)]
pub(super) enum How {
    Finish,
    GiveUp,
    /// At this time, or at once.
    GiveBack(Option<Instant>),
}

/// What is to be told of it, without the lock.
pub(super) struct Ended<K> {
    how: HowEnded<K>,
    /// Held for long: beside so many keys, for so long.
    slow: Option<Box<(Key<K>, usize, Duration)>>,
}

enum HowEnded<K> {
    Quietly,
    GaveUp(Key<K>, u32),
    Panicked(Box<dyn Any + Send>),
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn end_one(&self, mut held: Held<K, V>, ending: Ending) {
        let how = self.decide(ending, held.attempts);
        let mut state = self.lock();
        let ended = self.end_locked(&mut state, &mut held, how);
        self.release_and_report(state, [ended]);
    }

    pub(super) fn end_batch(&self, mut batch: Vec<Held<K, V>>, outcome: Outcome) {
        let how: Vec<How> =
            batch.iter().map(|held| self.decide(Ending::By(outcome), held.attempts)).collect();
        let mut state = self.lock();
        let mut loud = Vec::new();
        for (held, how) in batch.iter_mut().zip(how) {
            match self.end_locked(&mut state, held, how) {
                Ended { how: HowEnded::Quietly, slow: None } => {}
                ended => loud.push(ended),
            }
        }
        self.release_and_report(state, loud);
    }

    /// What an ending means for the deltas. Runs the user's back-off policy, so it comes before the lock.
    pub(super) fn decide(&self, ending: Ending, attempts: u32) -> How {
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
            Outcome::RequeueAfter(delay) => How::GiveBack(Some(self.clock.after_at_most(delay))),
            Outcome::RequeueWithBackoff => {
                How::GiveBack(Some(self.clock.after_at_most(self.backoff.delay(attempts))))
            }
        }
    }

    pub(super) fn end_locked(&self, state: &mut State<K, V>, held: &mut Held<K, V>, how: How) -> Ended<K> {
        let slow = self.on_slow.as_ref().and_then(|on_slow| self.time(on_slow, state, held));
        Ended { how: self.end_how(state, held, how), slow }
    }

    /// What is to be told of a lease that was held for long.
    #[cold]
    fn time(
        &self,
        on_slow: &OnSlow<K>,
        state: &State<K, V>,
        held: &Held<K, V>,
    ) -> Option<Box<(Key<K>, usize, Duration)>> {
        let began = held.times.as_ref()?.began?;
        let time = self.clock.now().saturating_duration_since(began);
        (time > on_slow.threshold).then(|| Box::new((Key::clone(&held.key), state.pending, time)))
    }

    fn end_how(&self, state: &mut State<K, V>, held: &mut Held<K, V>, how: How) -> HowEnded<K> {
        if let How::GiveBack(until) = how {
            state.give_back(held, until);
            return HowEnded::Quietly;
        }
        match catch_unwind(AssertUnwindSafe(|| state.memory(held, &self.records))) {
            Ok(memory) => {
                state.finish(held, memory);
                match how {
                    How::GiveUp => HowEnded::GaveUp(Key::clone(&held.key), held.attempts),
                    How::Finish | How::GiveBack(_) => HowEnded::Quietly,
                }
            }
            Err(panic) => {
                // A key's `Eq`. The deltas are processed, but that cannot be noted down: they come once more.
                state.give_back(held, None);
                HowEnded::Panicked(panic)
            }
        }
    }

    /// Releases the lock, which may drop objects whose `Drop` panics, and tells what is to be told all the same.
    pub(super) fn release_and_report(
        &self,
        mut state: Locked<'_, K, V, S>,
        ended: impl IntoIterator<Item = Ended<K>>,
    ) {
        let released = catch_unwind(AssertUnwindSafe(|| state.release()));
        for ended in ended {
            self.report_end(ended);
        }
        if let Err(panic) = released {
            self.report_end(Ended { how: HowEnded::Panicked(panic), slow: None });
        }
    }

    fn report_end(&self, ended: Ended<K>) {
        if let (Some(on_slow), Some(slow)) = (&self.on_slow, ended.slow) {
            let (key, depth, time) = *slow;
            on_slow.tell(&key, depth, time);
        }
        match ended.how {
            HowEnded::Quietly => {}
            HowEnded::GaveUp(key, attempts) => self.report(&ErrorEvent::GaveUp { key: &key, attempts }),
            // A second panic would abort, and the first one tells enough.
            HowEnded::Panicked(_) if std::thread::panicking() => {}
            HowEnded::Panicked(panic) => resume_unwind(panic),
        }
    }
}

/// Where a key's settled number outlives its entry.
pub(super) struct Memory<'r, K, V> {
    records: &'r RwLock<Records<K, V>>,
    record: Option<Slot>,
}

impl<K: Eq, V> State<K, V> {
    /// Where the key's settled number must be kept when its entry goes: an open replace will ask for it.
    pub(super) fn memory<'r>(
        &self,
        held: &Held<K, V>,
        records: &'r RwLock<Records<K, V>>,
    ) -> Option<Memory<'r, K, V>> {
        if self.replaces.none_open() {
            return None;
        }
        let record = read(records).table.find(self.entries.hash(held.slot), &*held.key);
        Some(Memory { records, record })
    }

    pub(super) fn finish_void(&mut self, held: Held<K, V>) {
        self.finish(&held, None);
        self.garbage.leases.push(held);
    }

    /// Ends a lease whose deltas are processed, or came to nothing. The caller drops `held` outside the lock.
    pub(super) fn finish(&mut self, held: &Held<K, V>, memory: Option<Memory<'_, K, V>>) {
        let hash = self.entries.hash(held.slot);
        self.leased -= 1;
        let entry = self.entries.get_mut(held.slot);
        let lease = entry.lease.take().expect("the key is leased");
        note_ended(lease.thread);
        self.marks.leave(lease.since);
        self.replaces.complete(&lease.debts);
        let left = known_after(&held.deltas);
        if entry.is_pending() {
            let known = !held.deltas.is_empty();
            entry.left = known.then(|| left.cloned().map_or(Before::Absent, Before::Known));
            self.line_up(held.slot);
        } else {
            let settled = entry.settled;
            // `held` keeps the key alive.
            self.entries.remove(held.slot);
            if let Some(Memory { records, record }) = memory {
                write(records).remember(record, hash, &held.key, left.is_some(), settled);
            }
        }
        self.ended();
    }

    /// Ends a lease whose deltas come back: at `until`, or at once. The caller drops what is left of `held` outside
    /// the lock.
    pub(super) fn give_back(&mut self, held: &mut Held<K, V>, until: Option<Instant>) {
        self.leased -= 1;
        let entry = self.entries.get_mut(held.slot);
        let mut lease = entry.lease.take().expect("the key is leased");
        note_ended(lease.thread);
        self.replaces.deliver(&mut lease.debts);
        if let Some(discarded) = &mut self.discarded {
            discarded.keys += 1;
            discarded.deltas += held.deltas.len() as u64;
            self.replaces.fail(&lease.debts);
            self.marks.lose(lease.since);
            self.entries.remove(held.slot);
            self.ended();
            return;
        }
        let was_dirty = entry.is_pending();
        entry.origins.join(lease.origins);
        entry.given_back = Some(Box::new(GivenBack {
            deltas: std::mem::take(&mut held.deltas),
            previous: held.previous.take(),
            attempts: held.attempts,
        }));
        let newer = std::mem::replace(&mut entry.debts, lease.debts);
        let twice = join(&mut entry.debts, newer);
        match was_dirty {
            true => self.marks.leave(entry.since),
            false => self.pending += 1,
        }
        entry.since = lease.since;
        match until {
            Some(until) if !was_dirty => {
                let earliest = self.lines.earliest();
                entry.place = self.lines.delay(held.slot, until);
                if earliest.is_none_or(|earliest| until < earliest) {
                    self.wakes.earliest = Some(until);
                }
            }
            // A new delta puts a delayed key in line at once, and here it came even before the delay.
            _ => {
                if !was_dirty {
                    entry.waits = self.measure.now(&self.clock);
                }
                self.line_up(held.slot);
            }
        }
        self.replaces.complete(&twice);
        self.ended();
    }

    /// Somebody may have waited for the lease that has just ended.
    fn ended(&mut self) {
        self.wakes.progress = true;
        if self.is_finished() {
            self.wakes.all = true;
        }
    }

    /// Drops everything that is pending.
    pub(super) fn discard(&mut self) {
        let mut discarded = self.discarded.unwrap_or_default();
        let pending: Vec<Slot> =
            self.entries.iter().filter(|(_, _, entry)| entry.is_pending()).map(|(slot, _, _)| slot).collect();
        for slot in pending {
            let entry = self.entries.get_mut(slot);
            discarded.keys += 1;
            discarded.deltas += entry.depth() as u64;
            self.garbage.deltas.extend(entry.facts.drain(..));
            self.garbage.given_back.extend(entry.given_back.take().map(|given_back| *given_back));
            self.garbage.objects.extend(entry.left.take().and_then(Before::into_object));
            self.replaces.fail(&std::mem::take(&mut entry.debts));
            self.marks.lose(entry.since);
            entry.origins = Origins::default();
            entry.waits = None;
            if entry.lease.is_none() {
                self.garbage.keys.push(self.entries.remove(slot).0);
            }
        }
        self.pending = 0;
        self.measure.clear();
        self.lines = Lines::default();
        self.discarded = Some(discarded);
        self.wakes.progress = true;
        self.wakes.all = true;
    }
}
