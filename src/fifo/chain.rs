//! The chain of facts of one entry: cells of the pool, each of which leads to the next older one.

#![expect(unsafe_code, reason = "whose the references in a chain are is said by the word of the entry (E3)")]

use smallvec::SmallVec;

use crate::delta::{DeltaList, FactHead, Object, RawDelta};
use crate::object::{Lent, Spot};
use crate::slab::Index;
use crate::sync::planted;

use super::Objects;
use super::fact::Fact;
use super::word::Word;

/// A fact that was taken off its chain.
pub(super) struct Taken<V> {
    pub(super) fact: Fact,
    /// Its own, or of the live delta that it absorbed.
    pub(super) object: Option<Object<V>>,
}

/// A fact that says all by itself.
pub(super) struct Lone<V> {
    pub(super) delta: RawDelta<Object<V>>,
    pub(super) index: Index,
}

impl<V> Taken<V> {
    pub(super) fn into_delta(self) -> RawDelta<Object<V>> {
        RawDelta::absorbing(self.fact.kind, self.object, self.fact.absorbed)
    }

    pub(super) fn delta(&self) -> RawDelta<Object<V>> {
        RawDelta::absorbing(self.fact.kind, self.object.clone(), self.fact.absorbed)
    }
}

/// Facts of one key, oldest first.
pub(super) type Facts<V> = SmallVec<[Taken<V>; 2]>;

/// Facts that were taken off a word, linked as they were (E3). Not dropped with this: whoever has it owes them an end.
#[must_use = "the facts are lost"]
pub(super) struct Chain {
    newest: Option<Index>,
}

impl Chain {
    /// Of a word from which the caller has just taken them.
    pub(super) fn taken_off(word: Word) -> Self {
        Chain { newest: word.newest() }
    }

    /// Oldest first.
    pub(super) fn into_facts<V>(self, objects: &Objects<V>) -> Facts<V> {
        take(objects, self.newest)
    }

    /// The fact as a delta, if there is just one, and it stands for itself: an object that a producer has changed or deleted, and no
    /// replace waits for. With the index of its cell.
    #[inline(always)]
    pub(super) fn into_lone<V>(self, objects: &Objects<V>) -> Result<Lone<V>, Self> {
        let Some(index) = self.newest else { return Err(self) };
        // SAFETY: E3: the chain owns a reference to each of its facts.
        let cell = unsafe { objects.lend(index) };
        let plain =
            Fact::read_plain(cell.head()).filter(|_| cell.previous().is_none() && cell.value().is_some());
        let Some((kind, absorbed)) = plain else { return Err(self) };
        // SAFETY: E3: the caller owns the reference that `publish` left in the chain.
        let object = Some(unsafe { cell.adopt() });
        Ok(Lone { delta: RawDelta::absorbing(kind, object, absorbed), index })
    }

    /// What each of them says, and whether it comes with an object, newest first.
    pub(super) fn facts<V>(&self, objects: &Objects<V>) -> impl Iterator<Item = (Fact, bool)> {
        let indices = std::iter::successors(self.newest, |index| objects.previous(*index));
        indices.map(|index| {
            let fact = Fact::read(objects.head(index));
            // SAFETY: E3: the chain owns a reference to each of its facts.
            let has_object = fact.carrier.is_some() || unsafe { objects.lend(index) }.value().is_some();
            (fact, has_object)
        })
    }

    /// The facts as deltas, oldest first, with references of their own to the objects.
    pub(super) fn copies<V>(&self, objects: &Objects<V>) -> DeltaList<Object<V>> {
        let indices = std::iter::successors(self.newest, |index| objects.previous(*index));
        let newest_first = indices.map(|index| {
            let fact = Fact::read(objects.head(index));
            // SAFETY: E3: the chain owns a reference to each of its facts, and a fact one to its carrier.
            let cell = unsafe { objects.lend(fact.carrier.unwrap_or(index)) };
            let object = cell.value().is_some().then(|| Object::clone(&cell));
            RawDelta::absorbing(fact.kind, object, fact.absorbed)
        });
        let mut copies: DeltaList<_> = newest_first.collect();
        copies.reverse();
        copies
    }
}

/// The deltas of a lease. The object of the newest may be lent by the version: then it is only known here.
pub(super) struct Shown<V> {
    deltas: DeltaList<Object<V>>,
    is_lent: bool,
}

impl<V> Shown<V> {
    pub(super) fn new(deltas: DeltaList<Object<V>>) -> Self {
        Shown { deltas, is_lent: false }
    }

    /// One more, whose object has a reference of its own.
    #[inline(always)]
    pub(super) fn push(&mut self, delta: RawDelta<Object<V>>) {
        debug_assert!(!self.is_lent, "the newest is not lent");
        self.deltas.push(delta);
    }

    /// Gives the newest object's reference away, to the version, which keeps it as long as this is shown (V1, V2).
    #[inline(always)]
    pub(super) fn lend_newest(&mut self) -> Option<&Object<V>> {
        let object =
            self.deltas.last().and_then(|newest| newest.object.as_ref()).filter(|_| !self.is_lent)?;
        self.is_lent = true;
        Some(object)
    }

    /// All with references of their own.
    pub(super) fn into_owned(mut self) -> DeltaList<Object<V>> {
        if std::mem::take(&mut self.is_lent) && !planted("what is lent is given back") {
            std::mem::forget(self.deltas.last().and_then(|newest| newest.object.clone()));
        }
        std::mem::take(&mut self.deltas)
    }
}

impl<V> std::ops::Deref for Shown<V> {
    type Target = [RawDelta<Object<V>>];

    fn deref(&self) -> &[RawDelta<Object<V>>] {
        &self.deltas
    }
}

impl<V> Drop for Shown<V> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_lent && !planted("what is lent is dropped") {
            std::mem::forget(self.deltas.pop());
        }
    }
}

/// Takes the whole chain. The caller has taken `newest` off the word (E3).
pub(super) fn take<V>(objects: &Objects<V>, newest: Option<Index>) -> Facts<V> {
    let mut facts = Facts::new();
    let mut next = newest;
    while let Some(index) = next {
        next = objects.previous(index);
        facts.push(take_one(objects, index));
    }
    facts.reverse();
    facts
}

/// Takes one fact, which the caller has taken off its chain (E3). The link to the next older one must have been read.
pub(super) fn take_one<V>(objects: &Objects<V>, index: Index) -> Taken<V> {
    // SAFETY: E3: the caller owns the reference that `publish` left in the chain.
    take_lent(objects, unsafe { objects.lend(index) })
}

/// The same of a cell that the chain lends.
fn take_lent<V>(objects: &Objects<V>, cell: Lent<V, FactHead>) -> Taken<V> {
    let fact = Fact::read(cell.head());
    // SAFETY: E3: the caller owns the reference that `publish` left in the chain.
    let cell = unsafe { cell.adopt() };
    let object = match fact.carrier {
        // SAFETY: the fact owned the reference to its carrier, and has just been taken.
        Some(carrier) => Some(unsafe { objects.adopt(carrier) }),
        None => cell.value().is_some().then_some(cell),
    };
    Taken { fact, object }
}

/// Takes over the reference that a version owned (V2).
pub(super) fn take_version<V>(objects: &Objects<V>, index: Index) -> Object<V> {
    // SAFETY: V2: the caller has taken it out of the version, which owned it.
    unsafe { objects.adopt(index) }
}

/// The version before the one that the holder has installed, until it is decided (V5).
pub(super) fn lend_before<V>(objects: &Objects<V>, index: Index) -> Lent<V, FactHead> {
    // SAFETY: V2, V5: the chain owns a reference, and nobody takes it out before the caller lets them.
    unsafe { objects.lend(index) }
}

/// Takes over the reference of a version that was lent (V2).
pub(super) fn take_lent_version<V>(version: Lent<V, FactHead>) -> Object<V> {
    // SAFETY: V2: the caller has taken it out of the chain, which owned it.
    unsafe { version.adopt() }
}

/// A version of an object that an epoch shows, which the caller watches (V7).
pub(super) struct InView<'o, V>(Spot<'o, V, FactHead>);

impl<'o, V> InView<'o, V> {
    /// The caller knows by its stamp that it is one.
    #[inline(always)]
    pub(super) fn known_by_stamp(spot: Spot<'o, V, FactHead>) -> Self {
        InView(spot)
    }

    /// The object, as long as the epoch is watched.
    #[inline(always)]
    pub(super) fn object(&self) -> Option<&'o V> {
        // SAFETY: V7: the version stays, and owns a reference.
        unsafe { self.0.value() }
    }

    /// The same, shared: good for ever.
    pub(super) fn share(&self) -> Object<V> {
        // SAFETY: V7: as above.
        unsafe { self.0.share() }
    }
}

/// Lends the object of a version to the holder, who alone changes it (V1). It has no reference of its own: it must not be
/// dropped, nor used once the version is another.
pub(super) fn lend_version<V>(objects: &Objects<V>, index: Index) -> Object<V> {
    // SAFETY: V1, V2: the version owns a reference for as long as the holder does not change it; the caller drops none.
    unsafe { objects.adopt(index) }
}

/// The reference now belongs to a version (V2), or to a fact as its carrier (E3).
pub(super) fn keep<V>(objects: &Objects<V>, object: Object<V>) -> Index {
    let index = objects.index_of(&object);
    std::mem::forget(object);
    index
}

/// The newest fact of a chain that is not the caller's, held. As long as this lives the cell is that fact and no other; so
/// a word that names it cannot be replaced and then come back, and an exchange of that word says that the chain is still
/// what it was.
pub(super) struct Grip<'s, V> {
    objects: &'s Objects<V>,
    newest: Index,
    /// None only while it is dropped.
    held: Option<Object<V>>,
}

impl<'s, V> Grip<'s, V> {
    /// None if the word has changed: `still` looks, after the cell is held.
    pub(super) fn take(objects: &'s Objects<V>, newest: Index, still: impl FnOnce() -> bool) -> Option<Self> {
        let grip = Grip { objects, newest, held: Some(objects.hold(newest)?) };
        still().then_some(grip)
    }

    pub(super) fn newest(&self) -> Index {
        self.newest
    }

    pub(super) fn head(&self) -> &FactHead {
        self.objects.head(self.newest)
    }

    pub(super) fn fact(&self) -> Fact {
        Fact::read(self.head())
    }

    pub(super) fn has_object(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.value().is_some())
    }

    pub(super) fn previous(&self) -> Option<Index> {
        self.objects.previous(self.newest)
    }

    /// The facts, newest first. If the chain is taken meanwhile they may be anything, and an exchange of the word fails.
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> + '_ {
        let indices = std::iter::successors(Some(self.newest), |index| self.objects.previous(*index));
        // A chain that is recycled meanwhile may lead in a circle.
        indices.take(1 << 20).map(|index| Fact::read(self.objects.head(index)))
    }

    /// The largest number.
    pub(super) fn settled(&self) -> u64 {
        self.facts().map(|fact| fact.settled).max().unwrap_or(0)
    }
}

impl<V> Drop for Grip<'_, V> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            if planted("a producer drops what it merges away") {
                return drop(held);
            }
            self.objects.release_later(held);
        }
    }
}
