//! Pools of cells: drafts, holding by index, dead cells, and what becomes of the memory when the pool goes.

#![expect(unsafe_code, reason = "cells lead to their pool's memory by a pointer")]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use crate::slab::{Index, Slab};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{CachePadded, Canary, pause_point, planted, prefetch_all, prefetch_all_to_write, weaken};

use super::cell::Cell;
use super::{Bare, Head, Lent, Shared};

/// The memory of a pool.
pub(super) struct Home<T, H: Head> {
    slab: Slab<Cell<T, H>>,
    /// The dead stack: how many, and the index of the first. Nothing but all of it is ever taken off, so an index that is
    /// on top again is no trap.
    dead: CachePadded<AtomicU64>,
    /// See I4.
    owed: AtomicU64,
    pub(super) canary: Canary,
}

/// One more dead cell.
const ONE: u64 = 1 << 32;

impl<T, H: Head> Home<T, H> {
    /// # Safety
    ///
    /// The cell is out, its body the caller's and without a value. It and the home must not be used any more.
    #[inline]
    pub(super) unsafe fn give_back(this: NonNull<Self>, index: Index) {
        // SAFETY: I4: it lives at least until this cell is given back.
        let home = unsafe { this.as_ref() };
        home.canary.touch();
        if home.slab.offer(index, index) {
            return;
        }
        pause_point("give: closed");
        // AcqRel: pairs with itself and `close`: who takes the last off has all before it. Released is that this one is done
        // with the memory.
        if home.owed.fetch_sub(1, weaken("a cell is counted down by a relaxed subtraction", AcqRel)) == 1 {
            // SAFETY: I4: no other cell is out, and no pool is there.
            unsafe { Home::free(this) };
        }
    }

    /// The pool goes.
    ///
    /// # Safety
    ///
    /// Called once; nobody takes cells any more.
    unsafe fn close(this: NonNull<Self>) {
        // SAFETY: the memory lives until the last cell is counted down, which is not before the count below.
        let home = unsafe { this.as_ref() };
        let out = u64::from(home.slab.allocated()) - u64::from(home.slab.close());
        pause_point("close: counted");
        if planted("those before the count are forgotten") {
            home.owed.swap(out, AcqRel);
            return;
        }
        // AcqRel: pairs with `give_back`; as there.
        if home.owed.fetch_add(out, weaken("a pool is closed relaxed", AcqRel)).wrapping_add(out) != 0
            && !planted("a pool takes its memory along")
        {
            return;
        }
        // SAFETY: I4: every cell is free or counted down.
        unsafe { Home::free(this) };
    }

    /// # Safety
    ///
    /// Nobody uses it any more, and this is called once.
    unsafe fn free(this: NonNull<Self>) {
        // SAFETY: the caller's promise; it was a box in `Pool::new`.
        let home = unsafe { Box::from_raw(this.as_ptr()) };
        #[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
        super::grave::bury_box(home, |home| &home.canary);
        #[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
        drop(home);
    }

    /// Puts a chain of dead cells on the stack.
    fn push_dead(&self, first: Index, last: Index, count: u32) {
        let link = &self.slab.get(last).link;
        // Relaxed: the exchange finds out if it is old.
        let mut top = self.dead.load(Relaxed);
        loop {
            // Relaxed: the exchange publishes it.
            link.store(top as u32, Relaxed);
            pause_point("dead: link written");
            let new = ((top & !(ONE - 1)) + ONE * u64::from(count)) | u64::from(first.get());
            let publish = weaken("the dead are pushed by a relaxed exchange", Release);
            // Release: pairs with `bury_dead` (Acquire); publishes the links and the bodies. Relaxed: on failure the top is
            // only compared again. It fails if others pushed or took all.
            match self.dead.compare_exchange_weak(top, new, publish, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

/// Cells for shared values, recycled. Cheap to create: the first chunk comes with the first draft.
pub(crate) struct Pool<T, H: Head = Bare> {
    home: NonNull<Home<T, H>>,
    owns: PhantomData<Home<T, H>>,
}

// SAFETY: a pool lends `T` and `H` to any thread that holds a cell, and drops them on any; the rest is atomic.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Send for Pool<T, H> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, H: Head + Send + Sync> Sync for Pool<T, H> {}

impl<T, H: Head> Pool<T, H> {
    pub(crate) fn new() -> Self {
        let home = Box::new(Home {
            slab: Slab::new(),
            dead: CachePadded::new(AtomicU64::new(0)),
            owed: AtomicU64::new(0),
            canary: Canary::new(),
        });
        let home = NonNull::from(Box::leak(home));
        // SAFETY: made just now.
        unsafe { home.as_ref() }.slab.set_owner(home);
        Pool { home, owns: PhantomData }
    }

    #[inline(always)]
    fn home(&self) -> &Home<T, H> {
        // SAFETY: I4: it lives as long as the pool.
        unsafe { self.home.as_ref() }
    }

    #[inline(always)]
    fn cell(&self, index: Index) -> &Cell<T, H> {
        self.home().slab.get(index)
    }

    /// The cell of a value that was lent, without a look into the directory.
    ///
    /// # Safety
    ///
    /// It is of this pool.
    #[inline(always)]
    pub(crate) unsafe fn cell_of(&self, lent: &Lent<T, H>) -> &Cell<T, H> {
        // SAFETY: I4: the cells of a pool are there as long as the pool is.
        unsafe { lent.0.cell.as_ref() }
    }

    /// Brings a cell near that will be changed.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, index: Index) {
        prefetch_all_to_write(self.cell(index));
    }

    /// All cells.
    #[inline(always)]
    pub(crate) fn slab(&self) -> &Slab<Cell<T, H>> {
        &self.home().slab
    }

    /// A cell that nobody else sees yet.
    #[inline(always)]
    pub(crate) fn draft(&self, mut value: Option<T>) -> Draft<'_, T, H> {
        self.draft_from(&mut value)
    }

    /// The same, of a value that is moved once.
    #[inline(always)]
    pub(crate) fn draft_from(&self, value: &mut Option<T>) -> Draft<'_, T, H> {
        let (index, cell) = self.home().slab.take_slot();
        let spot = Spot { cell, pool: PhantomData };
        // SAFETY: I1: a free cell has no reference and no value, and whoever takes it owns its body.
        unsafe { spot.cell().fill(value) };
        Draft { pool: self, index, spot, exposed: false }
    }

    /// The head of a cell, whatever it is at the moment.
    #[inline]
    pub(crate) fn head(&self, index: Index) -> &H {
        &self.cell(index).head
    }

    /// A cell, whatever it is at the moment.
    #[inline(always)]
    pub(crate) fn spot(&self, index: Index) -> Spot<'_, T, H> {
        Spot { cell: self.home().slab.ptr(index), pool: PhantomData }
    }

    /// The link of a cell: what `set_previous` put there, if the caller knows that it is still published.
    #[inline]
    pub(crate) fn previous(&self, index: Index) -> Option<Index> {
        self.cell(index).previous()
    }

    /// One reference more unless there is none. What is held may be another value than the caller meant, since cells are
    /// recycled; it finds that out afterwards: while it holds the cell, that does not change any more.
    #[inline]
    pub(crate) fn hold(&self, index: Index) -> Option<Shared<T, H>> {
        let cell = self.home().slab.ptr(index);
        // SAFETY: I4: cells are there as long as the pool.
        let held = unsafe { cell.as_ref() }.hold();
        // SAFETY: `hold` added the reference, and has acquired what `publish` released.
        held.then(|| unsafe { Shared::from_cell(cell) })
    }

    /// Takes over the reference that `publish` left behind.
    ///
    /// # Safety
    ///
    /// At most once for each `publish`, and `publish` happened before.
    #[inline]
    pub(crate) unsafe fn adopt(&self, index: Index) -> Shared<T, H> {
        // SAFETY: the caller's promise.
        unsafe { Shared::from_cell(self.home().slab.ptr(index)) }
    }

    /// # Panics
    ///
    /// If it is not of this pool.
    #[inline]
    pub(crate) fn index_of(&self, shared: &Shared<T, H>) -> Index {
        self.place_of(shared).expect("a cell of this pool")
    }

    /// One reference more, of a cell that has one.
    ///
    /// # Safety
    ///
    /// Somebody has a reference, and keeps it during this call.
    #[inline]
    pub(crate) unsafe fn share(&self, index: Index) -> Shared<T, H> {
        // SAFETY: the caller's promise.
        unsafe { self.spot(index).share() }
    }

    /// Somebody else's reference.
    ///
    /// # Safety
    ///
    /// Somebody has a reference, and keeps it as long as this is used.
    #[inline]
    pub(crate) unsafe fn lend(&self, index: Index) -> Lent<T, H> {
        // SAFETY: the caller's promise.
        unsafe { self.spot(index).lend() }
    }

    #[inline(always)]
    fn place_of(&self, shared: &Shared<T, H>) -> Option<Index> {
        // SAFETY: nobody writes the body while there is a reference (I1), and who has one sees it (I2).
        let place = unsafe { Cell::home(shared.cell) };
        place.filter(|(home, _)| *home == self.home).map(|(_, index)| index)
    }

    /// As dropping it, but if it was the last reference, the cell goes to the dead stack with its value in it: no
    /// destructor runs here. One that is not of this pool is dropped.
    #[inline]
    pub(crate) fn release_later(&self, shared: Shared<T, H>) {
        let Some(index) = self.place_of(&shared) else { return drop(shared) };
        let shared = ManuallyDrop::new(shared);
        // SAFETY: the reference is handed over, and not used any more.
        if unsafe { Cell::release(shared.cell) } {
            self.home().push_dead(index, index, 1);
        }
    }

    #[inline]
    pub(crate) fn has_dead(&self) -> bool {
        self.dead_backlog() != 0
    }

    /// How many cells are dead and not buried.
    #[inline]
    pub(crate) fn dead_backlog(&self) -> u32 {
        // Relaxed: of some moment.
        (self.home().dead.load(Relaxed) >> 32) as u32
    }

    #[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
    pub(super) fn home_allocated(&self) -> u32 {
        self.home().slab.allocated()
    }

    /// Drops the values of all dead cells and gives the cells back. If a destructor panics, the rest is dead still.
    pub(crate) fn bury_dead(&self) {
        // Acquire: pairs with `push_dead` (Release); publishes the links and the bodies. Every earlier push counts, since
        // the stack is changed by read-modify-writes only.
        let dead = self.home().dead.swap(0, weaken("the dead are taken by a relaxed swap", Acquire));
        let Some(first) = Index::new(dead as u32) else { return };
        pause_point("bury: taken");
        let mut burial =
            Burial { home: self.home(), first, last: first, rest: Some(first), left: (dead >> 32) as u32 };
        while let Some(index) = burial.rest {
            let cell = self.cell(index);
            burial.last = index;
            // Relaxed: acquired above, and dead cells are ours (I1).
            burial.rest = Index::new(cell.link.load(Relaxed));
            burial.left -= 1;
            // SAFETY: I1: dead cells have no reference, and we took them off the stack.
            unsafe { cell.drop_value() };
        }
    }
}

/// Dead cells, linked; from `first` to `last` their values are dropped.
struct Burial<'p, T, H: Head> {
    home: &'p Home<T, H>,
    first: Index,
    last: Index,
    rest: Option<Index>,
    left: u32,
}

impl<T, H: Head> Drop for Burial<'_, T, H> {
    fn drop(&mut self) {
        self.home.slab.give_chain(self.first, self.last);
        if planted("a burial that panics forgets the rest") {
            return;
        }
        let Some(first) = self.rest else { return };
        let mut last = first;
        // Relaxed: as in `bury_dead`.
        while let Some(next) = Index::new(self.home.slab.get(last).link.load(Relaxed)) {
            last = next;
        }
        self.home.push_dead(first, last, self.left);
    }
}

impl<T, H: Head> Drop for Pool<T, H> {
    /// Buries the dead; goes on with the first panic of a destructor when all is done.
    fn drop(&mut self) {
        let mut panic = None;
        while self.has_dead() {
            if let Err(new) = catch_unwind(AssertUnwindSafe(|| self.bury_dead())) {
                panic.get_or_insert(new);
            }
        }
        // SAFETY: the pool goes once, and cells are taken through it alone.
        unsafe { Home::close(self.home) };
        if let Some(panic) = panic.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

/// Where a cell is, whatever it is at the moment.
pub(crate) struct Spot<'p, T, H: Head> {
    cell: NonNull<Cell<T, H>>,
    pool: PhantomData<&'p Pool<T, H>>,
}

impl<T, H: Head> Clone for Spot<'_, T, H> {
    #[inline(always)]
    fn clone(&self) -> Self {
        Spot { cell: self.cell, pool: PhantomData }
    }
}

impl<'p, T, H: Head> Spot<'p, T, H> {
    #[inline(always)]
    pub(crate) fn cell(&self) -> &'p Cell<T, H> {
        // SAFETY: I4: the cells of a pool are there as long as the pool is.
        unsafe { self.cell.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &'p H {
        &self.cell().head
    }

    /// Brings it near.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch_all(self.cell());
    }

    /// The value, if there is one.
    ///
    /// # Safety
    ///
    /// Somebody has a reference, which the caller knows of, and keeps it as long as the value is used.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> Option<&'p T> {
        // SAFETY: I1: nobody writes the body while there is a reference; I2: the caller sees it.
        unsafe { self.cell().value() }
    }

    /// As [`Pool::lend`].
    ///
    /// # Safety
    ///
    /// That of `Pool::lend`.
    #[inline(always)]
    pub(crate) unsafe fn lend(&self) -> Lent<T, H> {
        // SAFETY: it is never dropped, so it needs no reference of its own.
        Lent(ManuallyDrop::new(unsafe { Shared::from_cell(self.cell) }))
    }

    /// One reference more.
    ///
    /// # Safety
    ///
    /// As for [`value`](Self::value), but during this call.
    #[inline]
    pub(crate) unsafe fn share(&self) -> Shared<T, H> {
        if !planted("a reference is shared and not counted") {
            self.cell().retain();
        }
        // SAFETY: retained just now; the caller sees the body, as it knows of a reference.
        unsafe { Shared::from_cell(self.cell) }
    }
}

/// A cell with its value that is about to be published. Dropped, it drops the value and gives the cell back.
pub(crate) struct Draft<'p, T, H: Head> {
    pool: &'p Pool<T, H>,
    index: Index,
    spot: Spot<'p, T, H>,
    /// It has its one reference, so that others may hold it.
    exposed: bool,
}

impl<'p, T, H: Head> Draft<'p, T, H> {
    pub(crate) fn index(&self) -> Index {
        self.index
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> &'p H {
        self.spot.head()
    }

    #[inline(always)]
    pub(crate) fn set_previous(&self, previous: Option<Index>) {
        // Relaxed: whoever publishes the index publishes it.
        self.cell().link.store(previous.map_or(0, Index::get), Relaxed);
    }

    /// From here on the index may be told to others, who can take a reference; the head and the link still change until
    /// they are.
    #[inline]
    pub(crate) fn expose(&mut self) {
        if !self.exposed {
            self.cell().publish();
            self.exposed = true;
        }
    }

    /// The value; the cell is given back. If the draft was exposed and somebody holds it, in vain, the draft comes back.
    pub(crate) fn into_value(mut self) -> Result<Option<T>, Self> {
        if self.exposed {
            if !self.cell().retract() {
                return Err(self);
            }
            self.exposed = false;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: I1: a drafted cell has no reference, and is its draft's.
        let value = unsafe { this.cell().take_value() };
        this.pool.home().slab.give(this.index);
        Ok(value)
    }

    /// Leaves the one reference behind, to be adopted. The draft must have been exposed before its index was told.
    #[inline]
    pub(crate) fn publish(mut self) -> Index {
        self.expose();
        ManuallyDrop::new(self).index
    }

    #[cfg(test)]
    pub(crate) fn share(self) -> Shared<T, H> {
        let pool = self.pool;
        let index = self.publish();
        // SAFETY: published just now, by this thread, and the index is told to nobody.
        unsafe { pool.adopt(index) }
    }

    #[inline(always)]
    fn cell(&self) -> &'p Cell<T, H> {
        self.spot.cell()
    }
}

impl<T, H: Head> Drop for Draft<'_, T, H> {
    fn drop(&mut self) {
        /// Also if the destructor panics.
        struct Given<'d, 'p, T, H: Head>(&'d Draft<'p, T, H>);
        impl<T, H: Head> Drop for Given<'_, '_, T, H> {
            fn drop(&mut self) {
                self.0.pool.home().slab.give(self.0.index);
            }
        }
        if self.exposed {
            // SAFETY: the draft's reference, which is given up.
            return self.pool.release_later(unsafe { self.pool.adopt(self.index) });
        }
        let given = Given(self);
        // SAFETY: I1: a drafted cell has no reference, and is its draft's.
        unsafe { given.0.cell().drop_value() };
    }
}
