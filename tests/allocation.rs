//! An allocation that fails ends the process, as with `std`'s collections: with the allocator's message, at once, and never with a call
//! that has half happened. Where the library can do without (more buckets for a table), it does.
//!
//! The allocations of a series of calls fail one at a time, each in a process of its own: of those of one size and alignment the first
//! and the last, or with `DELTA_FIFO_FAIL_ALL=1` all of them.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::{Duration, Instant};

use delta_fifo::{Builder, Change, DeltaQueue, KnownView};

use common::{Family, LONG, MutexQueues, ShardedQueues};

struct Failing;

thread_local! {
    /// Allocations of this thread; none is counted at the maximum.
    static COUNT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Which of them fails, from 0.
    static FAILS: Cell<usize> = const { Cell::new(usize::MAX) };
    /// What that asked for.
    static FAILED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// What was asked for: the size, and the alignment in the lowest bits.
static LAYOUTS: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

/// In the alignment of memory that was to be zeroed.
const ZEROED: usize = 1 << 12;

fn fails(layout: Layout, zeroed: usize) -> bool {
    let nth = COUNT.get();
    if nth == usize::MAX {
        return false;
    }
    COUNT.set(nth + 1);
    if let Some(asked) = LAYOUTS.get(nth) {
        asked.store(layout.size() << 13 | layout.align() | zeroed, Relaxed);
    }
    let fails = nth == FAILS.get();
    if fails {
        FAILED.set(Some((layout.size(), layout.align() | zeroed)));
    }
    fails
}

// SAFETY: all is the system's, or null.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if fails(layout, 0) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if fails(layout, ZEROED) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if fails(layout, 0) { std::ptr::null_mut() } else { unsafe { System.realloc(place, layout, size) } }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// More than the tables and the lists of a new queue have room for.
const KEYS: u64 = 90;

fn calls<F: Family>() {
    let builder = Builder::<u64, u64>::new().transform(|_| Ok(()));
    let queue: Arc<F::Queue<u64, u64>> = Arc::new(common::with_shards(builder, 1).build());
    for key in 0..KEYS {
        queue.add(key, key).unwrap();
    }
    queue.change_all((0..40).map(|key| Change::Update(key, key + 1))).unwrap();
    let snapshot = queue.snapshot();
    let mut taken = 0;
    while let Ok(batch) = queue.try_pop_batch(100) {
        taken += batch.len();
        batch.done();
    }
    assert_eq!((taken, queue.known().len(), snapshot.len()), (KEYS as usize, KEYS as usize, 0));
    let snapshot = queue.snapshot();
    let list = queue.replace((0..KEYS).filter(|key| key % 3 > 0).map(|key| (key, key + 2))).unwrap();
    let mark = queue.mark(1_u64).unwrap();
    let mut pop = Box::pin(queue.pop_async_owned());
    let waker = Waker::noop();
    let mut cx = std::task::Context::from_waker(waker);
    let std::task::Poll::Ready(Ok(lease)) = pop.as_mut().poll(&mut cx) else { panic!("a key is in line") };
    lease.requeue_after(Duration::ZERO);
    drop(pop);
    while let Ok(lease) = queue.pop_timeout(Duration::from_millis(1)) {
        lease.done();
    }
    assert!(list.is_complete() && mark.is_complete());
    assert_eq!((queue.known().iter().count(), snapshot.iter().count()), (60, KEYS as usize));
    let mut waits = Box::pin(queue.pop_async_owned());
    assert!(waits.as_mut().poll(&mut cx).is_pending());
    let replace = queue.begin_replace().unwrap();
    for key in 0..KEYS {
        replace.upsert(key, key).unwrap();
    }
    replace.commit().unwrap();
    drop(waits);
    assert_eq!(queue.resync().unwrap(), 0);
    assert_eq!(queue.close_discard().keys, KEYS);
    assert!(queue.close_and_wait_timeout(Duration::ZERO).is_ok());
}

/// Size and alignment of all that was asked for.
fn layouts() -> impl Iterator<Item = (usize, usize)> {
    let layouts = LAYOUTS.iter().map(|layout| layout.load(Relaxed));
    layouts.take_while(|layout| *layout != 0).map(|layout| (layout >> 13, layout & 0x1fff))
}

/// The variable that says which allocation is to fail in this process.
const NTH: &str = "DELTA_FIFO_FAIL_NTH";

/// What such a process does; or false, if this is none.
fn in_a_process<F: Family>() -> bool {
    let Ok(nth) = std::env::var(NTH) else { return false };
    FAILS.set(nth.parse().unwrap_or(usize::MAX));
    COUNT.set(0);
    calls::<F>();
    COUNT.set(usize::MAX);
    // None has failed, or it could do without. (Hashes are random: there may be fewer than last time, or others.)
    match FAILED.get() {
        Some((size, align)) => println!("layout {size} {align}"),
        None if nth == ALL => layouts().for_each(|(size, align)| println!("layout {size} {align}")),
        None => {}
    }
    println!("went on");
    true
}

/// That none is to fail, and all are to be told.
const ALL: &str = "all";

/// None: it was aborted. Else what the one asked for that has failed, or all.
fn run(test: &str, nth: &str) -> Option<Vec<(usize, usize)>> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads", "1"])
        .env(NTH, nth)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let told = std::thread::spawn(move || std::io::read_to_string(&mut stdout).unwrap());
    let limit = Instant::now() + LONG;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("allocation {nth}: neither an end nor an abort");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let (output, told) = (child.wait_with_output().unwrap(), told.join().unwrap());
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        assert!(told.contains("went on"), "allocation {nth}: {told}");
        let layouts = told.lines().filter_map(|line| line.split_once("layout ")?.1.split_once(' '));
        return Some(layouts.map(|(size, align)| (size.parse().unwrap(), align.parse().unwrap())).collect());
    }
    assert!(output.status.code().is_none(), "allocation {nth}: {}\n{errors}", output.status);
    assert!(
        errors.contains("memory allocation of") && !errors.contains("panicked"),
        "allocation {nth}: {errors}"
    );
    None
}

fn each_fails(test: &str, tables_do_without: bool) {
    let layouts = run(test, ALL).expect("nothing has failed");
    let mut chosen = BTreeSet::new();
    for (nth, layout) in layouts.iter().enumerate() {
        let first = layouts.iter().position(|other| other == layout) == Some(nth);
        let last = layouts.iter().rposition(|other| other == layout) == Some(nth);
        if first || last || std::env::var("DELTA_FIFO_FAIL_ALL").is_ok() {
            chosen.insert(nth);
        }
    }
    let mut went_on = 0;
    for nth in &chosen {
        for (size, align) in run(test, &nth.to_string()).into_iter().flatten() {
            // The buckets of a table.
            let buckets = tables_do_without && align == 4 | ZEROED;
            assert!(buckets, "went on without {size} bytes, aligned to {align}");
            went_on += 1;
        }
    }
    println!("{} of {} allocations: {went_on} can be done without", chosen.len(), layouts.len());
    assert_eq!(went_on > 0, tables_do_without);
}

#[test]
fn mutex() {
    if !in_a_process::<MutexQueues>() {
        each_fails("mutex", false);
    }
}

#[test]
fn sharded() {
    if !in_a_process::<ShardedQueues>() {
        each_fails("sharded", true);
    }
}
