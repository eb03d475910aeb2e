//! What the rest of a history says of a state: an order of keys, or of one key's deltas, that no later pop shows.
//!
//! The search would find out at that pop, and by then have tried all orders of what came in between.

use super::calls::Seen;
use super::search::Event;
use super::spec::Step;
use crate::model::config::Config;
use crate::model::queue::{Fact, Model};

/// Whether it appends something, or puts a key in line.
pub(crate) fn may_matter(operation: &[Step]) -> bool {
    !matches!(
        operation,
        [Step::Stamp(_) | Step::Lease(_) | Step::Show(_) | Step::Get(..) | Step::Snapshot(_)]
    )
}

pub(crate) fn is_hopeless<'e>(
    model: &Model,
    left: impl Iterator<Item = &'e Event<Vec<Step>>>,
    config: &Config,
) -> bool {
    // Who pops a key has returned before its lease ends, and so before the next pop of the key does.
    let mut leases: Vec<(&Event<Vec<Step>>, &Seen)> = Vec::new();
    // From when on a pop may have a key's handle in its hands for nothing.
    let mut held_since = None;
    for event in left.filter(|event| event.returned.is_some()) {
        for step in &event.operation {
            if let Step::Hold(_) = step {
                held_since = held_since.into_iter().chain([event.called]).min();
            }
            if let Step::Lease(Some(seen)) = step {
                match leases.iter_mut().find(|(_, other)| other.key == seen.key) {
                    Some(first) if event.returned < first.0.returned => *first = (event, seen),
                    Some(_) => {}
                    None => leases.push((event, seen)),
                }
            }
        }
    }
    let next = |key: u8| leases.iter().find(|(_, seen)| seen.key == key);
    let line = model.line();
    let is_overtaken = |at: usize| {
        let Some((before, _)) = next(line[at]) else { return false };
        line[at + 1..]
            .iter()
            .filter_map(|&key| next(key))
            .filter(|(after, _)| held_since.is_none_or(|since| after.returned < Some(since)))
            .any(|(after, _)| after.returned < Some(before.called))
    };
    if (0..line.len()).any(is_overtaken) {
        return true;
    }
    // Under `Latest` what is pending is not the beginning of what is handed out.
    !config.latest
        && model.deltas().any(|(key, pending, leased)| {
            let Some((_, seen)) = next(key) else { return false };
            !begins_with(&seen.deltas, &[], pending)
                && leased.is_none_or(|leased| !begins_with(&seen.deltas, leased, pending))
        })
}

/// Whether more changes can make these deltas of those: at most the last one is merged with what comes.
fn begins_with(deltas: &[Fact], given_back: &[Fact], pending: &[Fact]) -> bool {
    let Some((last, firsts)) = pending.split_last() else { return true };
    // Two deletions at the joint may be one.
    if let (Some(before), Some(first)) = (given_back.last(), pending.first()) {
        if before.0.is_deletion() && first.0.is_deletion() {
            return true;
        }
    }
    let all = given_back.iter().chain(firsts);
    let count = given_back.len() + firsts.len();
    all.eq(deltas.iter().take(count))
        && deltas
            .get(count)
            .is_some_and(|delta| delta == last || delta.0.is_deletion() && last.0.is_deletion())
}
