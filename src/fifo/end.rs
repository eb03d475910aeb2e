//! How a lease ends: its deltas are processed, or come back, or are discarded.

use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::builder::OnAbandon;
use crate::delta::{DeltaList, Object};
use crate::error::ErrorEvent;
use crate::lease::Outcome;
use crate::owner;
use crate::raw::Ending;
use crate::resolve::{Before, known_after};
use crate::sync::atomic::Ordering;
use crate::sync::epoch::{self, Guard};
use crate::sync::{fence_after_rmw, pause_point, planted, weaken};

use super::DeltaFifo;
use super::chain::{Facts, Shown};
use super::close::Thrown;
use super::entry::{Entry, EntryKey, Tenure};
use super::link::ToLink;
use super::parts::GivenBack;
use super::pop::Held;
use super::push::Counted;
use super::replaces::Progress;
use super::word::{Newest, State, Word};

/// A lease that was held for long: its key, how many were pending, and for how long.
type Slow<K> = (EntryKey<K>, usize, Duration);

/// What an ending means for the deltas.
#[derive(Clone, Copy)]
enum How {
    Finish,
    GiveUp,
    /// At this time, or at once.
    GiveBack(Option<Instant>),
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    #[inline]
    pub(super) fn end_one(&self, held: Held<K, V>, ending: Ending) {
        if self.on_slow.is_some() {
            return self.end_timed(held, ending);
        }
        self.end_and_then(held, ending, || ());
    }

    /// The same where somebody asks how long it was held.
    #[cold]
    #[inline(never)]
    fn end_timed(&self, held: Held<K, V>, ending: Ending) {
        let slow = self.time(&held);
        self.end_and_then(held, ending, || {
            if let Some(slow) = slow {
                self.tell_slow(slow);
            }
        });
    }

    /// `then` runs when the lease has ended, before anything is dropped that may panic.
    #[inline(always)]
    fn end_and_then(&self, held: Held<K, V>, ending: Ending, then: impl FnOnce()) {
        let how = match ending {
            Ending::By(Outcome::Done) => How::Finish,
            ending => self.decide(ending, held.attempts),
        };
        owner::note_ended(held.thread);
        let shard = self.shard_of_lease(&held);
        let rest = match how {
            How::Finish => self.finish(held),
            How::GiveUp => self.finish_given_up(held),
            How::GiveBack(until) => self.give_back(held, until, &epoch::pin()),
        };
        then();
        drop(rest);
        shard.tidy();
        self.core.sweep_if_due();
    }

    pub(super) fn end_batch(&self, batch: Vec<Held<K, V>>, outcome: Outcome) {
        if planted("a panic ends a batch early") {
            return batch.into_iter().for_each(|held| self.end_one(held, Ending::By(outcome)));
        }
        let mut panic = None;
        for held in batch {
            // The rest of a batch ends whatever user code does over one of it.
            let ended = catch_unwind(AssertUnwindSafe(|| self.end_one(held, Ending::By(outcome))));
            panic = panic.or(ended.err());
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// What an ending means for the deltas. Runs the user's back-off policy.
    #[cold]
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
            Outcome::RequeueAfter(delay) => How::GiveBack(Some(self.clock.after_at_most(delay))),
            Outcome::RequeueWithBackoff => {
                How::GiveBack(Some(self.clock.after_at_most(self.backoff.delay(attempts))))
            }
        }
    }

    /// What is to be told of a lease that was held for long. Its key is shared, since a lease that has ended lends it no more.
    fn time(&self, held: &Held<K, V>) -> Option<Slow<K>> {
        let nanos = self.delays.stamp(self.clock.now()).saturating_sub(held.began);
        let time = Duration::from_nanos(nanos);
        let is_slow = self.on_slow.as_ref().is_some_and(|on_slow| time > on_slow.threshold);
        is_slow.then(|| (held.key.clone(), self.pending_len_now(), time))
    }

    fn tell_slow(&self, (key, depth, time): Slow<K>) {
        if let Some(on_slow) = &self.on_slow {
            on_slow.tell(&key, depth, time);
        }
    }

    #[cold]
    fn finish_given_up(&self, held: Held<K, V>) -> Rest<V> {
        // Shared, since a lease that has ended lends its key no more.
        let (key, attempts) = (held.key.clone(), held.attempts);
        let rest = self.finish(held);
        self.report(&ErrorEvent::GaveUp { key: &key, attempts });
        rest
    }
}

/// A guard that is there when it is needed.
#[derive(Default)]
pub(super) struct LazyPin(Option<Guard>);

impl LazyPin {
    #[inline(always)]
    pub(super) fn guard(&mut self) -> &Guard {
        self.0.get_or_insert_with(epoch::pin)
    }

    /// Until it is needed again.
    pub(super) fn release(&mut self) {
        self.0 = None;
    }
}

/// What is left of a lease when it is over: the user's, to be dropped under no guard.
pub(super) struct Rest<V> {
    _deltas: Shown<V>,
    _previous: Option<Object<V>>,
    _left: Option<Object<V>>,
    _thrown: Option<Box<Thrown<V>>>,
}

impl<V> Rest<V> {
    pub(super) fn of(deltas: Shown<V>, previous: Option<Object<V>>, thrown: Option<Box<Thrown<V>>>) -> Self {
        Rest { _deltas: deltas, _previous: previous, _left: None, _thrown: thrown }
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Ends a lease whose deltas are processed, or came to nothing.
    #[inline(always)]
    pub(super) fn finish(&self, held: Held<K, V>) -> Rest<V> {
        let entry = self.entry_of_lease(&held);
        let Held { shard, mut tenure, since, deltas, previous, debts, .. } = held;
        let shard = shard as usize;
        let mut pin = LazyPin::default();
        let mut left = None;
        // Repeats when a fact has come.
        let link = loop {
            let word = entry.word();
            let dirty = word.newest().is_some();
            if !self.keeps_known() {
                // What it leaves is in the deltas: of that no last reference goes here.
                left = left.or(leave(entry, &mut tenure, &deltas, dirty));
            }
            if dirty {
                // Relaxed: published by the exchange.
                let late = planted("a lease reads the mark at its end");
                entry.cold().since.store(if late { self.marks.newest() } else { since }, Ordering::Relaxed);
            }
            let newest =
                if deltas.is_empty() { word.kind() } else { Newest::of(known_after(&deltas).is_some()) };
            pause_point("finish: before the exchange");
            match self.rest((shard, entry), tenure, word, word, newest, &mut pin) {
                Ok(link) => break link,
                Err(back) => tenure = back,
            }
        };
        if let Some(link) = link.filter(|_| !planted("a dirty key is left alone")) {
            self.link(link, pin.guard());
        }
        let progress = self.core.replaces.complete(&debts);
        if !planted("a completion is told to nobody") {
            self.tell(progress);
        }
        Rest { _deltas: deltas, _previous: previous, _left: left, _thrown: None }
    }

    /// Ends a lease that leaves nothing behind but what is known, which is `newest`, and what has arrived meanwhile: then
    /// there is a key to put in line. `left` is `word`, or that without facts that the caller takes away. The tenure comes
    /// back if the word is no longer `word`.
    #[inline(always)]
    pub(super) fn rest(
        &self,
        (shard, entry): (usize, Entry<'_, V>),
        tenure: Tenure,
        word: Word,
        left: Word,
        newest: Newest,
        pin: &mut LazyPin,
    ) -> Result<Option<ToLink>, Tenure> {
        let (of, index) = (&self.core.shards[shard], tenure.index());
        // What was thrown away says nothing of what is known, where that is here: the version does.
        let newest = if self.keeps_known() { Newest::of(entry.version.exists()) } else { newest };
        let is_known = self.keeps_known() && newest == Newest::Live;
        let next = left.finish(newest, is_known || self.core.is_asked_for(of, entry));
        let is_asked = self.core.is_only_asked_for(next);
        if is_asked {
            // Relaxed: counted before it shows, so that the count is never too low.
            of.asked.fetch_add(1, Ordering::Relaxed);
            pause_point("finish: kept, as it is asked for");
        }
        // One that comes to rest is not touched any more; any other is, and must not be recycled meanwhile (E6).
        if next.state() != State::Idle || is_asked {
            pin.guard();
            self.date(entry, word, next);
        }
        if let Err(tenure) = entry.end(tenure, word, next) {
            if is_asked {
                // Relaxed: as above.
                of.asked.fetch_sub(1, Ordering::Relaxed);
            }
            return Err(tenure);
        }
        pause_point("finish: ended");
        if next.state() == State::Retired {
            of.retire_entry(index, pin.guard());
        } else if is_asked {
            self.core.ask_again(of, index, next, pin.guard());
        }
        self.ended(shard);
        pause_point("finish: counted");
        Ok((next.state() == State::Linking).then(|| {
            self.moved(word, next);
            ToLink::new(shard, index, next)
        }))
    }

    /// Ends a lease whose deltas come back: at `until`, or at once.
    #[cold]
    fn give_back(&self, held: Held<K, V>, until: Option<Instant>, guard: &Guard) -> Rest<V> {
        if self.core.closing.is_discarding() {
            return self.throw_away(held);
        }
        let Held { shard, mut tenure, deltas, previous, attempts, mut debts, background, .. } = held;
        let (shard, deltas) = (shard as usize, deltas.into_owned());
        let delivered = self.core.replaces.deliver(&mut debts);
        if planted("what is given back owes nothing") {
            debts = Default::default();
        }
        let given_back = GivenBack { deltas, facts: Facts::new(), previous, attempts, debts, background };
        let newest = given_back.newest();
        let entry = self.core.shards[shard].entries.get(tenure.index());
        entry.legacy(&mut tenure, |legacy| legacy.given_back = Some(Box::new(given_back)));
        if let Some(link) = self.end_given_back(shard, tenure, newest, background, until) {
            self.link(link, guard);
        }
        self.tell(delivered);
        Rest::of(Shown::new(DeltaList::new()), None, None)
    }

    /// What came back is in the holder's part already. A key to put in line, unless it waits for its time.
    pub(super) fn end_given_back(
        &self,
        shard: usize,
        mut tenure: Tenure,
        newest: Newest,
        background: bool,
        until: Option<Instant>,
    ) -> Option<ToLink> {
        let (of, index) = (&self.core.shards[shard], tenure.index());
        let entry = of.entries.get(index);
        let mut counted = Counted::new(&of.came.keys);
        // Repeats when a fact has come.
        let word = loop {
            let word = entry.word();
            let until = until.filter(|_| word.newest().is_none());
            if let Some(until) = until {
                // Relaxed: published by the exchange.
                entry.cold().note.store(self.delays.stamp(until), Ordering::Relaxed);
            }
            counted.set(word.newest().is_none());
            let next = word.give_back(newest, background, until.is_some());
            self.date(entry, word, next);
            pause_point("give back: before the exchange");
            match entry.end(tenure, word, next) {
                Ok(()) => {
                    self.moved(word, next);
                    break next;
                }
                Err(back) => tenure = back,
            }
        };
        counted.stands();
        pause_point("give back: ended");
        self.ended(shard);
        let link = ToLink::new(shard, index, word);
        match until {
            Some(until) if word.state() == State::Delayed || planted("a dirty key waits for its delay") => {
                self.delay(until, link);
                None
            }
            _ => Some(link),
        }
    }

    /// A lease is over.
    #[inline(always)]
    pub(super) fn ended(&self, shard: usize) {
        // Release: what the lease did happens before whoever finds that all are over.
        let release = weaken("a lease ends relaxed", Ordering::Release);
        self.core.shards[shard].gone.ended.fetch_add(1, release);
    }

    /// Wakes who may have waited for the lease that has just ended.
    #[inline(always)]
    pub(super) fn tell(&self, progress: Progress) {
        // Pairs with the fence of who begins to wait: either it sees the end of the lease, or this sees what it waits for.
        fence_after_rmw();
        if progress.is_made() || self.marks.any() || self.core.closing.is_closed() {
            self.wake_watchers();
        }
    }
}

/// What a lease leaves to the next one, where the known objects are elsewhere. Returns what the one before has left.
#[cold]
fn leave<V>(entry: Entry<'_, V>, tenure: &mut Tenure, deltas: &Shown<V>, dirty: bool) -> Option<Object<V>> {
    let left = known_after(deltas).cloned().map_or(Before::Absent, Before::Known);
    let left = (dirty && !deltas.is_empty()).then(|| Box::new(left));
    let old = entry.legacy(tenure, |legacy| std::mem::replace(&mut legacy.left, left));
    old.and_then(|old| old.into_object())
}
