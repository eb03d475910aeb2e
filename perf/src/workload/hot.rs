//! W2: one hot key. Several producers change it call after call, one consumer hands it out over and over.
//!
//! Beside it what such producers cannot avoid: as many threads that add to one shared word. Every thread counts what it does
//! until the time is up.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::{Key, Object};
use crate::peers::{Handler, Kind, Peer};

#[derive(Debug, Clone, Copy)]
pub struct Hot {
    pub producers: usize,
    pub time: Duration,
    /// And each producer makes at least so many changes, however long that takes.
    pub least: u64,
    /// The queue merges what is pending.
    pub latest: bool,
}

#[derive(Debug)]
pub struct Heat {
    /// By all producers together.
    pub changes: u64,
    pub leases: u64,
    /// From the first change to the last.
    pub producing: Duration,
    /// From the first change until the last lease has ended.
    pub handled: Duration,
    pub violations: Vec<String>,
}

/// More would be the same again.
const REPORTED: usize = 10;

pub fn run<P: Peer>(peer: &P, hot: Hot) -> Heat {
    let key: Key = "namespace/the-hot-one".into();
    let mut watcher = Watcher {
        newest: vec![0; hot.producers],
        gaps: hot.latest,
        leases: 0,
        changes: 0,
        violations: Vec::new(),
    };
    let (made, producing, handled) = thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            while peer.pop(&mut watcher) {}
            Instant::now()
        });
        let update = |producer: usize, number| {
            peer.update(key.clone(), Object::new(producer as u32, 0, number));
        };
        let (made, began, ended) = threads(hot, update);
        peer.close();
        let handled = consumer.join().expect("no panic");
        (made, ended - began, handled - began)
    });
    let changes = made.iter().sum();
    let leases = watcher.leases;
    let violations = watcher.end(peer, &key, &made);
    Heat { changes, leases, producing, handled, violations }
}

/// The same threads on one bare word. Changes, and the time from the first to the last.
pub fn bare(hot: Hot) -> (u64, Duration) {
    let word = CachePadded::new(AtomicU64::new(0));
    // Relaxed: nothing but the exchange of the line is looked for.
    let (made, began, ended) = threads(hot, |_, _| {
        word.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(word.load(Ordering::Relaxed), made.iter().sum::<u64>());
    (made.iter().sum(), ended - began)
}

/// How often each of so many threads could do it until the time was up, and when the first began and the last ended.
fn threads(hot: Hot, work: impl Fn(usize, u64) + Sync) -> (Vec<u64>, Instant, Instant) {
    let Hot { producers: count, time, least, .. } = hot;
    let begin = Barrier::new(count + 1);
    let stop = CachePadded::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (begin, stop, work) = (&begin, &stop, &work);
                scope.spawn(move || {
                    begin.wait();
                    let (began, mut made) = (Instant::now(), 0);
                    // Relaxed: nothing is published with it.
                    while made < least || !stop.load(Ordering::Relaxed) {
                        made += 1;
                        work(number, made);
                    }
                    (made, began, Instant::now())
                })
            })
            .collect();
        begin.wait();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let first = ended.iter().map(|&(_, began, _)| began).min().expect("a thread");
        let last = ended.iter().map(|&(_, _, ended)| ended).max().expect("a thread");
        (ended.into_iter().map(|(made, ..)| made).collect(), first, last)
    })
}

/// The one consumer: every producer's changes come in their order.
struct Watcher {
    /// By producer.
    newest: Vec<u64>,
    /// Some may be merged away.
    gaps: bool,
    leases: u64,
    changes: u64,
    violations: Vec<String>,
}

impl Watcher {
    #[cold]
    fn violation(&mut self, text: String) {
        if self.violations.len() < REPORTED {
            self.violations.push(text);
        }
    }

    fn end<P: Peer>(mut self, peer: &P, key: &Key, made: &[u64]) -> Vec<String> {
        let (offered, merged) = (made.iter().sum::<u64>(), peer.merged());
        if offered != self.changes + merged {
            let delivered = self.changes;
            self.violation(format!(
                "{offered} changes offered, but {delivered} delivered and {merged} merged"
            ));
        }
        if merged > 0 && !self.gaps {
            self.violation(format!("{merged} changes merged by a queue that merges none"));
        }
        let (pending, leased) = (peer.pending_len(), peer.leased_len());
        if pending != 0 || leased != 0 {
            self.violation(format!("{pending} keys pending and {leased} leased at the end"));
        }
        // Whose change came last nobody knows, but it is the last of one of them.
        let known = peer.get_with(key, |object| (object.producer as usize, object.seq));
        match known {
            Some((producer, seq)) if made.get(producer) == Some(&seq) => {}
            None if offered == 0 => {}
            other => self.violation(format!("known at the end is {other:?} of {made:?}")),
        }
        self.violations
    }
}

impl Handler for Watcher {
    #[inline]
    fn lease<'d>(&mut self, _: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let before = self.changes;
        for (kind, object) in deltas {
            self.changes += 1;
            let (producer, seq) = (object.producer as usize, object.seq);
            let newest = self.newest[producer];
            let follows = if self.gaps { seq > newest } else { seq == newest + 1 };
            if !follows || kind != Kind::Updated || !object.is_whole() {
                self.violation(format!("{kind:?} {seq} of producer {producer} follows {newest}"));
            }
            self.newest[producer] = seq;
        }
        if self.changes == before {
            self.violation("a lease without deltas".into());
        }
        self.leases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Broken, Fault};
    use super::*;
    use crate::peers::{Baseline, Parking, Settings, Sharded, ShardedMutex};

    const SHORT: Hot = Hot { producers: 2, time: Duration::from_millis(20), least: 0, latest: false };

    fn check<P: Peer>() {
        for producers in [1, 3] {
            let heat = run(&P::new(), Hot { producers, ..SHORT });
            assert_eq!(heat.violations, [""; 0]);
            assert!(heat.changes > 0 && heat.leases > 0 && heat.handled >= heat.producing / 2);
        }
    }

    #[test]
    fn every_peer_hands_out_all_of_it() {
        check::<Sharded>();
        check::<Baseline>();
        check::<Parking>();
        check::<ShardedMutex>();
    }

    #[test]
    fn what_is_merged_is_counted() {
        fn check<P: Peer>() {
            let peer = P::with(Settings { latest: true, ..Settings::default() }).expect("it merges");
            let heat = run(&peer, Hot { latest: true, ..SHORT });
            assert_eq!(heat.violations, [""; 0]);
        }
        check::<Sharded>();
        check::<Baseline>();
        assert!(Parking::with(Settings { latest: true, ..Settings::default() }).is_none());
    }

    #[test]
    fn broken_queues_are_found_out() {
        // They are so at the change, or the pop, number 1,500.
        let hot = Hot { producers: 1, least: 3_000, ..SHORT };
        for (fault, by) in [
            (Fault::LosesAChange, "offered"),
            (Fault::DeliversAChangeTwice, "follows"),
            (Fault::DeliversAnOldChangeAgain, "follows"),
            (Fault::CountsAMergeThatNeverWas, "merged"),
        ] {
            let violations = run(&Broken::with(fault), hot).violations;
            assert!(violations.iter().any(|text| text.contains(by)), "{fault:?}: {violations:?}");
        }
    }

    #[test]
    fn a_bare_word_counts_all() {
        let (changes, time) = bare(SHORT);
        assert!(changes > 0 && time >= SHORT.time / 2);
    }
}
