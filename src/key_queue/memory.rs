//! For tests: an allocator that can be told to fail, and a count of the segments that are alive.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::OutOfMemory;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// By the number of their cells.
static ALIVE: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// From now on this thread gets so many segments and no more.
pub(super) fn allow(segments: usize) {
    LEFT.set(segments);
}

pub(super) fn ask() -> Result<(), OutOfMemory> {
    if LEFT.get() < usize::MAX {
        LEFT.set(LEFT.get().checked_sub(1).ok_or(OutOfMemory)?);
    }
    Ok(())
}

/// Lives in every segment of `N` cells.
#[derive(Debug)]
pub(super) struct Census<const N: usize>(());

impl<const N: usize> Census<N> {
    pub(super) fn new() -> Self {
        if let Some(alive) = ALIVE.get(N) {
            alive.fetch_add(1, SeqCst);
        }
        Census(())
    }
}

impl<const N: usize> Drop for Census<N> {
    fn drop(&mut self) {
        if let Some(alive) = ALIVE.get(N) {
            alive.fetch_sub(1, SeqCst);
        }
    }
}

/// How many segments of so few cells there are.
#[cfg(not(delta_fifo_loom))]
pub(super) fn alive(cells: usize) -> usize {
    ALIVE[cells].load(SeqCst)
}
