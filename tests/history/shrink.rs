//! What is printed of a history that cannot have been: the smallest beginning of it that cannot, without what did not
//! take part.
//!
//! Only what can go without making a right history wrong is taken away: calls after the one that has no place, keys, and
//! calls that change nothing. Without a change every lease that shows it would be wrong, and the history one of its own.

use std::fmt::Write;

use delta_fifo::Change;

use super::calls::{Answer, Call, History};
use super::recorder::{Record, Tick};
use super::search::{Event, Specification, Verdict};
use super::spec::{QueueSpec, Step};

pub(crate) fn smallest(history: &History, keys: u8, is_wrong: impl Fn(&History) -> bool) -> History {
    let mut ends: Vec<Tick> = history.iter().filter_map(|record| record.returned).collect();
    ends.sort_unstable();
    let shortest = ends.partition_point(|&end| !is_wrong(&until(history, end)));
    let mut history = ends.get(shortest).map_or_else(|| history.clone(), |&end| until(history, end));
    for key in 0..keys {
        let without = without_key(&history, key);
        if is_wrong(&without) {
            history = without;
        }
    }
    for at in (0..history.len()).rev() {
        if changes_nothing(&history[at]) {
            let mut without = history.clone();
            without.remove(at);
            if is_wrong(&without) {
                history = without;
            }
        }
    }
    history
}

/// What had been called by then. What has returned later may have taken place, and is answered the same.
fn until(history: &History, end: Tick) -> History {
    let called = history.iter().filter(|record| record.called < end).cloned();
    called
        .map(|mut record| {
            record.returned = record.returned.filter(|&returned| returned <= end);
            record
        })
        .collect()
}

fn changes_nothing(record: &Record<Call, Answer>) -> bool {
    match (&record.call, &record.answer) {
        (Call::Get(_) | Call::Snapshot | Call::Lengths, _) | (_, Some(Answer::Refused)) => true,
        (Call::Pop | Call::PopBatch(_), Some(Answer::Leased(leased))) => leased.is_empty(),
        _ => false,
    }
}

fn without_key(history: &History, key: u8) -> History {
    let is_other = |change: &Change<u8, u32>| *change.key() != key;
    let mut left = History::new();
    for record in history {
        let mut record = record.clone();
        let stays = match &mut record.call {
            Call::Change(change) => is_other(change),
            Call::ChangeAll(changes) => {
                changes.retain(is_other);
                !changes.is_empty()
            }
            Call::Replace(list) => {
                list.retain(|item| item.0 != key);
                true
            }
            Call::Upsert(of, _) | Call::ResyncKey(of) | Call::End(of, _) | Call::Get(of) => *of != key,
            // What they count, or find nothing of, may be this key.
            Call::Lengths | Call::Resync => {
                record.answer = Some(Answer::Done);
                true
            }
            _ => true,
        };
        let stays = stays
            && match (&mut record.call, &mut record.answer) {
                (Call::Pop, Some(Answer::Leased(leased))) => leased.iter().all(|seen| seen.key != key),
                (Call::PopBatch(max), Some(Answer::Leased(leased))) => {
                    let before = leased.len();
                    leased.retain(|seen| seen.key != key);
                    *max -= before - leased.len();
                    *max > 0
                }
                (_, Some(Answer::All(all))) => {
                    all.remove(&key);
                    true
                }
                _ => true,
            };
        left.extend(stays.then_some(record));
    }
    left
}

/// The history, the longest beginning of an order of it, and what has no place after that.
pub(crate) fn explain(
    spec: &QueueSpec,
    history: &History,
    events: &[Event<Vec<Step>>],
    verdict: &Verdict,
) -> String {
    let mut text = String::new();
    for (number, record) in history.iter().enumerate() {
        let returned = record.returned.map_or("…".into(), |returned| returned.to_string());
        let Record { thread, call, called, answer, .. } = record;
        let _ = writeln!(text, "  #{number} thread {thread}, {called} to {returned}: {call:?} -> {answer:?}");
    }
    if let Verdict::Wrong { prefix, stuck } = verdict {
        let _ = writeln!(text, "in this order all is right so far:");
        let mut states = vec![spec.initial()];
        for &at in prefix {
            let Event { call, operation, .. } = &events[at];
            let _ = writeln!(text, "  #{call} {operation:?}");
            states = states.iter().flat_map(|state| spec.apply(state, operation)).collect();
        }
        let _ = writeln!(text, "which leads to {states:?};");
        let _ = writeln!(text, "no place before its return is left for:");
        let _ = writeln!(text, "  #{} {:?}", events[*stuck].call, events[*stuck].operation);
    }
    text
}
