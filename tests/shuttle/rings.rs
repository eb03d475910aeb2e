//! Snapshots are cuts and do not change: numbers go round in a ring of keys, so that a cut shows one number on the first keys
//! and the one before on the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delta_fifo::{DeltaFifo, DeltaQueue, FifoSnapshot, KnownChange, KnownView};

use crate::common::{Random, threads};

const KEYS: u64 = 4;
const LAST: u64 = 3;

struct Ring {
    queue: DeltaFifo<u64, u64>,
    /// By key: its newest number that has gone on.
    passed_on: [AtomicU64; KEYS as usize],
}

impl Ring {
    fn begin() -> Self {
        let queue = threads::builder().shards(2).build::<DeltaFifo<u64, u64>>();
        for key in 0..KEYS {
            queue.add(key, 0).unwrap();
            queue.pop().unwrap().done();
        }
        queue.update(0, 1).unwrap();
        Ring { queue, passed_on: [const { AtomicU64::new(0) }; KEYS as usize] }
    }

    /// Until the last number is through; then the queue is closed.
    fn consume(&self, mut random: Random) {
        while let Ok(lease) = self.queue.pop() {
            let (key, number) = (*lease.key(), *lease.deltas().newest().object().unwrap());
            if self.passed_on[key as usize].swap(number, Ordering::Relaxed) < number {
                let next = if key == KEYS - 1 { (0, number + 1) } else { (key + 1, number) };
                if next.1 <= LAST {
                    self.queue.update(next.0, next.1).unwrap();
                } else {
                    self.queue.close();
                }
            }
            if random.one_in(8) { lease.requeue() } else { lease.done() }
        }
    }

    /// The numbers, by key.
    fn shown(&self, snapshot: &FifoSnapshot<u64, u64, ahash::RandomState>, random: &mut Random) -> Vec<u64> {
        let shown: Vec<u64> = if random.one_in(2) {
            (0..KEYS).map(|key| snapshot.get(&key).expect("all keys are known")).collect()
        } else {
            let known: BTreeMap<u64, u64> =
                snapshot.iter().map(|known| (*known.key(), *known.object())).collect();
            assert!(known.keys().copied().eq(0..KEYS), "{known:?}");
            known.into_values().collect()
        };
        let torn = shown.windows(2).any(|pair| pair[0] < pair[1]) || shown[0] - shown[KEYS as usize - 1] > 1;
        assert!(!torn, "there is no such moment: {shown:?}");
        shown
    }

    /// Takes snapshots, holds some, and looks at them again.
    fn look(&self, mut random: Random) {
        let mut held: Vec<(FifoSnapshot<u64, u64, ahash::RandomState>, Vec<u64>)> = Vec::new();
        for _ in 0..4 {
            let snapshot = self.queue.snapshot();
            let shown = self.shown(&snapshot, &mut random);
            if let Some((before, seen)) = held.last() {
                assert!(seen.iter().zip(&shown).all(|(before, after)| before <= after), "time goes back");
                let changed = snapshot.changes_since(before).expect("snapshots of one queue");
                let mut changed: Vec<u64> = changed.map(|change| key_of(&change)).collect();
                changed.sort_unstable();
                let differ = (0..KEYS).filter(|&key| seen[key as usize] != shown[key as usize]);
                assert!(changed.iter().copied().eq(differ), "{changed:?} between {seen:?} and {shown:?}");
            }
            held.push((snapshot, shown));
            if random.one_in(3) {
                held.swap_remove(random.below(held.len() as u64) as usize);
            }
            for (snapshot, shown) in &held {
                assert_eq!(self.shown(snapshot, &mut random), *shown, "it has changed");
            }
        }
    }
}

pub(crate) fn snapshots(seed: u64) {
    let ring = Arc::new(Ring::begin());
    let threads: Vec<_> = (0..5)
        .map(|index| {
            let ring = Arc::clone(&ring);
            let mut random = Random::new(seed * 31 + index);
            (0..8).for_each(|_| _ = random.below(2));
            threads::spawn(move || if index < 2 { ring.consume(random) } else { ring.look(random) })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("its panic has ended the execution"));
    let last = ring.queue.snapshot();
    assert_eq!(ring.shown(&last, &mut Random::new(seed)), [LAST; KEYS as usize]);
}

fn key_of(change: &KnownChange<u64, u64>) -> u64 {
    match change {
        KnownChange::Added(known) | KnownChange::Removed(known) => *known.key(),
        KnownChange::Changed { after, .. } => *after.key(),
    }
}
