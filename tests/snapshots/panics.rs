//! Objects whose `Drop` panics when a snapshot ends, or later when a consumer takes away what one has left.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use delta_fifo::{Builder, DeltaQueue, KnownView, TryPopError};

use crate::common::{Family, for_each_queue};

for_each_queue!(
    the_drop_of_a_snapshot_panics,
    the_drop_of_the_last_snapshot_of_a_dropped_queue_panics,
    the_drop_of_the_queue_before_its_snapshots_panics,
    a_sweep_panics,
);

/// Counts itself, and explodes when it is dropped while `armed` says so.
struct Bomb {
    alive: Arc<AtomicUsize>,
    armed: Arc<AtomicBool>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        // Once.
        if self.armed.swap(false, Ordering::Relaxed) {
            // Without the hook, which would print it.
            resume_unwind(Box::new("boom"));
        }
    }
}

type Queue<F> = <F as Family>::Queue<u32, Bomb>;

struct Bombs<F: Family> {
    alive: Arc<AtomicUsize>,
    armed: Arc<AtomicBool>,
    queue: Queue<F>,
}

impl<F: Family> Bombs<F> {
    /// So many keys are known.
    fn new(keys: u32) -> Self {
        let bombs = Bombs { alive: Arc::default(), armed: Arc::default(), queue: Builder::new().build() };
        bombs.know_all(keys);
        bombs
    }

    fn know_all(&self, keys: u32) {
        for key in 0..keys {
            self.alive.fetch_add(1, Ordering::Relaxed);
            let bomb = Bomb { alive: Arc::clone(&self.alive), armed: Arc::clone(&self.armed) };
            self.queue.update(key, bomb).unwrap_or_else(|_| panic!("the queue is open"));
            self.queue.try_pop().expect("a key is in line").done();
        }
    }

    fn forget_all(&self, keys: u32) {
        for key in 0..keys {
            self.queue.delete_key(key).unwrap_or_else(|_| panic!("the queue is open"));
            self.queue.try_pop().expect("a key is in line").done();
        }
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// As if nothing had been.
    fn check(self, keys: u32) {
        assert_eq!(self.queue.try_pop().map(|_| ()), Err(TryPopError::Empty));
        assert_eq!((self.alive(), self.queue.known().len()), (keys as usize, keys as usize));
        self.know_all(keys);
        let snapshot = self.queue.snapshot();
        self.know_all(keys + 1);
        assert_eq!((snapshot.len(), self.alive()), (keys as usize, 2 * keys as usize + 1));
        drop(snapshot);
        self.forget_all(keys + 1);
        assert_eq!(self.queue.try_pop().map(|_| ()), Err(TryPopError::Empty));
        assert_eq!(self.alive(), 0);
    }
}

/// Whether `f` panics with the next object that is dropped.
fn explodes(armed: &AtomicBool, f: impl FnOnce()) -> bool {
    armed.store(true, Ordering::Relaxed);
    let result = catch_unwind(AssertUnwindSafe(f));
    assert!(!armed.swap(false, Ordering::Relaxed), "nothing was dropped");
    result.is_err()
}

fn the_drop_of_a_snapshot_panics<F: Family>() {
    for deletes in [false, true] {
        let bombs = Bombs::<F>::new(20);
        let snapshot = bombs.queue.snapshot();
        if deletes {
            bombs.forget_all(20)
        } else {
            bombs.know_all(20)
        }
        let left = if deletes { 0 } else { 20 };
        assert_eq!(bombs.alive(), 20 + left);
        assert!(explodes(&bombs.armed, || drop(snapshot)));
        assert_eq!(bombs.alive(), left);
        bombs.check(left as u32);
    }
}

fn the_drop_of_the_last_snapshot_of_a_dropped_queue_panics<F: Family>() {
    let Bombs { alive, armed, queue } = Bombs::<F>::new(20);
    let (first, second) = (queue.snapshot(), queue.snapshot());
    drop(queue);
    drop(first);
    assert_eq!(alive.load(Ordering::Relaxed), 20);
    assert!(explodes(&armed, || drop(second)));
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

fn the_drop_of_the_queue_before_its_snapshots_panics<F: Family>() {
    let bombs = Bombs::<F>::new(20);
    let snapshot = bombs.queue.snapshot();
    bombs.know_all(30);
    let Bombs { alive, armed, queue } = bombs;
    assert!(explodes(&armed, || drop(queue)));
    assert_eq!((alive.load(Ordering::Relaxed), snapshot.iter().count()), (20, 20));
    drop(snapshot);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// With so many keys that the drop leaves some to consumers.
fn a_sweep_panics<F: Family>() {
    for by_a_lease in [false, true] {
        let bombs = Bombs::<F>::new(400);
        let snapshot = bombs.queue.snapshot();
        bombs.know_all(400);
        drop(snapshot);
        if bombs.alive() == 400 {
            return; // it leaves nothing
        }
        let before = bombs.alive();
        if by_a_lease {
            bombs.queue.resync_key(0).unwrap();
            let lease = bombs.queue.try_pop().unwrap();
            assert!(explodes(&bombs.armed, || lease.done()));
            assert_eq!(bombs.queue.leased_len(), 0);
        } else {
            assert!(explodes(&bombs.armed, || drop(bombs.queue.try_pop())));
        }
        assert!(bombs.alive() <= before - 16, "the others have gone all the same");
        bombs.check(400);
    }
}
