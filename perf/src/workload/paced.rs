//! W7, open loop: what a producer's calls cost while handlers take their time.
//!
//! One producer, several consumers, few keys: with slow handlers the changes of a key gather while it waits, so the backlog
//! stays small and consumers need not keep up change by change. Calls are due at fixed moments. A latency counts from the
//! moment when its call was *due*: a call that comes late because the one before it was held up has waited too
//! (coordinated omission). The producer waits for these moments without sleeping.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::checks::{Checker, Ledger, Tally, check_books};
use super::window::DoneCounters;
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "description", derive(serde::Serialize, serde::Deserialize))]
pub struct Pace {
    pub consumers: usize,
    /// What every handler does: it sleeps for so long. Zero: nothing.
    #[cfg_attr(feature = "description", serde(with = "super::description::nanoseconds"))]
    pub handler: Duration,
    /// Calls in a second; `None`: one after the other, to learn how many are possible.
    pub rate: Option<f64>,
    pub calls: usize,
    /// All keys are pending when the pace begins, and with handlers that take their time they mostly stay so. Not asked of
    /// programs outside.
    #[cfg_attr(feature = "description", serde(skip))]
    pub pending: bool,
    /// A producer that is not through after this gives up; the calls it still owes have waited until then.
    #[cfg_attr(feature = "description", serde(with = "super::description::nanoseconds"))]
    pub limit: Duration,
}

impl Pace {
    fn pending_before(&self, keys: &KeySet) -> usize {
        if self.pending { keys.len() } else { 0 }
    }
}

#[derive(Debug)]
pub struct Calls {
    /// Nanoseconds from the moment a call was due to its end.
    pub latencies: Histogram<u64>,
    /// From the first call until everything was handled.
    pub elapsed: Duration,
    /// Calls that were still owed at the limit.
    pub owed: usize,
    pub violations: Vec<String>,
}

/// From a nanosecond to a minute, within 0.1 %.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these bounds are allowed")
}

pub(super) fn record(into: &mut Histogram<u64>, latency: Duration) {
    into.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
}

pub fn run<P: Peer>(peer: &P, pace: &Pace, keys: &KeySet) -> Calls {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, pace.consumers);
    let begin = Barrier::new(pace.consumers + 1);
    let is_over = AtomicBool::new(false);
    let handler = |consumer, sleep| {
        let checker = Checker::new(&ledger, &done, consumer, 1);
        Slow { checker, sleep, is_over: &is_over }
    };
    let (mut calls, tally) = thread::scope(|scope| {
        let mut first = handler(0, Duration::ZERO);
        let consumers: Vec<_> = (0..pace.consumers)
            .map(|consumer| {
                let (mut handler, begin) = (handler(consumer, pace.handler), &begin);
                scope.spawn(move || {
                    begin.wait();
                    consume(peer, &mut handler, usize::MAX)
                })
            })
            .collect();
        // All keys are known when the pace begins.
        for number in 0..keys.len() {
            peer.add(keys.key(number).clone(), Object::new(0, number as u32, 1));
        }
        let mut total = consume(peer, &mut first, keys.len());
        let update = |number: usize| {
            let (lap, key) = (number / keys.len(), number % keys.len());
            peer.update(keys.key(key).clone(), Object::new(0, key as u32, lap as u64 + 2));
        };
        let before = pace.pending_before(keys);
        (0..before).for_each(update);
        begin.wait();
        let start = Instant::now();
        let mut calls = produce(pace, start, |number| update(before + number));
        // Relaxed: a hint, with which nothing is published.
        is_over.store(true, Ordering::Relaxed);
        peer.close();
        for thread in consumers {
            let tally = thread.join().expect("no panic");
            total.leases += tally.leases;
            total.changes += tally.changes;
        }
        calls.elapsed = start.elapsed();
        (calls, total)
    });
    check(peer, &ledger, keys, pace.pending_before(keys) + pace.calls - calls.owed, tally);
    calls.violations = ledger.into_violations();
    calls
}

/// The same calls without a queue: what the clock, the recorder and the machine add.
pub fn empty(pace: &Pace) -> Histogram<u64> {
    let call = |number| drop(std::hint::black_box(Box::new(Object::new(0, 0, number as u64))));
    produce(pace, Instant::now(), call).latencies
}

/// Until the queue is closed and empty, or so many leases are done.
fn consume<P: Peer>(peer: &P, handler: &mut Slow<'_>, leases: usize) -> Tally {
    let mut left = leases;
    while left > 0 && peer.pop(handler) {
        left -= 1;
    }
    handler.checker.tally
}

fn produce(pace: &Pace, start: Instant, mut call: impl FnMut(usize)) -> Calls {
    let mut calls =
        Calls { latencies: latencies(), elapsed: Duration::ZERO, owed: 0, violations: Vec::new() };
    // Without a rate each call is due when the one before it is over.
    let due = |number| pace.rate.map(|rate| start + Duration::from_secs_f64(number as f64 / rate));
    for number in 0..pace.calls {
        let mut now = Instant::now();
        let due_now = due(number).unwrap_or(now);
        while now < due_now {
            std::hint::spin_loop();
            now = Instant::now();
        }
        if now - start > pace.limit {
            calls.owed = pace.calls - number;
            // What is not due yet has not waited.
            (number..pace.calls)
                .map_while(|owed| now.checked_duration_since(due(owed)?))
                .for_each(|waited| record(&mut calls.latencies, waited));
            break;
        }
        call(number);
        record(&mut calls.latencies, due_now.elapsed());
    }
    calls
}

fn check<P: Peer>(peer: &P, ledger: &Ledger<'_>, keys: &KeySet, made: usize, tally: Tally) {
    let newest = |key: usize| (1 + made / keys.len() + usize::from(key < made % keys.len())) as u64;
    check_books(peer, ledger, (keys.len() + made) as u64, tally, newest);
}

/// Checks a lease, then takes its time.
struct Slow<'a> {
    checker: Checker<'a>,
    sleep: Duration,
    /// The producer is through: what is left need not take long.
    is_over: &'a AtomicBool,
}

impl Handler for Slow<'_> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.checker.lease(key, deltas);
        if !self.sleep.is_zero() && !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(self.sleep);
        }
        // Before the lease ends: without a window the key's next lease may follow at once.
        self.checker.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Baseline, ClientGo, Papaya, Parking, RealFifo, ShardedMutex};

    fn pace(rate: Option<f64>, handler: Duration) -> Pace {
        Pace { consumers: 3, handler, rate, calls: 2_000, pending: false, limit: Duration::from_secs(20) }
    }

    fn check<P: Peer>() {
        let keys = KeySet::new(20, 1);
        for (rate, handler, pending) in [
            (None, 0, false),
            (Some(50_000.0), 0, true),
            (Some(50_000.0), 1, false),
            (Some(50_000.0), 1, true),
        ] {
            let pace = Pace { pending, ..pace(rate, Duration::from_millis(handler)) };
            let calls = run(&P::new(), &pace, &keys);
            assert_eq!(calls.violations, [""; 0]);
            assert_eq!((calls.latencies.len(), calls.owed), (2_000, 0));
        }
    }

    #[test]
    fn every_call_is_recorded_and_everything_arrives() {
        check::<Baseline>();
        check::<ClientGo>();
        check::<Parking>();
        check::<ShardedMutex>();
        check::<Papaya>();
        check::<RealFifo>();
    }

    #[test]
    fn a_call_that_is_held_up_delays_those_after_it() {
        let mut pace = pace(Some(1_000.0), Duration::ZERO);
        pace.calls = 50;
        // Five calls come due while this one sleeps: they have waited four, three, … milliseconds.
        let slow_once = |number| {
            if number == 10 {
                thread::sleep(Duration::from_millis(5))
            }
        };
        let latencies = produce(&pace, Instant::now(), slow_once).latencies;
        let waited = latencies.count_between(500_000, 60_000_000_000);
        assert!(waited >= 4, "{waited} calls waited");
        assert!(latencies.max() >= 5_000_000);
    }

    #[test]
    fn a_producer_that_cannot_keep_up_gives_up_and_counts_what_it_owes() {
        let mut pace = pace(Some(1_000_000.0), Duration::from_millis(1));
        pace.limit = Duration::from_millis(30);
        let calls = produce(&pace, Instant::now(), |_| thread::sleep(Duration::from_millis(1)));
        assert!(calls.owed > 0);
        assert_eq!(calls.latencies.len(), 2_000, "all were due");
        assert!(calls.latencies.max() >= 25_000_000);
    }
}
