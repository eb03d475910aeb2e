//! Consumers: leasing keys, and resolving what was appended to them.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;

use smallvec::SmallVec;

use crate::builder::Known;
use crate::delta::{DeltaList, Deltas, Object, RawDelta, RawKind};
use crate::key_queue::Handle;
use crate::object::Key;
use crate::owner;
use crate::raw::HeldLease;
use crate::resolve::{Before, known_after, resolve};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{pause_point, planted};
use crate::table::hash_of;

use super::DeltaFifo;
use super::chain::{self, Facts};
use super::debts::Debts;
use super::end::Rest;
use super::entry::{GivenBack, MANY, Tenure};
use super::lines::At;
use super::records::State;
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
    at: At,
    tenure: Tenure,
    key: Key<K>,
    facts: Facts<V>,
    newest: Newest,
    background: bool,
}

/// What is to be dropped under no guard: it is the user's.
pub(super) struct Garbage<K, V> {
    deltas: Vec<RawDelta<Object<V>>>,
    pub(super) objects: SmallVec<[Object<V>; 2]>,
    leases: Vec<Rest<K, V>>,
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

    /// What the facts come to, in a queue that keeps the known objects itself. Runs the key's `Eq` first of all.
    fn open_inside(
        &self,
        taken: &mut Option<Taken<K, V>>,
        guard: &Guard,
        garbage: &mut Garbage<K, V>,
    ) -> Option<Held<K, V>> {
        let key = taken.as_ref()?;
        let shard = &self.shards[key.at.shard];
        let hash = hash_of(shard.entries.get(key.at.index));
        let index = self.reserve_record(shard, hash, &key.key, guard);
        let record = shard.records.get(index);
        // Lent by the record, which owns it until `install`.
        let before = ManuallyDrop::new(match record.state() {
            State::Object(object) => Before::Known(chain::lend_version(&shard.objects, object)),
            State::Absent | State::Live => Before::Absent,
        });
        let mut opened = self.resolve(taken.take()?, &before, record.number(), garbage);
        if planted("a lease numbers what it takes") {
            record.raise(2 * self.replaces.newest() + 1);
        }
        if !planted("the number stays in the entry") {
            record.raise(opened.settled);
        }
        pause_point("known: number raised");
        // Nothing in the deltas: what is known stays.
        let deltas = &opened.held.deltas;
        let newest = if deltas.is_empty() { before.object() } else { known_after(deltas) };
        let replaced = self.install(shard, index, before.object(), newest, guard);
        if opened.is_fresh {
            opened.held.previous = replaced.or_else(|| before.object().cloned());
        } else {
            garbage.objects.extend(replaced);
        }
        Some(opened.held)
    }

    /// The same where the known objects are elsewhere, and said to be `before`.
    fn open_elsewhere(
        &self,
        taken: &mut Option<Taken<K, V>>,
        before: Before<Object<V>>,
        guard: &Guard,
        garbage: &mut Garbage<K, V>,
    ) -> Option<Held<K, V>> {
        let key = taken.as_ref()?;
        let shard = &self.shards[key.at.shard];
        let open = self.replaces.oldest_open() != u64::MAX;
        let hash = hash_of(shard.entries.get(key.at.index));
        let record = if open { shard.find_record(hash, &key.key, guard) } else { None };
        let number = record.map_or(0, |record| shard.records.get(record).number());
        let mut taken = taken.take()?;
        let entry = shard.entries.get(taken.at.index);
        let previous = before.object().cloned();
        let (left, given_back) =
            entry.own(&mut taken.tenure, |own| (own.left.take(), own.given_back.is_some()));
        let before = match left {
            // What the last lease left is newer than what its consumer may have stored.
            Some(left) => left,
            // Appended because the store had the key. It has lost the object since: that is a deletion, of an object
            // that nobody can show.
            None if matches!(before, Before::Absent)
                && matches!(self.known, Known::Store(_))
                && !given_back
                && taken.is_swept() =>
            {
                Before::CannotTell
            }
            None => before,
        };
        let mut opened = self.resolve(taken, &before, number, garbage);
        garbage.objects.extend(before.into_object());
        if opened.is_fresh {
            opened.held.previous = previous;
        } else {
            garbage.objects.extend(previous);
        }
        Some(opened.held)
    }

    /// Joins what was given back with the facts.
    fn resolve(
        &self,
        mut taken: Taken<K, V>,
        before: &Before<Object<V>>,
        number: u64,
        garbage: &mut Garbage<K, V>,
    ) -> Opened<K, V> {
        let shard = &self.shards[taken.at.shard];
        let entry = shard.entries.get(taken.at.index);
        let (given_back, judged) = entry.own(&mut taken.tenure, |own| (own.given_back.take(), own.judged));
        let mut held = Held {
            shard: taken.at.shard,
            tenure: taken.tenure,
            key: taken.key,
            deltas: DeltaList::new(),
            previous: None,
            attempts: 1,
            initial: false,
            debts: Debts::default(),
            background: taken.background,
            thread: 0,
        };
        let mut facts = taken.facts;
        let (mut shown, mut is_fresh) = (DeltaList::new(), true);
        if let Some(given_back) = given_back {
            let given_back = *given_back;
            held.debts = given_back.debts;
            held.attempts = given_back.attempts + 1;
            is_fresh = given_back.deltas.is_empty();
            (shown, held.previous) = (given_back.deltas, given_back.previous);
            facts.insert_many(0, given_back.facts);
        }
        let number = if planted("a lease judges nothing") { 0 } else { number };
        let (facts, settled) = judge(facts, number.max(judged), &mut held.debts, &mut garbage.deltas);
        let (mut shown, mut facts) = (shown, facts);
        if !shown.is_empty() && planted("what came back comes last") {
            std::mem::swap(&mut shown, &mut facts);
        }
        let resolved = resolve(before, shown, facts, self.compression);
        if !resolved.merged.is_empty() {
            // Relaxed: only the count matters.
            shard.merged.fetch_add(resolved.merged.len() as u64, Ordering::Relaxed);
            garbage.deltas.extend(resolved.merged);
        }
        held.deltas = resolved.deltas;
        held.initial = self.replaces.owes_first(&held.debts);
        // Where all came to nothing, what was known stays.
        let exists = match held.deltas.is_empty() {
            true => !matches!(before, Before::Absent) && !planted("a void tombstone deletes"),
            false => known_after(&held.deltas).is_some(),
        };
        let newest = if exists { Newest::Live } else { Newest::Deleted };
        entry.own(&mut held.tenure, |own| own.judged = settled);
        if newest != taken.newest {
            self.correct(&held, newest);
        }
        Opened { held, settled, is_fresh }
    }

    /// The word said what the facts were; now it is known what they came to (a tombstone may come to nothing).
    fn correct(&self, held: &Held<K, V>, newest: Newest) {
        let entry = self.shards[held.shard].entries.get(held.tenure.index());
        // Repeats when a fact has come.
        loop {
            let word = entry.word();
            pause_point("lease: before the correction");
            if entry.correct(&held.tenure, word, word.resolved(newest)) {
                return;
            }
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

/// A lease whose facts are resolved.
struct Opened<K, V> {
    held: Held<K, V>,
    /// The largest number of a change or a list that it has seen.
    settled: u64,
    /// No lease has shown any of its deltas.
    is_fresh: bool,
}

/// Sorts out what must not come after something newer, and what is owed for. Returns the rest, and the largest number.
fn judge<V>(
    facts: Facts<V>,
    mut settled: u64,
    debts: &mut Debts,
    void: &mut Vec<RawDelta<Object<V>>>,
) -> (DeltaList<Object<V>>, u64) {
    let mut good = DeltaList::new();
    for chain::Taken { fact, object } in facts {
        if fact.debt != 0 {
            debts.add(fact.debt, 1);
        }
        let superseded = fact.is_superseded(settled);
        settled = settled.max(fact.settled);
        let delta = RawDelta { kind: fact.kind, object, absorbed: fact.absorbed };
        if superseded { void.push(delta) } else { good.push(delta) }
    }
    (good, settled)
}

impl<K, V> Taken<K, V> {
    /// Whether a deletion without a final object was accepted, for which the user's store was to have the object.
    fn is_swept(&self) -> bool {
        // One that comes after an object takes that.
        let mut unseen = self.facts.iter().take_while(|taken| taken.object.is_none());
        unseen.any(|taken| taken.fact.kind == RawKind::Tombstone)
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

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Puts back what a pop has taken, as if nobody had seen it.
    pub(super) fn untake(&self, mut taken: Taken<K, V>, where_it_stood: bool, guard: &Guard) {
        let entry = self.shards[taken.at.shard].entries.get(taken.at.index);
        let (facts, newest, background) = (taken.facts, taken.newest, taken.background);
        entry.own(&mut taken.tenure, |own| match &mut own.given_back {
            Some(given_back) => given_back.facts.extend(facts),
            none => {
                *none = Some(Box::new(GivenBack {
                    deltas: DeltaList::new(),
                    facts,
                    previous: None,
                    attempts: 0,
                    debts: Debts::default(),
                    background,
                }));
            }
        });
        self.bring_back(taken.at.shard, taken.tenure, newest, background, where_it_stood, guard);
    }

    /// Undoes a lease that nobody has seen.
    fn unlease(&self, mut held: Held<K, V>, guard: &Guard) {
        let given_back = GivenBack {
            deltas: held.deltas,
            facts: Facts::new(),
            previous: held.previous,
            attempts: held.attempts - 1,
            debts: held.debts,
            background: held.background,
        };
        let (newest, background) = (given_back.newest(), given_back.background);
        let entry = self.shards[held.shard].entries.get(held.tenure.index());
        entry.own(&mut held.tenure, |own| own.given_back = Some(Box::new(given_back)));
        self.bring_back(held.shard, held.tenure, newest, background, true, guard);
    }

    fn bring_back(
        &self,
        shard: usize,
        tenure: Tenure,
        newest: Newest,
        background: bool,
        in_front: bool,
        guard: &Guard,
    ) {
        if self.closing.is_discarding() {
            return self.discard_untaken(shard, tenure, guard);
        }
        let Some(link) = self.end_given_back(shard, tenure, newest, background, None) else { return };
        if in_front {
            self.lines.push_front(link.at, guard);
            self.wake_consumers(1);
            self.mark_queued(link);
        } else {
            self.link(link, guard);
        }
    }
}
