//! A stretch of the line: its cells, how many are reserved, how many are popped, and of which life all that is.

use crate::slab::Slot;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::sync::hint::spin_loop;
use crate::sync::{CachePadded, pause_point, planted, weaken, width};

use super::Handle;
use super::link::Link;

/// In a cell without a handle, beside the life. No handle has this bit.
const MARK: u64 = 1 << Handle::BITS;

/// Nobody has filled the cell.
#[inline]
fn empty(life: u32) -> u64 {
    MARK | u64::from(if planted("marks without a life") { 0 } else { life }) << 1
}

/// Nobody will.
fn poison(life: u32) -> u64 {
    empty(life) | 1
}

/// A count, as of a life.
#[inline]
fn stamp(life: u32, count: u64) -> u64 {
    u64::from(life) << 32 | count
}

/// The count of a stamp if it is of this life, else more than any count.
#[inline]
fn count(stamped: u64, life: u32) -> u64 {
    stamped.wrapping_sub(stamp(life, 0))
}

/// Why nothing was taken from a segment.
#[derive(Debug)]
pub(super) enum Miss {
    /// The cell at the head is not even reserved.
    Nothing,
    /// Every cell is popped.
    UsedUp,
    /// The life is over, so `first` has left it.
    Over,
}

#[derive(Debug)]
pub(super) struct Segment<const N: usize> {
    /// How many cells are reserved; more than `N` if more were asked for. Stamped.
    pushed: CachePadded<AtomicU64>,
    /// How many cells are popped. Stamped.
    popped: CachePadded<AtomicU64>,
    /// The segment that follows; nowhere, of the segment's own life, if there is none yet.
    pub(super) next: AtomicU64,
    /// While it is free: the next free one.
    pub(super) free: AtomicU32,
    cells: [AtomicU64; N],
}

impl<const N: usize> Default for Segment<N> {
    /// Of the first life, which is over.
    fn default() -> Self {
        Segment {
            pushed: CachePadded::new(AtomicU64::new(stamp(width::FIRST, 0))),
            popped: CachePadded::new(AtomicU64::new(stamp(width::FIRST, 0))),
            next: AtomicU64::new(Link::nowhere(width::FIRST).bits()),
            free: AtomicU32::new(0),
            cells: std::array::from_fn(|_| AtomicU64::new(empty(width::FIRST))),
        }
    }
}

impl<const N: usize> Slot for Segment<N> {
    fn link(&self) -> &AtomicU32 {
        &self.free
    }
}

impl<const N: usize> Segment<N> {
    const END: u64 = {
        assert!(N > 0, "a segment has cells");
        N as u64
    };

    /// Begins the next life, which it returns, with up to `N` handles in the first cells. Nobody else may do that (L1).
    pub(super) fn revive(&self, handles: &[Handle]) -> u32 {
        // Relaxed: nobody else changes the life, late pushers only the count (L3).
        let life = width::after((self.pushed.load(Relaxed) >> 32) as u32);
        // A swap, since late pushers may be adding. Release, both: pair with the loads of late callers of earlier lives
        // (Acquire), who so learn that `first` and `last` have left. All others get them with the link.
        self.pushed
            .swap(stamp(life, handles.len() as u64), weaken("a life begins with a relaxed count", Release));
        self.popped.store(stamp(life, 0), weaken("a life begins with relaxed pops", Release));
        // Relaxed: who reads it by a link of an earlier life tries exchanges with it that fail, and show where `first` and `last`
        // are by now (L4). All others get it with the link.
        self.next.store(Link::nowhere(life).bits(), Relaxed);
        let (filled, others) = self.cells.split_at(handles.len());
        // Relaxed: with the link.
        for cell in others {
            cell.store(empty(life), Relaxed);
        }
        for (cell, handle) in filled.iter().zip(handles) {
            // Release: pairs with `glance` (Acquire), which may see it before it is linked.
            cell.store(handle.get(), weaken("a life begins with relaxed handles", Release));
        }
        life
    }
}

/// A segment as of one of its lives, which may be over.
#[derive(Debug)]
pub(super) struct Live<'c, const N: usize> {
    pub(super) segment: &'c Segment<N>,
    /// What leads here.
    pub(super) link: Link,
}

impl<const N: usize> Live<'_, N> {
    const END: u64 = Segment::<N>::END;

    /// Reserves a cell for each handle and fills the cells in order. Returns the handles that found none: those for
    /// whom the segment has no more, and as many as cells were poisoned. All of them if the life is over.
    #[inline(always)]
    pub(super) fn fill<'h>(&self, mut handles: &'h [Handle]) -> &'h [Handle] {
        let (life, many) = (self.link.life(), handles.len() as u64);
        // Relaxed: reserves and publishes nothing. Whoever must see it (`content`) is ordered by other edges.
        let at = count(self.segment.pushed.fetch_add(many, Relaxed), life);
        pause_point("push: reserved");
        let end = Self::END.min(at.saturating_add(many));
        if planted("a batch is filled back to front") {
            return self.fill_backwards(at, end, handles);
        }
        for index in at..end {
            let [handle, rest @ ..] = handles else { break };
            let cell = &self.segment.cells[index as usize];
            // Release: pairs with `content` (Acquire); publishes what the handle stands for. Relaxed: a failure says that the
            // cell is poisoned or of a later life (I1, L2), nothing more. The popper that went past it went on.
            let publish = weaken("the cell is filled by a relaxed exchange", Release);
            if cell.compare_exchange(empty(life), handle.get(), publish, Relaxed).is_ok() {
                handles = rest;
            }
        }
        handles
    }

    /// The broken twin of `fill`.
    fn fill_backwards<'h>(&self, at: u64, end: u64, handles: &'h [Handle]) -> &'h [Handle] {
        let mut left = handles.len().min((end.max(at) - at) as usize);
        let rest = if left < handles.len() { &handles[left..] } else { &[] };
        for index in (at..end).rev() {
            let (cell, handle) = (&self.segment.cells[index as usize], handles[left - 1]);
            if cell.compare_exchange(empty(self.link.life()), handle.get(), Release, Relaxed).is_ok() {
                left -= 1;
            }
        }
        if left > 0 { &handles[..left] } else { rest }
    }

    /// Whether every cell is reserved. Sticks (I3) until the life is over; then it is false.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        // Acquire: pairs with `revive` (Release). Who asks has added to it before, and reads that or a later
        // value; so if the life is over, they find `last` moved on, and add no more by this link (L3).
        let reserved = count(
            self.segment.pushed.load(weaken("whether it is full is read relaxed", Acquire)),
            self.link.life(),
        );
        (Self::END..=u32::MAX.into()).contains(&reserved)
    }

    /// What stands in a cell, if the segment has that one. A hint: somebody may have taken it, or put it here in a later life.
    #[inline(always)]
    pub(super) fn glance(&self, at: u64) -> Option<Handle> {
        let cell = self.segment.cells.get(at as usize)?;
        // Acquire: pairs with `fill` and `revive` (Release); what the handle stands for is there.
        Handle::new(cell.load(weaken("a glance is relaxed", Acquire)))
    }

    /// Takes the handle at the head. It, and where it stood.
    #[inline(always)]
    pub(super) fn take(&self, patience: &mut u32) -> Result<(Handle, u64), Miss> {
        loop {
            let at = self.head()?;
            let content = self.content(at, patience)?;
            pause_point("pop: read");
            // Fails if another popper took it.
            if self.claim(at, at + 1) {
                if let Some(handle) = Handle::new(content) {
                    return Ok((handle, at));
                }
            }
        }
    }

    /// Takes up to `max` handles from the head, at least one.
    pub(super) fn take_many(
        &self,
        max: usize,
        into: &mut Vec<Handle>,
        patience: &mut u32,
    ) -> Result<(), Miss> {
        // Before anything is claimed: it may fail.
        into.reserve(max.min(N));
        let before = into.len();
        loop {
            let at = self.head()?;
            into.extend(Handle::new(self.content(at, patience)?));
            let mut end = at + 1;
            while end < Self::END && into.len() - before < max {
                // Acquire: pairs with `fill` (Release); what the handle stands for.
                let take = weaken("a batch reads on by a relaxed load", Acquire);
                let content = self.segment.cells[end as usize].load(take);
                if content == empty(self.link.life()) {
                    break;
                }
                into.extend(Handle::new(content));
                end += 1;
            }
            pause_point("pop: read");
            // Fails if another popper took some of it.
            if !self.claim(at, end) {
                into.truncate(before);
            } else if into.len() > before {
                return Ok(());
            }
        }
    }

    /// The first cell that is not popped.
    #[inline]
    fn head(&self) -> Result<u64, Miss> {
        // Acquire: pairs with `claim` (Release); `pushed` and `next` are read as late as this at least, else a pop could
        // compare a new `popped` with an old `pushed` and find nothing where there always was something.
        let popped = self.segment.popped.load(weaken("a relaxed load of popped", Acquire));
        match count(popped, self.link.life()) {
            at if at < Self::END => Ok(at),
            at if at == Self::END => Err(Miss::UsedUp),
            _ => Err(Miss::Over),
        }
    }

    /// Owns the cells from `at` to `end` if nobody has taken one of them. All are written (I2). Fails if the life is over (L3).
    #[inline]
    fn claim(&self, at: u64, end: u64) -> bool {
        let popped = &self.segment.popped;
        let mut life = self.link.life();
        if planted("a claim of any life") {
            life = (popped.load(Relaxed) >> 32) as u32;
        }
        if planted("the claim is a store") {
            popped.store(stamp(life, end), Release);
            return true;
        }
        // Release: pairs with `head` (Acquire); publishes what this thread knows of `pushed` and `next`. Relaxed: a
        // failure leads back to `head`.
        let publish = weaken("a relaxed claim", Release);
        popped.compare_exchange(stamp(life, at), stamp(life, end), publish, Relaxed).is_ok()
    }

    /// What was written into the cell, at last by this call. If the life is over, maybe what was written later; then no claim
    /// succeeds.
    #[inline]
    fn content(&self, at: u64, patience: &mut u32) -> Result<u64, Miss> {
        // Acquire: pairs with `fill` and `revive` (Release); what the handle stands for.
        let take = weaken("the cell is read by a relaxed load", Acquire);
        let content = self.segment.cells[at as usize].load(take);
        if content != empty(self.link.life()) {
            return Ok(content);
        }
        self.late_content(at, patience)
    }

    #[cold]
    fn late_content(&self, at: u64, patience: &mut u32) -> Result<u64, Miss> {
        let life = self.link.life();
        // Acquire: pairs with `revive` (Release). It is read after `popped` because of the Acquire in `head`.
        let pushed = self.segment.pushed.load(weaken("pushes are counted relaxed", Acquire));
        let reserved =
            if planted("pushed of any life") { pushed & u64::from(u32::MAX) } else { count(pushed, life) };
        if reserved > u32::MAX.into() {
            return Err(Miss::Over);
        }
        if reserved <= at {
            return Err(Miss::Nothing);
        }
        let cell = &self.segment.cells[at as usize];
        while *patience > 0 {
            *patience -= 1;
            spin_loop();
            // Acquire: as in `content`, and the same edge. No model misses it, as there is no patience in models.
            let content = cell.load(Acquire);
            if content != empty(life) {
                return Ok(content);
            }
        }
        pause_point("pop: impatient");
        if planted("poison by a store") {
            cell.store(poison(life), Relaxed);
            return Ok(poison(life));
        }
        while planted("the popper waits for the pusher") && cell.load(Relaxed) == empty(life) {
            crate::sync::thread::yield_now();
        }
        // Relaxed: poison stands for nothing. Acquire: as in `content`. Fails if the pusher was faster, or another popper, or
        // the life is over (L2).
        let take = weaken("a late cell is found filled by a relaxed exchange", Acquire);
        let content =
            cell.compare_exchange(empty(life), poison(life), Relaxed, take).err().unwrap_or(poison(life));
        pause_point("pop: poisoned");
        Ok(content)
    }
}
