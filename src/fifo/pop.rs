//! Consumers: leasing keys, and resolving what was appended to them.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use smallvec::SmallVec;

use crate::builder::Known;
use crate::delta::{Deltas, Object, RawDelta};
use crate::key_queue::Handle;
use crate::object::Lent;
use crate::owner;
use crate::raw::HeldLease;
use crate::resolve::Before;
use crate::sync::atomic::Ordering;
use crate::sync::epoch;
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::chain::{Chain, Shown};
use super::debts::Debts;
use super::end::{LazyPin, Rest};
use super::entry::{Entry, EntryHead, MANY, Tenure};
use super::lines::At;
use super::shard::Shard;
use super::word::{self, Newest};

/// Leases that were taken in one step, in the order of the line.
pub(super) type Batch<K, V> = Vec<Held<K, V>>;

/// So many handles are taken out of the line at a time.
const STRETCH: usize = 32;

/// What an open lease of a [`DeltaFifo`](super::DeltaFifo) holds.
pub struct Held<K, V> {
    pub(super) shard: u32,
    pub(super) tenure: Tenure,
    /// Lent by the entry, as long as this is a lease.
    pub(super) key: Lent<K, EntryHead>,
    /// The newest mark before it (E8).
    pub(super) since: u64,
    pub(super) deltas: Shown<V>,
    pub(super) previous: Option<Object<V>>,
    pub(super) attempts: u32,
    /// In line, where that is measured.
    pub(super) waited: Option<Duration>,
    pub(super) initial: bool,
    pub(super) debts: Debts,
    pub(super) background: bool,
    /// The thread that holds it as a borrow; 0 if nobody can tell.
    pub(super) thread: u32,
    /// Where somebody asks how long it was held: when it began, in the delays' count.
    pub(super) began: u64,
}

impl<K, V> HeldLease<K, V> for Held<K, V> {
    fn key(&self) -> &K {
        &self.key
    }

    fn deltas(&self) -> Deltas<'_, K, V> {
        Deltas::new(self.key(), &self.deltas)
    }

    fn previous(&self) -> Option<&V> {
        self.previous.as_deref()
    }

    fn is_initial(&self) -> bool {
        self.initial
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn waited(&self) -> Option<Duration> {
        self.waited
    }
}

/// A key that was taken out of its line, before it is known what its facts come to.
pub(super) struct Taken<K> {
    pub(super) at: At,
    /// Lent by the entry, as long as it is leased.
    pub(super) key: Lent<K, EntryHead>,
    pub(super) tenure: Tenure,
    pub(super) since: u64,
    pub(super) facts: Chain,
    pub(super) newest: Newest,
    pub(super) background: bool,
    pub(super) waited: Option<Duration>,
}

/// What is to be dropped under no guard: it is the user's.
pub(super) struct Garbage<V> {
    pub(super) deltas: Vec<RawDelta<Object<V>>>,
    pub(super) objects: SmallVec<[Object<V>; 2]>,
    pub(super) leases: Vec<Rest<V>>,
}

impl<V> Garbage<V> {
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.deltas.capacity() + self.leases.capacity() == 0 && self.objects.is_empty()
    }
}

impl<V> Default for Garbage<V> {
    fn default() -> Self {
        Garbage { deltas: Vec::new(), objects: SmallVec::new(), leases: Vec::new() }
    }
}

/// A pop on its way. If it panics, what it has taken goes back to where it stood.
pub(super) struct Popping<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    /// Out of the line and not yet leased, the first one last.
    handles: Vec<Handle>,
    /// While the user's store is asked, or objects are compared.
    pub(super) taken: Option<Taken<K>>,
    batch: Batch<K, V>,
    pub(super) garbage: Garbage<V>,
}

impl<K: Hash + Eq, V, S> Drop for Popping<'_, K, V, S> {
    fn drop(&mut self) {
        if self.handles.is_empty() && self.taken.is_none() && self.batch.is_empty() {
            return;
        }
        if planted("a pop that panics keeps what it took") {
            return std::mem::take(&mut self.batch).into_iter().for_each(std::mem::forget);
        }
        let guard = epoch::pin();
        // In the order of the line: before what stands there.
        for held in std::mem::take(&mut self.batch) {
            self.queue.unlease(held, &guard);
        }
        if let Some(taken) = self.taken.take() {
            // To the tail: a store that panics over one key for ever must not hold up all others.
            self.queue.untake(taken, &guard);
        }
        for handle in std::mem::take(&mut self.handles).into_iter().rev() {
            self.queue.lines.push_front(At::of(handle));
            self.queue.wake_consumers(1);
        }
    }
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// Leases the first key in line, if there is one now. If user code panics, nothing has happened.
    #[inline]
    pub(super) fn take_one(&self, thread: u32) -> Option<Held<K, V>> {
        let mut popping = Popping::new(self);
        let mut pin = LazyPin::default();
        if !planted("what is due waits for an empty line") {
            self.promote_lazily(&mut pin);
        }
        let mut held = self.lease_next(&mut popping, 1, &mut pin);
        drop(pin);
        if let Some(held) = &mut held {
            self.show(held, thread);
        }
        if !popping.garbage.is_empty()
            || held.as_ref().is_some_and(|held| self.shard_of_lease(held).is_untidy())
        {
            held = self.clean_up_one(&mut popping, held);
        }
        if popping.is_empty() {
            // Spares the drops of what mostly is empty.
            std::mem::forget(popping);
        }
        if thread != 0 && held.is_some() {
            owner::note_popped(1);
        }
        held
    }

    /// If what is dropped now panics, the lease is undone.
    #[cold]
    fn clean_up_one(
        &self,
        popping: &mut Popping<'_, K, V, S>,
        held: Option<Held<K, V>>,
    ) -> Option<Held<K, V>> {
        popping.batch.extend(held);
        self.clean_up(popping);
        popping.batch.pop()
    }

    /// Leases up to `max` keys that are in line now. If user code panics, nothing has happened.
    pub(super) fn take(&self, max: usize, thread: u32) -> Batch<K, V> {
        let mut popping = Popping::new(self);
        let mut pin = LazyPin::default();
        self.promote_lazily(&mut pin);
        while popping.batch.len() < max {
            let wanted = max - popping.batch.len();
            let Some(mut held) = self.lease_next(&mut popping, wanted, &mut pin) else { break };
            self.show(&mut held, thread);
            popping.batch.push(held);
        }
        drop(pin);
        self.clean_up(&mut popping);
        let batch = std::mem::take(&mut popping.batch);
        owner::note_popped(if thread == 0 { 0 } else { batch.len() });
        batch
    }

    /// The next key in line whose facts come to something. Up to `wanted` handles may leave the line for it. Not pinned while
    /// the user's store is asked.
    #[inline(always)]
    fn lease_next(
        &self,
        popping: &mut Popping<'_, K, V, S>,
        wanted: usize,
        pin: &mut LazyPin,
    ) -> Option<Held<K, V>> {
        loop {
            let (at, from_background) = popping.next(wanted)?;
            pause_point("pop: out of the line");
            let Some(taken) = self.lease(at, from_background, pin) else {
                self.lines.was_stale(from_background);
                continue;
            };
            let held = match self.known {
                _ if self.with_extras => self.open_with_extras(taken, popping, pin),
                Known::Inside => self.open_inside(taken, &mut popping.garbage),
                Known::None => self.open_elsewhere(taken, Before::Absent, &mut popping.garbage),
                Known::Store(_) => {
                    pin.release();
                    let taken = popping.taken.insert(taken);
                    let before = self.ask_store(&taken.key);
                    let taken = popping.taken.take().expect("just put there");
                    self.open_elsewhere(taken, before, &mut popping.garbage)
                }
            };
            if !held.deltas.is_empty() {
                return Some(held);
            }
            popping.garbage.leases.push(self.finish(held));
        }
    }

    /// Drops what a pop has taken away, and what consumers drop for all, under no guard: this runs user code.
    fn clean_up(&self, popping: &mut Popping<'_, K, V, S>) {
        drop(std::mem::take(&mut popping.garbage));
        for held in &popping.batch {
            self.shard_of_lease(held).tidy();
        }
    }

    /// A consumer takes the entry's facts. None: the handle is stale. No guard: up to the exchange only the word is looked at, which
    /// says whether the handle is good, and from there on the entry has a holder (E6).
    #[inline(always)]
    pub(super) fn lease(&self, at: At, from_background: bool, pin: &mut LazyPin) -> Option<Taken<K>> {
        let shard = &self.core.shards[at.shard];
        let slot = shard.entries.spot(at.index);
        let entry = shard.entries.at(&slot, at.index);
        // Before the exchange: see E8.
        let since = self.marks.newest();
        // Repeats when a fact has come, or the handle has been marked as in line.
        loop {
            let word = entry.word();
            let leased = word.lease(at.generation)?;
            if from_background && !word.is_background() && word.state() == word::State::Queued {
                return None; // it has moved to the first line, and stands there
            }
            let late = planted("a lease raises too late");
            let grip = if self.core.is_listing() && !late {
                // What is raised must be of this key still: it is, if the word is looked at under the guard (E6).
                pin.guard();
                if planted("a change has the number of its lease") {
                    entry.raise(2 * self.core.replaces.newest() + 1);
                }
                shard.raise_settled(entry, word)
            } else {
                Ok(None)
            };
            let Ok(grip) = grip else { continue };
            pause_point("lease: before the exchange");
            let Some(tenure) = entry.begin(at.index, word, leased) else { continue };
            // Release: pairs with who asks (`pending`, `agree`); a key is leased from here on, and was pending up to here.
            shard.gone.taken.fetch_add(1, Ordering::Release);
            pause_point("lease: begun");
            self.moved(word, leased);
            let waited = self.waited(entry, word);
            drop(grip);
            let facts = Chain::taken_off(word);
            if late {
                let numbers = facts.facts(&shard.objects).map(|(fact, _)| fact.settled);
                entry.raise(numbers.max().unwrap_or(0));
            }
            let (newest, background) = (word.kind(), word.is_background());
            let key = shard.entries.lend(&slot, &tenure);
            return Some(Taken { at, key, tenure, since, facts, newest, background, waited });
        }
    }

    /// The lease will reach a caller on this thread, if it is a borrow.
    #[inline(always)]
    fn show(&self, held: &mut Held<K, V>, thread: u32) {
        held.thread = thread;
        if self.on_slow.is_some() {
            held.began = self.delays.stamp(self.clock.now());
        }
        let owes = !held.debts.is_empty();
        if owes {
            self.note_debts(held);
        }
        self.entry_of_lease(held).set_holder(thread, owes);
    }

    #[cold]
    fn note_debts(&self, held: &Held<K, V>) {
        let mut numbers = held.debts.numbers();
        let owes = match (numbers.next(), numbers.next()) {
            (None, _) => 0,
            (Some(number), None) => number,
            (Some(_), Some(_)) => MANY,
        };
        drop(numbers);
        // Relaxed: read by this thread, or too old to matter.
        self.entry_of_lease(held).cold().note.store(owes, Ordering::Relaxed);
    }

    /// The lease no longer counts as one of the thread that popped it.
    pub(super) fn disown_one(&self, held: &mut Held<K, V>) {
        owner::note_ended(std::mem::take(&mut held.thread));
        let entry = self.entry_of_lease(held);
        entry.set_holder(0, false);
    }
}

impl<'q, K: Hash + Eq, V, S> Popping<'q, K, V, S> {
    #[inline(always)]
    fn new(queue: &'q DeltaFifo<K, V, S>) -> Self {
        let garbage = Garbage::default();
        Popping { queue, handles: Vec::new(), taken: None, batch: Batch::new(), garbage }
    }

    /// The next handle, out of the line.
    #[inline(always)]
    fn next(&mut self, wanted: usize) -> Option<(At, bool)> {
        if wanted == 1 && self.handles.is_empty() {
            self.queue.next_in_line()
        } else {
            self.next_of_many(wanted)
        }
    }

    fn next_of_many(&mut self, wanted: usize) -> Option<(At, bool)> {
        if self.handles.is_empty() {
            if !self.queue.lines.pop_all(wanted.min(STRETCH), &mut self.handles) {
                return self.queue.next_in_line();
            }
            self.batch.reserve(self.handles.len());
            self.handles.iter().for_each(|handle| self.queue.bring_entry(At::of(*handle)));
            self.handles.iter().for_each(|handle| self.queue.bring_objects(At::of(*handle)));
            self.handles.reverse();
        }
        self.handles.pop().map(|handle| (At::of(handle), false))
    }

    /// Whether it has nothing, not even memory.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        let handles = self.handles.capacity() + self.batch.capacity();
        handles == 0 && self.garbage.is_empty() && self.taken.is_none()
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    pub(super) fn shard_of_lease(&self, held: &Held<K, V>) -> &Shard<K, V> {
        &self.core.shards[held.shard as usize]
    }

    pub(super) fn entry_of_lease(&self, held: &Held<K, V>) -> Entry<'_, V> {
        self.shard_of_lease(held).entries.of_lease(&held.key, &held.tenure)
    }
}
