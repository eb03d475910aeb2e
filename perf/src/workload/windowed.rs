//! W1, windowed: steady updates of known keys, in a random permutation.
//!
//! Every producer has keys of its own and goes round them, at most min(1024, keys/2)/P changes ahead of what is done. So
//! nothing coalesces: every change is one pop, and all peers do the same work. (Without the window the slower consumer is
//! handed fewer, larger leases, and the slower queue may print the better figure.)
//!
//! Lap 0 adds every key, one by one, by the threads that are timed later: it makes the objects known, and warms caches and
//! allocators. The clock runs from the moment when all producers have drained it to the moment when the last of them sees
//! its last change done.

use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::checks::{Checker, Ledger, Tally, check_end, is_drained};
use super::window::{DoneCounters, Stuck, Window};
use super::{Case, KeySet, Object, Outcome};
use crate::peers::Peer;

pub(super) const WIDEST_WINDOW: usize = 1024;

/// How many changes of one producer may be under way.
pub fn width(known: usize, case: &Case) -> usize {
    (WIDEST_WINDOW.min(known / 2) / case.producers).max(case.batch)
}

pub fn run<P: Peer>(peer: &P, case: &Case, keys: &KeySet) -> Outcome {
    let ledger = Ledger::new(keys);
    let run = Run {
        peer,
        case,
        keys,
        ledger: &ledger,
        done: DoneCounters::new(case.producers, case.consumers),
        filled: Barrier::new(case.producers),
        producing: AtomicUsize::new(case.producers),
    };
    let (elapsed, tally) = run.threads();
    let rounds: Vec<Round> = (0..case.producers).map(|producer| run.round_of(producer)).collect();
    let offered = rounds.iter().map(|round| (round.len + round.changes) as u64).sum();
    if !ledger.is_stopped() {
        check_end(peer, &ledger, offered, tally, |key| {
            rounds.iter().find_map(|round| round.newest(key)).expect("every key has a producer")
        });
    }
    let changes = rounds.iter().map(|round| round.changes).sum();
    Outcome { elapsed, changes, violations: ledger.into_violations() }
}

struct Run<'a, P> {
    peer: &'a P,
    case: &'a Case,
    keys: &'a KeySet,
    ledger: &'a Ledger<'a>,
    done: DoneCounters,
    /// All producers have drained lap 0.
    filled: Barrier,
    producing: AtomicUsize,
}

/// The way of one producer: its keys, over and over.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) first: usize,
    pub(super) len: usize,
    /// Timed changes, after lap 0.
    pub(super) changes: usize,
}

impl Round {
    /// Key and sequence number of all timed changes; lap 0 made the first change of every key.
    pub(super) fn timed(self) -> impl Iterator<Item = (usize, u64)> {
        (2..).flat_map(move |seq| self.keys().map(move |key| (key, seq))).take(self.changes)
    }

    pub(super) fn keys(self) -> Range<usize> {
        self.first..self.first + self.len
    }

    /// The last sequence number of a key, if it is one of this producer's.
    pub(super) fn newest(&self, key: usize) -> Option<u64> {
        let place = key.checked_sub(self.first).filter(|&place| place < self.len)?;
        let laps = self.changes / self.len + usize::from(place < self.changes % self.len);
        Some(1 + laps as u64)
    }
}

impl<P: Peer> Run<'_, P> {
    fn threads(&self) -> (Duration, Tally) {
        thread::scope(|scope| {
            let consumers: Vec<_> = (0..self.case.consumers)
                .map(|consumer| scope.spawn(move || self.consume(consumer)))
                .collect();
            let producers: Vec<_> = (0..self.case.producers)
                .map(|producer| scope.spawn(move || self.produce(producer)))
                .collect();

            let spans: Vec<Span> =
                producers.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            let began = spans.iter().map(|span| span.began).min().expect("a producer");
            let ended = spans.iter().map(|span| span.ended).max().expect("a producer");
            let mut total = Tally::default();
            for thread in consumers {
                let tally = thread.join().expect("no panic");
                total.leases += tally.leases;
                total.changes += tally.changes;
            }
            (ended - began, total)
        })
    }

    fn round_of(&self, producer: usize) -> Round {
        let keys = self.keys.of_producer(producer, self.case.producers);
        Round { first: keys.start, len: keys.len(), changes: self.case.changes / self.case.producers }
    }

    fn produce(&self, producer: usize) -> Span {
        let round = self.round_of(producer);
        let width = width(self.keys.len(), self.case);
        let drained = || is_drained(self.peer, self.ledger);
        let mut window = Window::new(&drained, &self.done, self.ledger, producer, width, self.case.patience);

        let filled = self.fill(producer, round, &mut window);
        self.filled.wait();
        let began = Instant::now();
        // Who is stuck has stopped the run and said why.
        let _ = filled.and_then(|()| match self.case.batch {
            1 => self.update_one_by_one(producer, round, &mut window),
            _ => self.update_in_batches(producer, round, &mut window),
        });
        let ended = Instant::now();

        if self.producing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.peer.close();
        }
        Span { began, ended }
    }

    fn fill(&self, producer: usize, round: Round, window: &mut Window<'_>) -> Result<(), Stuck> {
        for key in round.keys() {
            window.reserve(1)?;
            self.peer.add(self.keys.key(key).clone(), object(producer, key, 1));
        }
        window.drain()
    }

    fn update_one_by_one(&self, producer: usize, round: Round, window: &mut Window<'_>) -> Result<(), Stuck> {
        for (key, seq) in round.timed() {
            window.reserve(1)?;
            window.wait_for_key(key, seq)?;
            self.peer.update(self.keys.key(key).clone(), object(producer, key, seq));
        }
        window.drain()
    }

    fn update_in_batches(&self, producer: usize, round: Round, window: &mut Window<'_>) -> Result<(), Stuck> {
        let mut scratch = P::Scratch::default();
        let mut batch = Vec::with_capacity(self.case.batch);
        let mut timed = round.timed();
        let mut left = round.changes;
        while left > 0 {
            let count = left.min(self.case.batch);
            window.reserve(count)?;
            for (key, seq) in timed.by_ref().take(count) {
                window.wait_for_key(key, seq)?;
                batch.push((self.keys.key(key).clone(), object(producer, key, seq)));
            }
            self.peer.update_all(&mut batch, &mut scratch);
            left -= count;
        }
        window.drain()
    }

    fn consume(&self, consumer: usize) -> Tally {
        let mut checker = Checker::new(self.ledger, &self.done, consumer, self.case.producers);
        match self.case.batch {
            1 => {
                while self.peer.pop(&mut checker) {
                    checker.complete();
                }
            }
            max => {
                let mut scratch = P::Scratch::default();
                while self.peer.pop_batch(max, &mut checker, &mut scratch) > 0 {
                    checker.complete();
                }
            }
        }
        checker.tally
    }
}

struct Span {
    began: Instant,
    ended: Instant,
}

#[inline]
fn object(producer: usize, key: usize, seq: u64) -> Object {
    Object::new(producer as u32, key as u32, seq)
}
