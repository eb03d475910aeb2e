//! What the facts of a leased key come to, and what is known of it from then on.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;

use crate::builder::Known;
use crate::delta::{DeltaList, Object, RawKind};
use crate::resolve::{Before, Resolved, known_after, resolve, settle_first};
use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::{pause_point, planted};

use super::chain::{self, Chain, Facts, Lone, Shown};
use super::debts::Debts;
use super::entry::Entry;
use super::fact::Fact;
use super::lines::At;
use super::parts::GivenBack;
use super::pop::{Garbage, Held, Taken};
use super::shard::Shard;
use super::word::Newest;
use super::{DeltaFifo, Objects};

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// What the facts come to, in a queue that keeps the known objects itself. Runs no code of the user's.
    #[inline(always)]
    pub(super) fn open_inside(&self, taken: Taken<K>, garbage: &mut Garbage<V>) -> Held<K, V> {
        let at = taken.at;
        let shard = &self.core.shards[at.shard];
        let entry = shard.entries.of_lease(&taken.key, &taken.tenure);
        // Lent by the version, which owns it until `install`.
        let before = ManuallyDrop::new(match entry.version.index() {
            Some(index) => Before::Known(chain::lend_version(&shard.objects, index)),
            None => Before::Absent,
        });
        let (facts, newest, mut held) = self.held(taken);
        let came = self.resolve(shard, &mut held, facts, newest, &before, garbage);
        // Nothing in the deltas: what is known stays.
        if !held.deltas.is_empty() {
            let replaced =
                self.install((shard, at), entry, before.object(), &mut held.deltas, came.lone, garbage);
            if came.is_fresh {
                held.previous = replaced.or_else(|| before.object().cloned());
            } else {
                garbage.objects.extend(replaced);
            }
        }
        held
    }

    /// The same where the known objects are elsewhere, and said to be `before`.
    pub(super) fn open_elsewhere(
        &self,
        mut taken: Taken<K>,
        before: Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) -> Held<K, V> {
        let shard = &self.core.shards[taken.at.shard];
        let entry = shard.entries.of_lease(&taken.key, &taken.tenure);
        let previous = before.object().cloned();
        let (left, given_back) = entry.legacy(&mut taken.tenure, |legacy| {
            (legacy.left.take().map(|left| *left), legacy.given_back.is_some())
        });
        let before = self.known_before(before, left, given_back, shard, &taken.facts);
        let (facts, newest, mut held) = self.held(taken);
        let came = self.resolve(shard, &mut held, facts, newest, &before, garbage);
        garbage.objects.extend(before.into_object());
        if came.is_fresh {
            held.previous = previous;
        } else {
            garbage.objects.extend(previous);
        }
        held
    }

    /// What was known before the facts, where the known objects are elsewhere, and `said` to be this.
    pub(super) fn known_before(
        &self,
        said: Before<Object<V>>,
        left: Option<Before<Object<V>>>,
        given_back: bool,
        shard: &Shard<K, V>,
        facts: &Chain,
    ) -> Before<Object<V>> {
        match left {
            // What the last lease left is newer than what its consumer may have stored.
            Some(left) => left,
            // Appended because the store had the key. It has lost the object since: that is a deletion, of an object
            // that nobody can show.
            None if matches!(said, Before::Absent)
                && matches!(self.known, Known::Store(_))
                && !given_back
                && is_swept(&shard.objects, facts) =>
            {
                Before::CannotTell
            }
            None => said,
        }
    }

    /// Joins what was given back with the facts. `newest`: what the word said of them.
    #[inline(always)]
    fn resolve(
        &self,
        shard: &Shard<K, V>,
        held: &mut Held<K, V>,
        facts: Chain,
        newest: Newest,
        before: &Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) -> Came {
        let entry = shard.entries.of_lease(&held.key, &held.tenure);
        if entry.has_legacy(&held.tenure) {
            return self.resolve_all(held, facts, newest, before, garbage);
        }
        match facts.into_lone(&shard.objects) {
            Ok(Lone { delta, index }) => {
                if let Some(delta) = settle_first(delta, before) {
                    held.deltas.push(delta);
                }
                Came { is_fresh: true, lone: Some(index) }
            }
            Err(facts) => self.resolve_all(held, facts, newest, before, garbage),
        }
    }

    /// The same, whatever there is.
    #[cold]
    #[inline(never)]
    fn resolve_all(
        &self,
        held: &mut Held<K, V>,
        facts: Chain,
        newest: Newest,
        before: &Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) -> Came {
        let (shown, facts, is_fresh) = self.take_all(held, facts);
        let facts: DeltaList<_> = facts.into_iter().map(chain::Taken::into_delta).collect();
        let resolved = match !shown.is_empty() && planted("what came back comes last") {
            true => resolve(before, facts, shown, self.compression),
            false => resolve(before, shown, facts, self.compression),
        };
        self.settle(held, resolved, newest, before, garbage);
        Came { is_fresh, lone: None }
    }

    /// Takes what was given back, and all facts, with what they owe: what an earlier lease has shown, what none has, and whether that
    /// is all.
    pub(super) fn take_all(
        &self,
        held: &mut Held<K, V>,
        facts: Chain,
    ) -> (DeltaList<Object<V>>, Facts<V>, bool) {
        let shard = &self.core.shards[held.shard as usize];
        let entry = shard.entries.of_lease(&held.key, &held.tenure);
        let given_back = entry.legacy(&mut held.tenure, |legacy| legacy.given_back.take());
        let (shown, facts, is_fresh) = take_over(held, given_back, facts.into_facts(&shard.objects));
        for taken in facts.iter().filter(|taken| taken.fact.debt != 0) {
            held.debts.add(taken.fact.debt, 1);
        }
        (shown, facts, is_fresh)
    }

    /// The lease shows what its facts came to.
    pub(super) fn settle(
        &self,
        held: &mut Held<K, V>,
        resolved: Resolved<Object<V>>,
        newest: Newest,
        before: &Before<Object<V>>,
        garbage: &mut Garbage<V>,
    ) {
        if !resolved.merged.is_empty() {
            let shard = &self.core.shards[held.shard as usize];
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
        if Newest::of(exists) != newest {
            self.correct(held, Newest::of(exists));
        }
    }

    /// A lease of what was taken, with nothing in it yet.
    #[inline(always)]
    pub(super) fn held(&self, taken: Taken<K>) -> (Chain, Newest, Held<K, V>) {
        let Taken { at, key, tenure, since, facts, newest, background, waited } = taken;
        let held = Held {
            shard: at.shard as u32,
            key,
            tenure,
            since,
            deltas: Shown::new(DeltaList::new()),
            previous: None,
            attempts: 1,
            waited,
            initial: false,
            debts: Debts::default(),
            background,
            thread: 0,
            began: 0,
        };
        (facts, newest, held)
    }

    /// The holder makes what its deltas come to known of its key, instead of `before`, which it gets if it is known no more. `lone`: where
    /// the object is, if there is but one fact.
    #[inline(always)]
    pub(super) fn install(
        &self,
        (shard, at): (&Shard<K, V>, At),
        entry: Entry<'_, V>,
        before: Option<&Object<V>>,
        deltas: &mut Shown<V>,
        lone: Option<Index>,
        garbage: &mut Garbage<V>,
    ) -> Option<Object<V>> {
        let newest = known_after(deltas);
        let (was_known, is_known) = (before.is_some(), newest.is_some());
        match (before, newest) {
            (None, None) => return None,
            (Some(before), Some(newest)) if before.ptr_eq(newest) => return None,
            _ => {}
        }
        let new = match is_known {
            true if planted("a version owns nothing") => known_after(deltas),
            true => deltas.lend_newest(),
            false => None,
        };
        let new = new.map(|object| (lone.unwrap_or_else(|| shard.objects.index_of(object)), object.head()));
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

/// What the facts of a lease came to.
struct Came {
    /// No lease has shown any of its deltas.
    is_fresh: bool,
    /// Where the only fact is, if there is just one.
    lone: Option<Index>,
}

/// Whether a deletion without a final object was accepted, for which the user's store was to have the object.
fn is_swept<V>(objects: &Objects<V>, facts: &Chain) -> bool {
    // One that comes after an object takes that.
    let facts: Vec<(Fact, bool)> = facts.facts(objects).collect();
    let mut unseen = facts.iter().rev().take_while(|(_, has_object)| !has_object);
    unseen.any(|(fact, _)| fact.kind == RawKind::Tombstone)
}
