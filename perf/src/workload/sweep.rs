//! What a snapshot has kept goes when it is dropped, bit by bit: how long that drop takes, and the consumers' calls that take
//! the rest away. One thread; the same calls with nothing to take away, for comparison.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use delta_fifo::{Builder, DeltaFifo, DeltaQueue, Lease, TryPopError};
use hdrhistogram::Histogram;

use super::paced::{latencies, record};
use super::{Key, KeySet, Object};
use crate::peers::Hashing;

/// The calls that are timed; the last is a pop that finds nothing in line.
pub const CALLS: [&str; 4] = ["drop", "pop", "done", "empty pop"];
const DROP: usize = 0;
const POP: usize = 1;
const DONE: usize = 2;
const LOOK: usize = 3;

#[derive(Debug)]
pub struct Sweep {
    /// Nanoseconds, in the order of [`CALLS`]: from the drop until no old version is left.
    pub with: [Histogram<u64>; CALLS.len()],
    /// As many of the same calls when nothing has been left.
    pub without: [Histogram<u64>; CALLS.len()],
    pub violations: Vec<String>,
}

type Queue<'g> = DeltaFifo<Key, Counted<'g>, Hashing>;

/// An object that is missed when it is gone.
struct Counted<'g> {
    _object: Object,
    gone: &'g AtomicUsize,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Relaxed: one thread.
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

struct Run<'a> {
    queue: Queue<'a>,
    keys: &'a KeySet,
    gone: &'a AtomicUsize,
    made: usize,
}

/// So many snapshots, one after the other; all keys change while each is held.
pub fn run(keys: &KeySet, snapshots: usize) -> Sweep {
    let gone = AtomicUsize::new(0);
    let mut run = Run { queue: Builder::with_hasher(Hashing::default()).build(), keys, gone: &gone, made: 0 };
    let calls = || [(); CALLS.len()].map(|()| latencies());
    let mut sweep = Sweep { with: calls(), without: calls(), violations: Vec::new() };
    run.change_all();
    for number in 0..snapshots {
        if let Err(wrong) = run.snapshot(&mut sweep) {
            sweep.violations.push(format!("snapshot {number}: {wrong}"));
            break;
        }
    }
    sweep
}

impl<'a> Run<'a> {
    fn change(&mut self, number: usize) {
        self.made += 1;
        let (object, gone) = (Object::new(0, number as u32, self.made as u64), self.gone);
        let change = Counted { _object: object, gone };
        self.queue.update(self.keys.key(number).clone(), change).expect("the queue is open");
    }

    fn change_all(&mut self) {
        for number in 0..self.keys.len() {
            self.change(number);
            self.queue.try_pop().expect("one is in line").done();
        }
    }

    /// Versions that are not the newest of their key.
    fn old(&self) -> usize {
        // Relaxed: one thread.
        self.made - self.gone.load(Ordering::Relaxed) - self.keys.len()
    }

    fn snapshot(&mut self, sweep: &mut Sweep) -> Result<(), String> {
        let all = self.keys.len();
        let snapshot = self.queue.snapshot();
        self.change_all();
        if self.old() != all {
            return Err(format!("{} old versions of {all} keys", self.old()));
        }
        timed(&mut sweep.with[DROP], || drop(snapshot));
        let (mut leases, mut looks) = (0, 0);
        // Half of what there is while consumers have something to do, the rest when there is nothing.
        while self.old() > all / 2 {
            self.lease(leases, &mut sweep.with)?;
            leases += 1;
            if leases > all {
                return Err(format!("{} old versions after {leases} leases", self.old()));
            }
        }
        while self.old() > 0 {
            self.look(&mut sweep.with)?;
            looks += 1;
            if looks > all {
                return Err(format!("{} old versions when nobody has anything to do", self.old()));
            }
        }
        let snapshot = self.queue.snapshot();
        timed(&mut sweep.without[DROP], || drop(snapshot));
        (0..leases).try_for_each(|number| self.lease(number, &mut sweep.without))?;
        (0..looks).try_for_each(|_| self.look(&mut sweep.without))
    }

    /// Of a key that has changed once more.
    fn lease(&mut self, number: usize, calls: &mut [Histogram<u64>]) -> Result<(), String> {
        self.change(number % self.keys.len());
        let lease = timed(&mut calls[POP], || self.queue.try_pop());
        let lease = lease.map_err(|error| format!("a pop said {error:?}"))?;
        timed(&mut calls[DONE], || Lease::done(lease));
        Ok(())
    }

    fn look(&self, calls: &mut [Histogram<u64>]) -> Result<(), String> {
        match timed(&mut calls[LOOK], || self.queue.try_pop()) {
            Err(TryPopError::Empty) => Ok(()),
            other => Err(format!("a pop of nothing said {:?}", other.map(|_| ()))),
        }
    }
}

fn timed<R>(calls: &mut Histogram<u64>, call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    record(calls, start.elapsed());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_recorded_until_nothing_is_left() {
        let sweep = run(&KeySet::new(5_000, 1), 3);
        assert_eq!(sweep.violations, [""; 0]);
        for (with, without) in sweep.with.iter().zip(&sweep.without) {
            assert_eq!(with.len(), without.len());
            assert!(!with.is_empty());
        }
        assert_eq!((sweep.with[DROP].len(), sweep.with[POP].len()), (3, sweep.with[DONE].len()));
    }
}
