//! Addresses and indices that are used again at once: the allocator of this program hands out the block that was freed last, of the same
//! size and alignment, whoever freed it. So what is freed too early, or known by its address alone, is something else in no time.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use delta_fifo::{Builder, Change, Compression, DeltaQueue, KnownObject, KnownView, OwnedLease};

use common::{Family, Random, for_each_queue};

/// Free blocks of one size, linked by their first word.
struct Stack {
    locked: AtomicBool,
    first: UnsafeCell<*mut u8>,
}

// SAFETY: `first` is touched under the lock alone.
unsafe impl Sync for Stack {}

impl Stack {
    #[expect(clippy::declare_interior_mutable_const, reason = "to fill an array")]
    const EMPTY: Self = Stack { locked: AtomicBool::new(false), first: UnsafeCell::new(null_mut()) };

    fn with<T>(&self, f: impl FnOnce(&mut *mut u8) -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.first.get() });
        self.locked.store(false, Ordering::Release);
        result
    }
}

/// Sizes in steps of 16 up to this; what is larger, or more aligned, is the system's.
const SMALL: usize = 4096;
const ALIGN: usize = 64;

/// For alignments up to 16, and up to 64.
static STACKS: [[Stack; SMALL / 16]; 2] = [[Stack::EMPTY; SMALL / 16], [Stack::EMPTY; SMALL / 16]];
/// Blocks that were handed out again.
static AGAIN: AtomicUsize = AtomicUsize::new(0);

struct Lifo;

/// Where blocks of this layout are kept, and what they all have.
fn stack(layout: Layout) -> Option<(&'static Stack, Layout)> {
    let steps = layout.size().max(1).div_ceil(16);
    let far = layout.align() > 16;
    if layout.size() > SMALL || layout.align() > ALIGN {
        return None;
    }
    let size = Layout::from_size_align(steps * 16, if far { ALIGN } else { 16 }).ok()?;
    Some((&STACKS[usize::from(far)][steps - 1], size))
}

// SAFETY: a block is of the system, of the size and alignment of its stack, and is in the stack or out.
unsafe impl GlobalAlloc for Lifo {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((stack, layout)) = stack(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        let again = stack.with(|first| {
            let block = *first;
            if !block.is_null() {
                // SAFETY: it is free, and its first word leads on.
                *first = unsafe { block.cast::<*mut u8>().read() };
            }
            block
        });
        if again.is_null() {
            // SAFETY: it has a size.
            return unsafe { System.alloc(layout) };
        }
        AGAIN.fetch_add(1, Ordering::Relaxed);
        again
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((stack, layout)) = stack(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: nobody has it any more. What is read of it by mistake is plainly wrong.
        unsafe { block.write_bytes(0xA5, layout.size()) };
        stack.with(|first| {
            // SAFETY: as above.
            unsafe { block.cast::<*mut u8>().write(*first) };
            *first = block;
        });
    }
}

#[global_allocator]
static ALLOCATOR: Lifo = Lifo;

/// An object that knows what it is: which queue, which key, which change. All of it is also on the heap, so that memory that is not its
/// own any more shows.
#[derive(Debug)]
struct Object {
    queue: u64,
    key: u32,
    number: u64,
    twin: Box<(u64, u32, u64)>,
}

static ALIVE: AtomicUsize = AtomicUsize::new(0);

impl Object {
    fn new(queue: u64, key: u32, number: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Object { queue, key, number, twin: Box::new((queue, key, number)) }
    }

    #[track_caller]
    fn check(&self, queue: u64, key: u32) -> u64 {
        assert_eq!((self.queue, self.key), (queue, key), "another queue's, or another key's");
        assert_eq!(*self.twin, (queue, key, self.number));
        self.number
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

const KEYS: u32 = 3;
const THREADS: u64 = 4;

type Queue<F> = <F as Family>::Queue<Box<u32>, Object>;

/// One thread's part of a round: changes, leases of every ending, snapshots, lists.
fn work<F: Family>(queue: &Arc<Queue<F>>, id: u64, numbers: &AtomicU64, random: &mut Random) {
    let number = || numbers.fetch_add(1, Ordering::Relaxed);
    let mut held: Vec<OwnedLease<Queue<F>>> = Vec::new();
    let mut snapshots = Vec::new();
    for _ in 0..60 {
        let key = random.below(KEYS.into()) as u32;
        let object = || Object::new(id, key, number());
        match random.below(16) {
            0..4 => queue.add(Box::new(key), object()).unwrap(),
            4 => queue.delete(Box::new(key), object()).unwrap(),
            5 => queue.delete_key(Box::new(key)).unwrap(),
            6 => {
                let changes =
                    (0..KEYS).map(|key| Change::Apply(Box::new(key), Object::new(id, key, number())));
                queue.change_all(changes).unwrap();
            }
            7 => drop(queue.replace([(Box::new(key), object())])),
            8 => drop(queue.resync()),
            9 => {
                if let Ok(replace) = queue.begin_replace() {
                    replace.upsert(Box::new(key), object()).unwrap();
                }
            }
            10 => snapshots.push(queue.snapshot()),
            11 => drop(snapshots.pop()),
            12 => {
                let seen = queue.known().get_with(&Box::new(key), |object| object.check(id, key));
                let found = queue.known().find(&Box::new(key));
                found.iter().for_each(|found| _ = found.object().check(id, **found.key()));
                assert!(seen.is_none_or(|seen| seen < numbers.load(Ordering::SeqCst)));
            }
            _ => held.extend(queue.try_pop().map(|lease| lease.into_owned(queue))),
        }
        for snapshot in &snapshots {
            for known in snapshot.iter() {
                known.object().check(id, **known.key());
            }
        }
        if held.len() as u64 > random.below(3) {
            let lease = held.swap_remove(0);
            let key = **lease.key();
            let mut newest = None;
            for delta in lease.deltas() {
                newest = delta.object().map(|object| object.check(id, key)).or(newest);
            }
            lease.previous().into_iter().for_each(|object| _ = object.check(id, key));
            match random.below(8) {
                0 => lease.requeue(),
                1 => lease.requeue_after(Duration::from_nanos(random.below(3) * 20_000)),
                2 => lease.give_up(),
                3 => drop(lease),
                _ => lease.done(),
            }
        }
    }
}

/// What a snapshot shows is of this queue.
fn see<F: Family>(snapshot: &<Queue<F> as DeltaQueue>::Snapshot, id: u64) -> BTreeMap<u32, u64> {
    let number =
        |known: KnownObject<Box<u32>, Object>| (**known.key(), known.object().check(id, **known.key()));
    snapshot.iter().map(number).collect()
}

/// Everything that is known is of this queue, and what a snapshot shows stays what it is.
fn settle<F: Family>(queue: &Arc<Queue<F>>, id: u64) {
    let snapshot = queue.snapshot();
    let before = see::<F>(&snapshot, id);
    queue.close();
    while let Ok(lease) = queue.pop() {
        lease.deltas().iter().filter_map(|delta| delta.object()).for_each(|object| {
            object.check(id, **lease.key());
        });
        lease.done();
    }
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    assert_eq!(before, see::<F>(&snapshot, id));
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// One test at a time: they count all objects.
static ALONE: Mutex<()> = Mutex::new(());

/// Queues that come and go at the addresses of those before, each with threads over few keys; what is left of the one before outlives
/// its queue and is dropped while the next is at work.
fn queues_in_each_others_place<F: Family>() {
    let _alone = ALONE.lock();
    let rounds = number("DELTA_FIFO_ABA_ROUNDS", 60);
    let seed = number("DELTA_FIFO_STRESS_SEED", 1);
    let numbers = Arc::new(AtomicU64::new(0));
    let mut left = Vec::new();
    for round in 0..rounds {
        let compression = [Compression::Deletions, Compression::Latest][round as usize % 2];
        let builder = Builder::new().compression(compression);
        let queue: Arc<Queue<F>> = Arc::new(common::with_shards(builder, 1 + round as usize % 2).build());
        let barrier = Arc::new(Barrier::new(THREADS as usize));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (queue, numbers, barrier) =
                    (Arc::clone(&queue), Arc::clone(&numbers), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let mut random = Random::new(seed ^ (round << 8 | thread));
                    barrier.wait();
                    work::<F>(&queue, round, &numbers, &mut random);
                })
            })
            .collect();
        // Of the queue before, which is gone.
        for (snapshot, shown) in std::mem::take(&mut left) {
            assert_eq!(see::<F>(&snapshot, round - 1), shown);
        }
        for thread in threads {
            thread.join().unwrap_or_else(|_| panic!("round {round} of seed {seed}"));
        }
        let snapshot = queue.snapshot();
        settle::<F>(&queue, round);
        left.extend([snapshot, queue.snapshot()].map(|snapshot| {
            let shown = see::<F>(&snapshot, round);
            (snapshot, shown)
        }));
    }
    drop(left);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "objects are left");
    assert!(AGAIN.load(Ordering::Relaxed) > 1_000);
}

/// The same without threads, where every step is followed by whatever takes its memory: two queues in turn, whose keys have the
/// same names.
fn two_queues_take_turns<F: Family>() {
    let _alone = ALONE.lock();
    let numbers = AtomicU64::new(0);
    let mut random = Random::new(number("DELTA_FIFO_STRESS_SEED", 1));
    let new = || -> Arc<Queue<F>> { Arc::new(common::with_shards(Builder::new(), 1).build()) };
    let mut queues = [(0, new()), (1, new())];
    let mut next = 2;
    for turn in 0..600 {
        let (id, queue) = &queues[turn % 2];
        work::<F>(queue, *id, &numbers, &mut random);
        if random.below(4) == 0 {
            settle::<F>(queue, *id);
            let outlives = queue.snapshot();
            queues[turn % 2] = (next, new());
            next += 1;
            work::<F>(&queues[turn % 2].1, next - 1, &numbers, &mut random);
            outlives.iter().for_each(|known| assert!(known.object().queue < next - 1));
        }
    }
    drop(queues);
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "objects are left");
}

for_each_queue!(queues_in_each_others_place, two_queues_take_turns);
