//! What the facts of a leased key come to, and what is known of it from then on.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;

use smallvec::smallvec;

use crate::builder::Known;
use crate::delta::{DeltaList, Object, RawDelta, RawKind};
use crate::resolve::{Before, known_after, resolve, settle_first};
use crate::sync::atomic::Ordering;
use crate::sync::{pause_point, planted};

use super::chain::{self, Chain, Facts, Shown};
use super::debts::Debts;
use super::entry::Entry;
use super::fact::Fact;
use super::lines::At;
use super::parts::GivenBack;
use super::pop::{Garbage, Held, Taken};
use super::word::Newest;
use super::{DeltaFifo, Objects};

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// What the facts come to, in a queue that keeps the known objects itself. Runs no code of the user's.
    pub(super) fn open_inside(&self, taken: Taken<K>, garbage: &mut Garbage<V>) -> Held<K, V> {
        let at = taken.at;
        let shard = &self.core.shards[at.shard];
        let entry = shard.entries.of_lease(&taken.key, &taken.tenure);
        let version = entry.version.index();
        // Lent by the version, which owns it until `install`.
        let before = ManuallyDrop::new(match version {
            Some(index) => Before::Known(chain::lend_version(&shard.objects, index)),
            None => Before::Absent,
        });
        let mut opened = self.resolve(taken, &before, garbage);
        // Nothing in the deltas: what is known stays.
        if !opened.held.deltas.is_empty() {
            let replaced = self.install(at, entry, before.object(), &mut opened.held.deltas, garbage);
            if opened.is_fresh {
                opened.held.previous = replaced.or_else(|| before.object().cloned());
            } else {
                garbage.objects.extend(replaced);
            }
        }
        opened.held
    }

    /// The same where the known objects are elsewhere, and said to be `before`.
    pub(super) fn open_elsewhere(
        &self,
        mut taken: Taken<K>,
        before: Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) -> Held<K, V> {
        let entry = self.core.shards[taken.at.shard].entries.get(taken.at.index);
        let previous = before.object().cloned();
        let (left, given_back) = entry.legacy(&mut taken.tenure, |legacy| {
            (legacy.left.take().map(|left| *left), legacy.given_back.is_some())
        });
        let before = match left {
            // What the last lease left is newer than what its consumer may have stored.
            Some(left) => left,
            // Appended because the store had the key. It has lost the object since: that is a deletion, of an object
            // that nobody can show.
            None if matches!(before, Before::Absent)
                && matches!(self.known, Known::Store(_))
                && !given_back
                && is_swept(&self.core.shards[taken.at.shard].objects, &taken.facts) =>
            {
                Before::CannotTell
            }
            None => before,
        };
        let mut opened = self.resolve(taken, &before, garbage);
        garbage.objects.extend(before.into_object());
        if opened.is_fresh {
            opened.held.previous = previous;
        } else {
            garbage.objects.extend(previous);
        }
        opened.held
    }

    /// Joins what was given back with the facts.
    fn resolve(
        &self,
        mut taken: Taken<K>,
        before: &Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) -> Opened<K, V> {
        let shard = &self.core.shards[taken.at.shard];
        let entry = shard.entries.of_lease(&taken.key, &taken.tenure);
        let given_back = entry.legacy(&mut taken.tenure, |legacy| legacy.given_back.take());
        let judged = entry.judged(&mut taken.tenure, |judged| *judged);
        let newest = taken.newest;
        let (facts, mut held) = self.held(taken);
        let facts = match facts.into_lone(&shard.objects) {
            Ok(lone) if given_back.is_none() && lone.is_plain() => {
                let late = planted("a change has the number of its lease");
                let number = if late { 2 * self.core.replaces.newest() + 1 } else { lone.fact.settled };
                held.deltas = Shown::new(settle_first(lone.into_delta(), before).into_iter().collect());
                note_number(entry, &mut held, judged, number);
                return Opened { held, is_fresh: true };
            }
            Ok(lone) => smallvec![lone],
            Err(chain) => chain.into_facts(&shard.objects),
        };
        let (shown, facts, is_fresh) = take_over(&mut held, given_back, facts);
        let judge_by = if planted("a lease judges nothing") { 0 } else { judged };
        let (facts, settled) = judge(facts, judge_by, &mut held.debts, &mut garbage.deltas);
        let resolved = match !shown.is_empty() && planted("what came back comes last") {
            true => resolve(before, facts, shown, self.compression),
            false => resolve(before, shown, facts, self.compression),
        };
        if !resolved.merged.is_empty() {
            // Relaxed: only the count matters.
            shard.merged.fetch_add(resolved.merged.len() as u64, Ordering::Relaxed);
            garbage.deltas.extend(resolved.merged);
        }
        held.initial = self.core.replaces.owes_first(&held.debts);
        // Where all came to nothing, what was known stays.
        let exists = match resolved.deltas.is_empty() {
            true => !matches!(before, Before::Absent),
            false => known_after(&resolved.deltas).is_some(),
        };
        held.deltas = Shown::new(resolved.deltas);
        note_number(entry, &mut held, judged, settled);
        if Newest::of(exists) != newest {
            self.correct(&held, Newest::of(exists));
        }
        Opened { held, is_fresh }
    }

    /// A lease of what was taken, with nothing in it yet.
    fn held(&self, taken: Taken<K>) -> (Chain, Held<K, V>) {
        let Taken { at, key, tenure, since, facts, background, .. } = taken;
        let held = Held {
            shard: at.shard as u32,
            key,
            tenure,
            since,
            deltas: Shown::new(DeltaList::new()),
            previous: None,
            attempts: 1,
            initial: false,
            debts: Debts::default(),
            background,
            thread: 0,
        };
        (facts, held)
    }

    /// The holder makes what its deltas come to known of its key, instead of `before`, which it gets if it is known no more.
    fn install(
        &self,
        at: At,
        entry: Entry<'_, V>,
        before: Option<&Object<V>>,
        deltas: &mut Shown<V>,
        garbage: &mut Garbage<V>,
    ) -> Option<Object<V>> {
        let shard = &self.core.shards[at.shard];
        let newest = known_after(deltas);
        let (was_known, is_known) = (before.is_some(), newest.is_some());
        let new = match (before, newest) {
            (None, None) => return None,
            (Some(before), Some(newest)) if before.ptr_eq(newest) => return None,
            (_, Some(newest)) if planted("a version owns nothing") => Some(shard.objects.index_of(newest)),
            (_, Some(_)) => deltas.lend_newest(&shard.objects),
            (_, None) => None,
        };
        let installed = entry.version.install(&shard.objects, &self.core.epochs, new, &mut garbage.objects);
        installed.kept.into_iter().for_each(|kept| self.core.keep(at, kept));
        pause_point("known: installed");
        // Relaxed, both: only the count matters.
        match (was_known, is_known) {
            (false, true) => _ = shard.objects_known.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = shard.objects_known.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        installed.before
    }

    /// The word said what the facts were; now it is known what they came to (an item that is void comes to nothing).
    fn correct(&self, held: &Held<K, V>, newest: Newest) {
        let entry = self.entry_of_lease(held);
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

/// A fact of this number has been handed out.
fn note_number<K, V>(entry: Entry<'_, V>, held: &mut Held<K, V>, judged: u64, number: u64) {
    if number > judged {
        entry.judged(&mut held.tenure, |judged| *judged = number);
        if !planted("the number is forgotten") {
            entry.raise(number);
        }
    }
    pause_point("lease: number raised");
}

/// What an earlier lease gave back, as that of `held`; what it has shown, and all facts that nobody has; whether that is
/// all.
fn take_over<K, V>(
    held: &mut Held<K, V>,
    given_back: Option<Box<GivenBack<V>>>,
    mut facts: Facts<V>,
) -> (DeltaList<Object<V>>, Facts<V>, bool) {
    let Some(given_back) = given_back else { return (DeltaList::new(), facts, true) };
    let given_back = *given_back;
    held.debts = given_back.debts;
    held.attempts = given_back.attempts.saturating_add(1);
    held.previous = given_back.previous;
    facts.insert_many(0, given_back.facts);
    let is_fresh = given_back.deltas.is_empty();
    (given_back.deltas, facts, is_fresh)
}

/// A lease whose facts are resolved.
struct Opened<K, V> {
    held: Held<K, V>,
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
    for taken in facts {
        let fact = taken.fact;
        if fact.debt != 0 {
            debts.add(fact.debt, 1);
        }
        let superseded = fact.is_superseded(settled);
        settled = settled.max(fact.settled);
        if superseded { void.push(taken.into_delta()) } else { good.push(taken.into_delta()) }
    }
    (good, settled)
}

/// Whether a deletion without a final object was accepted, for which the user's store was to have the object.
fn is_swept<V>(objects: &Objects<V>, facts: &Chain) -> bool {
    // One that comes after an object takes that.
    let facts: Vec<(Fact, bool)> = facts.facts(objects).collect();
    let mut unseen = facts.iter().rev().take_while(|(_, has_object)| !has_object);
    unseen.any(|(fact, _)| fact.kind == RawKind::Tombstone)
}
