//! Threads for tests that run with std's and, under `cfg(delta_fifo_shuttle)`, with shuttle's; and queues that go with them.

use std::hash::Hash;

use delta_fifo::Builder;

#[cfg(delta_fifo_shuttle)]
pub(crate) use shuttle::thread::{Thread, current, park_timeout, spawn, yield_now};
#[cfg(not(delta_fifo_shuttle))]
pub(crate) use std::thread::{Thread, current, park_timeout, sleep, spawn, yield_now};

/// Shuttle's own does not give way.
#[cfg(delta_fifo_shuttle)]
pub(crate) fn sleep(_: std::time::Duration) {
    yield_now();
}

#[cfg(not(delta_fifo_shuttle))]
pub(crate) fn builder<K: Hash + Eq, V>() -> Builder<K, V> {
    Builder::new()
}

/// Its hashes are the same in every replay, and its alarms ring in the time of the execution.
#[cfg(delta_fifo_shuttle)]
pub(crate) fn builder<K: Hash + Eq, V>() -> Builder<K, V> {
    Builder::with_hasher(ahash::RandomState::with_seeds(1, 2, 3, 4)).timer(Threads)
}

#[cfg(delta_fifo_shuttle)]
struct Threads;

#[cfg(delta_fifo_shuttle)]
impl delta_fifo::Timer for Threads {
    fn wake_at(&self, at: std::time::Instant, wake: Box<dyn FnOnce() + Send>) {
        spawn(move || {
            delta_fifo::scheduled::sleep_until(at);
            wake();
        });
    }
}
