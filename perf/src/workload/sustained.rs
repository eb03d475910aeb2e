//! W1r: steady updates of known keys at a fixed rate, one producer, and the highest rate at which the line keeps up.
//!
//! A change is due at a fixed moment, and its latency counts from then until the consumer has its lease: a change that comes late
//! because the producer was held up has waited too. A rate is *sustained* if the 99th percentile of these latencies is at most
//! [`Search::limit`], the last change is made no later than that, and no more changes are on their way then than come in within
//! the limit: so the backlog does not grow. The rate is found by bisection, with short attempts, and then confirmed by a longer
//! one; if that fails, lower ones are tried until one holds. An attempt that fails has a second chance.
//!
//! One queue, one set of threads: between two attempts all is handed out. The producer waits for its moments without sleeping;
//! what it waits is no part of the processor time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::checks::{Checker, Ledger, Tally, check_books, is_drained};
use super::paced::{latencies, record};
use super::window::{DoneCounters, Stuck, Window};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};
use crate::system::Usage;

#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub consumers: usize,
    /// The 99th percentile from the intended start to the lease.
    pub limit: Duration,
    /// Of an attempt.
    pub short: Duration,
    /// Of the one that confirms.
    pub long: Duration,
    /// Changes per second: the rate that is tried first. The nearer it is to what is looked for, the sooner that is found.
    pub first: f64,
    /// No rate above is tried.
    pub highest: f64,
    pub patience: Duration,
}

#[derive(Debug, Default)]
pub struct Sustained {
    /// `None`: none was.
    pub best: Option<Confirmed>,
    pub attempts: usize,
    pub violations: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Confirmed {
    /// Changes per second.
    pub rate: f64,
    pub p99: Duration,
    /// `None` where the system does not tell.
    pub cpu_per_million: Option<Duration>,
}

/// So often a lower rate is tried when the one that was found does not hold for longer.
const CONFIRMATIONS: usize = 20;
/// No rate below is tried.
pub const LOWEST: f64 = 1e3;
/// The two ends of the bisection are that near in the end.
const NEAR: f64 = 1.03;

pub fn run<P: Peer>(peer: &P, search: &Search, keys: &KeySet) -> Sustained {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, search.consumers);
    let schedule = Schedule::new(search.consumers);
    let mut found = Sustained::default();
    let mut made = 0;
    let tally = thread::scope(|scope| {
        let consumers: Vec<_> = (0..search.consumers)
            .map(|consumer| {
                let checker = Checker::new(&ledger, &done, consumer, 1);
                let mut handler = Timed { checker, schedule: &schedule, consumer, keys: keys.len() as u64 };
                scope.spawn(move || {
                    while peer.pop(&mut handler) {}
                    handler.checker.tally
                })
            })
            .collect();
        let width = (keys.len() / 2).max(1);
        let drained = || is_drained(peer, &ledger);
        let mut producer = Producer {
            peer,
            keys,
            search,
            schedule: &schedule,
            done: &done,
            window: Window::new(&drained, &done, &ledger, 0, width, search.patience),
            made: 0,
        };
        // Who is stuck has said why.
        if let Ok(best) = producer.fill().and_then(|()| producer.search(&mut found.attempts)) {
            found.best = best;
        }
        made = producer.made;
        peer.close();
        consumers.into_iter().fold(Tally::default(), |total, thread| {
            let tally = thread.join().expect("no panic");
            Tally { leases: total.leases + tally.leases, changes: total.changes + tally.changes }
        })
    });
    if !ledger.is_stopped() {
        let newest =
            |key: usize| made / keys.len() as u64 + u64::from((key as u64) < made % keys.len() as u64);
        check_books(peer, &ledger, made, tally, newest);
    }
    found.violations = ledger.into_violations();
    found
}

/// When the changes of an attempt are due, as consumers must know it.
struct Schedule {
    epoch: Instant,
    /// Nanoseconds after the epoch at which the first is due.
    start: AtomicU64,
    /// The number of that change.
    first: AtomicU64,
    /// Bits of the nanoseconds from one to the next.
    gap: AtomicU64,
    by_consumer: Vec<Mutex<Histogram<u64>>>,
}

impl Schedule {
    fn new(consumers: usize) -> Self {
        Self {
            epoch: Instant::now(),
            start: AtomicU64::new(0),
            first: AtomicU64::new(0),
            gap: AtomicU64::new(0),
            by_consumer: (0..consumers).map(|_| Mutex::new(latencies())).collect(),
        }
    }

    /// Nothing is on its way.
    fn begin(&self, first: u64, gap: f64) {
        // Relaxed: published with the first change that needs them.
        self.start.store(self.now() + 20_000, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
        self.gap.store(gap.to_bits(), Ordering::Relaxed);
        self.by_consumer.iter().for_each(|histogram| histogram.lock().reset());
    }

    #[inline]
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    #[inline]
    fn due(&self, number: u64) -> u64 {
        let since = number.saturating_sub(self.first.load(Ordering::Relaxed));
        let gap = f64::from_bits(self.gap.load(Ordering::Relaxed));
        self.start.load(Ordering::Relaxed) + (since as f64 * gap) as u64
    }

    fn merged(&self) -> Histogram<u64> {
        let mut all = latencies();
        self.by_consumer.iter().for_each(|one| all.add(&*one.lock()).expect("the same bounds"));
        all
    }
}

struct Producer<'a, P> {
    peer: &'a P,
    keys: &'a KeySet,
    search: &'a Search,
    schedule: &'a Schedule,
    done: &'a DoneCounters,
    window: Window<'a>,
    /// Changes, the first of each key too.
    made: u64,
}

/// What came of an attempt.
struct Attempt {
    is_sustained: bool,
    p99: Duration,
    cpu_per_million: Option<Duration>,
}

impl<P: Peer> Producer<'_, P> {
    /// Makes all keys known.
    fn fill(&mut self) -> Result<(), Stuck> {
        for number in 0..self.keys.len() {
            self.window.reserve(1)?;
            self.made += 1;
            self.peer.add(self.keys.key(number).clone(), Object::new(0, number as u32, 1));
        }
        self.window.drain()
    }

    fn search(&mut self, attempts: &mut usize) -> Result<Option<Confirmed>, Stuck> {
        let Search { short, long, first, highest, .. } = *self.search;
        let mut attempt = |rate, time| {
            *attempts += 1;
            let first = self.attempt(rate, time)?;
            // Something else may have held it up, which would count for all that follows.
            if first.is_sustained { Ok(first) } else { self.attempt(rate, time) }
        };
        let (mut good, mut bad) = (LOWEST, first);
        while bad < highest && attempt(bad, short)?.is_sustained {
            (good, bad) = (bad, 2.0 * bad);
        }
        // Not even the first is: down, until one is.
        if good == LOWEST {
            while bad > 2.0 * LOWEST && !attempt(bad / 2.0, short)?.is_sustained {
                bad /= 2.0;
            }
            good = LOWEST.max(bad / 2.0);
        }
        while bad / good > NEAR {
            let middle = (good * bad).sqrt();
            if attempt(middle, short)?.is_sustained { good = middle } else { bad = middle }
        }
        for _ in 0..CONFIRMATIONS {
            if good < LOWEST {
                break;
            }
            let Attempt { is_sustained, p99, cpu_per_million } = attempt(good, long)?;
            if is_sustained {
                return Ok(Some(Confirmed { rate: good, p99, cpu_per_million }));
            }
            good /= NEAR;
        }
        Ok(None)
    }

    fn attempt(&mut self, rate: f64, time: Duration) -> Result<Attempt, Stuck> {
        let calls = ((rate * time.as_secs_f64()) as u64).max(20);
        let limit = self.search.limit.as_nanos() as u64;
        let first = self.made;
        let usage = Usage::now();
        self.schedule.begin(first, 1e9 / rate);
        let mut waited = 0;
        let mut late = 0;
        for number in first..first + calls {
            let (due, before) = (self.schedule.due(number), self.schedule.now());
            let mut now = before;
            while now < due {
                std::hint::spin_loop();
                now = self.schedule.now();
            }
            waited += now - before;
            late = now.saturating_sub(due);
            // It will not catch up, and what follows says nothing more.
            if late > 20 * limit {
                break;
            }
            let len = self.keys.len() as u64;
            let (key, seq) = ((number % len) as usize, number / len + 1);
            self.peer.update(self.keys.key(key).clone(), Object::new(0, key as u32, seq));
            self.made += 1;
        }
        let made = self.made - first;
        // A broken queue may have handed out more than came in.
        let on_their_way = self.made.saturating_sub(self.done.of_producer(0));
        self.window.issue(made);
        self.window.drain()?;
        let used = Usage::now().zip(usage).map(|(now, before)| now.since(before).cpu);
        let p99 = self.schedule.merged().value_at_quantile(0.99);
        Ok(Attempt {
            is_sustained: p99 <= limit
                && late <= limit
                && on_their_way as f64 <= rate * self.search.limit.as_secs_f64(),
            p99: Duration::from_nanos(p99),
            cpu_per_million: used.map(|cpu| {
                cpu.saturating_sub(Duration::from_nanos(waited)).mul_f64(1e6 / made.max(1) as f64)
            }),
        })
    }
}

/// Checks a lease, and records how long its changes have waited.
struct Timed<'a> {
    checker: Checker<'a>,
    schedule: &'a Schedule,
    consumer: usize,
    keys: u64,
}

impl Handler for Timed<'_> {
    #[inline]
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let now = self.schedule.now();
        let mut histogram = self.schedule.by_consumer[self.consumer].lock();
        let deltas = deltas.inspect(|(_, object)| {
            let due = self.schedule.due((object.seq - 1) * self.keys + u64::from(object.key));
            record(&mut histogram, Duration::from_nanos(now.saturating_sub(due)));
        });
        self.checker.lease(key, deltas);
        drop(histogram);
        // Before the lease ends: without a window the key's next lease may follow at once.
        self.checker.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Papaya, Parking, RealFifo, Sharded, ShardedMutex};

    const SEARCH: Search = Search {
        consumers: 2,
        limit: Duration::from_millis(5),
        short: Duration::from_millis(5),
        long: Duration::from_millis(10),
        first: 100e3,
        highest: 10e6,
        patience: Duration::from_secs(20),
    };

    fn check<P: Peer>() {
        let found = run(&P::new(), &SEARCH, &KeySet::new(500, 1));
        assert_eq!(found.violations, [""; 0]);
        assert!(found.attempts > 1);
        if let Some(Confirmed { rate, p99, .. }) = found.best {
            assert!(rate >= LOWEST && p99 <= SEARCH.limit);
        }
    }

    #[test]
    fn a_rate_is_found_for_every_peer() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<Papaya>();
        check::<ShardedMutex>();
        check::<RealFifo>();
    }

    #[test]
    fn a_first_rate_that_is_too_high_does_no_harm() {
        // Nobody makes so many, but all are sustained that are made in time.
        let search = Search { limit: Duration::from_millis(50), first: 1e9, highest: 4e9, ..SEARCH };
        let found = run(&Parking::new(), &search, &KeySet::new(500, 1));
        assert_eq!(found.violations, [""; 0]);
        assert!(found.best.is_none_or(|best| (LOWEST..1e9).contains(&best.rate)), "{found:?}");
    }

    #[test]
    fn nothing_is_sustained_within_no_time() {
        let search = Search { limit: Duration::ZERO, ..SEARCH };
        let found = run(&Parking::new(), &search, &KeySet::new(500, 1));
        assert_eq!((found.violations, found.best.map(|best| best.rate)), (Vec::new(), None));
    }

    #[test]
    fn broken_queues_are_found_out() {
        // No latency is longer, so all rates are sustained however slow this is, and some thousand changes are made: the faults
        // show at number 1,500.
        let search = Search { limit: Duration::from_secs(60), highest: 400e3, ..SEARCH };
        for (fault, by) in [
            (Fault::LosesAChange, "changes are lost"),
            (Fault::DeliversAnOldChangeAgain, "delivered after"),
            (Fault::LeasesAKeyTwice, "delivered after"),
            (Fault::ForgetsAKnownObject, "not known"),
        ] {
            let found = run(&Broken::with(fault), &search, &KeySet::new(200, 1));
            assert!(found.violations.iter().any(|text| text.contains(by)), "{fault:?}: {found:?}");
        }
    }
}
