//! Type-stable memory: slots of one type that are named by 32-bit indices, never move, and are memory of that type until
//! the slab is dropped. So a stale index is no dangling pointer: it leads to a slot that means something else by now.
//!
//! ```text
//!  rows    [ ● ][ ● ][   ] …            the array of rows; row r has ROW·2^r places
//!            │    └─▶ [ ● ][   ] …
//!            └──────▶ [ ● ][ ● ] …      a place leads to a chunk
//!                       └─▶ │owner│slot│slot│slot│ …
//!  stock   tag │ index ─▶ slot ─link─▶ slot ─link─▶ 0      from here they are taken
//!  free          index ─▶ slot ─link─▶ slot ─link─▶ 0      here they are given; when the stock is empty it gets them all
//!  next    the number of the next new slot
//! ```
//!
//! # Invariants
//!
//! - **I1** A place of a row, and a row itself, is written once: null → memory whose slots are all made. It is freed when
//!   the slab is dropped. So `get` may lend what it finds for as long as the slab.
//! - **I2** An index is handed out by `grow` at most once, after its chunk stands; afterwards it is either out (its
//!   taker owns it), in the stock or in the free list, once, or in the hands of who restocks.
//! - **I3** `free` and `stock` are changed by read-modify-writes only. So what any of them released is acquired by whoever
//!   reads a later value.
//! - **I4** Each take raises the stock's tag by one. While the tag is the same nothing was taken, so an index that is on top
//!   again was there all along, and its link is what was read; and an empty stock was empty all along. The slot whose link a
//!   late taker reads may be out and its link anything; that is harmless, since slots are type-stable and the exchange fails
//!   then. Only a taker that is stopped between its load and its exchange while others take a multiple of 2^32 times, exactly,
//!   with the same slot on top, is deceived: the slot that it says is next has an owner, and gets another (`around.rs`). That is not excluded:
//!   the others need minutes at full speed, of one slab, and the very count.
//! - **I5** Index 0 is nobody and ends the list; index `u32::MAX` on top says that the list is closed for good.
//!
//! # Progress
//!
//! Lock-free: nobody waits for who installs a chunk; each who needs it allocates one, and the losers free theirs. An
//! exchange fails only because another one succeeded. No call does more than one allocation of a chunk and one of a row
//! (zeroed pages). Who is stopped while it restocks keeps those slots from being used: the others make new ones. Two lists, since
//! who takes and who gives are mostly on two cores, which would pass one head to and fro.

#![expect(unsafe_code, reason = "a slot leads to its slab")]

#[cfg(all(test, delta_fifo_narrow))]
mod around;
mod chunk;
#[cfg(all(test, delta_fifo_loom))]
mod models;
mod rows;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

use std::alloc::{Layout, handle_alloc_error};
use std::num::NonZeroU32;
use std::ptr::NonNull;

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::{CachePadded, pause_point, planted, prefetch_all_to_write, weaken, width};

use chunk::Chunk;
pub(crate) use rows::Rows;

/// The name of a slot. 0 and `u32::MAX` name none.
pub(crate) type Index = NonZeroU32;

/// What a slab can hold.
pub(crate) trait Slot: Default {
    /// The link of the free list; while the slot is out, its owner uses it as it likes.
    fn link(&self) -> &AtomicU32;
}

/// The highest index: two bits are left to who keeps indices in links.
const MAX: u64 = INDEX_MASK as u64;
/// The bits of an index, for those.
pub(crate) const INDEX_MASK: u32 = u32::MAX >> 2;
const INDEX: u64 = u32::MAX as u64;
/// On top of the free list after `close`.
const CLOSED: u64 = u32::MAX as u64;
/// Where the tag of the stock begins (I4).
const TAG: u32 = 32;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    rows: Rows<T>,
    /// Free slots to be taken: the upper half is the tag, the lower the index of the first.
    stock: CachePadded<AtomicU64>,
    /// Free slots that were given: the index of the first.
    free: CachePadded<AtomicU64>,
    /// The number of the next new slot. 64 bits, so that it cannot wrap.
    next: CachePadded<AtomicU64>,
}

impl<T: Slot> Slab<T> {
    /// Allocates no slots yet.
    pub(crate) fn new() -> Self {
        Slab {
            rows: Rows::new(),
            stock: CachePadded::new(AtomicU64::new((width::FIRST as u64) << TAG)),
            free: CachePadded::new(AtomicU64::new(0)),
            next: CachePadded::new(AtomicU64::new(1)),
        }
    }

    /// Before the first slot is taken: what its slots lead to.
    pub(crate) fn set_owner<O>(&self, owner: NonNull<O>) {
        self.rows.set_owner(owner);
    }

    /// The owner of the slab that a slot is of, null if it has none, and the slot's index.
    ///
    /// # Safety
    ///
    /// The slot is of a slab that is there, and the pointer came from [`ptr`](Self::ptr).
    #[inline(always)]
    pub(crate) unsafe fn origin(slot: NonNull<T>) -> (*const (), Index) {
        // SAFETY: I1: the chunk is there; `ptr` derives from a pointer to all of it.
        unsafe { Chunk::origin(slot) }
    }

    /// The slot of an index. Two dependent loads.
    ///
    /// # Panics
    ///
    /// It may with an index that was never handed out.
    #[inline]
    pub(crate) fn get(&self, index: Index) -> &T {
        self.rows.get(index)
    }

    /// The same as a pointer that is good for the whole chunk.
    #[inline]
    pub(crate) fn ptr(&self, index: Index) -> NonNull<T> {
        self.rows.ptr(index)
    }

    /// A free slot, else a new one. What was done to it before it was given happens before. Lock-free, O(1) but for a new
    /// chunk.
    #[inline(always)]
    pub(crate) fn take(&self) -> Index {
        self.take_slot().0
    }

    /// The same, and where it is.
    #[inline(always)]
    pub(crate) fn take_slot(&self) -> (Index, NonNull<T>) {
        // Acquire, here and at a failed exchange: pairs with `restock` (Release); publishes the link, and what was done to
        // the slot (I3).
        let acquire = weaken("a head is read by a relaxed load", Acquire);
        let mut head = self.stock.load(acquire);
        while let Some(index) = Index::new(head as u32) {
            pause_point("take: head read");
            let slot = self.ptr(index);
            // SAFETY: I1: the slot is there as long as the slab is.
            let link = unsafe { slot.as_ref() }.link();
            // Relaxed: `head` has acquired it, or else it is nobody's and the exchange fails (I4).
            let next = link.load(Relaxed);
            pause_point("take: link read");
            let tag = (head >> TAG) as u32;
            let raised = if planted("a take leaves the tag") { tag } else { width::after(tag) };
            let new = u64::from(raised) << TAG | u64::from(next);
            // Relaxed: the load that read `head` has acquired; nothing is published. It fails if others took or restocked.
            match self.stock.compare_exchange_weak(head, new, Relaxed, acquire) {
                Ok(_) => {
                    // The next one is far, as whoever gave it is mostly on another core.
                    Index::new(next).into_iter().for_each(|next| prefetch_all_to_write(self.get(next)));
                    return (index, slot);
                }
                Err(now) => head = now,
            }
        }
        let index = self.restock(head);
        (index, self.ptr(index))
    }

    /// The first of the slots that were given; the others go into the stock, whose empty `head` is this.
    #[inline(never)]
    fn restock(&self, head: u64) -> Index {
        // Relaxed: spares the swap; what it misses is taken next time.
        if self.free.load(Relaxed) == 0 {
            return self.grow();
        }
        // Acquire: pairs with `offer` (Release); publishes the links, and what was done to the slots. Every earlier `offer`
        // counts (I3).
        let given = self.free.swap(0, weaken("the given are taken by a relaxed swap", Acquire));
        debug_assert_ne!(given, CLOSED, "taken from a closed slab");
        let Some(first) = Index::new(given as u32) else { return self.grow() };
        pause_point("take: restocking");
        // Relaxed: acquired above.
        let Some(rest) = Index::new(self.get(first).link().load(Relaxed)) else { return first };
        let new = head & !INDEX | u64::from(rest.get());
        // Release: pairs with `take` (Acquire); passes on what the swap has acquired. It fails if somebody else has restocked.
        let publish = weaken("restocked by a relaxed exchange", Release);
        let lost = self.stock.compare_exchange(head, new, publish, Relaxed).is_err();
        if lost && !planted("who loses a restock forgets the rest") {
            let mut last = rest;
            // Relaxed: acquired above.
            while let Some(next) = Index::new(self.get(last).link().load(Relaxed)) {
                last = next;
            }
            self.give_chain(rest, last);
        }
        first
    }

    /// Back to the free ones. The caller has taken it, and has no more business with it.
    #[inline]
    pub(crate) fn give(&self, index: Index) {
        self.give_chain(index, index);
    }

    /// Gives a chain whose slots `link` leads through, from `first` to `last`, in one exchange.
    #[inline]
    pub(crate) fn give_chain(&self, first: Index, last: Index) {
        let given = self.offer(first, last);
        debug_assert!(given, "given to a closed slab");
    }

    /// As `give_chain`; returns whether the list took them. It takes none once it is closed.
    #[inline]
    pub(crate) fn offer(&self, first: Index, last: Index) -> bool {
        let link = self.get(last).link();
        // Relaxed: the exchange finds out if it is old. CLOSED sticks.
        let mut top = self.free.load(Relaxed);
        while top != CLOSED {
            // Relaxed: the exchange publishes it.
            link.store(top as u32, Relaxed);
            pause_point("give: link written");
            let publish = weaken("given by a relaxed exchange", Release);
            // Release: pairs with `restock` and `close` (Acquire); publishes the links and what was done to the slots. Nothing but
            // all of it is ever taken off, so one that is on top again is no trap.
            // Relaxed: on failure the top is only compared again. It fails if others gave or restocked.
            match self.free.compare_exchange_weak(top, first.get().into(), publish, Relaxed) {
                Err(now) if !planted("a give is not repeated") => top = now,
                _ => return true,
            }
        }
        false
    }

    /// Closes the free list and returns how many slots are free. Nobody may take any more, and it is closed once.
    pub(crate) fn close(&self) -> u32 {
        // Acquire, both: pairs with `offer` and `restock` (Release); publishes the links (I3).
        let acquire = weaken("a slab is closed relaxed", Acquire);
        let lists = [self.free.swap(CLOSED, acquire), self.stock.load(acquire)];
        let mut free = 0;
        for first in lists {
            let mut next = Index::new(first as u32);
            while let Some(index) = next {
                free += 1;
                // Relaxed: acquired above, and nobody touches a free slot any more.
                next = Index::new(self.get(index).link().load(Relaxed));
            }
        }
        free
    }

    /// Slots ever made.
    pub(crate) fn allocated(&self) -> u32 {
        // Relaxed: a count. Saturates for the moment before the process ends.
        (self.next.load(Relaxed) - 1).min(MAX) as u32
    }

    /// All slots ever made, but for those of a chunk that is being installed. O(slots ever made).
    pub(crate) fn for_each(&self, mut f: impl FnMut(Index, &T)) {
        for (first, slots) in self.stretches(usize::MAX) {
            let slots = slots.iter().zip(first..);
            slots.for_each(|(slot, number)| Index::new(number).into_iter().for_each(|index| f(index, slot)));
        }
    }

    /// The same as stretches of up to `max` slots that lie side by side, each with the number of its first one, in the order of
    /// numbers. The slot of number 0 is among them, which is never handed out.
    pub(crate) fn stretches(&self, max: usize) -> impl Iterator<Item = (u32, &[T])> {
        self.rows.stretches(self.allocated(), max)
    }

    /// A new slot.
    #[cold]
    fn grow(&self) -> Index {
        // Relaxed: only the number matters (I2).
        let number = self.next.fetch_add(1, Relaxed);
        pause_point("take: number drawn");
        if number > MAX {
            handle_alloc_error(Layout::new::<T>());
        }
        let index = Index::new(number as u32).expect("numbers start at 1");
        self.rows.provide(index);
        index
    }
}
