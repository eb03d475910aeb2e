//! The cell: a value with its count of references, and what is done to one cell alone.

#![expect(unsafe_code, reason = "who may touch the body is known to the callers")]

use std::mem::{self, MaybeUninit};
use std::process::abort;
use std::ptr::{self, NonNull};

use crate::slab::{Index, Slab, Slot};
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::cell::UnsafeCell;
use crate::sync::{Canary, acquire_fence, pause_point, planted, weaken};
use crate::table::{Links, Node};

use super::Head;
use super::pool::Home;

/// Above it a count is about to overflow: references are leaked in a loop.
const MAX_REFS: u32 = i32::MAX as u32;

/// The end of the head and the value lie side by side.
#[repr(C)]
pub(crate) struct Cell<T, H: Head> {
    align: [H::Align; 0],
    refs: AtomicU32,
    /// Of the free list, of the dead stack, or to the cell published before.
    pub(super) link: AtomicU32,
    pub(super) head: H,
    /// Not an `Option`, so that memory with a cell in it can be made without a big value on the stack.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The body of a cell is this and the value. Written by drafts (I1, I2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Whether there is a value.
    full: bool,
    /// Of no pool.
    alone: bool,
}

/// Where a head has that. Only the cell looks into it.
#[derive(Debug, Default)]
pub(crate) struct Body(UnsafeCell<Place>);

// What panics while it has access leaves it as it is.
impl std::panic::RefUnwindSafe for Body {}

// SAFETY: as for the cell of which it is a part.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

// SAFETY: the body is handed from thread to thread by its owners (I1), which drop the `T` anywhere and lend it anywhere; all
// else is atomic or the head.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Send for Cell<T, H> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Sync for Cell<T, H> {}

impl<T, H: Head> Cell<T, H> {
    /// Puts a value where there is none.
    ///
    /// # Safety
    ///
    /// The body is the caller's, and there is no value.
    #[inline(always)]
    unsafe fn put(&self, value: T) {
        // SAFETY: the caller's promise.
        self.value.with_mut(|cell| unsafe { ptr::write(cell.cast::<T>(), value) });
        // SAFETY: the caller's promise.
        unsafe { self.change_place(|place| place.full = true) };
    }

    /// # Safety
    ///
    /// The body is visible to the caller and nobody writes it meanwhile.
    #[inline(always)]
    unsafe fn place(&self) -> Place {
        match self.head.body() {
            // SAFETY: the caller's promise.
            Some(body) => body.0.with(|place| unsafe { *place }),
            None => Place { full: true, alone: false },
        }
    }

    /// # Safety
    ///
    /// The body is the caller's.
    #[inline(always)]
    unsafe fn change_place(&self, change: impl FnOnce(&mut Place)) {
        if let Some(body) = self.head.body() {
            // SAFETY: the caller's promise.
            body.0.with_mut(|place| change(unsafe { &mut *place }));
        }
    }

    pub(crate) fn head(&self) -> &H {
        &self.head
    }

    #[inline(always)]
    pub(super) fn previous(&self) -> Option<Index> {
        // Relaxed: who got here by an Acquire sees it; for anybody else it may be anything.
        Index::new(self.link.load(Relaxed))
    }

    /// Makes the draft's reference. Everything in the cell is published to whoever holds it.
    #[inline]
    pub(super) fn publish(&self) {
        debug_assert_eq!(self.refs.load(Relaxed), 0);
        // Release: pairs with `hold` (Acquire); publishes the body. A store will do: by I2 nobody else changes a 0.
        self.refs.store(1, weaken("published by a relaxed store", Release));
    }

    /// Takes the draft's reference back, if nobody else has one. The body is the caller's again then.
    pub(super) fn retract(&self) -> bool {
        // Acquire: pairs with `release` (Release): all is done with the value by who held it in vain. Relaxed: a failure says
        // that somebody holds it.
        self.refs.compare_exchange(1, 0, weaken("a draft is retracted relaxed", Acquire), Relaxed).is_ok()
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

    /// One reference less. Returns whether it was the last; the body is the caller's then (I1). Else the memory may be gone when
    /// this returns, so it takes a pointer: a reference would have to stay good until then.
    ///
    /// # Safety
    ///
    /// The caller has a reference, and gives it up.
    #[inline(always)]
    pub(super) unsafe fn release(this: NonNull<Self>) -> bool {
        // SAFETY: I4: the cell is out because of the caller's reference; what is lent is the count alone.
        let refs = unsafe { &(*this.as_ptr()).refs };
        // Release: pairs with the fence below (Acquire) of the last one; publishes that all is done with the value.
        if refs.fetch_sub(1, weaken("a reference is dropped by a relaxed subtraction", Release)) != 1 {
            return false;
        }
        if !planted("the last does not acquire") {
            acquire_fence(refs);
        }
        pause_point("drop: was the last");
        true
    }

    /// Takes the value, if there is one.
    ///
    /// # Safety
    ///
    /// The body is the caller's, and there is no value.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, value: &mut Option<T>) {
        debug_assert!(value.is_some() || self.head.body().is_some(), "a cell that may have no value says so");
        if let Some(there) = value {
            // SAFETY: it is read here, and forgotten below, with no step in between that could panic. (`Option::take` moves it twice.)
            let read = unsafe { ptr::read(there) };
            // SAFETY: the caller's promise.
            unsafe { self.put(read) };
            // SAFETY: what is overwritten has been read, so it is not dropped.
            unsafe { ptr::write(value, None) };
        }
    }

    /// Where it is given back to: None if it is of no pool.
    ///
    /// # Safety
    ///
    /// The cell is out, the pointer is as its pool or [`alone`] made it, and the body as for `place`.
    #[inline(always)]
    pub(super) unsafe fn home(this: NonNull<Self>) -> Option<(NonNull<Home<T, H>>, Index)> {
        // SAFETY: the caller's promise.
        if unsafe { this.as_ref().place() }.alone {
            return None;
        }
        // SAFETY: the cell is of a pool; its memory is there as long as the cell is out (I4).
        let (home, index) = unsafe { Slab::origin(this) };
        NonNull::new(home.cast_mut().cast()).map(|home| (home, index))
    }

    /// # Safety
    ///
    /// The body is visible to the caller and nobody writes it while the reference lives.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> Option<&T> {
        // SAFETY: the caller's promise.
        let full = unsafe { self.place() }.full;
        // SAFETY: the caller's promise; `full` says that there is a value.
        full.then(|| self.value.with(|cell| unsafe { &*cell.cast::<T>() }))
    }

    /// # Safety
    ///
    /// The body is the caller's.
    pub(super) unsafe fn take_value(&self) -> Option<T> {
        // SAFETY: the caller's promise.
        let full = unsafe { self.empty() };
        // SAFETY: there was a value, and it is nobody's but ours now.
        full.then(|| self.value.with_mut(|cell| unsafe { ptr::read(cell.cast::<T>()) }))
    }

    /// Drops the value in place. There is none afterwards, also if its destructor panics.
    ///
    /// # Safety
    ///
    /// The body is the caller's.
    #[inline(always)]
    pub(super) unsafe fn drop_value(&self) {
        // SAFETY: the caller's promise.
        let full = unsafe { self.empty() };
        // Also if it needs no dropping, for models.
        if full && (mem::needs_drop::<T>() || cfg!(delta_fifo_loom)) {
            // SAFETY: there was a value, and it is nobody's but ours now.
            self.value.with_mut(|cell| unsafe { ptr::drop_in_place(cell.cast::<T>()) });
        }
    }

    /// Says that there is no value. Returns whether there was one; it is the caller's then.
    ///
    /// # Safety
    ///
    /// The body is the caller's.
    #[inline(always)]
    unsafe fn empty(&self) -> bool {
        // SAFETY: the caller's promise.
        let full = unsafe { self.place() }.full;
        // SAFETY: the caller's promise.
        unsafe { self.change_place(|place| place.full = false) };
        full
    }
}

impl<T, H: Head> Default for Cell<T, H> {
    fn default() -> Self {
        Cell {
            align: [],
            refs: AtomicU32::new(0),
            link: AtomicU32::new(0),
            head: H::default(),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

impl<T, H: Head> Slot for Cell<T, H> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

impl<T, H: Head + Links> Node for Cell<T, H> {
    fn next(&self) -> &AtomicU32 {
        self.head.next()
    }

    fn order(&self) -> &AtomicU32 {
        self.head.order()
    }
}

/// A cell without a pool.
#[repr(C)]
pub(super) struct Alone<T, H: Head> {
    /// First, so that a pointer to it is one to the whole.
    cell: Cell<T, H>,
    pub(super) canary: Canary,
}

/// With one reference.
pub(super) fn alone<T, H: Head>(value: T) -> NonNull<Cell<T, H>> {
    let head = H::default();
    assert!(head.body().is_some(), "a cell that may be of no pool says so");
    let alone = Box::leak(Box::<Alone<T, H>>::new_uninit()).as_mut_ptr();
    // SAFETY: it points to memory of this layout that nobody else knows. Every field is written, one by one, since in builds
    // that do not optimise each struct which a big value passes through is a copy on the stack; but for the value's cell,
    // which is `MaybeUninit` and nothing more, if it is not a checker's.
    unsafe {
        let cell = &raw mut (*alone).cell;
        (&raw mut (*cell).refs).write(AtomicU32::new(1));
        (&raw mut (*cell).link).write(AtomicU32::new(0));
        (&raw mut (*cell).head).write(head);
        #[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
        (&raw mut (*cell).value).write(UnsafeCell::new(MaybeUninit::uninit()));
        (&raw mut (*alone).canary).write(Canary::new());
        (*cell).change_place(|place| place.alone = true);
        (*cell).put(value);
        NonNull::new_unchecked(cell)
    }
}

/// # Safety
///
/// `cell` came from [`alone`], its last reference is gone, and this is called once.
pub(super) unsafe fn free_alone<T, H: Head>(cell: NonNull<Cell<T, H>>) {
    // SAFETY: the caller's promise; the cast undoes the one in `alone`.
    let alone = unsafe { Box::from_raw(cell.cast::<Alone<T, H>>().as_ptr()) };
    alone.canary.touch();
    #[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
    super::grave::bury_box(alone, |alone| &alone.canary);
    #[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
    drop(alone);
}
