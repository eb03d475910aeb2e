//! Consumers: leasing keys, and resolving what was appended to them.

use std::hash::{BuildHasher, Hash};

use smallvec::SmallVec;

use crate::builder::Known;
use crate::delta::{DeltaList, Deltas, Object, RawDelta};
use crate::key_queue::Handle;
use crate::object::Key;
use crate::owner;
use crate::raw::HeldLease;
use crate::resolve::Before;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::chain::{self, Facts};
use super::debts::Debts;
use super::end::Rest;
use super::entry::{MANY, Tenure};
use super::lines::At;
use super::word::{self, Newest};

/// Leases that were taken in one step, in the order of the line.
pub(super) type Batch<K, V> = SmallVec<[Held<K, V>; 1]>;

/// So many handles are taken out of the line at a time.
const STRETCH: usize = 32;

/// What an open lease of a [`DeltaFifo`](super::DeltaFifo) holds.
pub struct Held<K, V> {
    pub(super) shard: usize,
    pub(super) tenure: Tenure,
    pub(super) key: Key<K>,
    pub(super) deltas: DeltaList<Object<V>>,
    pub(super) previous: Option<Object<V>>,
    pub(super) attempts: u32,
    pub(super) initial: bool,
    pub(super) debts: Debts,
    pub(super) background: bool,
    /// The thread that holds it as a borrow; 0 if nobody can tell.
    pub(super) thread: u64,
}

impl<K, V> HeldLease<K, V> for Held<K, V> {
    fn key(&self) -> &K {
        &self.key
    }

    fn deltas(&self) -> Deltas<'_, K, V> {
        Deltas::new(&self.key, &self.deltas)
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
}

/// A key that was taken out of its line, before it is known what its facts come to.
pub(super) struct Taken<K, V> {
    pub(super) at: At,
    pub(super) tenure: Tenure,
    pub(super) key: Key<K>,
    pub(super) facts: Facts<V>,
    pub(super) newest: Newest,
    pub(super) background: bool,
}

/// What is to be dropped under no guard: it is the user's.
pub(super) struct Garbage<K, V> {
    pub(super) deltas: Vec<RawDelta<Object<V>>>,
    pub(super) objects: SmallVec<[Object<V>; 2]>,
    pub(super) leases: Vec<Rest<K, V>>,
}

impl<K, V> Default for Garbage<K, V> {
    fn default() -> Self {
        Garbage { deltas: Vec::new(), objects: SmallVec::new(), leases: Vec::new() }
    }
}

/// A pop on its way. If it panics, what it has taken goes back to where it stood.
pub(super) struct Popping<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    /// Out of the line and not yet leased, the first one last.
    handles: Vec<Handle>,
    taken: Option<Taken<K, V>>,
    /// To the tail, if the user's store panicked: one that does so over one key for ever must not hold up all others.
    to_tail: bool,
    batch: Batch<K, V>,
}

impl<K: Hash + Eq, V, S> Drop for Popping<'_, K, V, S> {
    fn drop(&mut self) {
        if self.handles.is_empty() && self.taken.is_none() && self.batch.is_empty() {
            return;
        }
        let guard = epoch::pin();
        // In the order of the line: before what stands there.
        for held in std::mem::take(&mut self.batch) {
            self.queue.unlease(held, &guard);
        }
        if let Some(taken) = self.taken.take() {
            self.queue.untake(taken, !self.to_tail, &guard);
        }
        for handle in std::mem::take(&mut self.handles).into_iter().rev() {
            self.queue.lines.push_front(At::of(handle), &guard);
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
    /// Leases up to `max` keys that are in line now. If user code panics, nothing has happened.
    pub(super) fn take(&self, max: usize, thread: u64) -> Batch<K, V> {
        let mut popping =
            Popping { queue: self, handles: Vec::new(), taken: None, to_tail: false, batch: Batch::new() };
        let mut garbage = Garbage::default();
        let mut guard = epoch::pin();
        self.promote(&guard);
        while popping.batch.len() < max {
            let Some((at, from_background)) = popping.next(max, &guard) else { break };
            pause_point("pop: out of the line");
            let Some(taken) = self.lease(at, from_background) else {
                if from_background {
                    self.lines.was_stale();
                }
                continue;
            };
            popping.taken = Some(taken);
            let held = match self.known {
                Known::Inside => self.open_inside(&mut popping.taken, &guard, &mut garbage),
                Known::None => self.open_elsewhere(&mut popping.taken, Before::Absent, &guard, &mut garbage),
                Known::Store(_) => {
                    drop(guard);
                    popping.to_tail = true;
                    let before = self.ask_store(&popping.taken.as_ref().expect("just taken").key);
                    popping.to_tail = false;
                    guard = epoch::pin();
                    self.open_elsewhere(&mut popping.taken, before, &guard, &mut garbage)
                }
            };
            let Some(mut held) = held else { continue };
            if held.deltas.is_empty() {
                garbage.leases.push(self.finish(held, &guard));
                continue;
            }
            self.show(&mut held, thread);
            popping.batch.push(held);
        }
        drop(guard);
        drop(garbage);
        self.tidy_after(&popping.batch);
        let batch = std::mem::take(&mut popping.batch);
        owner::note_popped(if thread == 0 { 0 } else { batch.len() });
        batch
    }

    /// A consumer takes the entry's facts. None: the handle is stale.
    pub(super) fn lease(&self, at: At, from_background: bool) -> Option<Taken<K, V>> {
        let shard = &self.shards[at.shard];
        let entry = shard.entries.get(at.index);
        // Before the exchange: see E8.
        let since = self.marks.newest();
        // Repeats when a fact has come, or the handle has been marked as in line.
        loop {
            let word = entry.word();
            let leased = word.lease(at.generation)?;
            if from_background && !word.is_background() && word.state() == word::State::Queued {
                return None; // it has moved to the first line, and stands there
            }
            let is_listing = self.replaces.oldest_open() != u64::MAX;
            let late = planted("a lease raises too late");
            let grip = if is_listing && !late { shard.raise_settled(entry, word) } else { Ok(None) };
            let Ok(grip) = grip else { continue };
            pause_point("lease: before the exchange");
            let Some(tenure) = entry.begin(at.index, word, leased) else { continue };
            if is_listing && !planted("no fence in a lease") {
                // SeqCst fence: pairs with that in `plan`, where the number of a fact is raised.
                fence(Ordering::SeqCst);
            }
            // Relaxed: ordered by who asks; a key is leased from here on, and was pending up to here.
            shard.gone.taken.fetch_add(1, Ordering::Relaxed);
            // Relaxed: the exchange that ends the lease publishes it, and until then it is an estimate.
            entry.next_since.store(since, Ordering::Relaxed);
            pause_point("lease: begun");
            drop(grip);
            let key = entry.key_of(&tenure).clone();
            let facts = chain::take(&shard.objects, word.newest());
            if late {
                let settled = facts.iter().map(|taken| taken.fact.settled).max();
                entry.settled.fetch_max(settled.unwrap_or(0), Ordering::Release);
            }
            let (newest, background) = (word.kind(), word.is_background());
            return Some(Taken { at, tenure, key, facts, newest, background });
        }
    }

    /// The lease will reach a caller on this thread, if it is a borrow.
    fn show(&self, held: &mut Held<K, V>, thread: u64) {
        held.thread = thread;
        let mut numbers = held.debts.numbers();
        let owes = match (numbers.next(), numbers.next()) {
            (None, _) => 0,
            (Some(number), None) => number,
            (Some(_), Some(_)) => MANY,
        };
        drop(numbers);
        let entry = self.shards[held.shard].entries.get(held.tenure.index());
        // Relaxed, both: who asks for its own leases has written them itself, or what it reads is too old to matter.
        entry.owes.store(owes, Ordering::Relaxed);
        entry.thread.store(thread, Ordering::Relaxed);
    }

    /// The lease no longer counts as one of the thread that popped it.
    pub(super) fn disown_one(&self, held: &mut Held<K, V>) {
        owner::note_ended(std::mem::take(&mut held.thread));
        let entry = self.shards[held.shard].entries.get(held.tenure.index());
        // Relaxed: as in `show`.
        entry.thread.store(0, Ordering::Relaxed);
    }

    /// What consumers drop for all, under no guard: this runs user code.
    fn tidy_after(&self, batch: &Batch<K, V>) {
        for held in batch {
            self.shards[held.shard].tidy();
        }
    }
}

impl<K: Hash + Eq, V, S> Popping<'_, K, V, S> {
    /// The next handle, out of the line.
    fn next(&mut self, max: usize, guard: &Guard) -> Option<(At, bool)> {
        let (lines, wanted) = (&self.queue.lines, max - self.batch.len());
        if self.handles.is_empty() {
            if wanted == 1 || !lines.pop_all(wanted.min(STRETCH), &mut self.handles, guard) {
                return lines.pop(guard);
            }
            self.handles.reverse();
        }
        self.handles.pop().map(|handle| (At::of(handle), false))
    }
}
