//! The work queue with every call of it at once, in rounds; all is at rest and counted after each. `DELTA_FIFO_STRESS_ROUNDS` says how many.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{ItemExponential, PopTimeoutError, WorkQueue};
use random::Random;

#[path = "common/random.rs"]
mod random;

const PRODUCERS: u64 = 3;
const WORKERS: u64 = 3;
const CALLS: u64 = 60;
/// Much longer than a round takes.
const LONG: Duration = Duration::from_secs(60);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A key that counts how often it is alive.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(usize, Alive);

/// Of no hash, and equal to all.
#[derive(Debug)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartialEq for Alive {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Alive {}

impl std::hash::Hash for Alive {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Clone for Key {
    fn clone(&self) -> Self {
        Key(self.0, Alive::new(&self.1.0))
    }
}

/// What is true of a key.
#[derive(Default)]
struct Subject {
    /// How often it was asked for, each time before the call.
    asked: AtomicU64,
    /// How often it had been when work on it began last.
    seen: AtomicU64,
    in_hand: AtomicBool,
}

struct Round {
    queue: WorkQueue<Key>,
    subjects: Vec<Subject>,
    alive: Arc<AtomicUsize>,
    barrier: Barrier,
    over: AtomicBool,
}

impl Round {
    fn new(keys: usize, measured: bool) -> Self {
        let options =
            WorkQueue::builder().rate_limiter(ItemExponential::new(micros(50), micros(500))).shards(2);
        Round {
            queue: if measured { options.measure().build() } else { options.build() },
            subjects: (0..keys).map(|_| Subject::default()).collect(),
            alive: Arc::default(),
            barrier: Barrier::new((PRODUCERS + WORKERS) as usize),
            over: AtomicBool::new(false),
        }
    }

    fn key(&self, number: usize) -> Key {
        Key(number, Alive::new(&self.alive))
    }

    fn produce(&self, mut random: Random) {
        self.barrier.wait();
        for _ in 0..CALLS {
            let number = random.below(self.subjects.len() as u64) as usize;
            let key = self.key(number);
            if random.one_in(12) {
                self.queue.forget(&key);
                continue;
            }
            self.subjects[number].asked.fetch_add(1, Ordering::SeqCst);
            let added = match random.below(8) {
                0 | 1 => self.queue.add_after(key, micros(random.below(400))),
                2 => self.queue.add_rate_limited(key),
                _ => self.queue.add(key),
            };
            added.expect("it is open");
        }
    }

    fn work(&self, mut random: Random) {
        self.barrier.wait();
        while !self.over.load(Ordering::SeqCst) {
            let work = match self.queue.get_timeout(Duration::from_millis(1)) {
                Ok(work) => work,
                Err(PopTimeoutError::Timeout) => continue,
                Err(error) => panic!("{error}"),
            };
            let subject = &self.subjects[work.0];
            assert!(!subject.in_hand.swap(true, Ordering::SeqCst), "key {} in two hands", work.0);
            let end = random.below(10);
            let asked = subject.asked.load(Ordering::SeqCst);
            if (1..=3).contains(&end) {
                // It comes back, which counts as asked for.
                subject.asked.fetch_add(1, Ordering::SeqCst);
            }
            subject.seen.store(asked, Ordering::SeqCst);
            if end == 0 {
                thread::yield_now();
            }
            subject.in_hand.store(false, Ordering::SeqCst);
            match end {
                1 => drop(work),
                2 => {
                    let thrown = catch_unwind(AssertUnwindSafe(|| {
                        let _work = work;
                        resume_unwind(Box::new("work that panics"));
                    }));
                    assert!(thrown.is_err());
                }
                3 => {
                    self.queue.add_rate_limited(Key::clone(&work)).expect("it is open");
                    work.done();
                }
                _ => work.done(),
            }
        }
    }

    /// What was asked for has been seen. More may come: of a time that was set for a key, and of another turn that it had meanwhile.
    fn is_all_seen(&self) -> bool {
        let mut subjects = self.subjects.iter();
        subjects.all(|subject| subject.asked.load(Ordering::SeqCst) == subject.seen.load(Ordering::SeqCst))
    }

    /// When all others are done: until nothing more comes, and all has been seen.
    fn drain(&self) {
        let until = Instant::now() + LONG;
        loop {
            if let Ok(work) = self.queue.try_get() {
                let Subject { asked, seen, .. } = &self.subjects[work.0];
                seen.store(asked.load(Ordering::SeqCst), Ordering::SeqCst);
                work.done();
                continue;
            }
            let stats = self.queue.stats();
            if (stats.depth + stats.delayed == 0 && self.is_all_seen()) || Instant::now() > until {
                return;
            }
            thread::sleep(micros(50));
        }
    }
}

fn play(seed: u64, keys: usize) {
    let round = Round::new(keys, seed % 2 == 0);
    thread::scope(|scope| {
        let random = |number| Random::new(seed * 100 + number);
        let round = &round;
        let producers: Vec<_> =
            (0..PRODUCERS).map(|number| scope.spawn(move || round.produce(random(number)))).collect();
        for number in 0..WORKERS {
            scope.spawn(move || round.work(random(PRODUCERS + number)));
        }
        producers.into_iter().for_each(|producer| producer.join().expect("it ends"));
        let until = Instant::now() + LONG;
        while !round.is_all_seen() && Instant::now() < until {
            thread::sleep(micros(200));
        }
        round.over.store(true, Ordering::SeqCst);
    });
    round.drain();
    let stats = round.queue.stats();
    assert!(round.is_all_seen(), "round {seed} with {keys} keys: something never came: {stats:?}");
    assert_eq!(stats.leased + stats.dirty, 0, "round {seed} with {keys} keys");
    for number in 0..keys {
        let key = round.key(number);
        round.queue.forget(&key);
        assert_eq!(round.queue.num_requeues(&key), 0);
    }
    // A key whose time has come may be on its way from one place to the other, where neither counts it.
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(work) = round.queue.get() {
                work.done();
            }
        });
        round.queue.shut_down_with_drain().expect("this thread has no work");
    });
    let Round { queue, alive, .. } = round;
    drop(queue);
    assert_eq!(
        alive.load(Ordering::SeqCst),
        0,
        "round {seed} with {keys} keys: keys that were never dropped"
    );
}

#[test]
fn everything_at_once() {
    let rounds =
        std::env::var("DELTA_FIFO_STRESS_ROUNDS").map_or(40, |rounds| rounds.parse().expect("a number"));
    for seed in 0..rounds {
        for keys in [1, 4, 64] {
            play(seed, keys);
        }
    }
}
