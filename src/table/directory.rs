//! The buckets: arrays that double in number with each, appended as the table grows and kept until it is dropped.

#![expect(unsafe_code, reason = "arrays are reached through atomic pointers and begin as zeroed memory")]

use std::ptr;

use super::link::Link;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU32};

/// Buckets of the first array, and of a new table. A power of two, at least 2.
pub(super) const FIRST: u32 = if cfg!(delta_fifo_loom) { 2 } else { 8 };
/// Enough for the numbers that a link has room for; fewer where a model creates them all.
const ARRAYS: usize = if cfg!(delta_fifo_loom) { 3 } else { 26 };
/// The most buckets there can be.
pub(super) const MOST: u32 = FIRST << (if cfg!(delta_fifo_loom) { 2 } else { 25 });

/// **D1** A pointer is null, or leads to a boxed slice of `length` buckets; it is set once, and only `drop` frees it.
pub(super) struct Directory {
    arrays: [AtomicPtr<AtomicU32>; ARRAYS],
}

/// Which array has the bucket.
#[inline(always)]
fn array(bucket: u32) -> usize {
    (u32::BITS - (bucket / FIRST).leading_zeros()) as usize
}

/// The array's first bucket: 0, then `FIRST`, and doubling.
#[inline(always)]
fn begin(array: usize) -> u32 {
    ((FIRST / 2) << array) & !(FIRST - 1)
}

fn length(array: usize) -> usize {
    begin(array).max(FIRST) as usize
}

impl Directory {
    /// The first array is allocated here, with bucket 0 as the list's beginning.
    pub(super) fn new() -> Self {
        let directory = Directory { arrays: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) };
        let first: Box<[AtomicU32]> = (0..length(0)).map(|_| AtomicU32::new(0)).collect();
        Link::END.store(&first[0]);
        // Relaxed: whoever gets the table gets it with this.
        directory.arrays[0].store(Box::into_raw(first).cast(), Relaxed);
        directory
    }

    /// The link of a bucket. Its array must be there.
    #[inline(always)]
    pub(super) fn bucket(&self, bucket: u32) -> &AtomicU32 {
        let array = array(bucket);
        // Acquire: pairs with `provide` (Release); the zeros. The count does not order them: whoever doubled it need not
        // be who provided.
        let first = self.arrays[array].load(Acquire);
        assert!(!first.is_null(), "the count of buckets ran ahead of their arrays");
        let at = (bucket - begin(array)) as usize;
        // SAFETY: D1: the array has `length(array)` buckets, and `array` and `begin` put `bucket` below its end; it
        // lives as long as `&self`, and nobody has exclusive access to a bucket before `drop`.
        unsafe { &*first.add(at) }
    }

    /// Sees to it that the bucket's array is there. Returns whether it is: there may be no memory for it.
    #[cold]
    pub(super) fn provide(&self, bucket: u32) -> bool {
        let array = array(bucket);
        // Relaxed: only decides whether to try.
        if !self.arrays[array].load(Relaxed).is_null() {
            return true;
        }
        let Some(buckets) = zeroed(length(array)) else { return false };
        let first = Box::into_raw(buckets).cast();
        // Release: pairs with `bucket` (Acquire); publishes the zeros. Relaxed: a failure says that somebody else has
        // provided it.
        let set = self.arrays[array].compare_exchange(ptr::null_mut(), first, Release, Relaxed);
        if set.is_err() {
            // SAFETY: made above with this length, and nobody else has seen it.
            unsafe { free(first, length(array)) };
        }
        true
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        for (array, first) in self.arrays.iter().enumerate() {
            // Relaxed: by `&mut` all that was done happened before.
            let first = first.load(Relaxed);
            if !first.is_null() {
                // SAFETY: D1, and no reference to a bucket outlives the directory it borrows from.
                unsafe { free(first, length(array)) };
            }
        }
    }
}

/// # Safety
///
/// `first` came from a boxed slice of `length` buckets, and nobody uses it any more.
unsafe fn free(first: *mut AtomicU32, length: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, length)) });
}

/// Memory that is zero already: a big array costs nothing until its buckets are used.
#[cfg(not(delta_fifo_loom))]
fn zeroed(length: usize) -> Option<Box<[AtomicU32]>> {
    let layout = std::alloc::Layout::array::<AtomicU32>(length).ok()?;
    // SAFETY: `length` is not 0, as no array is empty.
    let first = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<AtomicU32>();
    if first.is_null() {
        return None;
    }
    // SAFETY: allocated as a boxed slice of this length would be, and an atomic of zero bits is a valid one.
    Some(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, length)) })
}

/// A model's atomics are no plain memory.
#[cfg(delta_fifo_loom)]
fn zeroed(length: usize) -> Option<Box<[AtomicU32]>> {
    Some((0..length).map(|_| AtomicU32::new(0)).collect())
}
