//! How a lease ends: its deltas are processed, or come back, or are discarded.

use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::builder::OnAbandon;
use crate::delta::{DeltaList, Object};
use crate::error::ErrorEvent;
use crate::lease::Outcome;
use crate::object::Key;
use crate::owner;
use crate::raw::Ending;
use crate::resolve::{Before, known_after};
use crate::sync::atomic::Ordering;
use crate::sync::epoch::{self, Guard};
use crate::sync::{fence_after_rmw, pause_point, planted};
use crate::table::hash_of;

use super::DeltaFifo;
use super::chain::Facts;
use super::close::Thrown;
use super::entry::{GivenBack, Tenure};
use super::link::ToLink;
use super::pop::Held;
use super::push::Counted;
use super::records;
use super::replaces::Progress;
use super::word::{Newest, State};

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
    pub(super) fn end_one(&self, held: Held<K, V>, ending: Ending) {
        let how = self.decide(ending, held.attempts);
        self.end_as(held, how);
    }

    pub(super) fn end_batch(&self, batch: Vec<Held<K, V>>, outcome: Outcome) {
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

    fn end_as(&self, held: Held<K, V>, how: How) {
        owner::note_ended(held.thread);
        let shard = held.shard;
        let guard = epoch::pin();
        let (rest, panic) = match how {
            How::GiveBack(until) => (self.give_back(held, until, &guard), None),
            How::Finish | How::GiveUp => match self.remember(&held, &guard) {
                Ok(()) => (self.finish(held, &guard), None),
                // A key's `Eq`. The deltas are processed, but that cannot be noted down: they come once more.
                Err(panic) => (self.give_back(held, None, &guard), Some(panic)),
            },
        };
        drop(guard);
        if let (How::GiveUp, None) = (how, &panic) {
            self.report(&ErrorEvent::GaveUp { key: &rest.key, attempts: rest.attempts });
        }
        drop(rest);
        self.shards[shard].tidy();
        match panic {
            // A second panic would abort, and the first one tells enough.
            Some(panic) if !std::thread::panicking() => resume_unwind(panic),
            _ => {}
        }
    }

    /// Where the known objects are elsewhere: keeps what an open replace may ask of a key whose entry goes.
    fn remember(&self, held: &Held<K, V>, guard: &Guard) -> std::thread::Result<()> {
        if self.keeps_known() || self.replaces.oldest_open() == u64::MAX {
            return Ok(());
        }
        catch_unwind(AssertUnwindSafe(|| {
            let shard = &self.shards[held.shard];
            let entry = shard.entries.get(held.tenure.index());
            let index = self.reserve_record(shard, hash_of(entry), &held.key, guard);
            let record = shard.records.get(index);
            // Relaxed: the holder has raised it itself.
            record.raise(entry.settled.load(Ordering::Relaxed));
            let exists = known_after(&held.deltas).is_some();
            // Relaxed: counted before it shows.
            shard.absent.fetch_add(1, Ordering::Relaxed);
            record.set(if exists { &records::State::Live } else { &records::State::Absent });
            self.leave_absent(shard, index, guard);
        }))
    }
}

/// What is left of a lease when it is over: the user's, to be dropped under no guard.
pub(super) struct Rest<K, V> {
    key: Key<K>,
    attempts: u32,
    _deltas: DeltaList<Object<V>>,
    _objects: SmallVec<[Object<V>; 2]>,
    _thrown: Option<Thrown<V>>,
}

impl<K, V> Rest<K, V> {
    pub(super) fn of(held: Held<K, V>) -> (usize, Tenure, Self) {
        let objects = held.previous.into_iter().collect();
        let rest = Rest {
            key: held.key,
            attempts: held.attempts,
            _deltas: held.deltas,
            _objects: objects,
            _thrown: None,
        };
        (held.shard, held.tenure, rest)
    }

    pub(super) fn and(self, thrown: Option<Thrown<V>>) -> Self {
        Rest { _thrown: thrown, ..self }
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Ends a lease whose deltas are processed, or came to nothing.
    pub(super) fn finish(&self, held: Held<K, V>, guard: &Guard) -> Rest<K, V> {
        let Held { shard, mut tenure, key, deltas, previous, attempts, debts, .. } = held;
        let (of, index) = (&self.shards[shard], tenure.index());
        let entry = of.entries.get(index);
        let mut objects: SmallVec<[Object<V>; 2]> = previous.into_iter().collect();
        // Repeats when a fact has come.
        let word = loop {
            let word = entry.word();
            let dirty = word.newest().is_some();
            if !self.keeps_known() {
                let left = known_after(&deltas).cloned().map_or(Before::Absent, Before::Known);
                let left = (dirty && !deltas.is_empty()).then_some(left);
                let old = entry.own(&mut tenure, |own| std::mem::replace(&mut own.left, left));
                objects.extend(old.and_then(Before::into_object));
            }
            if dirty {
                // Relaxed, both: published by the exchange.
                entry.since.store(entry.next_since.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            pause_point("finish: before the exchange");
            match entry.end(tenure, word, word.finish()) {
                Ok(()) => break word.finish(),
                Err(back) => tenure = back,
            }
        };
        pause_point("finish: ended");
        if word.state() == State::Retired {
            of.retire_entry(index, guard);
        }
        self.ended(shard);
        pause_point("finish: counted");
        if word.state() == State::Linking && !planted("a dirty key is left alone") {
            self.link(ToLink::new(shard, index, word), guard);
        }
        self.tell(self.replaces.complete(&debts));
        Rest { key, attempts, _deltas: deltas, _objects: objects, _thrown: None }
    }

    /// Ends a lease whose deltas come back: at `until`, or at once.
    fn give_back(&self, held: Held<K, V>, until: Option<Instant>, guard: &Guard) -> Rest<K, V> {
        if self.closing.is_discarding() {
            return self.throw_away(held, guard);
        }
        let Held { shard, mut tenure, key, deltas, previous, attempts, mut debts, background, .. } = held;
        let delivered = self.replaces.deliver(&mut debts);
        let given_back = GivenBack { deltas, facts: Facts::new(), previous, attempts, debts, background };
        let newest = given_back.newest();
        let entry = self.shards[shard].entries.get(tenure.index());
        entry.own(&mut tenure, |own| own.given_back = Some(Box::new(given_back)));
        if let Some(link) = self.end_given_back(shard, tenure, newest, background, until) {
            self.link(link, guard);
        }
        self.tell(delivered);
        Rest { key, attempts, _deltas: DeltaList::new(), _objects: SmallVec::new(), _thrown: None }
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
        let (of, index) = (&self.shards[shard], tenure.index());
        let entry = of.entries.get(index);
        let mut counted = Counted::new(&of.came.keys);
        // Repeats when a fact has come.
        let word = loop {
            let word = entry.word();
            let until = until.filter(|_| word.newest().is_none());
            if let Some(until) = until {
                // Relaxed: published by the exchange.
                entry.due.store(self.delays.stamp(until), Ordering::Relaxed);
            }
            counted.set(word.newest().is_none());
            let next = word.give_back(newest, background, until.is_some());
            pause_point("give back: before the exchange");
            match entry.end(tenure, word, next) {
                Ok(()) => break next,
                Err(back) => tenure = back,
            }
        };
        counted.stands();
        pause_point("give back: ended");
        self.ended(shard);
        let link = ToLink::new(shard, index, word);
        match until {
            Some(until) if word.state() == State::Delayed => {
                self.delay(until, link);
                None
            }
            _ => Some(link),
        }
    }

    /// A lease is over.
    pub(super) fn ended(&self, shard: usize) {
        // Release: what the lease did happens before whoever finds that all are over.
        self.shards[shard].gone.ended.fetch_add(1, Ordering::Release);
    }

    /// Wakes who may have waited for the lease that has just ended.
    pub(super) fn tell(&self, progress: Progress) {
        // Pairs with the fence of who begins to wait: either it sees the end of the lease, or this sees what it waits for.
        fence_after_rmw();
        if progress.is_made() || self.marks.any() || self.closing.is_closed() {
            self.wake_watchers();
        }
    }
}

/// A delay that no clock can count ends in a century.
fn from_now(delay: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(delay).unwrap_or(now + CENTURY)
}
