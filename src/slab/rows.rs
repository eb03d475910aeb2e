//! Where the slots of a slab are: rows of places, each of which leads to a chunk. Memory that never moves, named by indices.

#![expect(unsafe_code, reason = "the directory consists of pointers to memory that lives as long as it does")]

#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::slice;

use super::Index;
use super::chunk::Chunk;
use crate::sync::atomic::AtomicPtr;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{CHECKED, pause_point, planted, weaken};

/// Places of the first row.
pub(super) const ROW: u32 = if CHECKED { 1 } else { 256 };
/// A power of two, so that a mask bounds the number of a row.
const ROWS: usize = if cfg!(delta_fifo_loom) { 4 } else { 32 };

/// A chunk, as a pointer to its first slot.
type Place<T> = AtomicPtr<T>;

/// Slots by themselves, without lists of free ones: they are there when somebody has provided for them (`slab.rs`, I1).
#[derive(Debug)]
pub(crate) struct Rows<T> {
    rows: [AtomicPtr<Place<T>>; ROWS],
    /// Whom slots lead to. Not a subject of models: it is written before anybody else knows the slab.
    owner: std::sync::atomic::AtomicPtr<()>,
}

/// Row, place in the row, slot in the chunk.
#[inline(always)]
pub(super) fn locate<T>(index: Index) -> (usize, usize, usize) {
    let (chunk, slot) = Chunk::<T>::locate(index);
    let (row, place) = locate_chunk(chunk);
    (row, place, slot)
}

#[inline(always)]
fn locate_chunk(chunk: u32) -> (usize, usize) {
    if chunk < ROW { (0, chunk as usize) } else { locate_far(chunk) }
}

/// The same in one of the longer rows.
#[cold]
fn locate_far(chunk: u32) -> (usize, usize) {
    let chunk = chunk + ROW;
    let row = chunk.ilog2() - ROW.ilog2();
    ((row as usize) & (ROWS - 1), (chunk - (ROW << row)) as usize)
}

/// How many places a row has.
pub(super) fn places(row: usize) -> usize {
    (ROW as usize) << row
}

impl<T: Default> Rows<T> {
    /// Allocates nothing yet.
    pub(crate) fn new() -> Self {
        Rows {
            rows: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            owner: std::sync::atomic::AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Before the first slot is made: what slots lead to.
    pub(super) fn set_owner<O>(&self, owner: NonNull<O>) {
        // Relaxed: nobody else knows them.
        self.owner.store(owner.as_ptr().cast(), Relaxed);
    }

    /// The slot of an index. Two dependent loads.
    ///
    /// # Panics
    ///
    /// If it was not provided for; it may with an index that was never handed out.
    #[inline]
    pub(crate) fn get(&self, index: Index) -> &T {
        // SAFETY: I1: a slot is there until the rows are dropped.
        unsafe { self.ptr(index).as_ref() }
    }

    /// The same as a pointer that is good for the whole chunk.
    #[inline]
    pub(super) fn ptr(&self, index: Index) -> NonNull<T> {
        let (row, place, slot) = locate::<T>(index);
        // Acquire: pairs with `install_row` (Release); publishes the places. No model misses it: who has the index by an edge
        // has them too. This is for any other index, since `get` is safe.
        let row = self.rows[row].load(Acquire);
        if row.is_null() {
            never_made();
        }
        // SAFETY: I1: the row is there for good; `locate` yields a place below `places` of its row.
        let place = unsafe { &*row.add(place) };
        // Acquire: pairs with `install_chunk` (Release); publishes the slots as they were made.
        let chunk = place.load(weaken("a chunk is read by a relaxed load", Acquire));
        let Some(first) = NonNull::new(chunk) else { never_made() };
        // SAFETY: I1: a chunk has `SLOTS` slots, all made, and is there until the slab is dropped; `slot` is below that.
        unsafe { first.add(slot) }
    }

    /// The slots up to `last` that are there, as stretches of up to `max` side by side, each with the number of its first one.
    pub(super) fn stretches(&self, last: u32, max: usize) -> impl Iterator<Item = (u32, &[T])> {
        let slots = Chunk::<T>::SLOTS;
        (0..=last / slots).flat_map(move |chunk| {
            let first = chunk * slots;
            let slots = self.chunk(chunk, (last - first + 1).min(slots));
            slots.chunks(max).zip((first..).step_by(max)).map(|(slots, first)| (first, slots))
        })
    }

    /// The first so many slots of a chunk, or none if it is not there.
    fn chunk(&self, chunk: u32, slots: u32) -> &[T] {
        debug_assert!(slots <= Chunk::<T>::SLOTS);
        let (row, place) = locate_chunk(chunk);
        // Acquire: as in `ptr`.
        let row = self.rows[row].load(weaken("a row is gone over by a relaxed load", Acquire));
        let Some(row) = NonNull::new(row) else { return &[] };
        // SAFETY: as in `ptr`.
        let place = unsafe { row.add(place).as_ref() };
        // Acquire: as in `ptr`.
        let first = place.load(weaken("a chunk is gone over by a relaxed load", Acquire));
        let Some(first) = NonNull::new(first) else { return &[] };
        // SAFETY: I1: a chunk has at least so many slots, all made, and is there until the rows are dropped.
        unsafe { slice::from_raw_parts(first.as_ptr(), slots as usize) }
    }

    /// The slot of an index, if it was provided for.
    #[inline]
    pub(crate) fn try_get(&self, index: Index) -> Option<&T> {
        let (chunk, slot) = Chunk::<T>::locate(index);
        self.chunk(chunk, slot as u32 + 1).last()
    }

    /// Sees to it that the slot of an index is there. Ends the process if there is no memory for it.
    #[inline]
    pub(crate) fn provide(&self, index: Index) {
        let (row, place, _) = locate::<T>(index);
        // Acquire: pairs with `install_row` (Release); publishes the places.
        let mut places = self.rows[row].load(weaken("a row is found by a relaxed load", Acquire));
        if places.is_null() {
            places = self.install_row(row);
        }
        // SAFETY: as in `ptr`.
        let place = unsafe { &*places.add(place) };
        // Relaxed: only decides whether to make one; `ptr` acquires it.
        if place.load(Relaxed).is_null() {
            self.install_chunk(place, Chunk::<T>::locate(index).0);
        }
    }

    /// Returns the row, whoever installed it.
    #[cold]
    fn install_row(&self, row: usize) -> *mut Place<T> {
        let new = new_row(places(row));
        pause_point("take: row made");
        // Release: pairs with `ptr` and `provide` (Acquire); publishes the places. Acquire: on failure the other's places are
        // used, and pair with this Release.
        let publish = weaken("a row is installed relaxed", Release);
        let acquire = weaken("the row of who was faster is used relaxed", Acquire);
        match self.rows[row].compare_exchange(ptr::null_mut(), new, publish, acquire) {
            Ok(_) => new,
            Err(theirs) => {
                // SAFETY: `new` came from `new_row` with as many places, and nobody has seen it.
                unsafe { free_slice(new, places(row)) };
                theirs
            }
        }
    }

    #[cold]
    fn install_chunk(&self, place: &Place<T>, number: u32) {
        // Relaxed: written before anybody else knew the slab.
        let new = Chunk::<T>::make(self.owner.load(Relaxed), number);
        pause_point("take: chunk made");
        if planted("a chunk is installed by a store") {
            place.store(new.as_ptr(), Release);
            return;
        }
        // Release: pairs with `ptr` and `provide` (Acquire); publishes the slots. Relaxed: on failure somebody else's stands,
        // and `ptr` acquires it.
        let publish = weaken("a chunk is installed relaxed", Release);
        if place.compare_exchange(ptr::null_mut(), new.as_ptr(), publish, Relaxed).is_err() {
            // SAFETY: made above, and nobody has seen it.
            unsafe { Chunk::free(new) };
        }
    }
}

#[cold]
#[inline(never)]
fn never_made() -> ! {
    panic!("an index that was never handed out")
}

/// So many places that lead nowhere. Zeroed pages from the system, so a long row costs no time.
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
fn new_row<T>(places: usize) -> *mut Place<T> {
    let layout = Layout::array::<Place<T>>(places).expect("a row is less than half of the memory");
    // SAFETY: the layout is not empty: each row has places.
    let row = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Place<T>>();
    if row.is_null() {
        handle_alloc_error(layout);
    }
    // All bits zero is an `AtomicPtr` that is null.
    row
}

#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
fn new_row<T>(places: usize) -> *mut Place<T> {
    let row: Box<[Place<T>]> = (0..places).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
    Box::into_raw(row).cast()
}

/// # Safety
///
/// `first` is the first of `len` elements of an allocation of just these, from the global allocator, and nobody uses it
/// any more.
unsafe fn free_slice<T>(first: *mut T, len: usize) {
    // SAFETY: the caller's promise; a box of a slice is such an allocation.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, len)) });
}

impl<T> Drop for Rows<T> {
    fn drop(&mut self) {
        for (number, row) in self.rows.iter().enumerate() {
            // Relaxed, both: by `&mut` all that was done happened before.
            let row = row.load(Relaxed);
            if row.is_null() {
                continue;
            }
            for place in 0..places(number) {
                // SAFETY: I1: the row has so many places.
                let first = unsafe { &*row.add(place) }.load(Relaxed);
                if let Some(first) = NonNull::new(first) {
                    // SAFETY: I1: made by `install_chunk`, and by `&mut` nobody has a slot any more.
                    unsafe { Chunk::free(first) };
                }
            }
            // SAFETY: I1: made by `install_row`, and by `&mut` nobody uses it.
            unsafe { free_slice(row, places(number)) };
        }
    }
}
