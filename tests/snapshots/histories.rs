//! Histories: threads write down every pop, snapshot and read with the moments of its call and return, and a checker decides
//! whether that can have been.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use delta_fifo::{Builder, Compression, KnownView, Lease, OnAbandon};

use super::moments::Moments;
use crate::common::{Family, Random, for_each_queue, race, with_shards};

#[path = "histories/check.rs"]
mod check;
#[path = "histories/wrong.rs"]
mod wrong;

use check::{Cut, History, Pop, Read, Shown, Tick};

for_each_queue!(short_histories_are_possible, long_histories_are_possible);

/// The objects are versions: each is in one change only.
type Queue<F> = <F as Family>::Queue<u64, u64>;

const PRODUCERS: usize = 2;

struct Round<Q> {
    queue: Q,
    number: usize,
    keys: u64,
    steps: u64,
    clock: AtomicU64,
    versions: AtomicU64,
    producing: AtomicUsize,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    history: History,
    /// By version: before the call with it.
    changed: HashMap<u64, Tick>,
    /// By pop of the history: the version in its newest delta.
    carried: Vec<Option<u64>>,
}

impl<Q: Moments<Key = u64, Value = u64>> Round<Q> {
    fn new(queue: Q, number: usize, (keys, steps): (u64, u64)) -> Self {
        Round {
            queue,
            number,
            keys,
            steps,
            clock: AtomicU64::new(1),
            versions: AtomicU64::new(1),
            producing: AtomicUsize::new(PRODUCERS),
            written: Mutex::default(),
        }
    }

    fn random(&self, thread: usize) -> Random {
        let mut random = Random::new((self.number * 16 + thread) as u64);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

    fn now(&self) -> Tick {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn produce(&self, thread: usize) {
        let (mut random, mut changed) = (self.random(thread), Vec::new());
        for _ in 0..self.steps {
            let mut change = |random: &mut Random| {
                let version = self.versions.fetch_add(1, Ordering::Relaxed);
                changed.push((version, self.now()));
                (random.below(self.keys), version)
            };
            let (key, version) = change(&mut random);
            match random.below(32) {
                0 => {
                    let all: BTreeMap<_, _> = (0..self.keys).map(|_| change(&mut random)).collect();
                    // Another one may be running.
                    drop(self.queue.replace(all));
                }
                1 => _ = self.queue.resync().unwrap(),
                2..12 => self.queue.delete(key, version).unwrap(),
                _ => self.queue.update(key, version).unwrap(),
            }
            if random.one_in(8) {
                thread::yield_now();
            }
        }
        self.written.lock().unwrap().changed.extend(changed);
        self.producing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Until nobody produces and nothing is left in line.
    fn consume(&self, thread: usize) {
        let (mut random, mut pops, mut carried) = (self.random(thread), Vec::new(), Vec::new());
        let mut note = |lease: &Lease<'_, Q>, call, returned| {
            let newest = lease.deltas().newest();
            let version = newest.object().copied();
            let shown = version.filter(|_| !newest.is_deletion());
            pops.push(Pop { key: *lease.key() as usize, shown, call, returned, ended: 0 });
            carried.push(version);
            pops.len()
        };
        let mut ended = Vec::new();
        loop {
            let is_over = self.producing.load(Ordering::SeqCst) == 0;
            let call = self.now();
            let popped = if random.one_in(4) {
                let Ok(leases) = self.queue.try_pop_batch(3) else { continue };
                let returned = self.now();
                let count = leases.iter().map(|lease| note(lease, call, returned)).count();
                ended.resize(ended.len() + count, self.now());
                leases.done();
                count
            } else if let Ok(lease) = self.queue.try_pop() {
                note(&lease, call, self.now());
                if random.one_in(4) {
                    thread::yield_now();
                }
                ended.push(self.now());
                match random.below(12) {
                    0 => lease.requeue(),
                    1 => drop(lease),
                    2 => lease.give_up(),
                    _ => lease.done(),
                }
                1
            } else {
                0
            };
            match popped {
                0 if is_over => break,
                0 => thread::yield_now(),
                _ => {}
            }
        }
        pops.iter_mut().zip(ended).for_each(|(pop, ended)| pop.ended = ended);
        let mut written = self.written.lock().unwrap();
        written.history.pops.append(&mut pops);
        written.carried.append(&mut carried);
    }

    fn look(&self, thread: usize) {
        let (mut random, mut cuts, mut reads) = (self.random(thread), Vec::new(), Vec::new());
        let (mut last, mut last_shared) = (None, None);
        for _ in 0..self.steps {
            if random.one_in(4) {
                let key = random.below(self.keys);
                let (call, shown) = (self.now(), self.queue.known().get(&key));
                reads.push(Read { key: key as usize, shown, call, returned: self.now() });
                continue;
            }
            let is_shared = random.one_in(4);
            let call = self.now();
            let snapshot = if is_shared { self.queue.shared() } else { self.queue.snapshot() };
            let returned = self.now();
            let shown = self.shown(&snapshot, &mut random);
            if let Some((before, showed)) = last.replace((snapshot.clone(), shown.clone())) {
                self.check_difference((&snapshot, &shown), (&before, &showed));
                assert_eq!(self.shown(&before, &mut random), showed);
            }
            let epoch = Q::moment(&snapshot);
            if is_shared {
                assert!(epoch >= last_shared, "{last_shared:?} was shared, and then {epoch:?}");
                last_shared = epoch;
            }
            // Where it is shared it may have been taken at any time before.
            let call = if is_shared && epoch.is_some() { 0 } else { call };
            cuts.push(Cut { shown, call, returned, epoch });
            if random.one_in(4) {
                thread::yield_now();
            }
        }
        let mut written = self.written.lock().unwrap();
        written.history.cuts.append(&mut cuts);
        written.history.reads.append(&mut reads);
    }

    /// Two ways to ask say the same.
    fn shown(&self, snapshot: &Q::Snapshot, random: &mut Random) -> Vec<Shown> {
        let mut shown = vec![None; self.keys as usize];
        let mut see = |key: u64, version| assert_eq!(shown[key as usize].replace(version), None, "twice");
        if random.one_in(2) {
            snapshot.iter().for_each(|known| see(*known.key(), *known.object()));
        } else {
            snapshot.for_each(|key, version| see(*key, *version));
        }
        for (key, shown) in shown.iter().enumerate() {
            let key = key as u64;
            assert_eq!((snapshot.get(&key), snapshot.contains(&key)), (*shown, shown.is_some()));
        }
        assert_eq!(snapshot.len(), shown.iter().flatten().count());
        shown
    }

    /// The later first, or not.
    fn check_difference(&self, newer: (&Q::Snapshot, &[Shown]), older: (&Q::Snapshot, &[Shown])) {
        let Some(mut changed) = Q::changed(newer.0, older.0) else { return };
        changed.sort_unstable();
        let both = newer.1.iter().zip(older.1).enumerate();
        let expected = both.filter(|(_, (newer, older))| newer != older).map(|(key, _)| key as u64);
        assert!(
            expected.eq(changed.iter().copied()),
            "{changed:?} of {newer:?} and {older:?}",
            newer = newer.1,
            older = older.1
        );
    }

    fn check(self) {
        // What has come to rest is a cut too.
        self.look(15);
        let Written { mut history, changed, carried } = self.written.into_inner().unwrap();
        history.keys = self.keys as usize;
        for (pop, version) in history.pops.iter_mut().zip(carried) {
            // It has shown nothing before somebody brought it.
            let changed = version.map_or(0, |version| changed[&version]);
            pop.call = pop.call.max(changed);
        }
        if let Err(why) = history.check() {
            panic!("round {}: {why}\n{history:?}", self.number);
        }
    }
}

fn histories<F: Family>(rounds: usize, sizes: (u64, u64))
where
    Queue<F>: Moments<Key = u64, Value = u64>,
{
    let first = crate::number("DELTA_FIFO_STRESS_SEED", 0) as usize;
    let set_up = |round| {
        let number = first + round;
        let builder = Builder::new().on_abandon(OnAbandon::Requeue).publish_every(Duration::from_nanos(1));
        let builder = if number % 4 == 3 { builder.compression(Compression::Latest) } else { builder };
        let queue: Queue<F> = with_shards(builder, [1, 2, 8][number % 3]).build();
        Round::new(queue, number, sizes)
    };
    race(
        rounds,
        set_up,
        &[
            &|round| round.produce(0),
            &|round| round.produce(1),
            &|round| round.consume(2),
            &|round| round.consume(3),
            &|round| round.look(4),
            &|round| round.look(5),
            &|round| round.look(6),
        ],
        Round::check,
    );
}

fn short_histories_are_possible<F: Family>()
where
    Queue<F>: Moments<Key = u64, Value = u64>,
{
    let rounds = crate::number("DELTA_FIFO_STRESS_ROUNDS", 6) as usize * 100;
    for sizes in [(1, 8), (2, 8), (5, 12)] {
        histories::<F>(rounds, sizes);
    }
}

fn long_histories_are_possible<F: Family>()
where
    Queue<F>: Moments<Key = u64, Value = u64>,
{
    let rounds = crate::number("DELTA_FIFO_STRESS_ROUNDS", 6) as usize;
    for sizes in [(2, 400), (8, 400), (100, 200)] {
        histories::<F>(rounds, sizes);
    }
}
