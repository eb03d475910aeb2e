//! The checker of histories itself: those that are known to be wrong, those that are right and do not look so, and small random
//! ones, of which a search through all orders says the same.

mod common;
#[path = "history/mod.rs"]
mod history;
mod model;

// Its histories are made by threads.
#[cfg(not(delta_fifo_shuttle))]
#[path = "history/orders.rs"]
mod orders;
#[path = "history/right.rs"]
mod right;
#[path = "history/wrong.rs"]
mod wrong;

use delta_fifo::{Change, DeltaKind};

use history::calls::{Answer, Call, History, Seen};
use history::recorder::{Record, Tick};
use history::search::{Verdict, search};
use history::spec::QueueSpec;
use history::split::{Split, View};
use model::config::Config;
use model::queue::Ending;

/// Keys of the histories that are written here.
const KEYS: u8 = 2;
const A: u8 = 0;
const B: u8 = 1;

/// A call, and what it is answered.
type Said = (Call, Answer);

fn add(key: u8, object: u32) -> Said {
    (Call::Change(Change::Add(key, object)), Answer::Done)
}

fn delete(key: u8, object: u32) -> Said {
    (Call::Change(Change::Delete(key, object)), Answer::Done)
}

/// `"A1 U2 D3 R4 S5 T6"`.
fn deltas(text: &str) -> Vec<(DeltaKind, Option<u32>)> {
    let delta = |text: &str| {
        let kind = match &text[..1] {
            "A" => DeltaKind::Added,
            "U" => DeltaKind::Updated,
            "D" => DeltaKind::Deleted,
            "R" => DeltaKind::Replaced,
            "S" => DeltaKind::Sync,
            _ => DeltaKind::DeletedFinalStateUnknown,
        };
        (kind, Some(text[1..].parse().expect("a number")))
    };
    text.split_whitespace().map(delta).collect()
}

fn lease(key: u8, text: &str, attempts: u32, previous: Option<u32>) -> Seen {
    Seen { key, deltas: deltas(text), attempts, previous }
}

/// The first attempt, of a key that was not known.
fn pop(key: u8, text: &str) -> Said {
    pop_again(key, text, 1, None)
}

fn pop_again(key: u8, text: &str, attempts: u32, previous: Option<u32>) -> Said {
    (Call::Pop, Answer::Leased(vec![lease(key, text, attempts, previous)]))
}

fn empty() -> Said {
    (Call::Pop, Answer::Leased(Vec::new()))
}

fn batch(max: usize, leases: &[Seen]) -> Said {
    (Call::PopBatch(max), Answer::Leased(leases.to_vec()))
}

fn done(key: u8) -> Said {
    (Call::End(key, Ending::Done), Answer::Done)
}

fn requeue(key: u8) -> Said {
    (Call::End(key, Ending::Requeue), Answer::Done)
}

fn get(key: u8, known: Option<u32>) -> Said {
    (Call::Get(key), Answer::Known(known))
}

fn snapshot(all: &[(u8, u32)]) -> Said {
    (Call::Snapshot, Answer::All(all.iter().copied().collect()))
}

fn replace(list: &[(u8, u32)]) -> Said {
    (Call::Replace(list.to_vec()), Answer::Done)
}

fn begin() -> Said {
    (Call::Begin, Answer::Done)
}

fn commit() -> Said {
    (Call::Commit, Answer::Done)
}

fn refused() -> Said {
    (Call::Begin, Answer::Refused)
}

/// Thread, call, return (0: none), and what was said.
type Row = (usize, Tick, Tick, Said);

fn history(rows: &[Row]) -> History {
    let record = |(thread, called, returned, (call, answer)): Row| Record {
        thread,
        call,
        called,
        returned: (returned > 0).then_some(returned),
        answer: (returned > 0).then_some(answer),
    };
    let mut history: History = rows.iter().cloned().map(record).collect();
    history.sort_by_key(|record| record.called);
    history
}

/// One call after the other.
fn in_turn(said: &[Said]) -> History {
    let row = |(at, said): (usize, &Said)| (0, 2 * at as Tick + 1, 2 * at as Tick + 2, said.clone());
    history(&said.iter().enumerate().map(row).collect::<Vec<_>>())
}

fn verdict(history: &History, view: View, joint: bool, config: &Config) -> Verdict {
    let spec = QueueSpec { config: config.clone(), lined: view == View::Line };
    search(&spec, &Split { history, view, keys: KEYS, joint }.events())
}

fn views() -> Vec<View> {
    let contents = (0..KEYS).map(View::Contents);
    contents.chain([View::Line, View::Known]).collect()
}

fn is_right(history: &History, view: View, joint: bool) -> bool {
    matches!(verdict(history, view, joint, &Config::default()), Verdict::Right(_))
}

/// On both queues.
#[track_caller]
fn right(history: &History) {
    right_on(history, &[true, false]);
}

#[track_caller]
fn right_on(history: &History, joint: &[bool]) {
    for &joint in joint {
        for view in views() {
            assert!(is_right(history, view, joint), "{view:?}, joint: {joint}: {history:#?}");
        }
    }
}

/// On both queues, and it is seen there.
#[track_caller]
fn wrong(view: View, history: &History) {
    for joint in [true, false] {
        assert!(!is_right(history, view, joint), "{view:?}, joint: {joint}: {history:#?}");
    }
}
