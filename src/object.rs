//! Reference-counted values whose memory a pool recycles: what an `Arc` is, without a call of the allocator for each.
//!
//! ```text
//!              draft                    publish, share                 clone, hold
//!   free cell ───────▶ drafted, refs 0 ───────────────▶ shared, refs 1 ◀─────────▶ refs n
//!     ▲  ▲                   │                              │
//!     │  └── dropped, value taken ◀┘                        │ the last reference goes
//!     │                                                     ▼
//!     └────────────── value dropped ◀──────────── refs 0, its dropper owns it
//!                          ▲                                │ release_later
//!                          └───────── bury_dead ◀─── dead stack, value still there
//! ```
//!
//! # Invariants
//!
//! - **I1** While `refs` is 0 a cell's body belongs to one: the free list (it has no value then), its draft, who took the
//!   last reference, or the dead stack. While it is not 0 nobody writes the body, and it has as many references as that.
//! - **I2** `refs` leaves 0 by `publish` or `share` alone, after the body was written; `hold` only adds to what is not 0.
//!   So whoever has a reference sees the body as its draft wrote it.
//! - **I3** A cell of a pool is in exactly one of these: never made, free, out. It is given back once each time it is out,
//!   whether its value's destructor panics or not.
//! - **I4** The memory of a pool lives as long as the pool, and after that as long as any of its cells is out: when the pool
//!   goes, it closes the free list, counts what is in there, and adds the cells that are out to `owed`. Who wants to give
//!   a cell back and finds the list closed takes one off `owed` instead. Those who did so before the count have made it
//!   negative (it wraps), so it is 1 before, or 0 after, exactly once: when the last of them all is done. While the pool
//!   lives nothing is counted.
//! - **I5** A cell of a pool leads to it by its address (`slab/chunk.rs`), so a reference is one pointer and a cell has no memory of
//!   its own for that. One that is of no pool says so in its body.
//!
//! # Progress
//!
//! Everything but the user's destructors and a chunk's allocation is lock-free, and references are cloned and dropped
//! (but for the last) in one step. Reference counting is ordered as in `std`'s `Arc`.

#![expect(unsafe_code, reason = "a reference is a pointer to its cell")]

mod cell;
#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
mod grave;
mod pool;

#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use cell::free_alone;
pub(crate) use cell::{Body, Cell};
use pool::Home;
pub(crate) use pool::{Draft, Pool, Spot};

use crate::slab::Index;

/// The handle by which everything shares one key.
pub(crate) type Key<K> = Shared<K>;

/// What a cell has beside its value.
pub(crate) trait Head: Default {
    /// The alignment of the whole cell, at least.
    type Align;

    /// Where it is written whether the cell has a value. None: every cell that is out has one, and is of a pool.
    fn body(&self) -> Option<&Body>;
}

/// A head with nothing else in it.
#[derive(Default)]
pub(crate) struct Bare(Body);

impl Head for Bare {
    type Align = ();

    fn body(&self) -> Option<&Body> {
        Some(&self.0)
    }
}

/// A shared, immutable value; as `Arc`, but its memory is recycled by a pool. Good after the pool is gone.
pub(crate) struct Shared<T, H: Head = Bare> {
    /// One of its references is ours.
    cell: NonNull<Cell<T, H>>,
    owns: PhantomData<Cell<T, H>>,
}

// SAFETY: as for `Arc`: it lends `&T` and `&H` to any thread that has a clone, and the last one may drop the `T`, or its
// memory the `H`, anywhere.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Send for Shared<T, H> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Sync for Shared<T, H> {}

impl<T: RefUnwindSafe, H: Head + RefUnwindSafe> UnwindSafe for Shared<T, H> {}
impl<T: RefUnwindSafe, H: Head + RefUnwindSafe> RefUnwindSafe for Shared<T, H> {}

impl<T, H: Head> Shared<T, H> {
    /// On the heap by itself, as `Arc::new`.
    pub(crate) fn alone(value: T) -> Self {
        // SAFETY: the cell has one reference, which is this one's.
        unsafe { Shared::from_cell(cell::alone(value)) }
    }

    /// # Safety
    ///
    /// A reference of the cell is handed over, and its body is visible to this thread.
    unsafe fn from_cell(cell: NonNull<Cell<T, H>>) -> Self {
        Shared { cell, owns: PhantomData }
    }

    #[inline(always)]
    fn cell(&self) -> &Cell<T, H> {
        // SAFETY: I4: the cell is out because of this reference, so its memory is there.
        unsafe { self.cell.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &H {
        self.cell().head()
    }

    /// As [`Pool::previous`].
    #[inline(always)]
    pub(crate) fn previous(&self) -> Option<Index> {
        self.cell().previous()
    }

    /// The value, if the cell has one.
    #[inline(always)]
    pub(crate) fn value(&self) -> Option<&T> {
        // SAFETY: I1: nobody writes the body while there is this reference; I2: it is visible.
        unsafe { self.cell().value() }
    }

    /// The value if this was the last reference, as `Arc::into_inner`. None too if the cell has none.
    pub(crate) fn into_inner(self) -> Option<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the reference is ours, and not used any more.
        if !unsafe { Cell::release(this.cell) } {
            return None;
        }
        let last = Last(this.cell);
        // SAFETY: I1: the last reference was ours, so the body is.
        let value = unsafe { this.cell().take_value() };
        drop(last);
        value
    }

    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        self.cell == other.cell
    }

    /// Drops the value and gives the cell back.
    #[inline(never)]
    fn drop_last(&mut self) {
        let _last = Last(self.cell);
        // SAFETY: I1: the last reference was ours, so the body is.
        unsafe { self.cell().drop_value() };
    }
}

/// A reference that is somebody else's.
pub(crate) struct Lent<T, H: Head>(ManuallyDrop<Shared<T, H>>);

impl<T, H: Head> Lent<T, H> {
    /// Takes the reference over, as [`Pool::adopt`].
    ///
    /// # Safety
    ///
    /// That of `adopt`.
    #[inline(always)]
    pub(crate) unsafe fn adopt(self) -> Shared<T, H> {
        ManuallyDrop::into_inner(self.0)
    }
}

impl<T, H: Head> Deref for Lent<T, H> {
    type Target = Shared<T, H>;

    fn deref(&self) -> &Shared<T, H> {
        &self.0
    }
}

impl<T, H: Head> Clone for Shared<T, H> {
    #[inline]
    fn clone(&self) -> Self {
        self.cell().retain();
        // SAFETY: the reference was added just now; what this one sees its clone sees.
        unsafe { Shared::from_cell(self.cell) }
    }
}

impl<T, H: Head> Drop for Shared<T, H> {
    #[inline]
    fn drop(&mut self) {
        // A model that has failed would fail again, and abort.
        if cfg!(delta_fifo_loom) && std::thread::panicking() {
            return;
        }
        // SAFETY: the reference is ours, and not used any more.
        if unsafe { Cell::release(self.cell) } {
            self.drop_last();
        }
    }
}

impl<T, H: Head> Deref for Shared<T, H> {
    type Target = T;

    /// # Panics
    ///
    /// If the cell has no value.
    #[inline]
    fn deref(&self) -> &T {
        self.value().expect("the cell has a value")
    }
}

impl<T: fmt::Debug, H: Head> fmt::Debug for Shared<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => value.fmt(f),
            None => f.write_str("(no value)"),
        }
    }
}

impl<T: Hash, H: Head> Hash for Shared<T, H> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        (**self).hash(state);
    }
}

impl<T: PartialEq, H: Head> PartialEq for Shared<T, H> {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl<T: Eq, H: Head> Eq for Shared<T, H> {}

/// A cell whose last reference is gone; its body is ours. Gives it back at the end, also if a destructor panics (I3).
struct Last<T, H: Head>(NonNull<Cell<T, H>>);

impl<T, H: Head> Drop for Last<T, H> {
    #[inline]
    fn drop(&mut self) {
        // As for `Shared`.
        if cfg!(delta_fifo_loom) && std::thread::panicking() {
            return;
        }
        // SAFETY: I4: until it is given back the cell is there; I1: its body is ours, with no value in it any more.
        unsafe {
            match Cell::home(self.0) {
                None => free_alone(self.0),
                Some((home, index)) => Home::give_back(home, index),
            }
        }
    }
}
