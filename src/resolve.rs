//! From facts to deltas. A producer appends what it knows; whoever holds the lease has the key to itself, so all that
//! needs several facts together is decided here, by one pure function.

use crate::delta::{Compression, DeltaList, RawDelta, RawKind, append};
use crate::extras::Compare;
use crate::sync::planted;

/// What was known of a key before the deltas that are being resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before<O> {
    Absent,
    Known(O),
    /// A user's store could not tell.
    CannotTell,
}

impl<O> Before<O> {
    pub(crate) fn into_object(self) -> Option<O> {
        match self {
            Before::Known(object) => Some(object),
            Before::Absent | Before::CannotTell => None,
        }
    }

    pub(crate) fn object(&self) -> Option<&O> {
        match self {
            Before::Known(object) => Some(object),
            Before::Absent | Before::CannotTell => None,
        }
    }
}

/// What a lease hands out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved<O> {
    /// Empty if every fact came to nothing: then the lease ends silently.
    pub(crate) deltas: DeltaList<O>,
    /// What was merged away where given back deltas meet newer facts.
    pub(crate) merged: Vec<RawDelta<O>>,
}

/// Joins what a lease gave back with the facts that came after it.
///
/// - `Applied` becomes `Added` if the key did not exist at that point, else `Updated`; where a store cannot tell, it
///   exists.
/// - A tombstone without an object takes the newest one: from the delta before it, else from `before`. It is void if
///   there was nothing at all, and stays without an object where a store cannot tell.
/// - A `Sync` without an object takes it from the same place and is void where there is none.
/// - The joint is compressed like everything else.
pub(crate) fn resolve<O: Clone>(
    before: &Before<O>,
    given_back: DeltaList<O>,
    facts: impl IntoIterator<Item = RawDelta<O>>,
    compression: Compression,
) -> Resolved<O> {
    let mut deltas = given_back;
    let mut merged = Vec::new();
    for fact in facts {
        let fact = if deltas.is_empty() { settle_first(fact, before) } else { settle_next(fact, &deltas) };
        if let Some(fact) = fact {
            append(&mut deltas, fact, compression, &mut merged);
        }
    }
    Resolved { deltas, merged }
}

/// The same in a queue that compares objects.
///
/// - A live object that is another thing than the live one before it in the lease, else than the one known before, is a
///   tombstone of that one, and `Added`.
/// - A deletion with an object that is another thing than that is a tombstone of that: what was deleted with its own
///   object has come and gone, and was handed out to nobody.
/// - Of two deletions of different things of which but one can stay it is the older one, for the same reason.
/// - An item of a list that looks like the live object before it is marked. What it is merged with must be, too.
///
/// Facts meet each other first, compared with nothing: as they do where producers merge them.
///
/// Runs the user's comparisons. The objects are copies: dropping one drops no object.
pub(crate) fn resolve_comparing<O: Clone>(
    before: &Before<O>,
    given_back: DeltaList<O>,
    facts: DeltaList<O>,
    compression: Compression,
    compare: &impl Compare<O>,
) -> Resolved<O> {
    let resolved = Resolved { deltas: given_back, merged: Vec::new() };
    let mut comparing = Comparing { before, resolved, compression, compare };
    let mut merged = Vec::new();
    let mut joined = DeltaList::new();
    facts.into_iter().for_each(|fact| append(&mut joined, fact, compression, &mut merged));
    joined.into_iter().for_each(|fact| comparing.settle(fact));
    comparing.resolved.merged.append(&mut merged);
    comparing.resolved
}

struct Comparing<'c, O, C> {
    before: &'c Before<O>,
    resolved: Resolved<O>,
    compression: Compression,
    compare: &'c C,
}

impl<O: Clone, C: Compare<O>> Comparing<'_, O, C> {
    fn settle(&mut self, mut fact: RawDelta<O>) {
        let live = match self.resolved.deltas.last() {
            Some(last) => last.object.as_ref().filter(|_| !last.kind.is_deletion()),
            None => self.before.object().filter(|_| !planted("an identity is compared with nothing known")),
        };
        if let (Some(old), Some(new)) = (live, &fact.object) {
            if self.compare.is_other(old, new) {
                let absorbed = fact.note.is_absorbed();
                self.push(RawDelta::absorbing(RawKind::Tombstone, Some(old.clone()), absorbed));
                if !fact.kind.is_deletion() {
                    self.push(RawDelta { kind: RawKind::Added, ..fact });
                }
                return;
            }
            let is_item = matches!(fact.kind, RawKind::Replaced | RawKind::Sync);
            fact.note.set_unchanged(is_item && self.compare.is_unchanged(old, new));
        }
        let deltas = &self.resolved.deltas;
        let fact =
            if deltas.is_empty() { settle_first(fact, self.before) } else { settle_next(fact, deltas) };
        if let Some(fact) = fact {
            self.push(fact);
        }
    }

    fn push(&mut self, fact: RawDelta<O>) {
        let Resolved { deltas, merged } = &mut self.resolved;
        // With which a deletion is merged, if that is one.
        let (older, at) = match self.compression {
            Compression::Deletions => (deltas.last(), deltas.len()),
            Compression::Latest => (deltas.first(), 1),
        };
        let older = older.filter(|older| older.kind.is_deletion() && fact.kind.is_deletion());
        let new = fact.object.as_ref().or(deltas.last().and_then(|last| last.object.as_ref()));
        if let (Some(old), Some(new)) = (older.and_then(|older| older.object.as_ref()), new) {
            if self.compare.is_other(old, new) && !planted("the newer of two deletions stays") {
                merged.extend(deltas.drain(at..));
                merged.push(fact);
                return;
            }
        }
        append(deltas, fact, self.compression, merged);
    }
}

/// The first delta of a lease. None: it came to nothing.
#[inline(always)]
pub(crate) fn settle_first<O: Clone>(mut fact: RawDelta<O>, before: &Before<O>) -> Option<RawDelta<O>> {
    match fact.kind {
        RawKind::Applied => {
            fact.kind = if matches!(before, Before::Absent) { RawKind::Added } else { RawKind::Updated };
        }
        RawKind::Sync | RawKind::Tombstone if fact.object.is_none() => {
            fact.object = before.object().cloned();
            let void = match before {
                Before::Known(_) => false,
                Before::Absent => true,
                Before::CannotTell => fact.kind == RawKind::Sync,
            };
            if void {
                return None;
            }
        }
        _ => {}
    }
    Some(fact)
}

/// All kinds but one find what they need in the delta before them, which is [`append`]'s business.
fn settle_next<O>(fact: RawDelta<O>, deltas: &DeltaList<O>) -> Option<RawDelta<O>> {
    let after_deletion = deltas.last().is_some_and(|last| last.kind.is_deletion());
    let void = fact.kind == RawKind::Sync && fact.object.is_none() && after_deletion;
    (!void).then_some(fact)
}

/// The object that is known after `deltas`: the newest one, unless it was a deletion.
pub(crate) fn known_after<O>(deltas: &[RawDelta<O>]) -> Option<&O> {
    deltas.last().filter(|newest| !newest.kind.is_deletion()).and_then(|newest| newest.object.as_ref())
}

#[cfg(test)]
mod tests;
