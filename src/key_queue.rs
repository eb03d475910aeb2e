//! The line: an unbounded FIFO of entry handles, for any number of pushers and poppers.
//!
//! A fetch-and-add array queue after Ramalhete and Correia, in segments of `N` cells:
//!
//! ```text
//!  first ─▶ ┌ segment ───────────┐ next ┌────────────────────┐ next   null
//!           │ h  h  P  h  h  h   │ ───▶ │ h  P  h  ·  h  ·   │ ───▶
//!           └───────────▲────────┘      └───────▲─────▲──────┘ ◀─ last
//!                       popped                  │     pushed
//!                                               reserved, not filled
//! ```
//!
//! A pusher *reserves* cells by adding to `pushed` and *fills* each by a CAS of the empty cell. A popper reads the cell
//! at `popped` and *claims* it by a CAS of `popped`. A cell that is reserved and stays empty is *poisoned* by the
//! popper that finds it in its way; its pusher, whenever it goes on, finds that out and reserves another.
//!
//! # Invariants
//!
//! - **I1** A cell is written once: empty → handle, by the pusher that reserved it, or empty → poison, by a popper.
//!   Only the thread that makes a segment, before it is linked, writes otherwise.
//! - **I2** `popped` goes up only past cells that are written, to at most `N`; whoever raises it past handles owns
//!   those and nobody else does. So each handle is popped once, and a stopped popper holds what it claimed and no more.
//! - **I3** `pushed` only goes up. A cell at or above it is empty; one that a popper poisons is below it.
//! - **I4** `next` is written once, in a segment whose cells are all reserved. So the segments are one list, older cells
//!   before newer ones.
//! - **I5** `first` and `last` only move along the list, and `first` never passes `last`. `first` leaves a segment only
//!   when `popped` is `N` there.
//! - **I6** A segment is retired, once, by whoever moved `first` off it; then neither `first`, `last` nor the `next` of
//!   a segment that can still be reached leads to it. It is freed when no guard from before that is alive.
//! - **I7** A push that fails for want of memory has filled nothing.
//!
//! # Linearization
//!
//! - A push takes place at the fetch-and-add that reserved the cell it fills, or when it links the segment that has its
//!   handle: by I2 and I4 handles are popped in this order. (Not at the CAS that fills: of two cells reserved in turn
//!   the second may be filled first, and a popper waits for the first or poisons it.) A batch is as many pushes, in order.
//! - A pop takes place at its CAS of `popped`. A batch is as many pops, in stretches: each stretch at one moment.
//! - A pop that finds nothing takes place at its load of `pushed`, or of `next` in a segment that is used up: `popped`,
//!   read before, was no lower, so all that was pushed before was popped before.
//! - What happened before a push happens before the end of the pop that returns its handle.
//! - Whoever pushes, then has a `SeqCst` fence, then looks for sleepers, and whoever says that it sleeps, then has such a
//!   fence, then pops: one of the two sees the other.
//!
//! # Progress
//!
//! Lock-free: a thread stopped anywhere in here keeps nobody else from completing. A pusher repeats only if a popper
//! poisoned its cell, or if others filled the segment or linked the next. A popper repeats only if another popper
//! claimed, or after a poisoned cell. Poppers and pushers cannot spoil each other's steps for ever: after at most `N`
//! cells the segment is used up, and the pusher that links the next one has its handle in it.
//!
//! Before a popper poisons, it looks at the cell for a while, as most pushers that reserved one are running.
//!
//! A segment is freed when it is used up and the guards from before that have ended. So memory is 8 bytes for each
//! handle in line and each cell poisoned among them, and a segment or two. While a thread is stopped with a guard alive,
//! used-up segments wait for it: 8 bytes for each handle that passes. Poppers retire segments and collect; a pusher's pin
//! may come upon one that is due, and frees it: nothing of the user's is in there.

mod chain;
mod segment;

#[cfg(test)]
mod memory;
#[cfg(all(test, delta_fifo_loom))]
mod models;
#[cfg(all(test, not(delta_fifo_loom)))]
mod tests;

use std::num::NonZeroU64;

use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use chain::Chain;
use segment::{Owned, Segment, Taken};

/// What stands in line: any 64 bits but all zeros and all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct Handle(NonZeroU64);

impl Handle {
    /// None for 0 and `u64::MAX`, which the cells use themselves.
    pub(crate) const fn new(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) if bits.get() != u64::MAX => Some(Handle(bits)),
            _ => None,
        }
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get()
    }
}

/// There is no memory for a segment. The queue is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// A segment in hand. With it a push cannot fail, so it is provided for before anything that must be followed by a
/// push. It lasts until a push used it up, which is once in `N` pushes of everybody together.
#[derive(Debug)]
pub(crate) struct Room<const N: usize = CELLS>(Option<Owned<N>>);

impl<const N: usize> Room<N> {
    /// No segment yet.
    pub(crate) const fn new() -> Self {
        Room(None)
    }

    /// Allocates the segment if there is none.
    pub(crate) fn provide(&mut self) -> Result<(), OutOfMemory> {
        if self.0.is_none() {
            self.0 = Some(Owned::allocate()?);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Owned<N>, OutOfMemory> {
        if planted("the room stays unused") {
            return Owned::allocate();
        }
        self.0.take().map_or_else(Owned::allocate, Ok)
    }
}

/// Cells of a segment.
pub(crate) const CELLS: usize = if cfg!(delta_fifo_loom) { 4 } else { 1024 };

/// The same of a line in which there is little at most times.
pub(crate) const FEW: usize = if cfg!(delta_fifo_loom) { 4 } else { 128 };

/// How often a pop looks at a cell that is reserved but empty before it poisons it.
const PATIENCE: u32 = if cfg!(delta_fifo_loom) {
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
    /// The first segment is allocated here.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(KeyQueue { chain: Chain::new(Owned::allocate()?) })
    }

    /// Puts `handle` at the end. Cannot fail if `room` is provided.
    #[inline]
    pub(crate) fn push(&self, handle: Handle, room: &mut Room<N>, guard: &Guard) -> Result<(), OutOfMemory> {
        self.push_all(std::slice::from_ref(&handle), room, guard)
    }

    /// Puts up to `N` handles at the end, in this order, with one fetch-and-add if there is room for them. Others may
    /// come in between. All are put or none. Cannot fail if `room` is provided.
    ///
    /// # Panics
    ///
    /// With more than `N` handles.
    pub(crate) fn push_batch(
        &self,
        handles: &[Handle],
        room: &mut Room<N>,
        guard: &Guard,
    ) -> Result<(), OutOfMemory> {
        assert!(handles.len() <= N, "a batch of {} handles is longer than a segment", handles.len());
        if handles.len() > 1 && !planted("batch without room") {
            // I7: when a cell is found poisoned or the segment ends, others of the batch may stand already.
            room.provide()?;
        }
        self.push_all(handles, room, guard)
    }

    #[inline]
    fn push_all(&self, mut handles: &[Handle], room: &mut Room<N>, guard: &Guard) -> Result<(), OutOfMemory> {
        while !handles.is_empty() {
            let last = self.chain.last(guard);
            handles = last.fill(handles);
            if !handles.is_empty() && last.is_full() && self.extend(last, handles, room, guard)? {
                break;
            }
        }
        Ok(())
    }

    /// Sees to it that there is a segment after `last`. Returns whether `handles` stand in it.
    #[cold]
    fn extend(
        &self,
        last: &Segment<N>,
        handles: &[Handle],
        room: &mut Room<N>,
        guard: &Guard,
    ) -> Result<bool, OutOfMemory> {
        let mut linked = false;
        if !self.chain.has_next(last, guard) {
            let mut segment = room.take()?;
            segment.prefill(handles);
            pause_point("push: segment ready");
            match self.chain.link(last, segment) {
                Ok(()) => linked = true,
                Err(mut segment) => {
                    linked = planted("who loses the link thinks it won");
                    segment.clear(handles.len());
                    room.0 = Some(segment);
                }
            }
            pause_point("push: segment linked");
        }
        self.chain.advance_last(last, guard);
        Ok(linked)
    }

    /// Takes the handle at the head, or finds that there is none.
    #[inline]
    pub(crate) fn pop(&self, guard: &Guard) -> Option<Handle> {
        let mut patience = PATIENCE;
        loop {
            let first = self.chain.first(guard);
            match first.take(&mut patience) {
                Taken::Some(handle) => return Some(handle),
                Taken::Nothing => return None,
                Taken::UsedUp => {
                    if !self.chain.remove_first(first, guard) {
                        return None;
                    }
                }
            }
        }
    }

    /// What stands `ahead` behind the head, mostly. For who wants to know what it will need soon.
    #[inline]
    pub(crate) fn glance(&self, ahead: u64, guard: &Guard) -> Option<Handle> {
        self.chain.first(guard).glance(ahead)
    }

    /// Takes up to `max` handles from the head and appends them to `into`; returns how many. Fewer only if there were no
    /// more at some moment. `into` grows before anything is taken.
    pub(crate) fn pop_batch(&self, max: usize, into: &mut Vec<Handle>, guard: &Guard) -> usize {
        let before = into.len();
        let mut patience = PATIENCE;
        loop {
            let wanted = max - (into.len() - before);
            if wanted == 0 {
                break;
            }
            let first = self.chain.first(guard);
            match first.take_many(wanted, into, &mut patience) {
                Taken::Some(()) => {}
                Taken::Nothing => break,
                Taken::UsedUp => {
                    if !self.chain.remove_first(first, guard) {
                        break;
                    }
                }
            }
        }
        into.len() - before
    }
}
