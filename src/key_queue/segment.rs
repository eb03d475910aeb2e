//! A stretch of the line: its cells, how many are reserved, how many are popped.

use std::ops::Deref;

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::hint::spin_loop;
use crate::sync::{CachePadded, Canary, pause_point, planted, weaken};

use super::chain::Link;
use super::{Handle, OutOfMemory};

/// Nobody has filled the cell.
const EMPTY: u64 = 0;
/// Nobody will.
const POISON: u64 = u64::MAX;

/// What came of an attempt to take from a segment.
#[derive(Debug)]
pub(super) enum Taken<T> {
    Some(T),
    /// The cell at the head is not even reserved.
    Nothing,
    /// Every cell is popped.
    UsedUp,
}

#[derive(Debug)]
pub(super) struct Segment<const N: usize> {
    /// How many cells are reserved; more than `N` if more were asked for.
    pushed: CachePadded<AtomicU64>,
    /// How many cells are popped.
    popped: CachePadded<AtomicU64>,
    pub(super) next: Link<N>,
    pub(super) canary: Canary,
    #[cfg(test)]
    _census: super::memory::Census<N>,
    cells: [AtomicU64; N],
}

impl<const N: usize> Segment<N> {
    const END: u64 = {
        assert!(N > 0, "a segment has cells");
        N as u64
    };

    /// Reserves a cell for each handle and fills the cells in order. Returns the handles that found none: those for
    /// whom the segment has no more, and as many as cells were poisoned.
    #[inline]
    pub(super) fn fill<'h>(&self, mut handles: &'h [Handle]) -> &'h [Handle] {
        self.canary.touch();
        // Relaxed: reserves and publishes nothing. Whoever must see it (`content`) is ordered by other edges.
        let at = self.pushed.fetch_add(handles.len() as u64, Relaxed);
        pause_point("push: reserved");
        let end = Self::END.min(at + handles.len() as u64);
        if planted("a batch is filled back to front") {
            return self.fill_backwards(at, end, handles);
        }
        for index in at..end {
            let [handle, rest @ ..] = handles else { break };
            // Release: pairs with `content` (Acquire); publishes what the handle stands for. Relaxed: a failure says
            // that the cell is poisoned (I1), nothing more. The popper that did it went on.
            let publish = weaken("the cell is filled by a relaxed exchange", Release);
            if self.cells[index as usize].compare_exchange(EMPTY, handle.get(), publish, Relaxed).is_ok() {
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
            let handle = handles[left - 1];
            if self.cells[index as usize].compare_exchange(EMPTY, handle.get(), Release, Relaxed).is_ok() {
                left -= 1;
            }
        }
        if left > 0 { &handles[..left] } else { rest }
    }

    /// Whether every cell is reserved. Sticks (I3).
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.canary.touch();
        // Relaxed: who asks has added to it before, and reads that or a later value.
        self.pushed.load(Relaxed) >= Self::END
    }

    /// What stands `ahead` behind the head, if it is of this segment. A hint: somebody may have taken it.
    #[inline]
    pub(super) fn glance(&self, ahead: u64) -> Option<Handle> {
        // Relaxed: a hint.
        let at = self.popped.load(Relaxed) + ahead;
        // Acquire: pairs with `fill` (Release); what the handle stands for is there.
        Handle::new(self.cells.get(at as usize)?.load(Acquire))
    }

    /// Takes the handle at the head.
    #[inline]
    pub(super) fn take(&self, patience: &mut u32) -> Taken<Handle> {
        loop {
            let at = match self.head() {
                Some(at) => at,
                None => return Taken::UsedUp,
            };
            let Some(content) = self.content(at, patience) else { return Taken::Nothing };
            pause_point("pop: read");
            // Fails if another popper took it.
            if self.claim(at, at + 1) {
                if let Some(handle) = Handle::new(content) {
                    return Taken::Some(handle);
                }
            }
        }
    }

    /// Takes up to `max` handles from the head, at least one.
    pub(super) fn take_many(&self, max: usize, into: &mut Vec<Handle>, patience: &mut u32) -> Taken<()> {
        // Before anything is claimed: it may fail.
        into.reserve(max.min(N));
        let before = into.len();
        loop {
            let Some(at) = self.head() else { return Taken::UsedUp };
            let Some(content) = self.content(at, patience) else { return Taken::Nothing };
            into.extend(Handle::new(content));
            let mut end = at + 1;
            while end < Self::END && into.len() - before < max {
                // Acquire: pairs with `fill` (Release); what the handle stands for.
                let take = weaken("a batch reads on by a relaxed load", Acquire);
                match self.cells[end as usize].load(take) {
                    EMPTY => break,
                    content => into.extend(Handle::new(content)),
                }
                end += 1;
            }
            pause_point("pop: read");
            // Fails if another popper took some of it.
            if !self.claim(at, end) {
                into.truncate(before);
            } else if into.len() > before {
                return Taken::Some(());
            }
        }
    }

    /// The first cell that is not popped, if there is one.
    #[inline]
    fn head(&self) -> Option<u64> {
        self.canary.touch();
        // Acquire: pairs with `claim` (Release); `pushed` and `next` are read as late as this at least, else a pop could
        // compare a new `popped` with an old `pushed` and find nothing where there always was something.
        let at = self.popped.load(weaken("a relaxed load of popped", Acquire));
        (at < Self::END).then_some(at)
    }

    /// Owns the cells from `at` to `end` if nobody has taken one of them. All are written (I2).
    #[inline]
    fn claim(&self, at: u64, end: u64) -> bool {
        if planted("the claim is a store") {
            self.popped.store(end, Release);
            return true;
        }
        // Release: pairs with `head` (Acquire); publishes what this thread knows of `pushed` and `next`. Relaxed: a
        // failure leads back to `head`.
        let publish = weaken("a relaxed claim", Release);
        self.popped.compare_exchange(at, end, publish, Relaxed).is_ok()
    }

    /// What was written into the cell, at last by this call; None if the cell is not reserved.
    #[inline]
    fn content(&self, at: u64, patience: &mut u32) -> Option<u64> {
        let cell = &self.cells[at as usize];
        // Acquire: pairs with `fill` (Release) and `link` (Release); what the handle stands for.
        let take = weaken("the cell is read by a relaxed load", Acquire);
        let content = cell.load(take);
        if content != EMPTY {
            return Some(content);
        }
        self.late_content(at, patience)
    }

    #[cold]
    fn late_content(&self, at: u64, patience: &mut u32) -> Option<u64> {
        // Relaxed: read after `popped` because of the Acquire in `head`, which is all that matters.
        if self.pushed.load(Relaxed) <= at {
            return None;
        }
        let cell = &self.cells[at as usize];
        while *patience > 0 {
            *patience -= 1;
            spin_loop();
            // Acquire: as in `content`.
            let content = cell.load(Acquire);
            if content != EMPTY {
                return Some(content);
            }
        }
        pause_point("pop: impatient");
        if planted("poison by a store") {
            cell.store(POISON, Relaxed);
            return Some(POISON);
        }
        while planted("the popper waits for the pusher") && cell.load(Relaxed) == EMPTY {
            crate::sync::thread::yield_now();
        }
        // Relaxed: poison stands for nothing. Acquire: as in `content`. Fails if the pusher was faster, or another popper.
        let take = weaken("a late cell is found filled by a relaxed exchange", Acquire);
        let content = cell.compare_exchange(EMPTY, POISON, Relaxed, take).err().unwrap_or(POISON);
        pause_point("pop: poisoned");
        Some(content)
    }
}

/// A segment that nobody else can reach.
#[derive(Debug)]
pub(super) struct Owned<const N: usize>(pub(super) Box<[Segment<N>; 1]>);

impl<const N: usize> Owned<N> {
    pub(super) fn allocate() -> Result<Self, OutOfMemory> {
        #[cfg(test)]
        super::memory::ask()?;
        // A vector of one is the way to a box that reports a failure, without `unsafe`.
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| OutOfMemory)?;
        one.push(Segment {
            pushed: CachePadded::new(AtomicU64::new(0)),
            popped: CachePadded::new(AtomicU64::new(0)),
            next: Link::null(),
            canary: Canary::new(),
            #[cfg(test)]
            _census: super::memory::Census::new(),
            cells: std::array::from_fn(|_| AtomicU64::new(EMPTY)),
        });
        // The buffer has exactly one place, so it becomes the box.
        Box::try_from(one).map(Owned).map_err(|_| OutOfMemory)
    }

    /// Puts the first handles in, before anybody sees the segment (I1).
    pub(super) fn prefill(&mut self, handles: &[Handle]) {
        // Relaxed, all of them: `link` publishes.
        for (cell, handle) in self.cells.iter().zip(handles) {
            cell.store(handle.get(), Relaxed);
        }
        self.pushed.store(handles.len() as u64, Relaxed);
    }

    /// Takes out what `prefill` put in.
    pub(super) fn clear(&mut self, count: usize) {
        // Relaxed, all of them: nobody else has seen the segment.
        for cell in &self.cells[..count] {
            cell.store(EMPTY, Relaxed);
        }
        self.pushed.store(0, Relaxed);
    }
}

impl<const N: usize> Deref for Owned<N> {
    type Target = Segment<N>;

    fn deref(&self) -> &Segment<N> {
        &self.0[0]
    }
}

#[cfg(delta_fifo_loom)]
impl<const N: usize> crate::sync::Mortal for Owned<N> {
    fn canary(&self) -> &Canary {
        &self.canary
    }
}

/// Nothing in a segment is of one thread, so shared references may cross threads behind the links.
#[cfg(not(delta_fifo_loom))]
const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<Segment<1>>();
};
