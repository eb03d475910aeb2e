//! Resolving against its definition, for all sequences up to a length, with a lease given back at every point.

use super::*;
use crate::delta::{DeltaList, RawKind};

/// What a producer can append: with an object, or referring to the one before.
const FACTS: [(RawKind, bool); 9] = [
    (RawKind::Added, true),
    (RawKind::Updated, true),
    (RawKind::Applied, true),
    (RawKind::Replaced, true),
    (RawKind::Sync, true),
    (RawKind::Sync, false),
    (RawKind::Deleted, true),
    (RawKind::Tombstone, true),
    (RawKind::Tombstone, false),
];

const BEFORE: [Before<u32>; 3] = [Before::Absent, Before::Known(100), Before::CannotTell];

fn sequences(max: u32) -> impl Iterator<Item = Vec<RawDelta<u32>>> {
    (1..=max).flat_map(|length| {
        let facts = FACTS.len() as u32;
        (0..facts.pow(length)).map(move |mut code| {
            let next = |object| {
                let (kind, has_object) = FACTS[(code % facts) as usize];
                code /= facts;
                RawDelta::new(kind, has_object.then_some(object))
            };
            (1..=length).map(next).collect()
        })
    })
}

/// The definition: every fact is settled by what came before it, nothing is merged.
fn unmerged(before: &Before<u32>, facts: &[RawDelta<u32>]) -> Vec<RawDelta<u32>> {
    let mut exists = !matches!(before, Before::Absent);
    let mut newest = before.object().copied();
    let mut seen = newest.is_some();
    let mut list = Vec::new();
    for fact in facts {
        let kind = match fact.kind {
            RawKind::Applied if exists => RawKind::Updated,
            RawKind::Applied => RawKind::Added,
            kind => kind,
        };
        let void = fact.object.is_none()
            && match kind {
                RawKind::Sync => !exists || newest.is_none(),
                _ => !seen && matches!(before, Before::Absent),
            };
        if void {
            continue;
        }
        seen = true;
        exists = !kind.is_deletion();
        newest = fact.object.or(newest);
        list.push(RawDelta::new(kind, newest));
    }
    list
}

fn append_all(facts: &[RawDelta<u32>], compression: Compression) -> DeltaList<u32> {
    let mut list = DeltaList::new();
    for fact in facts {
        append(&mut list, fact.clone(), compression, &mut Vec::new());
    }
    list
}

/// What a consumer can see of deltas.
fn seen(list: &DeltaList<u32>) -> Vec<(RawKind, Option<u32>)> {
    list.iter().map(|delta| (delta.kind, delta.object)).collect()
}

#[test]
fn agrees_with_the_definition() {
    for sequence in sequences(5) {
        // A resync leaves pending keys alone: it can only be the first fact.
        if sequence.iter().skip(1).any(|fact| fact.kind == RawKind::Sync && fact.object.is_none()) {
            continue;
        }
        for before in &BEFORE {
            for compression in [Compression::Deletions, Compression::Latest] {
                let expected = append_all(&unmerged(before, &sequence), compression);
                let facts = append_all(&sequence, compression);
                let resolved = resolve(before, DeltaList::new(), facts, compression);
                assert_eq!(seen(&resolved.deltas), seen(&expected), "{before:?} {sequence:?}");
                assert!(resolved.deltas.iter().all(|delta| delta.kind != RawKind::Applied));
            }
        }
    }
}

/// A lease that comes back at any point changes nothing: its deltas and what arrived meanwhile resolve as if they had
/// never been apart.
#[test]
fn a_requeue_leaves_no_seam() {
    for sequence in sequences(4) {
        if sequence.iter().skip(1).any(|fact| fact.kind == RawKind::Sync && fact.object.is_none()) {
            continue;
        }
        for before in &BEFORE {
            for compression in [Compression::Deletions, Compression::Latest] {
                let whole = append_all(&unmerged(before, &sequence), compression);
                for at in 1..sequence.len() {
                    let (old, new) = sequence.split_at(at);
                    let leased = resolve(before, DeltaList::new(), append_all(old, compression), compression);
                    if leased.deltas.is_empty() {
                        continue;
                    }
                    let resolved = resolve(before, leased.deltas, append_all(new, compression), compression);
                    assert_eq!(seen(&resolved.deltas), seen(&whole), "{before:?} {old:?} {new:?}");
                }
            }
        }
    }
}

#[test]
fn the_newest_delta_says_what_is_known() {
    for sequence in sequences(3) {
        let resolved = resolve(&Before::Absent, DeltaList::new(), sequence.clone(), Compression::Deletions);
        let expected = resolved.deltas.last().and_then(|newest| match newest.kind {
            RawKind::Deleted | RawKind::Tombstone => None,
            _ => newest.object,
        });
        assert_eq!(known_after(&resolved.deltas).copied(), expected);
    }
}

/// Objects are the same thing by their second bit.
struct BySecondBit;

impl Compare<u32> for BySecondBit {
    fn is_other(&self, old: &u32, new: &u32) -> bool {
        (old ^ new) & 2 != 0
    }

    fn is_unchanged(&self, old: &u32, new: &u32) -> bool {
        assert!(!self.is_other(old, new), "they are different things");
        true
    }
}

/// Everything is the same thing, and news.
struct Alike;

impl Compare<u32> for Alike {
    fn is_other(&self, _: &u32, _: &u32) -> bool {
        false
    }

    fn is_unchanged(&self, _: &u32, _: &u32) -> bool {
        false
    }
}

/// What is deleted is what was there, and nothing becomes another thing without a deletion.
fn is_legal(before: &Before<u32>, list: &DeltaList<u32>) -> bool {
    let mut live = before.object().copied();
    list.iter().all(|delta| {
        let same = live.zip(delta.object).is_none_or(|(old, new)| !BySecondBit.is_other(&old, &new));
        live = delta.object.filter(|_| !delta.kind.is_deletion());
        same
    })
}

#[test]
fn no_identity_goes_without_a_deletion() {
    for sequence in sequences(4) {
        if sequence.iter().skip(1).any(|fact| fact.kind == RawKind::Sync && fact.object.is_none()) {
            continue;
        }
        for before in &BEFORE {
            for compression in [Compression::Deletions, Compression::Latest] {
                let list = |facts: &[RawDelta<u32>]| facts.iter().cloned().collect::<DeltaList<u32>>();
                let comparing = |given_back, facts: &[RawDelta<u32>]| {
                    resolve_comparing(before, given_back, list(facts), compression, &BySecondBit).deltas
                };
                let plain = resolve(before, DeltaList::new(), sequence.clone(), compression).deltas;
                let alike = resolve_comparing(before, DeltaList::new(), list(&sequence), compression, &Alike);
                assert_eq!(seen(&alike.deltas), seen(&plain), "{before:?} {sequence:?}");
                for at in 1..=sequence.len() {
                    let (old, new) = sequence.split_at(at);
                    let leased = comparing(DeltaList::new(), old);
                    let given_back = if leased.is_empty() { continue } else { leased };
                    let deltas = comparing(given_back, new);
                    assert!(is_legal(before, &deltas), "{before:?} {old:?} {new:?}: {deltas:?}");
                    assert_eq!(known_after(&deltas), known_after(&plain), "{before:?} {old:?} {new:?}");
                    // However the facts were merged on their way.
                    let merged = comparing(DeltaList::new(), &append_all(&sequence, compression));
                    let whole = comparing(DeltaList::new(), &sequence);
                    assert_eq!(seen(&merged), seen(&whole), "{before:?} {sequence:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_merged_with_news_is_news() {
    for sequence in sequences(3) {
        let before = Before::Known(100);
        for at in 1..sequence.len() {
            let (old, new) = sequence.split_at(at);
            let [old, new] = [old, new].map(|facts| facts.iter().cloned().collect::<DeltaList<u32>>());
            let compression = Compression::Latest;
            let resolve =
                |given_back, facts| resolve_comparing(&before, given_back, facts, compression, &BySecondBit);
            let leased = resolve(DeltaList::new(), old).deltas;
            let was_news = leased.last().is_some_and(|last| !last.note.is_unchanged());
            let deltas = resolve(leased, new).deltas;
            let is_item = |delta: &RawDelta<u32>| matches!(delta.kind, RawKind::Replaced | RawKind::Sync);
            for delta in deltas.iter().filter(|delta| delta.note.is_unchanged()) {
                assert!(is_item(delta) && !was_news, "{sequence:?} at {at}: {delta:?}");
            }
        }
    }
}
