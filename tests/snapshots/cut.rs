//! A snapshot is a consistent cut: threads take them while numbers go round in rings of keys, whose pops have an order that
//! is known.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use delta_fifo::{Builder, DeltaQueue, KnownView};

use crate::common::{Family, Random, for_each_queue, with_shards};

for_each_queue!(
    no_transfer_is_torn,
    what_was_read_is_in_a_later_snapshot,
    a_later_snapshot_shows_nothing_older,
    one_or_two_keys_exist_at_a_time,
    a_snapshot_agrees_with_itself,
);

type Queue<F> = <F as Family>::Queue<u64, u64>;

fn queue<F: Family>(shards: usize) -> Queue<F> {
    with_shards(Builder::new(), shards).build()
}

/// Whoever has popped a key with a number adds it to the next key of the ring, and after the last key the next number to
/// the first. So the pop of one has returned before that of the next begins: a cut shows the number of a ring on some
/// keys, and on the rest the one before.
struct Rings {
    rings: u64,
    keys: u64,
    last: u64,
    /// By key: its newest number that has gone on.
    passed_on: Vec<AtomicU64>,
    finished: AtomicU64,
    /// All threads begin at the same moment.
    start: Barrier,
}

impl Rings {
    fn new((rings, keys): (u64, u64), last: u64, threads: usize) -> Self {
        let passed_on = (0..rings * keys).map(|_| AtomicU64::new(0)).collect();
        let start = Barrier::new(threads);
        Rings { rings, keys, last, passed_on, finished: AtomicU64::new(0), start }
    }

    fn all(&self) -> u64 {
        self.rings * self.keys
    }

    /// All keys are known with 0, and the first of each ring is in line with 1.
    fn begin<Q: DeltaQueue<Key = u64, Value = u64>>(&self, queue: &Q) {
        for key in 0..self.all() {
            queue.add(key, 0).unwrap();
            queue.try_pop().unwrap().done();
        }
        (0..self.rings).for_each(|ring| queue.update(ring * self.keys, 1).unwrap());
    }

    /// Until all rings are through; then the queue is closed.
    fn consume<Q: DeltaQueue<Key = u64, Value = u64>>(&self, queue: &Q, mut random: Random) {
        self.start.wait();
        while let Ok(lease) = queue.pop() {
            let (key, number) = (*lease.key(), *lease.deltas().newest().object().unwrap());
            // Relaxed: the leases of a key come one after the other.
            if self.passed_on[key as usize].swap(number, Ordering::Relaxed) < number {
                let is_last = key % self.keys == self.keys - 1;
                let next = if is_last { (key + 1 - self.keys, number + 1) } else { (key + 1, number) };
                if next.1 <= self.last {
                    queue.update(next.0, next.1).unwrap();
                } else if self.finished.fetch_add(1, Ordering::SeqCst) == self.rings - 1 {
                    queue.close();
                }
            }
            if random.one_in(3) {
                thread::yield_now();
            }
            if random.one_in(16) { lease.requeue() } else { lease.done() }
        }
    }

    /// The number of each key.
    fn shown(&self, snapshot: &impl KnownView<u64, u64>, random: &mut Random) -> Vec<u64> {
        if random.one_in(2) {
            return (0..self.all()).map(|key| snapshot.get(&key).expect("all keys are known")).collect();
        }
        let by_key: BTreeMap<u64, u64> =
            snapshot.iter().map(|known| (*known.key(), *known.object())).collect();
        assert!(by_key.keys().copied().eq(0..self.all()));
        by_key.into_values().collect()
    }

    fn check_cut(&self, shown: &[u64]) {
        for ring in shown.chunks(self.keys as usize) {
            let torn = ring.windows(2).any(|pair| pair[0] < pair[1]) || ring[0] - ring[ring.len() - 1] > 1;
            assert!(!torn, "there is no such moment: {ring:?}");
        }
    }
}

/// Whether one is nowhere newer than the other.
fn is_before(first: &[u64], second: &[u64]) -> bool {
    first.iter().zip(second).all(|(first, second)| first <= second)
}

/// Snapshots that several threads read again and again show what they showed at first, each a possible moment; and all that
/// were ever taken can be put in an order.
fn no_transfer_is_torn<F: Family>() {
    for (rings, keys, shards) in [(1, 2, 1), (3, 2, 8), (2, 5, 2), (4, 16, 8)] {
        let (queue, rings) = (queue::<F>(shards), Rings::new((rings, keys), 1500 / keys / rings, 5));
        rings.begin(&queue);
        let (exchanged, all) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for seed in 0..2 {
                scope.spawn({
                    let (queue, rings) = (&queue, &rings);
                    move || rings.consume(queue, Random::new(seed))
                });
            }
            for seed in 2..5 {
                let (queue, rings, exchanged, all) = (&queue, &rings, &exchanged, &all);
                scope.spawn(move || {
                    let (mut random, mut taken) = (Random::new(seed), Vec::new());
                    rings.start.wait();
                    let mut is_over = false;
                    while !is_over {
                        is_over = queue.is_closed();
                        let snapshot = queue.snapshot();
                        let shown = rings.shown(&snapshot, &mut random);
                        rings.check_cut(&shown);
                        taken.push(shown.clone());
                        let other = {
                            let mut exchanged = exchanged.lock().unwrap();
                            exchanged.push_back((snapshot.clone(), shown));
                            let at = random.below(exchanged.len() as u64) as usize;
                            if exchanged.len() > 6 {
                                exchanged.remove(at)
                            } else {
                                exchanged.get(at).cloned()
                            }
                        };
                        let (other, showed) = other.expect("one was put there");
                        assert_eq!(rings.shown(&other, &mut random), showed);
                        if random.one_in(4) {
                            thread::yield_now();
                        }
                    }
                    all.lock().unwrap().append(&mut taken);
                });
            }
        });
        let mut all = all.into_inner().unwrap();
        all.sort_by_key(|shown| shown.iter().sum::<u64>());
        for pair in all.windows(2) {
            assert!(is_before(&pair[0], &pair[1]), "in no order: {pair:?}");
        }
        for (snapshot, showed) in exchanged.into_inner().unwrap() {
            assert_eq!(rings.shown(&snapshot, &mut Random::new(9)), showed);
        }
    }
}

/// Causality over threads.
fn what_was_read_is_in_a_later_snapshot<F: Family>() {
    for shards in [1, 8] {
        let (queue, rings) = (queue::<F>(shards), Rings::new((2, 2), 600, 5));
        rings.begin(&queue);
        thread::scope(|scope| {
            scope.spawn(|| rings.consume(&queue, Random::new(1)));
            for seed in 2..4 {
                // Nothing waits in between: the snapshot is taken at once.
                let (sender, receiver) = mpsc::sync_channel(0);
                let (queue, rings) = (&queue, &rings);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    rings.start.wait();
                    while !queue.is_closed() {
                        let key = random.below(rings.all());
                        let read = queue.known().get(&key).expect("all keys are known");
                        sender.send((key, read)).expect("somebody receives");
                    }
                });
                scope.spawn(move || {
                    rings.start.wait();
                    for (key, read) in receiver {
                        let shown = queue.snapshot().get(&key).expect("all keys are known");
                        assert!(shown >= read, "key {key} was {read} and then {shown}");
                    }
                });
            }
        });
    }
}

/// What one thread has seen, the next one sees too.
fn a_later_snapshot_shows_nothing_older<F: Family>() {
    for shards in [1, 8] {
        let (queue, rings) = (queue::<F>(shards), Rings::new((3, 3), 600, 5));
        rings.begin(&queue);
        let channels: Vec<_> = (0..3).map(|_| mpsc::channel::<Vec<u64>>()).collect();
        let (mut senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        // Two snapshots are on their way round.
        senders[0].send(vec![0; rings.all() as usize]).unwrap();
        senders[1].send(vec![0; rings.all() as usize]).unwrap();
        senders.rotate_left(1);
        thread::scope(|scope| {
            (0..2).for_each(|seed| {
                let (queue, rings) = (&queue, &rings);
                scope.spawn(move || rings.consume(queue, Random::new(seed)));
            });
            for (seed, (sender, receiver)) in senders.into_iter().zip(receivers).enumerate() {
                let (queue, rings) = (&queue, &rings);
                scope.spawn(move || {
                    let mut random = Random::new(seed as u64);
                    rings.start.wait();
                    while let (false, Ok(before)) = (queue.is_closed(), receiver.recv()) {
                        let shown = rings.shown(&queue.snapshot(), &mut random);
                        assert!(is_before(&before, &shown), "first {before:?}, then {shown:?}");
                        // Nobody listens any more when the queue is closed.
                        let _ = sender.send(shown);
                    }
                });
            }
        });
    }
}

/// A token goes round: its next key is added, and when that is popped the key before is deleted. So there is one key at any
/// moment, or two that are neighbours.
fn one_or_two_keys_exist_at_a_time<F: Family>() {
    for (keys, shards) in [(3, 1), (4, 8), (64, 8)] {
        let (queue, last, start) = (queue::<F>(shards), 3000, Barrier::new(4));
        queue.add(0, keys).unwrap();
        queue.try_pop().unwrap().done();
        queue.add(1, keys + 1).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    while let Ok(lease) = queue.pop() {
                        let newest = lease.deltas().newest();
                        let (is_deletion, number) = (newest.is_deletion(), *newest.object().unwrap());
                        match is_deletion {
                            false if number == last => _ = queue.close(),
                            false => queue.delete_key((number - 1) % keys).unwrap(),
                            true => queue.add((number + 2) % keys, number + 2).unwrap(),
                        }
                        lease.done();
                        if number % 3 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
            for seed in 0..2 {
                let (queue, start) = (&queue, &start);
                scope.spawn(move || {
                    let (mut random, mut held) = (Random::new(seed), VecDeque::new());
                    start.wait();
                    while !queue.is_closed() {
                        let snapshot = queue.snapshot();
                        let tokens = agreed(&snapshot, keys);
                        let numbers: Vec<u64> = tokens.values().copied().collect();
                        let neighbours = match numbers[..] {
                            [_] => true,
                            [one, other] => one.abs_diff(other) == 1,
                            _ => false,
                        };
                        assert!(neighbours, "there is no such moment: {tokens:?}");
                        assert!(tokens.iter().all(|(key, number)| number % keys == *key));
                        held.push_back((snapshot, tokens));
                        let (old, showed) = &held[random.below(held.len() as u64) as usize];
                        assert_eq!(agreed(old, keys), *showed);
                        if held.len() > 5 {
                            held.remove(random.below(held.len() as u64) as usize);
                        }
                        if random.one_in(4) {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
    }
}

/// What a snapshot shows, when all ways to ask have said the same.
fn agreed(snapshot: &impl KnownView<u64, u64>, keys: u64) -> BTreeMap<u64, u64> {
    let mut shown = BTreeMap::new();
    for known in snapshot.iter() {
        assert_eq!(shown.insert(*known.key(), *known.object()), None, "a key twice");
    }
    assert_eq!((snapshot.len(), snapshot.is_empty()), (shown.len(), shown.is_empty()));
    let mut listed: Vec<u64> = snapshot.keys().map(|key| *key).collect();
    listed.sort_unstable();
    assert!(listed.iter().eq(shown.keys()), "{listed:?} are not the keys of {shown:?}");
    for key in 0..keys {
        let got = snapshot.get(&key);
        assert_eq!(got.as_ref(), shown.get(&key), "key {key}");
        assert_eq!(snapshot.contains(&key), got.is_some(), "key {key}");
        assert_eq!(
            snapshot.find(&key).map(|known| (*known.key(), *known.object())),
            got.map(|got| (key, got))
        );
    }
    shown
}

/// While keys come and go, which also makes the tables grow.
fn a_snapshot_agrees_with_itself<F: Family>() {
    for (keys, changes, shards) in [(4, 4000, 1), (100, 4000, 2)] {
        let (queue, start) = (queue::<F>(shards), Barrier::new(3));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random::new(keys);
                start.wait();
                for number in 0..changes {
                    // Ever more of them.
                    let key = random.below(1 + keys * (number + 1) / changes) % keys;
                    match random.one_in(3) {
                        true => queue.delete_key(key).unwrap(),
                        false => queue.add(key, number).unwrap(),
                    }
                    if random.one_in(4) {
                        thread::yield_now();
                    }
                }
                queue.close();
            });
            scope.spawn(|| {
                while let Ok(leases) = queue.pop_batch(3) {
                    leases.done();
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut held = VecDeque::new();
                    start.wait();
                    while !queue.is_closed() {
                        let snapshot = queue.snapshot();
                        // A copy has not counted its objects yet.
                        let copy = snapshot.clone();
                        held.push_back((snapshot, agreed(&copy, keys)));
                        let (oldest, showed) = &held[0];
                        assert_eq!(agreed(oldest, keys), *showed);
                        if held.len() > 4 {
                            held.pop_front();
                        }
                        thread::yield_now();
                    }
                });
            }
        });
    }
}
