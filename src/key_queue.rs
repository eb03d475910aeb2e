//! The line: an unbounded FIFO of entry handles, for any number of pushers and poppers.
//!
//! A fetch-and-add array queue after Ramalhete and Correia, in segments of `N` cells, which are used again and again:
//!
//! ```text
//!  first ─▶ ┌ segment, life 7 ───┐ next ┌ segment, life 4 ───┐ next   nowhere
//!           │ h  h  P  h  h  h   │ ───▶ │ h  P  h  ·  h  ·   │ ───▶
//!           └───────────▲────────┘      └───────▲─────▲──────┘ ◀─ last
//!                       popped                  │     pushed
//!                                               reserved, not filled
//!  free ─▶ segment ─▶ segment          used up: taken for the next one
//! ```
//!
//! A pusher *reserves* cells by adding to `pushed` and *fills* each by a CAS of the empty cell. A popper reads the cell
//! at `popped` and *claims* it by a CAS of `popped`. A cell that is reserved and stays empty is *poisoned* by the
//! popper that finds it in its way; its pusher, whenever it goes on, finds that out and reserves another.
//!
//! # Invariants
//!
//! In one life of a segment:
//!
//! - **I1** A cell is written once: empty → handle, by the pusher that reserved it, or empty → poison, by a popper.
//!   Only the thread that begins the life, before it links the segment, writes otherwise.
//! - **I2** `popped` goes up only past cells that are written, to at most `N`; whoever raises it past handles owns
//!   those and nobody else does. So each handle is popped once, and a stopped popper holds what it claimed and no more.
//! - **I3** `pushed` only goes up. A cell at or above it is empty; one that a popper poisons is below it.
//! - **I4** `next` is written once, in a segment whose cells are all reserved. So the segments are one list, older cells
//!   before newer ones.
//! - **I5** `first` and `last` only move along the list, and `first` never passes `last`. `first` leaves a segment only
//!   when `popped` is `N` there.
//! - **I6** A segment is freed, once, by whoever moved `first` off it; neither `first` nor `last` ever leads to this life again.
//!
//! From life to life:
//!
//! - **L1** Segments never move and are segments until the queue is dropped (`slab.rs`, I1). A life ends when whoever took the
//!   free segment begins the next; it has the segment alone, but for late callers, and every number in it says of which life it
//!   is. So whatever a late caller does by a link of an earlier life is an exchange that expects that life and fails, or adds to
//!   `pushed` (L3); whatever it reads tells it so, or leads to such an exchange.
//! - **L2** *Cells.* The empty mark has the life. So nobody fills or poisons a cell of a later life.
//! - **L3** *Counts.* `popped` has the life, so no claim of an earlier life succeeds. `pushed` has it in the half that additions do
//!   not reach: each thread adds up to `N` once for each link that it read, so what is added in one life is less than 2^32 with
//!   fewer than 2^32 ⁄ `N` threads. A late pusher sees from what its addition returns that it has reserved nothing. If that came before the
//!   next life's begin, it is overwritten; if after, it leaves cells that are reserved and will not be filled, as a pusher does
//!   that is stopped for good: poppers poison them.
//! - **L4** *Links.* `first`, `last` and `next` have the life of the segment they lead to, and a `next` that leads nowhere has its own.
//!   So a late caller does not link behind a segment that is not full, nor moves `first` or `last` anywhere.
//!
//! Lives have 32 bits: only a caller that is stopped between two instructions while one segment is used 2^32 times, exactly, is deceived:
//! it pops a handle that was popped, and another is lost (`around.rs`). With segments of a thousand cells the others pop more than
//! 4·10^12 handles meanwhile. No memory depends on lives.
//!
//! # Linearization
//!
//! - A push takes place at the fetch-and-add that reserved the cell it fills, or when it links the segment that has its
//!   handle: by I2 and I4 handles are popped in this order. (Not at the CAS that fills: of two cells reserved in turn
//!   the second may be filled first, and a popper waits for the first or poisons it.) A batch is as many pushes, in order.
//!   The cell was empty in the life of the link when it was filled (L2), so `popped` has not passed it (I2), and the segment is
//!   in line: no push ends before its handle can be popped.
//! - A pop takes place at its CAS of `popped`. A batch is as many pops, in stretches: each stretch at one moment.
//! - A pop that finds nothing takes place at its load of `first` before the first push, at that of `pushed`, or of `next` in a segment that is used up, both of the life of its
//!   link: `popped`, read before, was no lower, so all that was pushed before was popped before. What is of another life
//!   says nothing, and the pop begins again.
//! - What happened before a push happens before the end of the pop that returns its handle.
//! - Whoever pushes, then has a `SeqCst` fence, then looks for sleepers, and whoever says that it sleeps, then has such a
//!   fence, then pops: one of the two sees the other.
//!
//! # Progress
//!
//! Lock-free: a thread stopped anywhere in here keeps nobody else from completing. A pusher repeats only if a popper
//! poisoned its cell, or if others filled the segment, linked the next, or used all of it up since it read `last`. A popper
//! repeats only if another popper claimed, or after a poisoned cell. Poppers and pushers cannot spoil each other's steps for ever: after
//! at most `N` cells the segment is used up, and the pusher that links the next one has its handle in it.
//!
//! Before a popper poisons, it looks at the cell for a while, as most pushers that reserved one are running.
//!
//! # Memory
//!
//! 8 bytes for each handle of the longest line there ever was, and each cell poisoned among those, and a segment or two; and one for
//! each thread that is stopped with one that it has taken to link. No more, whoever is stopped. A drained line keeps its
//! segments for when it grows again; they go when the queue is dropped. So a push or pop calls the allocator only when the line is
//! longer than it ever was. Where there is no memory left, that ends the process.

mod chain;
mod link;
mod pool;
mod segment;

#[cfg(all(test, delta_fifo_narrow))]
mod around;
#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;

use std::num::NonZeroU64;

use chain::Chain;
use segment::Miss;

/// What stands in line: any 63 bits but all zeros. The highest bit is of the cells' own marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct Handle(NonZeroU64);

impl Handle {
    pub(crate) const BITS: u32 = 63;

    /// None for 0 and for what has more bits.
    pub(crate) const fn new(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) if bits.get() >> Self::BITS == 0 => Some(Handle(bits)),
            _ => None,
        }
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get()
    }
}

/// Cells of a segment: as many as make it fill a chunk of the slab.
pub(crate) const CELLS: usize = if crate::sync::CHECKED { 4 } else { 974 };

/// The same of a line in which there is little at most times: six to a chunk.
pub(crate) const FEW: usize = if crate::sync::CHECKED { 4 } else { 126 };

/// How often a pop looks at a cell that is reserved but empty before it poisons it.
const PATIENCE: u32 = if crate::sync::CHECKED {
    0
} else if cfg!(test) {
    1
} else {
    128
};

#[derive(Debug)]
pub(crate) struct KeyQueue<const N: usize = CELLS> {
    chain: Chain<N>,
}

impl<const N: usize> KeyQueue<N> {
    /// The first segment is made here.
    pub(crate) fn new() -> Self {
        let queue = Self::lazy();
        queue.chain.last();
        queue
    }

    /// The first segment is made by the first push: for a line that may never be used.
    pub(crate) fn lazy() -> Self {
        KeyQueue { chain: Chain::new() }
    }

    /// Puts `handle` at the end.
    #[inline(always)]
    pub(crate) fn push(&self, handle: Handle) {
        self.push_some(std::slice::from_ref(&handle));
    }

    /// Puts the handles at the end, in this order, with one fetch-and-add for each `N` if there is room for them. Others may
    /// come in between.
    pub(crate) fn push_batch(&self, handles: &[Handle]) {
        handles.chunks(N).for_each(|some| self.push_some(some));
    }

    /// Up to `N`.
    #[inline(always)]
    fn push_some(&self, mut handles: &[Handle]) {
        while !handles.is_empty() {
            let last = self.chain.last();
            handles = last.fill(handles);
            if !handles.is_empty() && last.is_full() && self.chain.extend(&last, handles) {
                break;
            }
        }
    }

    /// Takes the handle at the head, or finds that there is none.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Handle> {
        self.pop_and_glance([]).map(|(handle, [])| handle)
    }

    /// The same, and what stands so far behind it, mostly: for who wants to know what it will need soon.
    #[inline(always)]
    pub(crate) fn pop_and_glance<const AHEAD: usize>(
        &self,
        ahead: [u64; AHEAD],
    ) -> Option<(Handle, [Option<Handle>; AHEAD])> {
        let mut patience = PATIENCE;
        loop {
            let first = self.chain.first()?;
            match first.take(&mut patience) {
                Ok((handle, at)) => return Some((handle, ahead.map(|ahead| first.glance(at + ahead)))),
                Err(Miss::Over) => {}
                Err(Miss::UsedUp) if self.chain.remove_first(&first) => {}
                Err(Miss::UsedUp | Miss::Nothing) => return None,
            }
        }
    }

    /// Takes up to `max` handles from the head and appends them to `into`; returns how many. Fewer only if there were no
    /// more at some moment. `into` grows before anything is taken.
    pub(crate) fn pop_batch(&self, max: usize, into: &mut Vec<Handle>) -> usize {
        let before = into.len();
        let mut patience = PATIENCE;
        loop {
            let wanted = max - (into.len() - before);
            if wanted == 0 {
                break;
            }
            let Some(first) = self.chain.first() else { break };
            match first.take_many(wanted, into, &mut patience) {
                Ok(()) | Err(Miss::Over) => {}
                Err(Miss::UsedUp) if self.chain.remove_first(&first) => {}
                Err(Miss::UsedUp | Miss::Nothing) => break,
            }
        }
        into.len() - before
    }
}
