//! Data races: threads that use every kind of call of the sharded queue at once, on objects and keys of plain memory, for
//! ThreadSanitizer (`.ci/sanitizers thread`). Run without it, it checks what the consumers see.
//!
//! It has its own `main`, and its threads meet by atomics alone: std is not instrumented, so its locks and channels would
//! be seen as none. For the same reason one thread alone begins replaces and makes marks, as these take a mutex.
//!
//! `DELTA_FIFO_RACES` says how many rounds there are.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread;
use std::time::Duration;

use delta_fifo::{Builder, Change, DeltaFifo, DeltaQueue, KnownView, Lease};

#[path = "common/random.rs"]
#[allow(dead_code)]
mod random;
use random::Random;

/// Keys and objects are plain memory behind a pointer, which a consumer reads and its drop frees.
type Key = Box<u64>;
type Queue = DeltaFifo<Key, Object>;

const KEYS: u64 = 8;

struct Object(Box<[u64; 4]>);

impl Object {
    fn new(number: u64) -> Self {
        Object(Box::new([number; 4]))
    }

    fn read(&self) -> u64 {
        let first = self.0[0];
        assert_eq!(*self.0, [first; 4], "torn");
        first
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // A write, so that whoever still reads is found.
        self.0.fill(u64::MAX);
    }
}

struct Round {
    queue: Queue,
    seed: u64,
    calls: u64,
    ready: AtomicUsize,
    /// Threads that make changes and have not ended.
    producing: AtomicUsize,
    /// What the drops that the compiler must not leave out have read.
    sum: AtomicU64,
}

type Side = fn(&Round, &mut Random);

const PRODUCERS: usize = 3;
const SIDES: [Side; 6] = [produce, produce_batches, list, consume, consume_batches, look];

fn produce(round: &Round, random: &mut Random) {
    for number in 0..round.calls {
        let (key, object) = (Box::new(random.below(KEYS)), Object::new(number));
        let answer = match random.below(4) {
            0 => round.queue.add(key, object),
            1 => round.queue.update(key, object),
            2 => round.queue.apply(key, object),
            _ => round.queue.delete(key, object),
        };
        assert!(answer.is_ok(), "the queue is open");
    }
}

fn produce_batches(round: &Round, random: &mut Random) {
    for number in 0..round.calls / 4 {
        let changes = (0..4).map(|_| Change::Update(Box::new(random.below(KEYS)), Object::new(number)));
        assert!(round.queue.change_all(changes.collect::<Vec<_>>()).is_ok(), "the queue is open");
    }
}

fn list(round: &Round, random: &mut Random) {
    for number in 0..round.calls / 16 {
        let keys = (0..KEYS).filter(|_| random.below(4) > 0);
        let list: Vec<_> = keys.map(|key| (Box::new(key), Object::new(number))).collect();
        assert!(round.queue.replace(list).is_ok(), "there is no other");
        assert!(round.queue.mark(number).is_ok(), "the queue is open");
        assert!(round.queue.resync().is_ok(), "there is no store");
    }
}

fn read(round: &Round, lease: &Lease<'_, Queue>) {
    let objects = lease.deltas().iter().filter_map(|delta| delta.object());
    let sum: u64 = objects.chain(lease.previous()).map(Object::read).sum();
    round.sum.fetch_add(sum + **lease.key(), Relaxed);
}

fn consume(round: &Round, random: &mut Random) {
    while round.producing.load(Acquire) > 0 || round.queue.pending_len() > 0 {
        let Ok(lease) = round.queue.try_pop() else {
            spin_loop();
            continue;
        };
        read(round, &lease);
        match random.below(8) {
            0 => lease.requeue(),
            1 => lease.requeue_after(Duration::from_micros(random.below(50))),
            _ => lease.done(),
        }
    }
}

fn consume_batches(round: &Round, random: &mut Random) {
    while round.producing.load(Acquire) > 0 {
        // Now and then it sleeps.
        let most = 1 + random.below(4) as usize;
        let Ok(batch) = round.queue.pop_batch_timeout(most, Duration::from_micros(50)) else { continue };
        batch.iter().for_each(|lease| read(round, lease));
        batch.done();
    }
}

fn look(round: &Round, random: &mut Random) {
    while round.producing.load(Acquire) > 0 {
        let key = random.below(KEYS);
        let found = round.queue.known().find(&key).map_or(0, |known| known.object().read());
        let snapshot = round.queue.snapshot();
        let all: u64 = snapshot.iter().map(|known| known.object().read() + **known.key()).sum();
        let one = snapshot.find(&key).map_or(0, |known| known.object().read());
        round.sum.fetch_add(found + all + one, Relaxed);
    }
}

fn run(seed: u64, calls: u64) {
    let round = Arc::new(Round {
        queue: Builder::new()
            .shards([1, 2, 16][seed as usize % 3])
            .lines([1, 1, 4][seed as usize % 3])
            .build(),
        seed,
        calls,
        ready: AtomicUsize::new(0),
        producing: AtomicUsize::new(PRODUCERS),
        sum: AtomicU64::new(0),
    });
    let threads: Vec<_> = (0..SIDES.len())
        .map(|index| {
            let round = Arc::clone(&round);
            thread::spawn(move || {
                round.ready.fetch_add(1, SeqCst);
                while round.ready.load(SeqCst) < SIDES.len() {
                    thread::yield_now();
                }
                SIDES[index](&round, &mut Random::new(round.seed * 100 + index as u64));
                if index < PRODUCERS {
                    round.producing.fetch_sub(1, SeqCst);
                }
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().is_ok(), "a thread has panicked in the round of seed {seed}");
    }
    while let Ok(lease) = round.queue.pop_timeout(Duration::from_millis(1)) {
        read(&round, &lease);
        lease.done();
    }
    assert_eq!((round.queue.pending_len(), round.queue.leased_len()), (0, 0));
}

fn main() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let rounds = number("DELTA_FIFO_RACES", 20);
    (1..=rounds).for_each(|seed| run(seed, 400));
    println!("test result: ok. 1 passed; 0 failed: {rounds} rounds of {} threads", SIDES.len());
}
