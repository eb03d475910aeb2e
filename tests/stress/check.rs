//! After a round: what was written down, against what the queue promises.

use std::collections::HashMap;

use delta_fifo::{DeltaQueue, KnownView};

use crate::common::Family;

use super::chain::Chain;
use super::record::{Call, Fate, Kind, Log, Seen};
use super::round::Round;
use super::shape::{Key, Variant};

pub(crate) fn everything<F: Family>(round: &Round<F>) {
    let log = std::mem::take(&mut *round.log.lock().unwrap());
    let chains = chains(round, &log);
    accounts(round, &log, &chains);
    closes(&log);
    let ends = ends(&chains);
    for seen in &log.seen {
        promise(round, &chains, &ends, *seen);
    }
    known(round, &chains);
}

fn chains<'a, F: Family>(round: &Round<F>, log: &'a Log) -> Vec<Chain<'a>> {
    let mut chains: Vec<Chain<'a>> = (0..round.shape.keys)
        .map(|key| Chain {
            key,
            shape: round.shape,
            plan: round.plan,
            late: F::MERGES_LATE,
            calls: Vec::new(),
            turns: Vec::new(),
            swept: &log.swept,
            links: Vec::new(),
            delivered: HashMap::new(),
        })
        .collect();
    log.calls.iter().for_each(|call| chains[call.key as usize].calls.push(call));
    log.turns.iter().for_each(|turn| chains[turn.key as usize].turns.push(turn.clone()));
    for chain in &mut chains {
        chain.leases();
        chain.order();
        chain.complete();
        chain.swept();
    }
    chains
}

/// Offered = delivered + merged, where it can be told exactly.
fn accounts<F: Family>(round: &Round<F>, log: &Log, chains: &[Chain<'_>]) {
    let accepted = |call: &&Call| matches!(call.fate, Fate::Accepted | Fate::Listed);
    let offered = log.calls.iter().filter(accepted).count() as u64 + log.syncs;
    let delivered: u64 = chains.iter().map(|chain| chain.delivered.len() as u64 + chain.syncs()).sum();
    let discarded = round.queue.close_discard();
    if round.plan.discards {
        assert!(offered <= delivered + round.queue.merged() + discarded.deltas || round.plan.deletes);
        return;
    }
    assert_eq!((discarded.keys, discarded.deltas), (0, 0), "something was left");
    if !round.plan.deletes {
        // The first list may race with changes that supersede its items.
        assert!(delivered + round.queue.merged() <= offered, "more than was offered");
        if round.plan.first_list && !F::MERGES_LATE {
            assert_eq!(delivered + round.queue.merged(), offered, "delivered + merged");
        }
    }
    let syncs: u64 = chains.iter().map(Chain::syncs).sum();
    let exact = !round.shape.latest() && round.shape.variant != Variant::OwnStore;
    assert!(syncs <= log.syncs && (!exact || syncs == log.syncs), "{syncs} of {} Sync", log.syncs);
}

/// Called after a close means rejected, returned before it means accepted.
fn closes(log: &Log) {
    let closed = log.closes.iter().map(|close| close.1).min().unwrap_or(u64::MAX);
    let open = log.closes.iter().map(|close| close.0).min().unwrap_or(u64::MAX);
    for call in log.calls.iter().filter(|call| call.replace.is_none()) {
        assert!(call.begin < closed || call.fate == Fate::Rejected, "{call:?} after a close at {closed}");
        assert!(call.end > open || call.fate != Fate::Rejected, "{call:?} before a close at {open}");
    }
}

/// Of one change or item.
struct End {
    call: Call,
    initial: bool,
    /// Before the pop that handed it out, before that lease ended, and before the one ended that completed it.
    asked: u64,
    left: u64,
    completed: u64,
}

struct Ends {
    /// By the moment when the call returned.
    sorted: Vec<End>,
    /// The latest completion so far.
    latest: Vec<u64>,
}

fn ends(chains: &[Chain<'_>]) -> Ends {
    let mut sorted = Vec::new();
    for chain in chains {
        for (call, first) in chain.first_turns() {
            let completing = first.and_then(|first| chain.turns[first..].iter().find(|turn| turn.completed));
            let void = call.fate == Fate::Listed || chain.late && call.kind == Kind::Item;
            let missing = if void { 0 } else { u64::MAX };
            sorted.push(End {
                call: *call,
                initial: chain.is_first(call),
                asked: first.map_or(missing, |first| chain.turns[first].asked),
                left: first.map_or(missing, |first| chain.turns[first].left),
                completed: completing.map_or(missing, |turn| turn.left),
            });
        }
    }
    sorted.sort_by_key(|end| end.call.end);
    let latest = sorted.iter().scan(0, |latest, end| {
        *latest = end.completed.max(*latest);
        Some(*latest)
    });
    Ends { latest: latest.collect(), sorted }
}

fn promise<F: Family>(round: &Round<F>, chains: &[Chain<'_>], ends: &Ends, seen: Seen) {
    let all = |what: &str, at: u64, of: &dyn Fn(&End) -> Option<u64>| {
        for end in &ends.sorted {
            assert!(of(end).is_none_or(|moment| moment < at), "{what} at {at}, but {:?}", end.call);
        }
    };
    match seen {
        Seen::Known { key, object, begin, end } => assert!(
            chains[key as usize].may_know(object, begin, end),
            "key {key}: {object:?} was known between {begin} and {end}\n{:#?}",
            chains[key as usize].turns
        ),
        Seen::Synced(at) => all("synced", at, &|end| end.initial.then_some(end.completed)),
        Seen::Delivered(at) => all("delivered", at, &|end| end.initial.then_some(end.left)),
        Seen::Through(bound, at) => {
            let before = ends.sorted.partition_point(|end| end.call.end < bound);
            let latest = before.checked_sub(1).map_or(0, |last| ends.latest[last]);
            assert!(latest < at, "everything before {bound} processed at {at}, but something at {latest}");
        }
        Seen::Replaced(began, at) => all("a replace was completed", at, &|end| {
            end.call.replace.filter(|replace| replace.1 == began).map(|_| end.completed)
        }),
        Seen::Closed(_) if round.plan.discards => {}
        Seen::Closed(at) => all("nothing left", at, &|end| Some(end.asked)),
    }
}

/// The known objects are what was handed out last.
fn known<F: Family>(round: &Round<F>, chains: &[Chain<'_>]) {
    let (known, snapshot) = (round.queue.known(), round.queue.snapshot());
    let mut count = 0;
    for chain in chains {
        let last = chain.last().filter(|_| round.shape.variant != Variant::NoStore);
        // What was discarded may have been handed out before by a lease that came back.
        if round.plan.discards {
            continue;
        }
        count += usize::from(last.is_some());
        let key = Key::new(&round.tally, chain.key);
        assert_eq!(known.get_with(&key, |object| object.id), last, "known of key {}", chain.key);
        assert_eq!(snapshot.get_with(&key, |object| object.id), last, "snapshot of key {}", chain.key);
    }
    if !round.plan.discards {
        assert_eq!((known.len(), known.iter().count(), snapshot.len()), (count, count, count));
    }
}
