//! W1c: updates of known keys, drawn at random, with no window: producers are as far ahead as they get, and changes gather.
//!
//! Who is slower gathers more and does less for each change. So the time per change says nothing without what stands beside it:
//! how many leases were handed out for how many changes.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::checks::{Checker, Ledger, Tally, check_books};
use super::window::DoneCounters;
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Uniform,
    /// With exponent 0.99.
    Zipf,
}

/// Which keys are changed, in order, by each producer: drawn before anything is timed.
pub struct Draws(Vec<Vec<u32>>);

impl Draws {
    /// Each producer has keys of its own, a part of the set.
    pub fn new(keys: &KeySet, which: Keys, producers: usize, changes: usize, seed: u64) -> Self {
        let of = |producer: usize| {
            let range = keys.of_producer(producer, producers);
            let mut random = SmallRng::seed_from_u64(seed ^ ((producer as u64) << 32));
            let mut sum = 0.0;
            let sums: Vec<f64> = (1..=range.len())
                .map(|rank| {
                    sum += if which == Keys::Zipf { (rank as f64).powf(-0.99) } else { 1.0 };
                    sum
                })
                .collect();
            let draw = |_| {
                let at = random.random::<f64>() * sum;
                let rank = sums.partition_point(|sum| *sum <= at).min(sums.len() - 1);
                // The keys are in a random order, so the first are any.
                (range.start + rank) as u32
            };
            (0..changes / producers).map(draw).collect()
        };
        Self((0..producers).map(of).collect())
    }
}

#[derive(Debug)]
pub struct Overloaded {
    /// From the first change until all was handled.
    pub elapsed: Duration,
    pub offered: u64,
    pub leases: u64,
    pub violations: Vec<String>,
}

pub fn run<P: Peer>(peer: &P, draws: &Draws, consumers: usize, keys: &KeySet) -> Overloaded {
    let ledger = Ledger::new(keys);
    let producers = draws.0.len();
    let done = DoneCounters::new(producers, consumers + 1);
    let begin = Barrier::new(producers + 1);
    let mut first = Checker::new(&ledger, &done, consumers, producers);
    for producer in 0..producers {
        for number in keys.of_producer(producer, producers) {
            peer.add(keys.key(number).clone(), Object::new(producer as u32, number as u32, 1));
            peer.pop(&mut first);
            first.complete();
        }
    }
    let (elapsed, newest, tally) = thread::scope(|scope| {
        let consumers: Vec<_> = (0..consumers)
            .map(|consumer| {
                let mut handler = Gathering(Checker::new(&ledger, &done, consumer, producers));
                scope.spawn(move || {
                    while peer.pop(&mut handler) {}
                    handler.0.tally
                })
            })
            .collect();
        let threads: Vec<_> = (0..producers)
            .map(|producer| {
                let begin = &begin;
                scope.spawn(move || {
                    let range = keys.of_producer(producer, producers);
                    let mut newest = vec![1; range.len()];
                    begin.wait();
                    let began = Instant::now();
                    for &key in &draws.0[producer] {
                        let seq: &mut u64 = &mut newest[key as usize - range.start];
                        *seq += 1;
                        let object = Object::new(producer as u32, key, *seq);
                        peer.update(keys.key(key as usize).clone(), object);
                    }
                    (began, newest)
                })
            })
            .collect();
        begin.wait();
        let (began, newest): (Vec<Instant>, Vec<Vec<u64>>) =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).unzip();
        let began = began.into_iter().min().expect("a producer");
        peer.close();
        let mut total = Tally::default();
        for thread in consumers {
            let tally = thread.join().expect("no panic");
            total.leases += tally.leases;
            total.changes += tally.changes;
        }
        (began.elapsed(), newest.concat(), total)
    });
    let offered: u64 = draws.0.iter().map(|draws| draws.len() as u64).sum();
    let known = keys.len() as u64;
    let all = Tally { leases: tally.leases + known, changes: tally.changes + known };
    check_books(peer, &ledger, offered + known, all, |key| newest[key]);
    Overloaded { elapsed, offered, leases: tally.leases, violations: ledger.into_violations() }
}

/// Completes before the lease ends: without a window the key's next lease may follow at once.
struct Gathering<'a>(Checker<'a>);

impl Handler for Gathering<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.0.lease(key, deltas);
        self.0.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, Sharded, ShardedMutex};

    fn check<P: Peer>() {
        let keys = KeySet::new(100, 1);
        for which in [Keys::Uniform, Keys::Zipf] {
            let found = run(&P::new(), &Draws::new(&keys, which, 2, 4_000, 1), 2, &keys);
            assert_eq!((found.violations, found.offered), (Vec::new(), 4_000));
            assert!(found.leases <= 4_000 && (P::GATHERS || found.leases == 4_000));
        }
    }

    #[test]
    fn every_change_arrives_gathered_or_not() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<Papaya>();
        check::<ShardedMutex>();
        check::<RealFifo>();
    }

    #[test]
    fn draws_are_as_skewed_as_they_are_said_to_be() {
        let keys = KeySet::new(1_000, 1);
        let first = |which| {
            let Draws(draws) = Draws::new(&keys, which, 1, 100_000, 7);
            draws[0].iter().filter(|&&key| key == 0).count()
        };
        // 1 in 1,000, and 1 in 7.7 (the sum of n^-0.99 up to 1,000).
        assert!((50..200).contains(&first(Keys::Uniform)));
        assert!((12_000..14_000).contains(&first(Keys::Zipf)), "{}", first(Keys::Zipf));
    }

    #[test]
    fn broken_queues_are_found_out() {
        let keys = KeySet::new(100, 1);
        let draws = Draws::new(&keys, Keys::Uniform, 1, 4_000, 1);
        for (fault, by) in [
            // Each later change of the key is one too far, until nothing more is reported.
            (Fault::LosesAChange, "change"),
            (Fault::DeliversAnOldChangeAgain, "change"),
            (Fault::KnowsAnOldObject, "is known instead of"),
            (Fault::CountsAMergeThatNeverWas, "merged"),
        ] {
            let violations = run(&Broken::with(fault), &draws, 1, &keys).violations;
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }
}
