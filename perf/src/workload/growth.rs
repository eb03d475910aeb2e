//! What a producer's add costs while the tables grow: fresh keys only, call after call.

use std::thread;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::checks::{Checker, Ledger, Tally, check_books};
use super::paced::{latencies, record};
use super::window::DoneCounters;
use super::{KeySet, Object};
use crate::peers::Peer;

#[derive(Debug)]
pub struct Growth {
    /// Nanoseconds of each call.
    pub latencies: Histogram<u64>,
    pub violations: Vec<String>,
}

/// Adds all keys, with a consumer at work or with nobody; in the end everything is popped and checked.
pub fn run<P: Peer>(peer: &P, with_consumer: bool, keys: &KeySet) -> Growth {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, 1);
    let mut checker = Checker::new(&ledger, &done, 0, 1);
    let mut consume = move || -> Tally {
        while peer.pop(&mut checker) {
            checker.complete();
        }
        checker.tally
    };
    let (latencies, tally) = thread::scope(|scope| {
        if with_consumer {
            let consumer = scope.spawn(consume);
            let latencies = produce(peer, keys);
            peer.close();
            (latencies, consumer.join().expect("no panic"))
        } else {
            let latencies = produce(peer, keys);
            if peer.pending_len() != keys.len() {
                ledger.violation(format_args!("{} of {} keys pending", peer.pending_len(), keys.len()));
            }
            peer.close();
            (latencies, consume())
        }
    });
    check_books(peer, &ledger, keys.len() as u64, tally, |_| 1);
    Growth { latencies, violations: ledger.into_violations() }
}

fn produce<P: Peer>(peer: &P, keys: &KeySet) -> Histogram<u64> {
    let mut calls = latencies();
    for number in 0..keys.len() {
        let (key, object) = (keys.key(number).clone(), Object::new(0, number as u32, 1));
        let start = Instant::now();
        peer.add(key, object);
        record(&mut calls, start.elapsed());
    }
    calls
}

/// The same loop without a queue: the clock, the recorder, and whatever else interrupts the thread.
pub fn empty(keys: &KeySet) -> Histogram<u64> {
    let mut calls = latencies();
    for number in 0..keys.len() {
        let (key, object) = (keys.key(number).clone(), Object::new(0, number as u32, 1));
        let start = Instant::now();
        drop(std::hint::black_box((key, Box::new(object))));
        record(&mut calls, start.elapsed());
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, ShardedMutex};

    fn check<P: Peer>() {
        let keys = KeySet::new(5_000, 1);
        for with_consumer in [false, true] {
            let growth = run(&P::new(), with_consumer, &keys);
            assert_eq!(growth.violations, [""; 0]);
            assert_eq!(growth.latencies.len(), 5_000);
            assert!(growth.latencies.max() < Duration::from_secs(60).as_nanos() as u64);
        }
    }

    #[test]
    fn every_add_is_recorded_and_everything_arrives() {
        check::<Baseline>();
        check::<Parking>();
        check::<ShardedMutex>();
        check::<Papaya>();
        check::<RealFifo>();
        assert_eq!(empty(&KeySet::new(100, 1)).len(), 100);
    }
}
