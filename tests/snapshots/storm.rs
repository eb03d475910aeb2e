//! Many threads: producers, lists, and consumers that end leases in all ways, while others take snapshots, share, read and
//! drop them. After each round all comes to rest, and what is alive is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Builder, Compression, DeltaQueue, KnownView, Lease, OnAbandon, TryPopError};

use crate::common::{Family, LONG, Random, for_each_queue, with_shards};
use crate::model::counted::{Count, Key, Value};

for_each_queue!(nothing_is_torn_and_nothing_leaks);

type Queue<F> = <F as Family>::Queue<Key, Value>;
type Snapshot<F> = <Queue<F> as DeltaQueue>::Snapshot;

/// Threads of each kind.
const CREWS: u64 = 2;
const STEPS: u64 = 200;
/// More objects than a round makes.
const OBJECTS: usize = 1 << 16;

/// The objects by key.
type Shown = BTreeMap<u32, u64>;

struct Round<F: Family> {
    queue: Arc<Queue<F>>,
    count: Count,
    keys: u32,
    seed: u64,
    /// By key: how often it was popped, and which of these pops have returned.
    pops: Vec<AtomicU64>,
    returned: Vec<AtomicU64>,
    /// By object: the last pop of its key that showed it as the newest.
    popped_at: Vec<AtomicU64>,
    shelf: Mutex<Vec<(Snapshot<F>, Shown)>>,
    producing: AtomicUsize,
}

fn nothing_is_torn_and_nothing_leaks<F: Family>() {
    let rounds = crate::number("DELTA_FIFO_STRESS_ROUNDS", 6) * 2;
    let first = crate::number("DELTA_FIFO_STRESS_SEED", 0);
    for keys in [1, 4, 100] {
        for seed in first..first + rounds {
            let run = std::panic::AssertUnwindSafe(|| {
                let round = Round::<F>::new(seed, keys);
                round.run();
                round.rest();
                round.end();
            });
            if let Err(panic) = std::panic::catch_unwind(run) {
                eprintln!("seed {seed}, {keys} keys");
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn zeros(len: usize) -> Vec<AtomicU64> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

impl<F: Family> Round<F> {
    fn new(seed: u64, keys: u32) -> Self {
        let builder = Builder::new().on_abandon(OnAbandon::Requeue);
        let builder = if seed % 4 == 3 { builder.compression(Compression::Latest) } else { builder };
        Round {
            queue: Arc::new(with_shards(builder, [1, 2, 8][seed as usize % 3]).build()),
            count: Count::default(),
            keys,
            seed,
            pops: zeros(keys as usize),
            returned: zeros(keys as usize),
            popped_at: zeros(OBJECTS),
            shelf: Mutex::default(),
            producing: AtomicUsize::new(CREWS as usize),
        }
    }

    fn random(&self, thread: u64) -> Random {
        let mut random = Random::new(self.seed * 100 + thread + 1);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

    fn run(&self) {
        let start = Barrier::new(3 * CREWS as usize);
        thread::scope(|scope| {
            for thread in 0..3 * CREWS {
                let start = &start;
                scope.spawn(move || {
                    let random = self.random(thread);
                    start.wait();
                    match thread % 3 {
                        0 => self.produce(random),
                        1 => self.consume(random),
                        _ => self.look(random),
                    }
                });
            }
        });
    }

    fn produce(&self, mut random: Random) {
        let queue = &*self.queue;
        for _ in 0..STEPS {
            let (key, value) = self.count.pair(random.below(self.keys.into()) as u32);
            match random.below(40) {
                // Another one may be running.
                0 => {
                    let rest = (0..self.keys).filter(|_| random.one_in(2)).map(|name| self.count.pair(name));
                    drop(queue.replace(rest.collect::<Vec<_>>()));
                }
                1 => drop(queue.begin_replace().map(|replace| replace.upsert(key, value).map(|_| ()))),
                2 => _ = queue.resync().unwrap(),
                3..16 => queue.delete_key(key).unwrap(),
                16..30 => queue.update(key, value).unwrap(),
                _ => queue.add(key, value).unwrap(),
            }
            if random.one_in(8) {
                thread::yield_now();
            }
        }
        self.producing.fetch_sub(1, Ordering::SeqCst);
    }

    fn consume(&self, mut random: Random) {
        while self.producing.load(Ordering::SeqCst) > 0 {
            let Ok(lease) = self.queue.try_pop() else {
                thread::yield_now();
                continue;
            };
            self.note(&lease);
            if random.one_in(8) {
                thread::yield_now();
            }
            match random.below(12) {
                0 => lease.requeue(),
                1 => lease.requeue_after(Duration::from_micros(random.below(300))),
                2 => drop(lease),
                3 => lease.give_up(),
                _ => lease.done(),
            }
        }
    }

    /// The pop has returned.
    fn note(&self, lease: &Lease<'_, Queue<F>>) {
        let (key, newest) = (lease.key().name as usize, lease.deltas().newest());
        // Relaxed: the leases of a key come one after the other.
        let number = self.pops[key].fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(object) = newest.object().filter(|_| !newest.is_deletion()) {
            self.popped_at[object.id() as usize].fetch_max(number, Ordering::Release);
        }
        self.returned[key].store(number, Ordering::Release);
    }

    fn look(&self, mut random: Random) {
        let mut held: Vec<(Snapshot<F>, Shown)> = Vec::new();
        while self.producing.load(Ordering::SeqCst) > 0 {
            match random.below(8) {
                0..4 => held.push(self.take(&mut random)),
                4 if !held.is_empty() => {
                    let (snapshot, shown) = &held[random.below(held.len() as u64) as usize];
                    self.shelf.lock().unwrap().push((snapshot.clone(), shown.clone()));
                }
                5 => {
                    let mut shelf = self.shelf.lock().unwrap();
                    if !shelf.is_empty() {
                        let at = random.below(shelf.len() as u64) as usize;
                        held.push(shelf.swap_remove(at));
                    }
                }
                _ => {}
            }
            if !held.is_empty() {
                let at = random.below(held.len() as u64) as usize;
                assert_eq!(shown(&held[at].0), held[at].1);
                if random.one_in(2) || held.len() > 20 {
                    held.swap_remove(at);
                }
            }
        }
        self.shelf.lock().unwrap().append(&mut held);
    }

    /// A new snapshot shows nothing that is older than what was popped before.
    fn take(&self, random: &mut Random) -> (Snapshot<F>, Shown) {
        let before: Vec<u64> = self.returned.iter().map(|pop| pop.load(Ordering::Acquire)).collect();
        let snapshot = self.queue.snapshot();
        if random.one_in(4) {
            thread::yield_now();
        }
        let shown = shown(&snapshot);
        for (key, object) in &shown {
            // 0: the pop has not returned.
            let at = self.popped_at[*object as usize].load(Ordering::Acquire);
            let before = before[*key as usize];
            assert!(at == 0 || at >= before, "key {key} shows pop {at}, but {before} had returned");
        }
        for key in 0..self.keys {
            let got = snapshot.get_with(&self.count.key(key), Value::id);
            assert_eq!(got.as_ref(), shown.get(&key), "key {key}");
        }
        assert_eq!(snapshot.len(), shown.len());
        (snapshot, shown)
    }

    /// The snapshots go while the queue is drained, unless they are to outlive it.
    fn rest(&self) {
        thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut random = self.random(90 + thread);
                    while self.seed % 3 != 0 || random.below(8) != 0 {
                        let Some((snapshot, showed)) = self.shelf.lock().unwrap().pop() else { return };
                        if random.one_in(4) {
                            assert_eq!(shown(&snapshot), showed);
                        }
                    }
                });
            }
            scope.spawn(|| self.drain());
        });
    }

    fn drain(&self) {
        let until = Instant::now() + LONG;
        while self.queue.pending_len() > 0 {
            assert!(Instant::now() < until, "it does not come to rest");
            // What is pending may come to nothing when it is looked at.
            if let Ok(lease) = self.queue.pop_timeout(Duration::from_millis(1)) {
                lease.done();
            }
        }
        assert_eq!(self.queue.leased_len(), 0);
    }

    fn end(self) {
        let Round { queue, count, shelf, keys, seed, .. } = self;
        let mut shelf = shelf.into_inner().unwrap();
        let mut queue = Some(queue);
        if seed % 6 == 0 {
            queue = None;
        }
        for (snapshot, showed) in shelf.drain(..) {
            assert_eq!(shown(&snapshot), showed);
        }
        let Some(queue) = queue else { return count.expect(0, 0) };
        // A lease of every key, for what was merged away there.
        for name in 0..keys {
            let (key, value) = count.pair(name);
            queue.update(key, value).unwrap();
            queue.try_pop().unwrap().done();
        }
        assert_eq!(queue.try_pop().map(|_| ()), Err(TryPopError::Empty));
        count.expect_alive::<F>(keys as usize, keys as usize);
        for name in 0..keys {
            queue.delete_key(count.key(name)).unwrap();
            queue.try_pop().unwrap().done();
        }
        count.expect_alive::<F>(0, 0);
        assert_eq!(queue.known().len(), 0);
        drop(queue);
        count.expect(0, 0);
    }
}

/// Each key at most once.
fn shown(view: &impl KnownView<Key, Value>) -> Shown {
    let mut shown = Shown::new();
    for known in view.iter() {
        assert_eq!(shown.insert(known.key().name, known.object().id()), None, "a key twice");
    }
    shown
}
