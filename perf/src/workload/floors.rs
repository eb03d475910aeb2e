//! Rows of reference for W1 that are no queues: what no queue can be faster than. One thread each.
//!
//! F0: the object of each change is swapped into the known one's place, which a hash table leads to. Nothing is handed to
//! anybody. F1: not even that; the keys, the objects, the window and the checks that are the same for every peer.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_utils::atomic::AtomicCell;
use hashbrown::HashTable;

use super::checks::{Checker, Ledger};
use super::window::{DoneCounters, Stuck, Window};
use super::windowed::{Round, WIDEST_WINDOW};
use super::{Case, Key, KeySet, Object, Outcome};
use crate::peers::{Handler, Hashing, Kind};

/// A row of reference under its name.
#[derive(Clone, Copy)]
pub struct Floor {
    pub id: &'static str,
    pub about: &'static str,
    pub run: fn(&Case, &KeySet) -> Outcome,
}

impl PartialEq for Floor {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

pub static ALL: [Floor; 2] = [
    Floor {
        id: "F0",
        about: "no queue: one thread, a hashbrown look-up and an atomic swap per change",
        run: swaps,
    },
    Floor { id: "F1", about: "no queue: the harness alone, one thread", run: harness },
];

pub fn by_id(id: &str) -> Option<&'static Floor> {
    ALL.iter().find(|floor| floor.id.eq_ignore_ascii_case(id))
}

/// The object lies in an `Arc`, as in every pipeline.
type Place = AtomicCell<Option<Arc<Object>>>;

/// F0.
fn swaps(case: &Case, keys: &KeySet) -> Outcome {
    let hashing = Hashing::default();
    let mut known: HashTable<(u64, Key, Place)> = HashTable::with_capacity(keys.len());
    let round = Round { first: 0, len: keys.len(), changes: case.changes };
    for number in round.keys() {
        let key = Key::clone(keys.key(number));
        let hash = hashing.hash_one(&key);
        let object = Arc::new(Object::new(0, number as u32, 1));
        known.insert_unique(hash, (hash, key, AtomicCell::new(Some(object))), |record| record.0);
    }
    let (mut wrong, mut order) = (0, 0);
    let began = Instant::now();
    for (number, seq) in round.timed() {
        // A queue is given a handle of the key.
        let key = Key::clone(keys.key(number));
        let object = Arc::new(Object::new(0, number as u32, seq));
        let record = known.find(hashing.hash_one(&key), |record| record.1 == key);
        let before = record.and_then(|record| record.2.swap(Some(object)));
        match before {
            Some(before) => order += usize::from((before.key, before.seq) != (number as u32, seq - 1)),
            None => wrong += 1,
        }
    }
    let elapsed = began.elapsed();
    let newest = |number| round.newest(number).expect("all keys are its own");
    for (_, key, place) in &known {
        let sound = place.take().is_some_and(|object| {
            keys.key(object.key as usize) == key && object.seq == newest(object.key as usize)
        });
        wrong += usize::from(!sound);
    }
    let mut violations = Vec::new();
    if (wrong, order, known.len()) != (0, 0, keys.len()) {
        violations.push(format!("{wrong} objects missing or wrong, {order} out of order"));
    }
    Outcome { elapsed, changes: round.changes, violations }
}

/// F1.
fn harness(case: &Case, keys: &KeySet) -> Outcome {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, 1);
    let round = Round { first: 0, len: keys.len(), changes: case.changes };
    let width = WIDEST_WINDOW.min(keys.len() / 2).max(case.batch);
    let mut window = Window::new(&|| false, &done, &ledger, 0, width, case.patience);
    let mut checker = Checker::new(&ledger, &done, 0, 1);
    let mut change = |number: usize, kind: Kind, seq: u64| -> Result<(), Stuck> {
        window.reserve(1)?;
        window.wait_for_key(number, seq)?;
        let (key, object) = (Key::clone(keys.key(number)), Arc::new(Object::new(0, number as u32, seq)));
        checker.lease(&key, std::iter::once((kind, &*object)));
        checker.complete();
        Ok(())
    };
    let filled = round.keys().try_for_each(|number| change(number, Kind::Added, 1));
    let began = Instant::now();
    // Who is stuck has said why.
    _ = filled.and_then(|()| round.timed().try_for_each(|(number, seq)| change(number, Kind::Updated, seq)));
    let elapsed: Duration = began.elapsed();
    for number in round.keys() {
        if !ledger.is_completed(number, round.newest(number).expect("all keys are its own")) {
            ledger.violation(format_args!("{}: not all changes were handed out", keys.key(number)));
        }
    }
    Outcome { elapsed, changes: round.changes, violations: ledger.into_violations() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_make_all_changes() {
        let case = Case {
            producers: 1,
            consumers: 1,
            batch: 1,
            changes: 2_500,
            patience: Duration::from_secs(20),
            parts: crate::workload::Parts::default(),
        };
        for floor in &ALL {
            let outcome = (floor.run)(&case, &KeySet::new(300, 1));
            assert_eq!((outcome.violations, outcome.changes), (Vec::new(), 2_500), "{}", floor.id);
            assert!(outcome.elapsed > Duration::ZERO);
        }
    }
}
