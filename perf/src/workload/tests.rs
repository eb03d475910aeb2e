//! A measurement is worth what its checks are: every one of them is shown a queue that it must find out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::checks::{Checker, Ledger};
use super::window::DoneCounters;
use super::{Case, Key, KeySet, Object, Outcome, Parts, windowed};
use crate::peers::{Handler, Kind, Lists, Parking, Peer};

fn case(producers: usize, consumers: usize, batch: usize) -> Case {
    Case {
        producers,
        consumers,
        batch,
        changes: 4_000,
        patience: Duration::from_secs(20),
        parts: Parts::default(),
    }
}

/// What a broken queue does wrong, once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    LosesAChange,
    DeliversAChangeTwice,
    DeliversAnOldChangeAgain,
    SwapsTheObjectsOfTwoKeys,
    LeasesAKeyTwice,
    SaysAddedForUpdated,
    KnowsAnOldObject,
    ForgetsAKnownObject,
    CountsAMergeThatNeverWas,
    ForgetsAListedKey,
    ListsAMissingKey,
    ListsTwice,
    HidesATombstone,
    HidesASync,
    SyncsTwice,
}

/// A sound queue with a fault in front of it.
pub(super) struct Broken {
    inner: Parking,
    fault: Fault,
    updates: AtomicUsize,
    pops: AtomicUsize,
    /// The first update that came in.
    first: Mutex<Option<(Key, Object)>>,
}

/// The update, or the pop, at which the fault shows.
const AT: usize = 1_500;

impl Broken {
    pub(super) fn with(fault: Fault) -> Self {
        Self { fault, ..Self::new() }
    }
}

fn copy(object: &Object) -> Object {
    Object::new(object.producer, object.key, object.seq)
}

impl Peer for Broken {
    type Scratch = <Parking as Peer>::Scratch;

    fn new() -> Self {
        Self {
            inner: Parking::new(),
            fault: Fault::None,
            updates: AtomicUsize::new(0),
            pops: AtomicUsize::new(0),
            first: Mutex::new(None),
        }
    }

    fn add(&self, key: Key, object: Object) {
        self.inner.add(key, object);
    }

    fn update(&self, key: Key, object: Object) {
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            *self.first.lock() = Some((key.clone(), copy(&object)));
        }
        match self.fault {
            Fault::LosesAChange if number == AT => return,
            Fault::DeliversAChangeTwice if number == AT => self.inner.update(key.clone(), copy(&object)),
            Fault::DeliversAnOldChangeAgain if number == AT => {
                let (key, object) = self.first.lock().take().expect("there was a first");
                self.inner.update(key, object);
            }
            Fault::SwapsTheObjectsOfTwoKeys if number == AT => {
                let (other, _) = self.first.lock().take().expect("there was a first");
                return self.inner.update(other, object);
            }
            _ => {}
        }
        self.inner.update(key, object);
    }

    fn delete(&self, key: Key, object: Object) {
        self.inner.delete(key, object);
    }

    fn update_all(&self, batch: &mut Vec<(Key, Object)>, _: &mut Self::Scratch) {
        batch.drain(..).for_each(|(key, object)| self.update(key, object));
    }

    fn pop(&self, handler: &mut impl Handler) -> bool {
        let number = self.pops.fetch_add(1, Ordering::Relaxed);
        let always = matches!(self.fault, Fault::HidesATombstone | Fault::HidesASync | Fault::SyncsTwice);
        let fault = if number == AT || always { self.fault } else { Fault::None };
        self.inner.pop(&mut Unfaithful { handler, fault })
    }

    fn pop_batch(&self, _: usize, handler: &mut impl Handler, _: &mut Self::Scratch) -> usize {
        usize::from(self.pop(handler))
    }

    fn close(&self) {
        self.inner.close();
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        self.inner.get_with(key, |object| match (self.fault, object.key) {
            (Fault::ForgetsAKnownObject, 7) => None,
            (Fault::KnowsAnOldObject, 7) => {
                Some(f(&Object::new(object.producer, object.key, object.seq - 1)))
            }
            _ => Some(f(object)),
        })?
    }

    fn known_len(&self) -> usize {
        self.inner.known_len()
    }

    fn pending_len(&self) -> usize {
        self.inner.pending_len()
    }

    fn leased_len(&self) -> usize {
        self.inner.leased_len()
    }

    fn merged(&self) -> u64 {
        self.inner.merged() + u64::from(self.fault == Fault::CountsAMergeThatNeverWas)
    }
}

/// Shows the workload's handler something else than the lease.
struct Unfaithful<'h, H> {
    handler: &'h mut H,
    fault: Fault,
}

/// The faults of lists concern the first item, or the first tombstone after some pops.
impl Lists for Broken {
    fn replace(&self, mut list: Vec<(Key, Object)>) {
        match self.fault {
            Fault::ForgetsAListedKey => drop(list.pop()),
            Fault::ListsAMissingKey => {
                // The one key whose object has this number is not in the list.
                let number = list.len() as u32;
                let mut key = None;
                self.inner.clone_known().for_each(|it, object| {
                    if object.key == number {
                        key = Some(it.clone());
                    }
                });
                list.push((key.expect("it is known"), Object::new(1, number, 0)));
            }
            Fault::ListsTwice => {
                let (key, object) = list.last().expect("an item");
                list.push((key.clone(), copy(object)));
            }
            _ => {}
        }
        self.inner.replace(list);
    }

    fn resync(&self) {
        self.inner.resync();
    }
}

impl<H: Handler> Handler for Unfaithful<'_, H> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let deltas: Vec<(Kind, &Object)> = deltas.collect();
        match self.fault {
            Fault::HidesATombstone if deltas.iter().any(|(kind, _)| *kind == Kind::Tombstone) => return,
            Fault::HidesASync if deltas.iter().any(|(kind, _)| *kind == Kind::Sync) => return,
            Fault::SyncsTwice if deltas.iter().any(|(kind, _)| *kind == Kind::Sync) => {
                self.handler.lease(key, deltas.iter().copied());
            }
            Fault::LeasesAKeyTwice => self.handler.lease(key, deltas.iter().copied()),
            Fault::SaysAddedForUpdated => {
                return self.handler.lease(key, deltas.iter().map(|&(_, object)| (Kind::Added, object)));
            }
            _ => {}
        }
        self.handler.lease(key, deltas.into_iter());
    }
}

fn outcome_of(fault: Fault) -> Outcome {
    windowed::run(&Broken::with(fault), &case(1, 1, 1), &KeySet::new(200, 1))
}

#[track_caller]
fn assert_found_out(fault: Fault, by: &str) {
    let violations = outcome_of(fault).violations;
    assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: no {by:?} in {violations:?}");
}

#[test]
fn a_sound_queue_passes() {
    let outcome = outcome_of(Fault::None);
    assert_eq!(outcome.violations, [""; 0]);
    assert_eq!(outcome.changes, 4_000);
    assert!(outcome.ns_per_change() > 0.0);
}

#[test]
fn a_lost_change_is_found_out() {
    assert_found_out(Fault::LosesAChange, "changes are lost");
}

#[test]
fn a_change_delivered_twice_is_found_out() {
    // In one lease or in two.
    let violations = outcome_of(Fault::DeliversAChangeTwice).violations;
    let found = |text: &String| text.contains("follows change") || text.contains("delivered after");
    assert!(violations.iter().any(found), "{violations:?}");
}

#[test]
fn a_change_out_of_order_is_found_out() {
    assert_found_out(Fault::DeliversAnOldChangeAgain, "delivered after");
}

#[test]
fn an_object_under_another_key_is_found_out() {
    assert_found_out(Fault::SwapsTheObjectsOfTwoKeys, "handed out with an object of");
}

#[test]
fn a_key_in_two_leases_is_found_out() {
    assert_found_out(Fault::LeasesAKeyTwice, "in a second consumer");
}

#[test]
fn the_wrong_kind_is_found_out() {
    assert_found_out(Fault::SaysAddedForUpdated, "handed out as Added");
}

#[test]
fn wrong_known_objects_are_found_out() {
    assert_found_out(Fault::KnowsAnOldObject, "is known instead of");
    assert_found_out(Fault::ForgetsAKnownObject, "not known");
}

#[test]
fn books_that_do_not_balance_are_found_out() {
    assert_found_out(Fault::CountsAMergeThatNeverWas, "merged");
}

#[test]
fn deltas_of_one_lease_must_follow_each_other() {
    let keys = KeySet::new(4, 1);
    let violations_of = |seqs: &[u64]| {
        let (ledger, done) = (Ledger::new(&keys), DoneCounters::new(1, 1));
        let objects: Vec<Object> = seqs.iter().map(|&seq| Object::new(0, 2, seq)).collect();
        let kind = |object: &Object| if object.seq == 1 { Kind::Added } else { Kind::Updated };
        Checker::new(&ledger, &done, 0, 1)
            .lease(keys.key(2), objects.iter().map(|object| (kind(object), object)));
        ledger.into_violations().len()
    };
    assert_eq!(violations_of(&[1]), 0);
    assert_eq!(violations_of(&[1, 2, 3]), 0);
    assert_ne!(violations_of(&[]), 0);
    assert_ne!(violations_of(&[2]), 0, "change 1 is missing");
    assert_ne!(violations_of(&[1, 3]), 0);
    assert_ne!(violations_of(&[1, 1]), 0);
    assert_ne!(violations_of(&[2, 1]), 0);
}

#[test]
fn keys_are_distinct_and_long_enough() {
    let keys = KeySet::new(1_000, 1);
    let distinct: std::collections::HashSet<&str> =
        (0..keys.len()).map(|number| &**keys.key(number)).collect();
    assert_eq!(distinct.len(), 1_000);
    assert!(distinct.iter().all(|key| key.len() == 36));
    let (first, second) = (keys.of_producer(0, 3), keys.of_producer(1, 3));
    assert_eq!((first.start, first.end, second.start, keys.of_producer(2, 3).end), (0, 333, 333, 1_000));
}

#[test]
fn keys_depend_on_the_seed_alone() {
    let in_order = |seed| {
        let keys = KeySet::new(100, seed);
        (0..100).map(|number| keys.key(number).clone()).collect::<Vec<_>>()
    };
    assert_eq!(in_order(1), in_order(1));
    assert_ne!(in_order(1), in_order(2));
}
