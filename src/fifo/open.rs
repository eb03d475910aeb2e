//! What the facts of a leased key come to, and what is known of it from then on.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;

use crate::builder::Known;
use crate::delta::{DeltaList, Object, RawDelta, RawKind};
use crate::resolve::{Before, known_after, resolve};
use crate::sync::atomic::Ordering;
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};
use crate::table::hash_of;

use super::DeltaFifo;
use super::chain::{self, Facts};
use super::debts::Debts;
use super::pop::{Garbage, Held, Taken};
use super::records::State;
use super::word::Newest;

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// What the facts come to, in a queue that keeps the known objects itself. Runs the key's `Eq` first of all.
    pub(super) fn open_inside(
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
    pub(super) fn open_elsewhere(
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
