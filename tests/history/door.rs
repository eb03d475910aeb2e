//! What a recorded body needs of the machine: std, or shuttle's scheduler under `cfg(delta_fifo_shuttle)`.

#[cfg(not(delta_fifo_shuttle))]
pub(crate) use std::{
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering},
    thread::yield_now,
};

#[cfg(delta_fifo_shuttle)]
pub(crate) use shuttle::{
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering},
    thread::yield_now,
};

#[cfg(not(delta_fifo_shuttle))]
use std::thread;

#[cfg(delta_fifo_shuttle)]
use shuttle::thread;

/// Runs `side` with every number below `count`, each on a thread of its own, and waits for them.
pub(crate) fn together(count: usize, side: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..count {
            let side = &side;
            scope.spawn(move || side(number));
        }
    });
}
