//! W10: one participant stands still at any instruction of its call, and what the others reach meanwhile.
//!
//! One producer and one consumer work all the time: updates of known keys, a window ahead of what is done, as in W1; a key that is
//! not done is passed over, since whoever has it may stand still. First alone, then beside a third participant, a producer or a
//! consumer, that is stopped over and over, each time for a while: what the two reach while it stands is set against what they
//! reach alone. A peer whose participant is stopped with a lock in its hands stands still altogether.

use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::Backoff;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::checks::{Checker, Ledger, Tally, check_books};
use super::window::DoneCounters;
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};
use crate::system::resident;
use crate::system::stop::{Stopper, Target, outside};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Producer,
    Consumer,
}

#[derive(Clone, Copy, Debug)]
pub struct Stops {
    pub who: Who,
    pub stops: usize,
    /// Of each.
    pub time: Duration,
    pub seed: u64,
    /// How long a thread may avoid to be stopped.
    pub patience: Duration,
}

#[derive(Debug, Default)]
pub struct Found {
    /// Changes per second of the two, without a third.
    pub alone: f64,
    /// In each stop.
    pub beside: Vec<f64>,
    /// Bytes by which the process has grown in a stop, at most.
    pub growth: Option<u64>,
    pub violations: Vec<String>,
}

/// Two producers have half of the keys each. The last consumer's counter is of what is made known before.
const PRODUCERS: usize = 2;
const CONSUMERS: usize = 3;
const WIDTH: u64 = 512;

/// `None`: nobody can be stopped here.
pub fn run<P: Peer>(new: impl Fn() -> P, stops: &Stops, keys: &KeySet) -> Option<Found> {
    let mut stopper = Stopper::new()?;
    let mut found = Found::default();
    let time = stops.time * stops.stops as u32;
    found.violations = phase(&new(), keys, None, |progress| {
        found.alone = rate(progress, time);
    });
    let mut random = SmallRng::seed_from_u64(stops.seed);
    let (mut beside, mut growth, mut is_in_vain) = (Vec::new(), None, false);
    let violations = phase(&new(), keys, Some(stops.who), |progress| {
        for _ in 0..stops.stops {
            thread::sleep(Duration::from_micros(random.random_range(100..2_000)));
            is_in_vain |= !stopper.stop(stops.patience);
            let before = resident();
            beside.push(rate(progress, stops.time));
            growth = growth.max(resident().zip(before).map(|(now, before)| now.saturating_sub(before)));
            stopper.go_on();
        }
    });
    found.violations.extend(violations);
    if is_in_vain {
        found.violations.push("the third participant was never where it could be stopped".into());
    }
    (found.beside, found.growth) = (beside, growth);
    Some(found)
}

/// Changes per second from now on.
fn rate(progress: &dyn Fn() -> u64, time: Duration) -> f64 {
    let (before, began) = (progress(), Instant::now());
    thread::sleep(time);
    (progress() - before) as f64 / began.elapsed().as_secs_f64()
}

/// What was wrong. `watch` is given how many changes the first producer has had done.
fn phase<P: Peer>(
    peer: &P,
    keys: &KeySet,
    third: Option<Who>,
    watch: impl FnOnce(&dyn Fn() -> u64),
) -> Vec<String> {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(PRODUCERS, CONSUMERS);
    let (begin, end) = (Barrier::new(2), AtomicBool::new(false));
    let consumer = |number| Stoppable { checker: Checker::new(&ledger, &done, number, PRODUCERS) };
    let mut first = consumer(CONSUMERS - 1);
    for producer in 0..PRODUCERS {
        for number in keys.of_producer(producer, PRODUCERS) {
            peer.add(keys.key(number).clone(), Object::new(producer as u32, number as u32, 1));
            peer.pop(&mut first.checker);
            first.checker.complete();
        }
    }
    let begun: Vec<u64> = (0..PRODUCERS).map(|producer| done.of_producer(producer)).collect();
    let producer = |number| Producer {
        peer,
        keys,
        ledger: &ledger,
        done: &done,
        end: &end,
        number,
        begun: begun[number],
        range: keys.of_producer(number, PRODUCERS),
    };
    let is = |who| third == Some(who);
    let target = || {
        let target = Target::new();
        begin.wait();
        target
    };
    let (newest, tally) = thread::scope(|scope| {
        let mut consumers = vec![scope.spawn(|| consume(peer, consumer(0), None))];
        let mut producers = vec![scope.spawn(|| producer(0).produce(None))];
        if is(Who::Consumer) {
            consumers.push(scope.spawn(|| consume(peer, consumer(1), Some(target()))));
        }
        if is(Who::Producer) {
            producers.push(scope.spawn(|| producer(1).produce(Some(target()))));
        }
        // Nobody can be stopped before it has said that it is there.
        if third.is_some() {
            begin.wait();
        }
        watch(&|| done.of_producer(0));
        // Relaxed: nothing is published with it.
        end.store(true, Ordering::Relaxed);
        let mut newest: Vec<Vec<u64>> =
            producers.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        newest.resize_with(PRODUCERS, || vec![1; keys.of_producer(1, PRODUCERS).len()]);
        peer.close();
        let mut total = first.checker.tally;
        for thread in consumers {
            let tally: Tally = thread.join().expect("no panic");
            total.leases += tally.leases;
            total.changes += tally.changes;
        }
        (newest.concat(), total)
    });
    check_books(peer, &ledger, newest.iter().sum(), tally, |key| newest[key]);
    ledger.into_violations()
}

struct Producer<'a, P> {
    peer: &'a P,
    keys: &'a KeySet,
    ledger: &'a Ledger<'a>,
    done: &'a DoneCounters,
    end: &'a AtomicBool,
    number: usize,
    /// What of its changes was done before.
    begun: u64,
    range: Range<usize>,
}

impl<P: Peer> Producer<'_, P> {
    /// The number of the last change of each of its keys.
    fn produce(self, target: Option<Target>) -> Vec<u64> {
        let mut newest = vec![1; self.range.len()];
        let (mut issued, mut allowed) = (0, 0);
        let backoff = Backoff::new();
        for place in (0..newest.len()).cycle() {
            while issued >= allowed {
                if self.end.load(Ordering::Relaxed) {
                    return newest;
                }
                // Goes on when half of the window is free, as elsewhere.
                let ahead = issued - (self.done.of_producer(self.number) - self.begun);
                if ahead <= WIDTH / 2 {
                    allowed = issued + WIDTH - ahead;
                    backoff.reset();
                } else {
                    backoff.snooze();
                }
            }
            let (key, seq) = (self.range.start + place, &mut newest[place]);
            if !self.ledger.is_completed(key, *seq) {
                continue;
            }
            *seq += 1;
            issued += 1;
            let object = Object::new(self.number as u32, key as u32, *seq);
            let update = || self.peer.update(self.keys.key(key).clone(), object);
            match &target {
                Some(target) => target.inside(update),
                None => update(),
            }
        }
        newest
    }
}

fn consume<P: Peer>(peer: &P, mut consumer: Stoppable<'_>, target: Option<Target>) -> Tally {
    let mut pop = || {
        let more = match &target {
            Some(target) => target.inside(|| peer.pop(&mut consumer)),
            None => peer.pop(&mut consumer),
        };
        consumer.checker.complete();
        more
    };
    while pop() {}
    consumer.checker.tally
}

/// Nobody is stopped while it checks.
struct Stoppable<'a> {
    checker: Checker<'a>,
}

impl Handler for Stoppable<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        outside(|| self.checker.lease(key, deltas));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, Sharded, ShardedMutex};

    const STOPS: Stops = Stops {
        who: Who::Producer,
        stops: 5,
        time: Duration::from_millis(3),
        seed: 1,
        patience: Duration::from_secs(20),
    };

    fn check<P: Peer>() {
        for who in [Who::Producer, Who::Consumer] {
            let Some(found) = run(P::new, &Stops { who, ..STOPS }, &KeySet::new(3_000, 1)) else { return };
            assert_eq!(found.violations, [""; 0]);
            // In so short a time a busy machine may run neither of the two.
            assert_eq!((found.beside.len(), found.alone >= 0.0), (5, true));
        }
    }

    #[test]
    fn every_peer_goes_on_afterwards() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<Papaya>();
        check::<ShardedMutex>();
        check::<RealFifo>();
    }

    #[test]
    fn broken_queues_are_found_out() {
        for (fault, by) in [
            // While keys are made known: how much happens later is the machine's affair.
            (Fault::LeasesAKeyTwice, "in a second consumer"),
            (Fault::KnowsAnOldObject, "is known instead of"),
            (Fault::CountsAMergeThatNeverWas, "merged"),
        ] {
            let found = run(|| Broken::with(fault), &STOPS, &KeySet::new(3_000, 1));
            let Some(Found { violations, .. }) = found else { return };
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }
}
