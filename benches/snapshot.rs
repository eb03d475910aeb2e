//! What it costs to look at all known objects as of one moment, to go through them, and to look one up.
//!
//! `cargo bench --bench snapshot`; `-- snapshot/scan` for some of it. Names are `snapshot/OPERATION/QUEUE/KEYS`, so criterion draws the
//! queues of an operation into one picture, and `critcmp BASELINE -g 'snapshot/(\w+)/\w+/(\d+)'` puts them side by side.
//!
//! `snapshot` is taking one, with a change since the last; it is dropped with the clock stopped. `scan` goes through a snapshot
//! and touches every object, per object. `get_hit` and `get_miss` ask the live queue. One thread; what readers cost a writer comes from
//! `snapshots` in `perf/`, which also has maps to compare with. Every scan and every get is checked.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use delta_fifo_perf::peers::{Baseline, Parking, Sharded};
use delta_fifo_perf::stores::{Snapshot, Store};
use delta_fifo_perf::workload::{KeySet, Object};

const KEYS: [usize; 3] = [1_000, 100_000, 1_000_000];
/// In a test (as criterion sees it: with `--test`, or without `--bench`) each benchmark runs once, and to fill the queue is all that
/// takes time.
const MOST_IN_A_TEST: usize = 100_000;

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10);
    targets = snapshot
}
criterion_main!(benches);

fn snapshot(criterion: &mut Criterion) {
    let has = |wanted| std::env::args().any(|argument| argument == wanted);
    let is_test = has("--test") || !has("--bench");
    for count in KEYS.into_iter().filter(|&count| !is_test || count <= MOST_IN_A_TEST) {
        let sets = Sets { keys: KeySet::new(count, 1), absent: KeySet::absent(count, 1) };
        bench::<Sharded>(criterion, "sharded", &sets);
        bench::<Baseline>(criterion, "mutex", &sets);
        bench::<Parking>(criterion, "parking_lot", &sets);
    }
}

struct Sets {
    keys: KeySet,
    absent: KeySet,
}

/// All operations on one queue, which is filled once, and only if any of them is asked for.
fn bench<S: Store>(criterion: &mut Criterion, queue: &str, sets: &Sets) {
    let run = std::cell::OnceCell::new();
    let run = || run.get_or_init(|| Run::<S>::new(sets));
    let mut one = |operation: &str, time: &dyn Fn(&Run<'_, S>, usize) -> Duration| {
        let mut group: BenchmarkGroup<'_, WallTime> =
            criterion.benchmark_group(format!("snapshot/{operation}"));
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new(queue, sets.keys.len()), |bencher| {
            let run = run();
            bencher.iter_custom(|iters| time(run, usize::try_from(iters).expect("64 bits")));
        });
        group.finish();
    };
    one("snapshot", &|run, iters| run.snapshots(iters));
    one("scan", &|run, iters| run.scans(iters));
    one("get_hit", &|run, iters| run.gets(&sets.keys, true, iters));
    one("get_miss", &|run, iters| run.gets(&sets.absent, false, iters));
}

struct Run<'k, S> {
    store: S,
    keys: &'k KeySet,
    /// Writes so far; each key has its own number of them.
    writes: std::cell::Cell<usize>,
}

impl<'k, S: Store> Run<'k, S> {
    fn new(sets: &'k Sets) -> Self {
        Self { store: S::filled(&sets.keys), keys: &sets.keys, writes: Default::default() }
    }

    fn write(&self) {
        let write = self.writes.replace(self.writes.get() + 1);
        let number = write % self.keys.len();
        let seq = 2 + (write / self.keys.len()) as u64;
        self.store.write(self.keys.key(number), Object::new(0, number as u32, seq));
    }

    fn snapshots(&self, iters: usize) -> Duration {
        let one = |_| {
            self.write();
            let start = Instant::now();
            let snapshot = self.store.snapshot();
            let elapsed = start.elapsed();
            drop(black_box(snapshot));
            elapsed
        };
        (0..iters).map(one).sum()
    }

    fn scans(&self, iters: usize) -> Duration {
        let snapshot = self.store.snapshot();
        let (start, mut seen) = (Instant::now(), 0);
        while seen < iters {
            let (before, mut changes) = (seen, 0);
            snapshot.scan(|_, object| {
                seen += 1;
                changes += object.seq;
                assert!(object.is_whole());
            });
            assert_eq!(seen - before, self.keys.len());
            assert_eq!(changes as usize, self.keys.len() + self.writes.get());
        }
        start.elapsed().mul_f64(iters as f64 / seen as f64)
    }

    fn gets(&self, asked: &KeySet, are_there: bool, iters: usize) -> Duration {
        let start = Instant::now();
        for number in (0..asked.len()).cycle().take(iters) {
            let got = self.store.get_with(black_box(asked.key(number)), |object| object.key);
            assert_eq!(got, are_there.then_some(number as u32));
        }
        start.elapsed()
    }
}
