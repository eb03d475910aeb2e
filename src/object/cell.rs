//! The cell: a value with its count of references, and what is done to one cell alone.

#![expect(unsafe_code, reason = "who may touch the body is known to the callers")]

use std::mem;
use std::process::abort;
use std::ptr::{self, NonNull};

use crate::slab::{Index, Slot};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::fence;
use crate::sync::cell::UnsafeCell;
use crate::sync::{Canary, bury, pause_point, planted, weaken};

use super::pool::Home;

/// Above it a count is about to overflow: references are leaked in a loop.
const MAX_REFS: u32 = i32::MAX as u32;

pub(super) struct Cell<T, H: Default> {
    refs: AtomicU32,
    /// Of the free list, of the dead stack, or to the cell published before.
    pub(super) link: AtomicU32,
    pub(super) head: H,
    body: UnsafeCell<Body<T, H>>,
}

/// Written by drafts (I1, I2).
struct Body<T, H: Default> {
    /// None if the cell is alone.
    home: Option<NonNull<Home<T, H>>>,
    /// In the slab of its home; without one any.
    index: Index,
    value: Option<T>,
}

// SAFETY: the body is handed from thread to thread by its owners (I1), which drop the `T` anywhere and lend it anywhere; all
// else is atomic or the head.
unsafe impl<T: Send + Sync, H: Default + Send + Sync> Send for Cell<T, H> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, H: Default + Send + Sync> Sync for Cell<T, H> {}

impl<T, H: Default> Cell<T, H> {
    fn new(refs: u32, value: Option<T>) -> Self {
        Cell {
            refs: AtomicU32::new(refs),
            link: AtomicU32::new(0),
            head: H::default(),
            body: UnsafeCell::new(Body { home: None, index: Index::MIN, value }),
        }
    }

    /// Makes the draft's reference. Everything in the cell is published to whoever holds it.
    #[inline]
    pub(super) fn publish(&self) {
        debug_assert_eq!(self.refs.load(Relaxed), 0);
        // Release: pairs with `hold` (Acquire); publishes the body. A store will do: by I2 nobody else changes a 0.
        self.refs.store(1, weaken("published by a relaxed store", Release));
    }

    /// One reference more. The caller has one.
    #[inline(always)]
    pub(super) fn retain(&self) {
        // Relaxed: the caller sees the body already, and hands the new reference on by other edges.
        if self.refs.fetch_add(1, Relaxed) > MAX_REFS {
            abort();
        }
    }

    /// One reference more unless there is none.
    pub(super) fn hold(&self) -> bool {
        // Relaxed: the exchange finds out if it is old; 0 is an answer of that moment.
        let mut refs = self.refs.load(Relaxed);
        while refs != 0 || planted("a hold revives") {
            if refs > MAX_REFS {
                abort();
            }
            pause_point("hold: refs read");
            let acquire = weaken("a hold is relaxed", Acquire);
            // Acquire: pairs with `publish` (Release), whose value or a successor by read-modify-writes it finds; publishes
            // the body. Relaxed: on failure the count is only compared again. It fails if others cloned or dropped.
            match self.refs.compare_exchange_weak(refs, refs + 1, acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => refs = now,
            }
        }
        false
    }

    /// One reference less. Returns whether it was the last; the body is the caller's then (I1).
    #[inline(always)]
    pub(super) fn release(&self) -> bool {
        // Release: pairs with the fence below (Acquire) of the last one; publishes that all is done with the value.
        if self.refs.fetch_sub(1, weaken("a reference is dropped by a relaxed subtraction", Release)) != 1 {
            return false;
        }
        if !planted("the last does not acquire") {
            fence(Acquire);
        }
        pause_point("drop: was the last");
        true
    }

    /// # Safety
    ///
    /// The body is the caller's, and there is no value.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, home: NonNull<Home<T, H>>, index: Index, value: Option<T>) {
        self.body.with_mut(|body| {
            // SAFETY: the caller's promise. Written over, since there is nothing to drop.
            unsafe { ptr::write(body, Body { home: Some(home), index, value }) };
        });
    }

    /// # Safety
    ///
    /// The body is visible to the caller and nobody writes it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn home(&self) -> Option<(NonNull<Home<T, H>>, Index)> {
        // SAFETY: the caller's promise.
        self.body.with(|body| unsafe { (*body).home.map(|home| (home, (*body).index)) })
    }

    /// # Safety
    ///
    /// The body is visible to the caller and nobody writes it while the reference lives.
    #[inline(always)]
    pub(super) unsafe fn value(&self) -> Option<&T> {
        // SAFETY: the caller's promise.
        self.body.with(|body| unsafe { (*body).value.as_ref() })
    }

    /// # Safety
    ///
    /// The body is the caller's.
    pub(super) unsafe fn take_value(&self) -> Option<T> {
        // SAFETY: the caller's promise.
        self.body.with_mut(|body| unsafe { (*body).value.take() })
    }

    /// Drops the value in place. There is none afterwards, also if its destructor panics.
    ///
    /// # Safety
    ///
    /// The body is the caller's.
    #[inline(always)]
    pub(super) unsafe fn drop_value(&self) {
        struct Emptied<T>(*mut Option<T>);
        impl<T> Drop for Emptied<T> {
            fn drop(&mut self) {
                // SAFETY: see below; what was there is dropped, as far as it goes.
                unsafe { ptr::write(self.0, None) };
            }
        }
        self.body.with_mut(|body| {
            // SAFETY: the caller's promise: nobody else touches the value before this is over.
            unsafe {
                let value = &raw mut (*body).value;
                if mem::needs_drop::<T>() {
                    let _emptied = Emptied(value);
                    ptr::drop_in_place(value);
                } else {
                    ptr::write(value, None);
                }
            }
        });
    }
}

impl<T, H: Default> Default for Cell<T, H> {
    fn default() -> Self {
        Cell::new(0, None)
    }
}

impl<T, H: Default> Slot for Cell<T, H> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// A cell without a pool.
#[repr(C)]
pub(super) struct Alone<T, H: Default> {
    /// First, so that a pointer to it is one to the whole.
    cell: Cell<T, H>,
    pub(super) canary: Canary,
}

/// With one reference.
pub(super) fn alone<T, H: Default>(value: T) -> NonNull<Cell<T, H>> {
    let alone = Box::new(Alone { cell: Cell::<T, H>::new(1, Some(value)), canary: Canary::new() });
    NonNull::from(Box::leak(alone)).cast()
}

/// # Safety
///
/// `cell` came from [`alone`], its last reference is gone, and this is called once.
pub(super) unsafe fn free_alone<T, H: Default>(cell: NonNull<Cell<T, H>>) {
    // SAFETY: the caller's promise; the cast undoes the one in `alone`.
    let alone = unsafe { Box::from_raw(cell.cast::<Alone<T, H>>().as_ptr()) };
    alone.canary.touch();
    #[cfg(delta_fifo_loom)]
    let alone = super::grave::Grave::new(alone, |alone| &alone.canary);
    bury(alone);
}
