//! What whole lives cost: of a key, of a queue, of a list, of a lease that does not end as it should.
//!
//! `cargo bench --bench lifecycle`; `-- lifecycle/relist` for some of it. Names are `lifecycle/OPERATION/QUEUE/KEYS`, so criterion draws
//! the queues of an operation into one picture, and `critcmp BASELINE -g 'lifecycle/(\w+)/\w+/(\d+)'` puts them side by side. One thread.
//!
//! | operation | of what | beside |
//! |---|---|---|
//! | `life` | a key: add, three updates, delete; a pop after each, but one for the last two updates | so many known keys |
//! | `new` | a queue: construction and drop, empty | |
//! | `fill` | a queue: construction, so many keys added and popped, one by one | |
//! | `drop_filled` | a queue with so many known keys: its drop | |
//! | `first_list` | so many keys: the first replace, and all pops until it is handled, which is when a controller has synced | |
//! | `relist` | so many known keys: a replace in which 10 % are missing, and all pops | |
//! | `close_drain` | a queue with so many pending keys: close, and pops until it is empty | |
//! | `requeue_after` | a lease that ends with a delay, and its return | so many known keys |
//! | `abandoned` | a lease that is dropped, and its return | so many known keys |
//! | `panicked` | a lease that is dropped by a panic, and its return | so many known keys |
//!
//! `parking_lot` is not in the last three: its leases always end with their handler, it knows neither delays nor leases that are
//! abandoned. What is made ready for an operation, and what it leaves behind, is not timed. Everything that is popped is counted.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{Builder, DeltaFifo, DeltaQueue, Lease, OnAbandon};
use delta_fifo_perf::peers::{Baseline, Handler, Hashing, Kind, Lists, Parking, Sharded};
use delta_fifo_perf::workload::{Key, KeySet, Object};

const KEYS: [usize; 2] = [1_000, 100_000];
/// In a test (as criterion sees it: with `--test`, or without `--bench`) each benchmark runs once.
const MOST_IN_A_TEST: usize = 1_000;
/// The shortest there is: over when the next pop looks.
const DELAY: Duration = Duration::from_nanos(1);

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10);
    targets = lifecycle
}
criterion_main!(benches);

fn lifecycle(criterion: &mut Criterion) {
    let has = |wanted| std::env::args().any(|argument| argument == wanted);
    let is_test = has("--test") || !has("--bench");
    bench(
        criterion,
        "new",
        0,
        1,
        [("sharded", new::<Sharded>), ("mutex", new::<Baseline>), ("parking_lot", new::<Parking>)],
    );
    for count in KEYS.into_iter().filter(|&count| !is_test || count <= MOST_IN_A_TEST) {
        macro_rules! operation {
            ($name:ident, $elements:expr) => {
                let queues = [
                    ("sharded", $name::<Sharded> as Run),
                    ("mutex", $name::<Baseline>),
                    ("parking_lot", $name::<Parking>),
                ];
                bench(criterion, stringify!($name), count, $elements, queues);
            };
            (lease $name:ident) => {
                let queues = [
                    ("sharded", $name::<DeltaFifo<Key, Object, Hashing>> as Run),
                    ("mutex", $name::<MutexDeltaFifo<Key, Object, Hashing>>),
                ];
                bench(criterion, stringify!($name), count, 1, queues);
            };
        }
        operation!(life, 1);
        operation!(fill, count);
        operation!(drop_filled, count);
        operation!(first_list, count);
        operation!(relist, count);
        operation!(close_drain, count);
        operation!(lease requeue_after);
        operation!(lease abandoned);
        operation!(lease panicked);
    }
}

/// Makes ready what all iterations share, and gives what says how long so many of them take.
type Run = for<'s> fn(&'s Sets) -> Timed<'s>;
type Timed<'s> = Box<dyn Fn(usize) -> Duration + 's>;

struct Sets {
    keys: KeySet,
    absent: KeySet,
}

/// `elements`: of one iteration.
fn bench<const N: usize>(
    criterion: &mut Criterion,
    operation: &str,
    count: usize,
    elements: usize,
    queues: [(&str, Run); N],
) {
    let mut group = criterion.benchmark_group(format!("lifecycle/{operation}"));
    group.throughput(Throughput::Elements(elements as u64)).sampling_mode(SamplingMode::Flat);
    let sets = Sets { keys: KeySet::new(count, 1), absent: KeySet::absent(count, 1) };
    for (queue, run) in queues {
        // Only if it is asked for.
        let mut ready = None;
        group.bench_function(BenchmarkId::new(queue, count), |bencher| {
            let run = ready.get_or_insert_with(|| run(&sets));
            bencher.iter_custom(|iters| run(usize::try_from(iters).expect("64 bits")));
        });
    }
    group.finish();
}

/// What is handed out.
#[derive(Debug, Default, PartialEq)]
struct Count {
    leases: usize,
    changes: usize,
    deleted: usize,
}

impl Handler for Count {
    fn lease<'d>(&mut self, _: &Key, deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        self.leases += 1;
        for (kind, object) in deltas {
            self.changes += 1;
            self.deleted += usize::from(kind.deletes());
            debug_assert!(object.is_whole());
        }
    }
}

fn object(number: usize, seq: u64) -> Object {
    Object::new(0, number as u32, seq)
}

fn objects(keys: &KeySet) -> impl Iterator<Item = (Key, Object)> {
    (0..keys.len()).map(|number| (keys.key(number).clone(), object(number, 1)))
}

/// Pops so many leases.
fn pop<P: Lists>(peer: &P, leases: usize) -> Count {
    let mut count = Count::default();
    while count.leases < leases {
        assert!(peer.pop(&mut count));
    }
    count
}

/// A queue whose keys are all known.
fn filled<P: Lists>(keys: &KeySet) -> P {
    let peer = P::new();
    for (key, object) in objects(keys) {
        peer.add(key, object);
        pop(&peer, 1);
    }
    check(&peer, keys.len());
    peer
}

fn check<P: Lists>(peer: &P, known: usize) {
    assert_eq!((peer.pending_len(), peer.leased_len(), peer.known_len()), (0, 0, known));
}

fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let out = what();
    (start.elapsed(), out)
}

fn life<P: Lists + 'static>(sets: &Sets) -> Timed<'_> {
    let peer: P = filled(&sets.keys);
    Box::new(move |iters| {
        let (elapsed, ()) = timed(|| {
            for number in (0..sets.absent.len()).cycle().take(iters) {
                live(&peer, sets.absent.key(number), number);
            }
        });
        check(&peer, sets.keys.len());
        elapsed
    })
}

fn live<P: Lists>(peer: &P, key: &Key, number: usize) {
    peer.add(key.clone(), object(number, 1));
    pop(peer, 1);
    peer.update(key.clone(), object(number, 2));
    pop(peer, 1);
    peer.update(key.clone(), object(number, 3));
    peer.update(key.clone(), object(number, 4));
    pop(peer, 1);
    peer.delete(key.clone(), object(number, 5));
    assert_eq!(pop(peer, 1), Count { leases: 1, changes: 1, deleted: 1 });
}

fn new<P: Lists>(_: &Sets) -> Timed<'_> {
    Box::new(|iters| timed(|| (0..iters).for_each(|_| drop(black_box(P::new())))).0)
}

fn fill<P: Lists>(sets: &Sets) -> Timed<'_> {
    Box::new(|iters| (0..iters).map(|_| timed(|| filled::<P>(&sets.keys)).0).sum())
}

fn drop_filled<P: Lists>(sets: &Sets) -> Timed<'_> {
    let one = move |_| {
        let peer: P = filled(&sets.keys);
        timed(|| drop(peer)).0
    };
    Box::new(move |iters| (0..iters).map(one).sum())
}

fn first_list<P: Lists>(sets: &Sets) -> Timed<'_> {
    let listed = sets.keys.len();
    let one = move |_| {
        let (peer, list) = (P::new(), objects(&sets.keys).collect());
        let (elapsed, count) = timed(|| {
            peer.replace(list);
            pop(&peer, listed)
        });
        assert_eq!(count, Count { leases: listed, changes: listed, deleted: 0 });
        check(&peer, listed);
        elapsed
    };
    Box::new(move |iters| (0..iters).map(one).sum())
}

/// In each list others are missing; those that were missing in the last have come back meanwhile.
fn relist<P: Lists + 'static>(sets: &Sets) -> Timed<'_> {
    const OF: usize = 10;
    let (peer, known): (P, usize) = (filled(&sets.keys), sets.keys.len());
    let one = move |round| {
        let is_missing = |number| number % OF == round % OF;
        let (missing, listed): (Vec<_>, Vec<_>) =
            objects(&sets.keys).partition(|(_, object)| is_missing(object.key as usize));
        let (elapsed, count) = timed(|| {
            peer.replace(listed);
            pop(&peer, known)
        });
        assert_eq!(count, Count { leases: known, changes: known, deleted: missing.len() });
        check(&peer, known - missing.len());
        for (key, object) in missing {
            peer.add(key, object);
            pop(&peer, 1);
        }
        elapsed
    };
    Box::new(move |iters| (0..iters).map(&one).sum())
}

fn close_drain<P: Lists>(sets: &Sets) -> Timed<'_> {
    let pending = sets.keys.len();
    let one = move |_| {
        let peer: P = filled(&sets.keys);
        objects(&sets.keys).for_each(|(key, object)| peer.update(key, object));
        let mut count = Count::default();
        let (elapsed, ()) = timed(|| {
            peer.close();
            while peer.pop(&mut count) {}
        });
        assert_eq!(count, Count { leases: pending, changes: pending, deleted: 0 });
        check(&peer, pending);
        elapsed
    };
    Box::new(move |iters| (0..iters).map(one).sum())
}

fn requeue_after<Q: Target>(sets: &Sets) -> Timed<'_> {
    returning::<Q>(sets, |lease| lease.requeue_after(DELAY))
}

fn abandoned<Q: Target>(sets: &Sets) -> Timed<'_> {
    returning::<Q>(sets, |lease| drop(lease))
}

fn panicked<Q: Target>(sets: &Sets) -> Timed<'_> {
    returning::<Q>(sets, |lease| {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _lease = lease;
            // Without the hook, which would print it.
            resume_unwind(Box::new(()))
        }));
        assert!(panic.is_err());
    })
}

trait Target: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing> + 'static {}
impl<Q: DeltaQueue<Key = Key, Value = Object, Hasher = Hashing> + 'static> Target for Q {}

/// A lease that ends in some way and comes back, over and over.
fn returning<Q: Target>(sets: &Sets, end: fn(Lease<'_, Q>)) -> Timed<'_> {
    let queue: Q = Builder::with_hasher(Hashing::default()).on_abandon(OnAbandon::Requeue).build();
    for (key, object) in objects(&sets.keys) {
        queue.add(key, object).expect("it is open");
        queue.pop().expect("it is open").done();
    }
    Box::new(move |iters| {
        let number = sets.keys.len() / 2;
        queue.update(sets.keys.key(number).clone(), object(number, 2)).expect("it is open");
        let pop = || queue.pop().expect("it is open");
        let (elapsed, lease) = timed(|| {
            (0..iters).fold(pop(), |lease, _| {
                end(lease);
                pop()
            })
        });
        assert_eq!(lease.attempts() as usize, 1 + iters);
        assert_eq!((lease.key(), lease.deltas().iter().count()), (sets.keys.key(number), 1));
        lease.done();
        elapsed
    })
}
