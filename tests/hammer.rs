//! Threads: producers with random changes, replaces and resyncs against consumers that requeue, panic and forget to
//! finish. In rounds: after each the queue comes to rest and everything is counted.
//!
//! `DELTA_FIFO_HAMMER_ROUNDS` says how many rounds are run.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use delta_fifo::{Builder, Compression, Delta, DeltaQueue, KnownView, Lease, Upsert};

use common::{Family, LONG, Random, block_on, for_each_queue};

#[path = "hammer/consume.rs"]
mod consume;
#[path = "hammer/produce.rs"]
mod produce;

const PRODUCERS: usize = 3;
const CONSUMERS: usize = 5;
const OPS: u32 = 250;

/// An object says who made it, and as its how-manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Object {
    maker: usize,
    number: u32,
    made_by: Made,
    /// Before the change was called; when the streaming replace of an item had begun.
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Change,
    Apply,
    /// An item of a streaming replace, or of the first.
    Item,
    /// An item of a list, which a newer change may supersede in silence.
    Listed,
}

type Queue<F> = <F as Family>::Queue<u32, Object>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Only deletions are merged: every live delta arrives.
    Deletions,
    /// Everything is merged, and nothing deleted: what was offered was delivered or merged.
    Latest,
    LatestWithDeletions,
}

/// What is known of a key outside the queue. Whoever has the lease has it to himself.
#[derive(Default)]
struct PerKey {
    leased: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// After the last completed lease.
    known: Option<Object>,
    /// The newest number of each maker.
    newest: [u32; MAKERS],
    /// When the newest change was called.
    changed: u64,
}

/// Producers, consumers (whose handlers make changes too), the replacer and the first list.
const MAKERS: usize = PRODUCERS + CONSUMERS + 2;
const REPLACER: usize = MAKERS - 2;
const FIRST: usize = MAKERS - 1;

struct Round<F: Family> {
    queue: Queue<F>,
    mode: Mode,
    seed: u64,
    keys: Vec<PerKey>,
    numbers: [AtomicU32; MAKERS],
    clock: AtomicU64,
    /// Live deltas that were certainly appended; syncs by a resync.
    offered: AtomicU64,
    synced: AtomicU64,
    listed: AtomicU64,
    /// The same, of completed leases, and deletions.
    delivered: AtomicU64,
    delivered_syncs: AtomicU64,
    delivered_listed: AtomicU64,
    delivered_deletions: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::SeqCst);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

impl<F: Family> Round<F> {
    fn new(number: u64) -> Self {
        let mode = [Mode::Deletions, Mode::Latest, Mode::LatestWithDeletions][number as usize % 3];
        let keys = [1, 4, 64][number as usize / 3 % 3];
        let compression = if mode == Mode::Deletions { Compression::Deletions } else { Compression::Latest };
        Round {
            queue: Builder::new().compression(compression).build(),
            mode,
            seed: number * 1_000,
            keys: (0..keys).map(|_| PerKey::default()).collect(),
            numbers: Default::default(),
            clock: AtomicU64::new(1),
            offered: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            delivered_syncs: AtomicU64::new(0),
            delivered_listed: AtomicU64::new(0),
            delivered_deletions: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn make(&self, maker: usize, made_by: Made) -> Object {
        self.make_at(maker, made_by, self.now())
    }

    fn make_at(&self, maker: usize, made_by: Made, at: u64) -> Object {
        // One thread makes at a time, so the numbers of one maker rise in the order of its calls.
        Object { maker, number: self.numbers[maker].fetch_add(1, Ordering::SeqCst) + 1, made_by, at }
    }

    /// Waits until everything is processed, and counts.
    fn rest(&self) {
        let queue = &self.queue;
        let mut version = 0_u64;
        // Handlers make changes too, ever fewer.
        while version == 0 || queue.pending_len() + queue.leased_len() > 0 {
            version += 1;
            let mark = queue.mark(version).unwrap();
            mark.wait_timeout(LONG).expect("a change is lost, or a wake-up");
        }
        assert_eq!(queue.processed_through(), Some(version.into()));
        assert!(queue.has_synced() && queue.has_delivered());
        queue.wait_synced_timeout(LONG).unwrap();

        let (offered, syncs, listed) = (read(&self.offered), read(&self.synced), read(&self.listed));
        let delivered = read(&self.delivered);
        let (delivered_syncs, delivered_listed) = (read(&self.delivered_syncs), read(&self.delivered_listed));
        let total = delivered + delivered_syncs + delivered_listed + read(&self.delivered_deletions);
        // An item that was placed while a newer change was handed out may come to nothing: seldom.
        let few = if F::MERGES_LATE { 5 } else { 0 };
        match self.mode {
            Mode::Deletions => {
                let void = offered.checked_sub(delivered);
                assert!(void.is_some_and(|void| void <= few), "live deltas are lost or doubled: {void:?}");
                assert_eq!(delivered_syncs, syncs, "syncs are lost or doubled");
                assert!(delivered_listed <= listed);
            }
            Mode::Latest => {
                let void = (offered + syncs).checked_sub(total + queue.merged());
                assert!(void.is_some_and(|void| void <= few), "offered = delivered + merged: {void:?}")
            }
            Mode::LatestWithDeletions => assert!(total + queue.merged() >= offered + syncs),
        }
        let snapshot = queue.snapshot();
        let mut known = 0;
        for (key, per_key) in (0_u32..).zip(&self.keys) {
            let seen = per_key.seen.lock().unwrap();
            known += usize::from(seen.known.is_some());
            assert!(!per_key.leased.load(Ordering::SeqCst));
            assert_eq!(queue.known().get(&key), seen.known, "the known object of {key}");
            assert_eq!(snapshot.get(&key), seen.known);
        }
        assert_eq!(
            (queue.known().len(), queue.known().iter().count(), snapshot.len()),
            (known, known, known)
        );
        // Parked consumers wake.
        assert!(queue.close());
    }
}

/// The threads live for the whole test and meet at a barrier before and after each round.
fn rounds<F: Family>() {
    let rounds: u64 =
        std::env::var("DELTA_FIFO_HAMMER_ROUNDS").map_or(240, |rounds| rounds.parse().expect("a number"));
    let current: Mutex<Arc<Round<F>>> = Mutex::new(Arc::new(Round::new(0)));
    let (begin, produced, end) = (
        Barrier::new(PRODUCERS + CONSUMERS + 2),
        Barrier::new(PRODUCERS + 2),
        Barrier::new(PRODUCERS + CONSUMERS + 2),
    );
    let failed = AtomicBool::new(false);
    let each_round = |work: &dyn Fn(&Round<F>)| {
        for _ in 0..rounds {
            begin.wait();
            let round = Arc::clone(&current.lock().unwrap());
            // A thread that fails must not keep the others waiting at the barrier.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&round)));
            if result.is_err() {
                failed.store(true, Ordering::SeqCst);
                round.queue.close_discard();
            }
            end.wait();
            if failed.load(Ordering::SeqCst) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (each_round, produced) = (&each_round, &produced);
            scope.spawn(move || {
                each_round(&|round| {
                    let result =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round.produce(producer)));
                    produced.wait();
                    assert!(result.is_ok(), "producer {producer}");
                });
            });
        }
        let (replacing, produced_too) = (&each_round, &produced);
        scope.spawn(move || {
            replacing(&|round| {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round.replace()));
                produced_too.wait();
                assert!(result.is_ok(), "the replacer");
            });
        });
        for consumer in 0..CONSUMERS {
            let each_round = &each_round;
            scope.spawn(move || each_round(&|round| round.consume(consumer)));
        }
        for number in 0..rounds {
            let round = Arc::new(Round::<F>::new(number));
            round.first_list();
            *current.lock().unwrap() = Arc::clone(&round);
            begin.wait();
            produced.wait();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if !failed.load(Ordering::SeqCst) {
                    round.rest();
                }
            }));
            if result.is_err() {
                failed.store(true, Ordering::SeqCst);
                round.queue.close_discard();
            }
            end.wait();
            assert!(
                !failed.load(Ordering::SeqCst),
                "round {number}: {:?}, {} keys",
                round.mode,
                round.keys.len()
            );
            assert_eq!((round.queue.pending_len(), round.queue.leased_len()), (0, 0));
        }
    });
}

for_each_queue!(rounds);
