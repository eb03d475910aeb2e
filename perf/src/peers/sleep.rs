//! How consumers wait when the line is empty.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};

/// A wake-up costs the producer as much as many changes, so a consumer looks again for some microseconds before it sleeps;
/// not too often, for each look takes the line away from the producer that is about to fill it.
pub(super) fn spin_while(condition: impl Fn() -> bool) {
    const ROUNDS: usize = 8;
    for round in 0..ROUNDS {
        if !condition() {
            return;
        }
        (0..64).for_each(|_| std::hint::spin_loop());
        // The processor may be what the producer waits for.
        if round >= ROUNDS / 2 {
            std::thread::yield_now();
        }
    }
}

/// The first in line. `None`: closed and the line is empty (what is still dirty then goes in line when its lease ends, and the
/// consumer that ends it pops again).
#[inline]
pub(super) fn pop_or_wait<T>(line: &SegQueue<T>, sleep: &Sleep) -> Option<T> {
    loop {
        if let Some(first) = line.pop() {
            return Some(first);
        }
        if sleep.is_closed() && line.is_empty() {
            return None;
        }
        sleep.wait_while(|| line.is_empty());
    }
}

/// Where consumers of a queue without one big lock sleep: a count that producers read without a lock, and a mutex
/// with a condition variable that they touch only if it is not zero.
#[derive(Default)]
pub(super) struct Sleep {
    /// Consumers that sleep, or are about to, and that nobody has woken yet. Changed only under `door`.
    sleepers: CachePadded<AtomicUsize>,
    door: Mutex<()>,
    wake: Condvar,
    closed: AtomicBool,
}

impl Sleep {
    /// To be called after `fresh` handles were pushed: the one wake-up decision of a call.
    #[inline]
    pub(super) fn wake(&self, fresh: usize) {
        // Pairs with the fence in `wait_while`: either the sleeper sees the handle, or we see the sleeper.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if fresh > 0 && self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake_slow(fresh);
        }
    }

    #[cold]
    fn wake_slow(&self, fresh: usize) {
        let door = self.door.lock();
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        let wake = fresh.min(sleepers);
        // A woken one no longer counts, so that the next producer does not wake it again before it runs.
        self.sleepers.store(sleepers - wake, Ordering::Relaxed);
        drop(door);
        for _ in 0..wake {
            self.wake.notify_one();
        }
    }

    /// Spins a little, then sleeps, until `empty` is false or the queue is closed. Only a hint: others may be faster.
    pub(super) fn wait_while(&self, empty: impl Fn() -> bool) {
        spin_while(|| empty() && !self.is_closed());
        let mut door = self.door.lock();
        self.sleepers.store(self.sleepers.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Pairs with the fences in `wake` and `close`.
        fence(Ordering::SeqCst);
        if empty() && !self.is_closed() {
            self.wake.wait(&mut door);
        } else {
            self.sleepers.store(self.sleepers.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let door = self.door.lock();
        self.sleepers.store(0, Ordering::Relaxed);
        drop(door);
        self.wake.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
