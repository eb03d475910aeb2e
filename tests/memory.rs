//! Memory comes back: what fresh keys take once, later ones use again. All allocations of the process are counted.
//!
//! `DELTA_FIFO_FRESH_KEYS` says how many keys go through (in the default run few enough for a debug build).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use delta_fifo::{Builder, Change, Compression, DeltaFifo, DeltaQueue, KnownView};

struct Counting;

/// Bytes that are allocated and not freed.
static ALIVE: AtomicIsize = AtomicIsize::new(0);
/// The same in arrays of 4-byte things that are not small: the tables' buckets.
static BUCKETS: AtomicIsize = AtomicIsize::new(0);

fn in_buckets(layout: Layout) -> isize {
    if layout.align() == 4 && layout.size() >= 256 { layout.size() as isize } else { 0 }
}

thread_local! {
    /// Calls of the allocator by this thread: the harness makes some at any time.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is the system's; only counts are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALIVE.fetch_add(layout.size() as isize, Relaxed);
        BUCKETS.fetch_add(in_buckets(layout), Relaxed);
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALIVE.fetch_sub(layout.size() as isize, Relaxed);
        BUCKETS.fetch_sub(in_buckets(layout), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time: they count the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn alive() -> isize {
    ALIVE.load(Relaxed)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// Keys that are known at a time.
const KNOWN: usize = 1_000;

/// Each key comes, changes, goes, and is forgotten, while `KNOWN` others are known.
fn churn(queue: &DeltaFifo<u64, [u64; 4]>, keys: std::ops::Range<u64>, known: &mut VecDeque<u64>) {
    let pop = || queue.try_pop().expect("it is in line").done();
    for key in keys {
        queue.add(key, [key; 4]).unwrap();
        queue.update(key, [key; 4]).unwrap();
        pop();
        known.push_back(key);
        if known.len() > KNOWN {
            queue.delete_key(known.pop_front().expect("there are some")).unwrap();
            pop();
        }
    }
}

#[test]
fn fresh_keys_use_what_older_ones_have_left() {
    let _alone = ALONE.lock();
    let queue = DeltaFifo::<u64, [u64; 4]>::new();
    let mut known = VecDeque::with_capacity(2 * KNOWN);
    let keys = number("DELTA_FIFO_FRESH_KEYS", 200_000);
    let warm = 50_000;
    churn(&queue, 0..warm, &mut known);
    let before = alive();
    let (mut least, mut most) = (before, before);
    for tenth in 0..10 {
        let from = warm + keys / 10 * tenth;
        churn(&queue, from..from + keys / 10, &mut known);
        (least, most) = (least.min(alive()), most.max(alive()));
    }
    assert_eq!(queue.known().len(), KNOWN);
    // What waits for a grace period comes and goes, in the collector's bags.
    let wobble = 128 * 1024;
    assert!(most - least < wobble, "from {least} to {most} bytes, of {keys} keys that came and went");
}

/// However often keys change while nobody takes them, memory is bounded by their number.
#[test]
fn under_latest_memory_is_bounded_by_the_keys() {
    let _alone = ALONE.lock();
    let queue: DeltaFifo<u64, [u64; 4]> = Builder::new().compression(Compression::Latest).build();
    let lap = || {
        for key in 0..KNOWN as u64 {
            queue.update(key, [key; 4]).unwrap();
        }
    };
    // Until each shard has merged away what it keeps for a consumer to drop.
    (0..200).for_each(|_| lap());
    let before = alive();
    (0..number("DELTA_FIFO_FRESH_KEYS", 200_000) / KNOWN as u64).for_each(|_| lap());
    assert_eq!(alive(), before);
    assert_eq!(queue.pending_len(), KNOWN);
}

/// What so many runs of `lap` cost each, when the first have made room for everything.
fn calls_of(laps: usize, mut lap: impl FnMut()) -> Vec<usize> {
    (0..20).for_each(|_| lap());
    let mut calls = Vec::with_capacity(laps);
    for _ in 0..laps {
        let before = CALLS.get();
        lap();
        calls.push(CALLS.get() - before);
    }
    calls
}

#[test]
fn a_change_and_its_pop_allocate_nothing() {
    let _alone = ALONE.lock();
    let queue = DeltaFifo::<u64, [u64; 4]>::new();
    let calls = calls_of(100, || {
        for key in 0..KNOWN as u64 {
            queue.add(key, [key; 4]).unwrap();
            queue.try_pop().unwrap().done();
        }
    });
    assert_eq!(calls, [0; 100], "for {KNOWN} changes each");
}

/// Keys wait in line in thousands, so that segments of the line come and go.
#[test]
fn changes_that_wait_in_line_allocate_nothing() {
    let _alone = ALONE.lock();
    let queue = DeltaFifo::<u64, [u64; 4]>::new();
    let keys = 5 * KNOWN as u64;
    let calls = calls_of(20, || {
        (0..keys).for_each(|key| queue.update(key, [key; 4]).unwrap());
        (0..keys).for_each(|_| queue.try_pop().unwrap().done());
    });
    assert_eq!(calls, [0; 20], "for {keys} changes each");
}

/// In batches the calls themselves have lists, of changes and of leases. What is behind them has none.
#[test]
fn batches_allocate_their_own_lists_alone() {
    const BATCH: usize = 25;
    let _alone = ALONE.lock();
    let queue = DeltaFifo::<u64, [u64; 4]>::new();
    let keys: Vec<u64> = (0..KNOWN as u64).collect();
    let calls = calls_of(100, || {
        for some in keys.chunks(BATCH) {
            queue.change_all(some.iter().map(|key| Change::Update(*key, [*key; 4]))).unwrap();
            queue.try_pop_batch(BATCH).unwrap().done();
        }
    });
    let each = calls[0] / (KNOWN / BATCH);
    assert!(each <= 6, "{each} calls of the allocator for a batch of changes and one of leases");
    assert_eq!(calls, [each * (KNOWN / BATCH); 100], "as many for each batch");
}

/// When keys have gone, the buckets of the tables go too: most while they do, the rest as others come and go, as grace periods have
/// to pass in between.
#[test]
fn buckets_of_keys_that_are_gone_are_freed() {
    const KEYS: u64 = 100_000;
    let _alone = ALONE.lock();
    let queue: DeltaFifo<u64, [u64; 4]> = Builder::new().shards(1).build();
    let before = BUCKETS.load(Relaxed);
    let taken = || BUCKETS.load(Relaxed) - before;
    let pop = || queue.try_pop().expect("it is in line").done();
    for lap in 0..2 {
        for key in 0..KEYS {
            queue.add(key, [key; 4]).unwrap();
            pop();
        }
        let most = taken();
        assert!(most >= 4 * KEYS as isize / 2, "{most} bytes in lap {lap}");
        for key in 0..KEYS {
            queue.delete_key(key).unwrap();
            pop();
        }
        let left = taken();
        assert!(left <= most / 16, "{left} of {most} bytes in lap {lap}");
        for _ in 0..20_000 {
            queue.add(0, [0; 4]).unwrap();
            pop();
            queue.delete_key(0).unwrap();
            pop();
        }
        assert_eq!(taken(), 0, "in lap {lap}, of {most} bytes");
    }
}
