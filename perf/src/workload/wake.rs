//! W8: how soon a consumer has an event after the queue was idle, and what waiting costs.
//!
//! One producer, one consumer, one event at a time. When an event is handled, the producer waits for the gap without sleeping, and
//! makes the next change; the time runs from before the call until the handler has the lease. The row of reference is a
//! thread that parks, and is unparked, with no queue in between.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::checks::{Checker, Ledger, check_books, is_drained};
use super::paced::{latencies, record};
use super::window::{DoneCounters, Looks};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};
use crate::system::Usage;

#[derive(Clone, Copy, Debug)]
pub struct Gaps {
    pub gap: Duration,
    pub events: usize,
    /// How long an event may be on its way before the run counts as stuck.
    pub patience: Duration,
}

#[derive(Debug)]
pub struct Woken {
    /// Nanoseconds.
    pub latencies: Histogram<u64>,
    /// How often a thread went to sleep. `None` where the system does not tell.
    pub sleeps: Option<u64>,
    pub violations: Vec<String>,
}

/// The moment before the producer's call, for the consumer.
struct Clock {
    epoch: Instant,
    called: AtomicU64,
}

impl Clock {
    fn new() -> Self {
        Self { epoch: Instant::now(), called: AtomicU64::new(0) }
    }

    fn start(&self) {
        // Relaxed: published with the event.
        self.called.store(self.epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn stop(&self) -> Duration {
        self.epoch.elapsed().saturating_sub(Duration::from_nanos(self.called.load(Ordering::Relaxed)))
    }
}

/// Event after event, until one is lost or is on its way for too long, which is what is returned.
fn produce(
    gaps: &Gaps,
    clock: &Clock,
    mut event: impl FnMut(usize),
    handled: impl Fn() -> u64,
    is_drained: impl Fn() -> bool,
) -> Option<&'static str> {
    for number in 0..gaps.events {
        spin_for(gaps.gap);
        clock.start();
        event(number);
        let mut looks = Looks::begin();
        let is_handled = || handled() > number as u64;
        while !is_handled() {
            // In this order: what was drained is handled.
            if looks.is_due() && is_drained() && !is_handled() {
                return Some("an event is lost");
            }
            if looks.began.elapsed() > gaps.patience {
                return Some("an event has woken nobody");
            }
            std::hint::spin_loop();
        }
    }
    None
}

fn spin_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn sleeps_since(before: Option<Usage>) -> Option<u64> {
    Usage::now().zip(before).map(|(now, before)| now.since(before).sleeps)
}

pub fn run<P: Peer>(peer: &P, gaps: &Gaps, keys: &KeySet) -> Woken {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, 1);
    let clock = Clock::new();
    let mut handler =
        Timed { checker: Checker::new(&ledger, &done, 0, 1), clock: &clock, waits: latencies() };
    // All are known before the first gap.
    for number in 0..keys.len() {
        peer.add(keys.key(number).clone(), Object::new(0, number as u32, 1));
        peer.pop(&mut handler);
    }
    handler.waits.reset();
    let known = keys.len() as u64;
    let (handler, sleeps) = thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            while peer.pop(&mut handler) {}
            handler
        });
        let before = Usage::now();
        let event = |number: usize| {
            let (lap, key) = (number / keys.len(), number % keys.len());
            peer.update(keys.key(key).clone(), Object::new(0, key as u32, lap as u64 + 2));
        };
        let handled = || done.of_producer(0) - known;
        if let Some(why) = produce(gaps, &clock, event, handled, || is_drained(peer, &ledger)) {
            ledger.stop(format_args!("stuck: {why}"));
        }
        let sleeps = sleeps_since(before);
        peer.close();
        (consumer.join().expect("no panic"), sleeps)
    });
    let Timed { checker: Checker { tally, .. }, waits, .. } = handler;
    if !ledger.is_stopped() {
        let newest =
            |key: usize| (1 + gaps.events / keys.len() + usize::from(key < gaps.events % keys.len())) as u64;
        check_books(peer, &ledger, known + gaps.events as u64, tally, newest);
    }
    Woken { latencies: waits, sleeps, violations: ledger.into_violations() }
}

/// A thread that parks.
pub fn bare(gaps: &Gaps) -> Woken {
    let clock = Clock::new();
    let (sent, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let (waits, sleeps) = thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut waits = latencies();
            for number in 1..=gaps.events as u64 {
                // Acquire, Release: the event, and that it is handled.
                while sent.load(Ordering::Acquire) < number {
                    thread::park();
                }
                record(&mut waits, clock.stop());
                seen.store(number, Ordering::Release);
            }
            waits
        });
        let before = Usage::now();
        let event = |number: usize| {
            sent.store(number as u64 + 1, Ordering::Release);
            consumer.thread().unpark();
        };
        let all = Gaps { patience: Duration::MAX, ..*gaps };
        produce(&all, &clock, event, || seen.load(Ordering::Acquire), || false);
        let sleeps = sleeps_since(before);
        (consumer.join().expect("no panic"), sleeps)
    });
    Woken { latencies: waits, sleeps, violations: Vec::new() }
}

/// Processor time while so many consumers wait in an idle queue, as a part of the time; then one event, which one of them gets.
pub fn idle<P: Peer>(
    peer: &P,
    consumers: usize,
    time: Duration,
    keys: &KeySet,
) -> (Option<f64>, Vec<String>) {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, consumers);
    let begin = Barrier::new(consumers + 1);
    let (used, tally) = thread::scope(|scope| {
        let threads: Vec<_> = (0..consumers)
            .map(|consumer| {
                let mut checker = Checker::new(&ledger, &done, consumer, 1);
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    while peer.pop(&mut checker) {
                        checker.complete();
                    }
                    checker.tally
                })
            })
            .collect();
        begin.wait();
        let used = used_in(time);
        for number in 0..keys.len() {
            peer.add(keys.key(number).clone(), Object::new(0, number as u32, 1));
        }
        peer.close();
        let tallies: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let mut total = tallies[0];
        for tally in &tallies[1..] {
            total.leases += tally.leases;
            total.changes += tally.changes;
        }
        (used, total)
    });
    check_books(peer, &ledger, keys.len() as u64, tally, |_| 1);
    (used, ledger.into_violations())
}

/// The same for threads that are parked.
pub fn idle_bare(threads: usize, time: Duration) -> Option<f64> {
    let (begin, end) = (Barrier::new(threads + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let parked: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    while !end.load(Ordering::Acquire) {
                        thread::park();
                    }
                })
            })
            .collect();
        begin.wait();
        let used = used_in(time);
        end.store(true, Ordering::Release);
        parked.iter().for_each(|thread| thread.thread().unpark());
        used
    })
}

/// Of one processor, in percent. The first moment, in which threads settle, does not count.
fn used_in(time: Duration) -> Option<f64> {
    thread::sleep(Duration::from_millis(20));
    let (before, began) = (Usage::now()?, Instant::now());
    thread::sleep(time);
    let used = Usage::now()?.since(before).cpu;
    Some(100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Checks a lease, and looks at the clock first.
struct Timed<'a> {
    checker: Checker<'a>,
    clock: &'a Clock,
    waits: Histogram<u64>,
}

impl Handler for Timed<'_> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        record(&mut self.waits, self.clock.stop());
        self.checker.lease(key, deltas);
        self.checker.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, Sharded, ShardedMutex};

    const GAPS: Gaps =
        Gaps { gap: Duration::from_micros(200), events: 50, patience: Duration::from_secs(20) };

    fn check<P: Peer>() {
        let keys = KeySet::new(20, 1);
        let woken = run(&P::new(), &GAPS, &keys);
        assert_eq!((woken.violations, woken.latencies.len()), (Vec::new(), 50));
        let (used, violations) = idle(&P::new(), 4, Duration::from_millis(20), &keys);
        assert_eq!(violations, [""; 0]);
        assert!(used.is_none_or(|percent| percent >= 0.0));
    }

    #[test]
    fn every_event_wakes() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<Papaya>();
        check::<ShardedMutex>();
        check::<RealFifo>();
        assert_eq!(bare(&GAPS).latencies.len(), 50);
        // Of the whole process, and so of the other tests too.
        assert!(idle_bare(4, Duration::from_millis(5)).is_none_or(|percent| percent >= 0.0));
    }

    #[test]
    fn a_consumer_that_sleeps_is_counted() {
        // Longer than anybody spins.
        let gaps = Gaps { gap: Duration::from_millis(5), events: 5, ..GAPS };
        assert!(bare(&gaps).sleeps.is_none_or(|sleeps| sleeps >= 4));
    }

    #[test]
    fn broken_queues_are_found_out() {
        for (fault, by) in [
            (Fault::LosesAChange, "lost"),
            (Fault::DeliversAnOldChangeAgain, "delivered after"),
            (Fault::KnowsAnOldObject, "is known instead of"),
        ] {
            let gaps = Gaps { gap: Duration::ZERO, events: 2_000, ..GAPS };
            let violations = run(&Broken::with(fault), &gaps, &KeySet::new(40, 1)).violations;
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }
}
