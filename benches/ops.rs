//! What one operation costs one thread: add, update, delete, pop + done, get, with one key, 1,000 and 100,000.
//!
//! `cargo bench --bench ops`; `-- ops/get` for some of it. Names are `ops/OPERATION/QUEUE/KEYS`, so criterion draws the queues of an
//! operation into one picture, and `critcmp BASELINE -g 'ops/(\w+)/\w+/(\d+)'` puts them side by side.
//!
//! Operations come in chunks of different keys, at most 1,024, and only the operation is timed: what it leaves behind is
//! popped, or put back, with the clock stopped. So each change makes a key pending and each pop finds one delta. With one
//! key the clock is read for each single operation; `ops/clock` is what that alone costs, and is part of those figures.
//!
//! Every pop is checked (key, kind, object, order), every get too, and the books after every sample.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use delta_fifo_perf::peers::{Baseline, Handler, Kind, Parking, Peer, Sharded};
use delta_fifo_perf::workload::{Key, KeySet, Object};

const KEYS: [usize; 3] = [1, 1_000, 100_000];
const CHUNK: usize = 1_024;

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = clock, ops
}
criterion_main!(benches);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Add,
    Update,
    Delete,
    PopDone,
    Get,
}

impl Operation {
    const ALL: [(&str, Self); 5] = [
        ("add", Self::Add),
        ("update", Self::Update),
        ("delete", Self::Delete),
        ("pop_done", Self::PopDone),
        ("get", Self::Get),
    ];
}

fn clock(criterion: &mut Criterion) {
    criterion.bench_function("ops/clock", |bencher| {
        bencher.iter_custom(|iters| (0..iters).map(|_| timed(|| ())).sum());
    });
}

fn ops(criterion: &mut Criterion) {
    for (name, operation) in Operation::ALL {
        let mut group = criterion.benchmark_group(format!("ops/{name}"));
        group.throughput(Throughput::Elements(1));
        for keys in KEYS {
            let keys = KeySet::new(keys, 1);
            bench::<Sharded>(&mut group, "sharded", operation, &keys);
            bench::<Baseline>(&mut group, "mutex", operation, &keys);
            bench::<Parking>(&mut group, "parking_lot", operation, &keys);
        }
        group.finish();
    }
}

fn bench<P: Peer>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    queue: &str,
    operation: Operation,
    keys: &KeySet,
) {
    group.bench_function(BenchmarkId::new(queue, keys.len()), |bencher| {
        let mut run = Run::<P>::new(operation, keys);
        bencher.iter_custom(|iters| run.time(usize::try_from(iters).expect("64 bits")));
    });
}

fn timed(what: impl FnOnce()) -> Duration {
    let start = Instant::now();
    what();
    start.elapsed()
}

/// A queue that goes round its keys.
struct Run<'k, P> {
    peer: P,
    keys: &'k KeySet,
    operation: Operation,
    /// Where the next chunk begins.
    next: usize,
    /// The number of the lap, which every object carries.
    lap: u64,
    /// Keys that are known.
    known: usize,
}

impl<'k, P: Peer> Run<'k, P> {
    /// With all keys known, but for `Add`.
    fn new(operation: Operation, keys: &'k KeySet) -> Self {
        let mut run = Self { peer: P::new(), keys, operation, next: 0, lap: 1, known: 0 };
        if operation != Operation::Add {
            run.whole_lap(Kind::Added);
        }
        run
    }

    fn time(&mut self, iters: usize) -> Duration {
        let elapsed = match self.operation {
            Operation::Get => self.gets(iters),
            _ => self.chunks(iters),
        };
        assert_eq!((self.peer.pending_len(), self.peer.leased_len(), self.peer.merged()), (0, 0, 0));
        assert_eq!(self.peer.known_len(), self.known);
        elapsed
    }

    /// Leaves nothing pending, so there is no need to stop the clock.
    fn gets(&mut self, iters: usize) -> Duration {
        let (peer, keys, lap) = (&self.peer, self.keys, self.lap);
        timed(|| {
            for number in (0..keys.len()).cycle().take(iters) {
                let got = peer.get_with(black_box(keys.key(number)), |object| (object.key, object.seq));
                assert_eq!(got, Some((number as u32, lap)));
            }
        })
    }

    fn chunks(&mut self, mut left: usize) -> Duration {
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            let chunk = self.next..(self.next + CHUNK.min(left)).min(self.keys.len());
            left -= chunk.len();
            self.next = chunk.end;
            elapsed += self.chunk(chunk);
            if self.next == self.keys.len() {
                self.end_lap();
            }
        }
        elapsed
    }

    fn chunk(&mut self, chunk: Range<usize>) -> Duration {
        match self.operation {
            Operation::Add => {
                let elapsed = timed(|| self.change(chunk.clone(), Kind::Added));
                self.drain(chunk, Kind::Added);
                elapsed
            }
            Operation::Delete => {
                let elapsed = timed(|| self.change(chunk.clone(), Kind::Deleted));
                self.drain(chunk, Kind::Deleted);
                elapsed
            }
            Operation::PopDone => {
                self.change(chunk.clone(), Kind::Updated);
                timed(|| self.drain(chunk, Kind::Updated))
            }
            Operation::Update | Operation::Get => {
                let elapsed = timed(|| self.change(chunk.clone(), Kind::Updated));
                self.drain(chunk, Kind::Updated);
                elapsed
            }
        }
    }

    /// Undoes what the lap did to the known objects.
    fn end_lap(&mut self) {
        self.next = 0;
        self.lap += 1;
        match self.operation {
            Operation::Add => self.whole_lap(Kind::Deleted),
            Operation::Delete => self.whole_lap(Kind::Added),
            _ => {}
        }
    }

    fn whole_lap(&mut self, kind: Kind) {
        for start in (0..self.keys.len()).step_by(CHUNK) {
            let chunk = start..(start + CHUNK).min(self.keys.len());
            self.change(chunk.clone(), kind);
            self.drain(chunk, kind);
        }
    }

    fn change(&self, chunk: Range<usize>, kind: Kind) {
        for number in chunk {
            let (key, object) = (self.keys.key(number).clone(), Object::new(0, number as u32, self.lap));
            match kind {
                Kind::Added => self.peer.add(key, object),
                Kind::Deleted => self.peer.delete(key, object),
                _ => self.peer.update(key, object),
            }
        }
    }

    /// One pop and done for each key of a chunk, in its order.
    fn drain(&mut self, chunk: Range<usize>, kind: Kind) {
        match kind {
            Kind::Added => self.known += chunk.len(),
            Kind::Deleted => self.known -= chunk.len(),
            _ => {}
        }
        let end = chunk.end;
        let mut expect = Expect { keys: self.keys, number: chunk.start, kind, lap: self.lap };
        for _ in chunk {
            self.peer.pop(&mut expect);
        }
        assert_eq!(expect.number, end, "one lease for each key");
    }
}

/// What the next lease has to be.
struct Expect<'k> {
    keys: &'k KeySet,
    number: usize,
    kind: Kind,
    lap: u64,
}

impl Handler for Expect<'_> {
    fn lease<'d>(&mut self, key: &Key, mut deltas: impl Iterator<Item = (Kind, &'d Object)>) {
        let (kind, object) = deltas.next().expect("a lease has deltas");
        assert_eq!((kind, object.key, object.seq), (self.kind, self.number as u32, self.lap));
        assert!(deltas.next().is_none(), "one change, one delta");
        let expected = self.keys.key(self.number);
        assert!(Key::ptr_eq(key, expected) || key == expected, "{key} instead of {expected}");
        self.number += 1;
    }
}
