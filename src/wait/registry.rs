//! The cells of an eventcount: segments that double in size, appended when no cell is free and kept until the end.

use std::ptr;

use super::cell::Cell;
use crate::sync::CHECKED;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::weaken;

/// Cells in the first segment.
pub(super) const FIRST: usize = if CHECKED { 2 } else { 8 };
/// Each is twice as long as the one before: enough for 2^28 waiters at once.
const SEGMENTS: usize = if cfg!(delta_fifo_loom) { 3 } else { 26 };

/// Type-stable memory: a cell that was handed out stays a cell until the registry is dropped.
pub(super) struct Registry {
    segments: [AtomicPtr<Cell>; SEGMENTS],
    /// Where a free cell was last seen. Only a hint: right with any value, so not a subject of the models.
    hint: std::sync::atomic::AtomicUsize,
}

fn len(segment: usize) -> usize {
    FIRST << segment
}

impl Registry {
    pub(super) fn new() -> Self {
        let registry = Registry {
            segments: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            hint: std::sync::atomic::AtomicUsize::new(0),
        };
        // At once: a segment that comes into being lazily is one more thing that a notifier can miss.
        registry.append(0);
        registry
    }

    /// The cells of a segment, if it exists.
    fn segment(&self, index: usize) -> Option<&[Cell]> {
        // Acquire: pairs with append (Release); the cells are initialized.
        let first = self.segments[index].load(weaken("waiter cells are found relaxed", Ordering::Acquire));
        if first.is_null() {
            return None;
        }
        // SAFETY: I8: `append` made the pointer from a boxed slice of `len(index)` cells, and only `drop` frees it.
        #[allow(unsafe_code, reason = "segments are reached through atomic pointers")]
        Some(unsafe { std::slice::from_raw_parts(first, len(index)) })
    }

    /// Every cell, in the order in which the segments were appended.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        (0..SEGMENTS).map_while(|index| self.segment(index)).flatten()
    }

    /// A cell that now belongs to the caller.
    pub(super) fn take_over(&self) -> &Cell {
        // Relaxed: a hint.
        let hint = self.hint.load(Ordering::Relaxed);
        // Loops only if every cell of a new segment was taken by others meanwhile, each of which has registered.
        loop {
            let mut hinted = self.cells().skip(hint);
            let mut others = self.cells().take(hint);
            if let Some(cell) =
                hinted.find(|cell| cell.take_over()).or_else(|| others.find(|cell| cell.take_over()))
            {
                // Relaxed: a hint.
                self.hint.store(cell.index() + 1, Ordering::Relaxed);
                return cell;
            }
            let next = (0..SEGMENTS).find(|index| self.segment(*index).is_none());
            self.append(next.expect("fewer than 2^28 waiters"));
        }
    }

    /// Whoever comes next may find the cell free.
    pub(super) fn freed(&self, cell: &Cell) {
        // Relaxed: a hint.
        self.hint.store(cell.index(), Ordering::Relaxed);
    }

    /// Appends a segment, unless somebody else has.
    fn append(&self, index: usize) {
        let cells: Box<[Cell]> =
            (0..len(index)).map(|offset| Cell::new(len(index) - FIRST + offset)).collect();
        let first = Box::into_raw(cells).cast::<Cell>();
        // Release: pairs with segment (Acquire); publishes the cells. Relaxed on failure: the loser looks again.
        let won = self.segments[index].compare_exchange(
            ptr::null_mut(),
            first,
            weaken("waiter cells are made relaxed", Ordering::Release),
            Ordering::Relaxed,
        );
        if won.is_err() {
            // SAFETY: made above, and nobody else has seen it.
            #[allow(unsafe_code, reason = "segments are reached through atomic pointers")]
            unsafe {
                free(first, index);
            }
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for index in 0..SEGMENTS {
            // Relaxed: the caller has the registry to itself.
            let first = self.segments[index].load(Ordering::Relaxed);
            if !first.is_null() {
                // SAFETY: I8, and no reference to a cell outlives the registry that it borrows from.
                #[allow(unsafe_code, reason = "segments are reached through atomic pointers")]
                unsafe {
                    free(first, index);
                }
            }
        }
    }
}

/// # Safety
///
/// `first` came from `append(index)` and nobody uses it any more.
#[allow(unsafe_code, reason = "segments are reached through atomic pointers")]
unsafe fn free(first: *mut Cell, index: usize) {
    // SAFETY: the caller's promise; the slice has the length that `append` gave it.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, len(index))) });
}
