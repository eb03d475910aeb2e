//! Merging in the chain against merging in a list, for all sequences up to a length. The chain is that of a queue, which
//! appends it, takes it and resolves it as it always does; the list is resolved at once.

use std::sync::Arc;

use crate::builder::Builder;
use crate::delta::{Compression, DeltaKind, DeltaList, RawDelta, RawKind};
use crate::fifo::DeltaFifo;
use crate::fifo::fact::Fact;
use crate::fifo::push::{Push, PushKey, Pushed};
use crate::fifo::rules::Rule;
use crate::queue::DeltaQueue;
use crate::raw::{Awaited, RawQueue};
use crate::resolve::{Before, resolve};
use crate::sync::epoch;

type Queue = DeltaFifo<u8, Arc<u32>>;

const KEY: u8 = 7;

/// What a producer can append: with an object, or referring to the one before.
const KINDS: [(RawKind, bool); 8] = [
    (RawKind::Updated, true),
    (RawKind::Sync, false),
    (RawKind::Deleted, true),
    (RawKind::Tombstone, false),
    (RawKind::Added, true),
    (RawKind::Applied, true),
    (RawKind::Replaced, true),
    (RawKind::Sync, true),
];

/// A kind, whether it has an object, and which of two replaces it owes (0: none).
type Step = (RawKind, bool, u64);

/// All sequences of steps of some kinds up to a length. A `Sync` without an object comes first or not at all: a resync
/// appends to nothing (`Rule::Resync`).
fn sequences(kinds: &'static [(RawKind, bool)], debts: u64, max: u32) -> impl Iterator<Item = Vec<Step>> {
    let choices = kinds.len() as u64 * debts;
    (1..=max)
        .flat_map(move |length| {
            (0..choices.pow(length)).map(move |mut code| {
                let next = |_| {
                    let (kind, has_object) = kinds[(code % choices / debts) as usize];
                    let debt = code % debts;
                    code /= choices;
                    (kind, has_object, debt)
                };
                (0..length).map(next).collect()
            })
        })
        .filter(|steps: &Vec<Step>| !steps[1..].iter().any(|step| (step.0, step.1) == (RawKind::Sync, false)))
}

fn append(queue: &Queue, (kind, has_object, debt): Step, number: u32) {
    queue.core.replaces.owe(debt);
    let hash = queue.hash(&KEY);
    let guard = epoch::pin();
    let (mut key, mut value) = (Some(KEY), None);
    let mut push = Push {
        shard: 0,
        hash,
        key: PushKey::Callers(&mut key),
        fact: Fact { kind, debt, ..Fact::resync(false) },
        rule: Rule::Always,
        since: 0,
        cell: Some(queue.core.shards[0].objects.draft(has_object.then(|| Arc::new(number)))),
        value: &mut value,
        wanted: true,
    };
    match queue.push(&mut push, &guard) {
        Pushed::Done { appended: true, link } => link.into_iter().for_each(|link| queue.link(link, &guard)),
        other => panic!("{other:?}"),
    }
}

type Shown = Vec<(DeltaKind, Option<u32>)>;

/// The definition: each fact is settled by what came before it, then merged into the list.
fn expected(steps: &[Step], known: bool, compression: Compression) -> (Shown, u64) {
    let facts = (1..).zip(steps).map(|(number, (kind, has, _))| RawDelta::new(*kind, has.then_some(number)));
    let before = if known { Before::Known(0) } else { Before::Absent };
    let resolved = resolve(&before, DeltaList::new(), facts, compression);
    let kind = |kind| match kind {
        RawKind::Added => DeltaKind::Added,
        RawKind::Updated => DeltaKind::Updated,
        RawKind::Replaced => DeltaKind::Replaced,
        RawKind::Sync => DeltaKind::Sync,
        RawKind::Deleted => DeltaKind::Deleted,
        RawKind::Tombstone => DeltaKind::DeletedFinalStateUnknown,
        RawKind::Applied => unreachable!("it is resolved"),
    };
    let shown = resolved.deltas.iter().map(|delta| (kind(delta.kind), delta.object)).collect();
    (shown, resolved.merged.len() as u64)
}

/// A queue whose key is known, or not, and in which two replaces are open.
fn queue(known: bool, compression: Compression) -> Queue {
    let builder = Builder::new().compression(compression).shards(1);
    let queue: Queue = builder.scope("one", |_| true).scope("two", |_| true).disjoint_scopes().build();
    if known {
        queue.add(KEY, Arc::new(0)).expect("it is open");
        queue.pop().expect("it is open").done();
    }
    queue
}

fn check(steps: &[Step], known: bool, compression: Compression) {
    let queue = queue(known, compression);
    let open = ["one", "two"].map(|scope| {
        let replace = queue.begin_replace_raw(crate::raw::BeginReplace::list(Some(scope)));
        replace.unwrap_or_else(|_| panic!("they are disjoint"))
    });
    for (number, step) in (1..).zip(steps) {
        append(&queue, *step, number);
    }
    let shown: Shown = queue.try_pop().map_or(Vec::new(), |lease| {
        let shown = lease.deltas().iter().map(|delta| (delta.kind(), delta.object().map(|object| **object)));
        let shown = shown.collect();
        lease.done();
        shown
    });
    let (deltas, merged) = expected(steps, known, compression);
    assert_eq!(shown, deltas, "{steps:?}, known: {known}, {compression:?}");
    // What comes to nothing may have been merged first.
    if steps.iter().all(|(_, has_object, _)| *has_object) {
        assert_eq!(queue.merged(), merged, "{steps:?}, known: {known}, {compression:?}");
    }
    // Everything that was owed is completed once: nothing keeps a replace but that it is open.
    for replace in &open {
        let number = replace.0.number();
        assert_eq!(queue.core.replaces.is_complete(number), Some(false), "{steps:?}");
        assert!(queue.core.replaces.commit(&replace.0).is_made());
        assert_eq!(queue.check(Awaited::Replace(number)), Some(Ok(())), "{steps:?}");
    }
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
}

fn check_all(kinds: &'static [(RawKind, bool)], debts: u64, max: u32) {
    for compression in [Compression::Deletions, Compression::Latest] {
        for steps in sequences(kinds, debts, max) {
            check(&steps, false, compression);
            check(&steps, true, compression);
        }
    }
}

#[test]
fn a_chain_comes_to_what_a_list_comes_to() {
    check_all(&KINDS, 1, if cfg!(miri) { 2 } else { 4 });
}

#[test]
fn so_it_does_where_facts_owe_different_replaces() {
    check_all(&KINDS[..4], 3, if cfg!(miri) { 2 } else { 4 });
}

#[test]
fn the_key_is_what_the_list_says_while_it_is_in_line() {
    use crate::fifo::word::Newest;
    for (compression, steps) in [Compression::Deletions, Compression::Latest]
        .into_iter()
        .flat_map(|compression| sequences(&KINDS, 1, 3).map(move |steps| (compression, steps)))
    {
        let queue = queue(true, compression);
        for (number, step) in (1..).zip(&steps) {
            append(&queue, *step, number);
        }
        let mut newest = None;
        queue.visit_entries(|entry| newest = Some(entry.word().kind()));
        let is_deleted = steps.last().is_some_and(|(kind, ..)| kind.is_deletion());
        assert_eq!(newest, Some(if is_deleted { Newest::Deleted } else { Newest::Live }), "{steps:?}");
    }
}
