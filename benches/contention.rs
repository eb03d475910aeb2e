//! What a change costs, from the producer's call to the end of its lease, when 1, 2 and 4 producers and as many consumers
//! work at once: one by one, and in batches of 32 on both sides.
//!
//! `cargo bench --bench contention`. Names are `contention/HOW/QUEUE/THREADS`, so criterion draws the queues into one picture, and
//! `critcmp BASELINE -g 'contention/(\w+)/\w+/(\w+)'` puts them side by side.
//!
//! The workload is the laboratory's W1, windowed, with its checks: every change is one pop, and a run that loses, doubles or
//! reorders anything panics. Filling the queue and starting the threads are not timed. This shows a change of the code
//! quickly; what may be claimed about the queues comes from `compare` in `perf/`, which interleaves them.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
};
use delta_fifo_perf::peers::{Baseline, Parking, Peer, Sharded};
use delta_fifo_perf::workload::{Case, KeySet, Parts, windowed};

const KNOWN: usize = 1_000;
const THREADS: [usize; 3] = [1, 2, 4];
const BATCHES: [(&str, usize); 2] = [("single", 1), ("batch32", 32)];

/// Long enough for a busy machine, short enough to notice a queue that is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(10);
    targets = contention
}
criterion_main!(benches);

fn contention(criterion: &mut Criterion) {
    let keys = KeySet::new(KNOWN, 1);
    for (how, batch) in BATCHES {
        let mut group = criterion.benchmark_group(format!("contention/{how}"));
        group.throughput(Throughput::Elements(1)).sampling_mode(SamplingMode::Flat);
        for threads in THREADS {
            bench::<Sharded>(&mut group, "sharded", threads, batch, &keys);
            bench::<Baseline>(&mut group, "mutex", threads, batch, &keys);
            bench::<Parking>(&mut group, "parking_lot", threads, batch, &keys);
        }
        group.finish();
    }
}

fn bench<P: Peer>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    queue: &str,
    threads: usize,
    batch: usize,
    keys: &KeySet,
) {
    group.bench_function(BenchmarkId::new(queue, format!("{threads}x{threads}")), |bencher| {
        bencher.iter_custom(|iters| {
            let iters = usize::try_from(iters).expect("64 bits");
            // Each producer makes the same number of changes.
            let changes = iters.next_multiple_of(threads);
            let (producers, consumers) = (threads, threads);
            let case =
                Case { producers, consumers, batch, changes, patience: PATIENCE, parts: Parts::default() };
            let outcome = windowed::run(&P::new(), &case, keys);
            assert_eq!(outcome.violations, [""; 0]);
            outcome.elapsed.mul_f64(iters as f64 / outcome.changes as f64)
        });
    });
}
