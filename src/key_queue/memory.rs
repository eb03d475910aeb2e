//! An allocator that can be told to fail, and a count of the segments that are alive. For tests.

use std::cell::Cell;

use super::OutOfMemory;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// From now on this thread gets so many segments and no more.
pub(super) fn allow(segments: usize) {
    LEFT.set(segments);
}

pub(super) fn ask() -> Result<(), OutOfMemory> {
    LEFT.set(LEFT.get().checked_sub(1).ok_or(OutOfMemory)?);
    Ok(())
}
