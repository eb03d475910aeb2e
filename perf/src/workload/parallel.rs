//! W7, the other half: how well several workers keep each other from waiting.
//!
//! Every handler sleeps, and changes its own key once more before it ends: so a key is in line again as soon as its lease is
//! over, and with as many keys as workers nobody need ever wait. Beside it as many threads that call the same handlers with no
//! queue in between.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::checks::{Checker, Ledger, Tally, check_books, is_drained};
use super::window::{DoneCounters, LOOK};
use super::{Key, KeySet, Object};
use crate::peers::{Handler, Kind, Peer};

#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub workers: usize,
    /// Of every handler.
    pub sleep: Duration,
    /// Handlers that run for each key.
    pub turns: usize,
    /// How long no handler may end before the run counts as stuck.
    pub patience: Duration,
}

#[derive(Debug)]
pub struct Done {
    /// From the moment when all may begin to the end of the last handler.
    pub elapsed: Duration,
    pub violations: Vec<String>,
}

pub fn run<P: Peer>(peer: &P, work: &Work, keys: &KeySet) -> Done {
    let ledger = Ledger::new(keys);
    let done = DoneCounters::new(1, work.workers);
    let left = AtomicUsize::new(work.turns * keys.len());
    let begin = Barrier::new(work.workers + 1);
    let (tell, told) = mpsc::channel();
    for number in 0..keys.len() {
        peer.add(keys.key(number).clone(), Object::new(0, number as u32, 1));
    }
    let (elapsed, tally) = thread::scope(|scope| {
        let threads: Vec<_> = (0..work.workers)
            .map(|worker| {
                let checker = Checker::new(&ledger, &done, worker, 1);
                let tell = tell.clone();
                let mut handler = Again { peer, work, keys, checker, left: &left, tell, ended: None };
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    let began = Instant::now();
                    while peer.pop(&mut handler) {}
                    (began, handler.ended, handler.checker.tally)
                })
            })
            .collect();
        begin.wait();
        wait(peer, &ledger, &left, work.patience, &told);
        let (mut spans, mut total) = (Vec::new(), Tally::default());
        for thread in threads {
            let (began, ended, tally) = thread.join().expect("no panic");
            spans.push((began, ended));
            total.leases += tally.leases;
            total.changes += tally.changes;
        }
        (whole(&spans), total)
    });
    check_books(peer, &ledger, (work.turns * keys.len()) as u64, tally, |_| work.turns as u64);
    Done { elapsed, violations: ledger.into_violations() }
}

/// From the moment when the first worker may begin, which it notes itself (whoever lets them begin may come later), to the last
/// end of a handler.
fn whole(spans: &[(Instant, Option<Instant>)]) -> Duration {
    let began = spans.iter().map(|(began, _)| *began).min();
    let ended = spans.iter().filter_map(|(_, ended)| *ended).max();
    began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began)
}

/// Until the last handler has ended, or none does any more: because nothing is left for them, or for too long.
fn wait<P: Peer>(
    peer: &P,
    ledger: &Ledger<'_>,
    left: &AtomicUsize,
    patience: Duration,
    told: &mpsc::Receiver<()>,
) {
    let (mut before, mut since) = (usize::MAX, Instant::now());
    while told.recv_timeout(LOOK.min(patience)).is_err() {
        let now = left.load(Ordering::Acquire);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        // In this order: a handler that ran meanwhile, and may have made the key's next change, is no longer one of those left.
        let is_over = now > 0 && is_drained(peer, ledger) && left.load(Ordering::Acquire) == now;
        if is_over || since.elapsed() > patience {
            let why = if is_over { "changes are lost" } else { "none has ended for too long" };
            ledger.stop(format_args!("stuck: {now} handlers are never called, {why}"));
            return peer.close();
        }
    }
}

/// The same handlers, called by so many threads.
pub fn bare(work: &Work, keys: usize) -> Duration {
    let left = AtomicUsize::new(work.turns * keys);
    let begin = Barrier::new(work.workers + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..work.workers)
            .map(|_| {
                scope.spawn(|| {
                    begin.wait();
                    let began = Instant::now();
                    // Relaxed: nothing is published with it.
                    let take = || {
                        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    };
                    while take().is_ok() {
                        thread::sleep(work.sleep);
                    }
                    (began, Some(Instant::now()))
                })
            })
            .collect();
        begin.wait();
        let spans: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        whole(&spans)
    })
}

struct Again<'a, P> {
    peer: &'a P,
    work: &'a Work,
    keys: &'a KeySet,
    checker: Checker<'a>,
    /// Handlers that have not ended, of all.
    left: &'a AtomicUsize,
    /// Whoever waits for the last of them.
    tell: mpsc::Sender<()>,
    ended: Option<Instant>,
}

impl<P: Peer> Handler for Again<'_, P> {
    fn lease<'d>(&mut self, key: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let mut newest = None;
        self.checker.lease(key, deltas.inspect(|(_, object)| newest = Some((object.key, object.seq))));
        thread::sleep(self.work.sleep);
        // What the lease is of is no longer looked at; the key's next lease is another's.
        self.checker.complete();
        let Some((number, seq)) = newest else { return };
        if seq < self.work.turns as u64 {
            self.peer.update(self.keys.key(number as usize).clone(), Object::new(0, number, seq + 1));
        }
        self.ended = Some(Instant::now());
        // AcqRel: whoever is the last closes after all that the others have done.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.peer.close();
            // Who waits no longer has found it stuck.
            _ = self.tell.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, FairParking, Papaya, Parking, Sharded, ShardedMutex};

    const WORK: Work =
        Work { workers: 3, sleep: Duration::from_micros(50), turns: 20, patience: Duration::from_secs(20) };

    fn check<P: Peer>() {
        for keys in [3, 30] {
            let done = run(&P::new(), &WORK, &KeySet::new(keys, 1));
            assert_eq!(done.violations, [""; 0]);
            assert!(done.elapsed >= WORK.sleep * WORK.turns as u32);
        }
    }

    #[test]
    fn all_turns_are_taken() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<FairParking>();
        check::<Papaya>();
        check::<ShardedMutex>();
        assert!(bare(&WORK, 3) >= WORK.sleep * WORK.turns as u32);
    }

    #[test]
    fn broken_queues_are_found_out() {
        let work = Work { sleep: Duration::ZERO, turns: 50, ..WORK };
        for (fault, by) in [
            (Fault::LosesAChange, "changes are lost"),
            (Fault::SaysAddedForUpdated, "handed out as Added"),
            (Fault::KnowsAnOldObject, "is known instead of"),
            (Fault::CountsAMergeThatNeverWas, "merged"),
        ] {
            let violations = run(&Broken::with(fault), &work, &KeySet::new(40, 1)).violations;
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }
}
