//! The buckets: arrays that double in number with each, appended as the table grows and freed when it has shrunk.
//!
//! # Invariants
//!
//! - **D1** An array's pointer is null, or leads to a boxed slice of `length` buckets. `provide` sets it while it is null, and
//!   only by way of `vacate` it becomes null again.
//! - **D2** Who has a guard asks for buckets only whose arrays stay while the guard lives (I9 of the table), so a reference to a
//!   bucket is good for as long as a guard that it was got under. The collector frees what was vacated, so no pointer
//!   comes back as another array's while somebody is alive who has read it.

#![expect(unsafe_code, reason = "arrays are reached through atomic pointers and begin as zeroed memory")]

use std::ptr;

use super::link::Link;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicPtr, AtomicU32};
use crate::sync::epoch::Guard;
use crate::sync::{CHECKED, Canary, bury_all, pause_point, planted, prefetch_place, weaken};

/// Buckets of the first array, and of a new table. A power of two, at least 2.
pub(super) const FIRST: u32 = if CHECKED { 2 } else { 8 };
/// Enough for the numbers that a link has room for; fewer where a model creates them all.
const ARRAYS: usize = if cfg!(delta_fifo_loom) { 3 } else { 26 };
/// The most buckets there can be.
pub(super) const MOST: u32 = FIRST << (if cfg!(delta_fifo_loom) { 2 } else { 25 });

/// Only a link, but for models.
struct Bucket {
    link: AtomicU32,
    canary: Canary,
}

#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
impl crate::sync::Mortal for Bucket {
    fn canary(&self) -> &Canary {
        &self.canary
    }
}

pub(super) struct Directory {
    /// D1.
    arrays: [AtomicPtr<Bucket>; ARRAYS],
}

/// Which array has the bucket.
#[inline(always)]
pub(super) fn array(bucket: u32) -> usize {
    (u32::BITS - (bucket / FIRST).leading_zeros()) as usize
}

/// The array's first bucket: 0, then `FIRST`, and doubling.
#[inline(always)]
pub(super) fn begin(array: usize) -> u32 {
    ((FIRST / 2) << array) & !(FIRST - 1)
}

fn length(array: usize) -> usize {
    begin(array).max(FIRST) as usize
}

impl Directory {
    /// The first array is allocated here, with bucket 0 as the list's beginning.
    pub(super) fn new() -> Self {
        let directory = Directory { arrays: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) };
        let first = fresh(length(0));
        Link::END.store(&first[0].link);
        // Relaxed: whoever gets the table gets it with this.
        directory.arrays[0].store(Box::into_raw(first).cast(), Relaxed);
        directory
    }

    /// The link of a bucket. Its array must be there.
    #[inline(always)]
    pub(super) fn bucket<'g>(&'g self, bucket: u32, _guard: &'g Guard) -> &'g AtomicU32 {
        let array = array(bucket);
        // Acquire: pairs with `provide` (Release); the zeros. The count does not order them: whoever doubled it need not
        // be who provided.
        let first = self.arrays[array].load(weaken("an array is met by a relaxed load", Acquire));
        assert!(!first.is_null(), "the count of buckets ran ahead of their arrays");
        let at = (bucket - begin(array)) as usize;
        // SAFETY: D1: the array has `length(array)` buckets, and `array` and `begin` put `bucket` below its end. D2: it
        // lives as long as the guard, or as `&self`, whichever is shorter; nobody has exclusive access before it is freed.
        let bucket = unsafe { &*first.add(at) };
        bucket.canary.touch();
        &bucket.link
    }

    /// Brings a bucket near. Needs no guard: nothing is read, and the array may be gone.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: u32) {
        let array = array(bucket);
        // Relaxed: only an address.
        let first = self.arrays[array].load(Relaxed);
        prefetch_place(first.wrapping_add((bucket - begin(array)) as usize));
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
        // Release: pairs with `bucket` and `vacate` (Acquire); publishes the zeros, and how far the table has got that
        // provides. Relaxed: a failure says that somebody else has provided it.
        let publish = weaken("an array is provided relaxed", Release);
        let set = self.arrays[array].compare_exchange(ptr::null_mut(), first, publish, Relaxed);
        if set.is_err() {
            // SAFETY: made above with this length, and nobody else has seen it.
            unsafe { free(first, length(array)) };
        }
        true
    }

    /// Takes an array out, which the collector then frees, if `is_due` says so once its pointer was read. Idempotent: anybody
    /// may help. While it is due, nobody provides the array, and nobody asks for its buckets.
    pub(super) fn vacate(&self, array: usize, is_due: impl FnOnce() -> bool, guard: &Guard) {
        // Acquire: pairs with `provide` (Release): if it is a later array, then `is_due` knows.
        let first = self.arrays[array].load(weaken("an array is vacated by a relaxed load", Acquire));
        pause_point("vacate: read");
        if first.is_null() || !(is_due() || planted("who vacates does not look again")) {
            return;
        }
        pause_point("vacate: due");
        // Relaxed, twice: whoever says that the array is gone publishes it, and a failure says that somebody else was faster.
        if self.arrays[array].compare_exchange(first, ptr::null_mut(), Relaxed, Relaxed).is_ok() {
            let retired = Retired { first: AtomicPtr::new(first), length: length(array) };
            pause_point("vacate: taken");
            // D2.
            guard.defer(move || retired.free());
            guard.flush();
        }
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

/// An array that was taken out.
struct Retired {
    first: AtomicPtr<Bucket>,
    length: usize,
}

impl Retired {
    fn free(self) {
        // Relaxed: the closure was handed to this thread with all that was before.
        let first = self.first.load(Relaxed);
        // SAFETY: D1: who made the pointer null, so one thread, makes this value. D2: the collector calls when no guard is
        // alive under which somebody may have got at its buckets.
        unsafe { free(first, self.length) };
    }
}

/// # Safety
///
/// `first` came from a boxed slice of `length` buckets, and nobody uses it any more.
unsafe fn free(first: *mut Bucket, length: usize) {
    // SAFETY: the caller's promise.
    bury_all(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, length)) });
}

fn fresh(length: usize) -> Box<[Bucket]> {
    (0..length).map(|_| Bucket { link: AtomicU32::new(0), canary: Canary::new() }).collect()
}

/// Memory that is zero already: a big array costs nothing until its buckets are used.
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
fn zeroed(length: usize) -> Option<Box<[Bucket]>> {
    let layout = std::alloc::Layout::array::<Bucket>(length).ok()?;
    // SAFETY: `length` is not 0, as no array is empty, and a bucket has a size.
    let first = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Bucket>();
    if first.is_null() {
        return None;
    }
    // SAFETY: allocated as a boxed slice of this length would be, and an atomic of zero bits is a valid one, as is a canary,
    // which has none.
    Some(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, length)) })
}

/// A model's atomics are no plain memory.
#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
fn zeroed(length: usize) -> Option<Box<[Bucket]>> {
    Some(fresh(length))
}
