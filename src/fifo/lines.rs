//! The lines in which keys stand: the first, the background line, and keys that were given back by a pop that came to
//! nothing. What stands in them are handles; whether one is still good is said by the entry's word.

use crate::key_queue::{FEW, Handle, KeyQueue};
use crate::slab::Index;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{CachePadded, pause_point, planted};

use super::word::GENERATION_BITS;

/// Bits of a handle: shard, entry, generation.
pub(super) const SHARD_BITS: u32 = 8;
const INDEX_BITS: u32 = Handle::BITS - SHARD_BITS - GENERATION_BITS;

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) shard: usize,
    pub(super) index: Index,
    pub(super) generation: u32,
}

impl At {
    #[inline(always)]
    pub(super) fn handle(self) -> Handle {
        let index = u64::from(self.index.get());
        assert!(index < 1 << INDEX_BITS, "a shard has fewer than 2^28 keys");
        let bits = (self.shard as u64) << (INDEX_BITS + GENERATION_BITS)
            | index << GENERATION_BITS
            | u64::from(self.generation);
        Handle::new(bits).expect("an index is not 0")
    }

    #[inline(always)]
    pub(super) fn of(handle: Handle) -> Self {
        let bits = handle.get();
        At {
            shard: (bits >> (INDEX_BITS + GENERATION_BITS)) as usize,
            index: Index::new((bits >> GENERATION_BITS) as u32 & ((1 << INDEX_BITS) - 1)).expect("not 0"),
            generation: bits as u32 & ((1 << GENERATION_BITS) - 1),
        }
    }
}

/// A handle out of its line.
pub(super) struct Popped<const AHEAD: usize> {
    pub(super) at: At,
    pub(super) from_background: bool,
    /// What stood behind it in the first line.
    pub(super) ahead: [Option<Handle>; AHEAD],
}

/// The background line is served at least every so many pops.
const BACKGROUND_TURN: usize = 16;

pub(super) struct Lines {
    first: KeyQueue,
    background: Option<Background>,
    /// Keys of pops that panicked: they keep their place, before all others. Rare, so a line of its own is asked only
    /// if this says that there is something in it.
    front_len: CachePadded<AtomicUsize>,
    front: KeyQueue<FEW>,
}

struct Background {
    line: KeyQueue,
    /// Pops from the first line since the last from this one; more do not count.
    since: CachePadded<AtomicUsize>,
    /// The same before that last one, in case it was stale.
    before: AtomicUsize,
}

impl Lines {
    pub(super) fn new(background: bool) -> Self {
        Lines {
            first: KeyQueue::new(),
            background: background.then(|| Background {
                line: KeyQueue::new(),
                since: CachePadded::new(AtomicUsize::new(0)),
                before: AtomicUsize::new(0),
            }),
            front_len: CachePadded::new(AtomicUsize::new(0)),
            front: KeyQueue::lazy(),
        }
    }

    /// At the tail.
    #[inline(always)]
    pub(super) fn push(&self, at: At, background: bool) {
        let line = match &self.background {
            Some(second) if background => &second.line,
            _ => &self.first,
        };
        line.push(at.handle());
    }

    /// At the tail of the first line, in this order.
    pub(super) fn push_all(&self, handles: &[Handle]) {
        self.first.push_batch(handles);
    }

    /// Before all others.
    pub(super) fn push_front(&self, at: At) {
        // Relaxed: raised first, so that it is never less than what a pop can find; that a consumer sees it is seen to by
        // the wake-up that follows.
        self.front_len.fetch_add(1, Ordering::Relaxed);
        pause_point("front: counted");
        self.front.push(at.handle());
    }

    /// The first handle, by whose turn it is; and whether it stood in the background.
    #[cfg(test)]
    pub(super) fn pop(&self) -> Option<(At, bool)> {
        self.pop_and_glance([]).map(|Popped { at, from_background, ahead: [] }| (at, from_background))
    }

    /// The same, and what stands so far behind it, mostly.
    #[inline(always)]
    pub(super) fn pop_and_glance<const AHEAD: usize>(&self, ahead: [u64; AHEAD]) -> Option<Popped<AHEAD>> {
        // Relaxed: as above.
        if self.front_len.load(Ordering::Relaxed) == 0 && self.background.is_none() {
            let (handle, ahead) = self.first.pop_and_glance(ahead)?;
            return Some(Popped { at: At::of(handle), from_background: false, ahead });
        }
        self.pop_by_turns().map(|(at, from_background)| Popped { at, from_background, ahead: [None; AHEAD] })
    }

    fn pop_by_turns(&self) -> Option<(At, bool)> {
        // Relaxed: as above.
        if self.front_len.load(Ordering::Relaxed) != 0 {
            if let Some(handle) = self.front.pop() {
                pause_point("front: popped");
                self.front_len.fetch_sub(1, Ordering::Relaxed);
                return Some((At::of(handle), false));
            }
        }
        match &self.background {
            None => self.first.pop().map(|handle| (At::of(handle), false)),
            Some(second) => second.pop(&self.first),
        }
    }

    /// A handle of the background line was stale: its turn has not been yet.
    pub(super) fn was_stale(&self) {
        if let Some(second) = &self.background {
            second.was_stale();
        }
    }

    /// Up to `max` handles, appended to `into`. False if they have to be popped one by one, as the next turn depends on what
    /// becomes of each.
    pub(super) fn pop_all(&self, max: usize, into: &mut Vec<Handle>) -> bool {
        // Relaxed: as in `push_front`.
        let plain = self.background.is_none() && self.front_len.load(Ordering::Relaxed) == 0;
        if plain {
            self.first.pop_batch(max, into);
        }
        plain
    }
}

impl Background {
    fn pop(&self, first: &KeyQueue) -> Option<(At, bool)> {
        // Relaxed, all: only the count matters, and two pops that read the same take two turns for one.
        let since = self.since.load(Ordering::Relaxed);
        let starved = planted("the background has no turn");
        let from_first = if since < BACKGROUND_TURN - 1 || starved { first.pop() } else { None };
        if from_first.is_some() {
            self.since.store(since + 1, Ordering::Relaxed);
            return from_first.map(|handle| (At::of(handle), false));
        }
        if let Some(handle) = self.line.pop() {
            pause_point("lines: background popped");
            // Relaxed, both: as above.
            self.before.store(since, Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
            return Some((At::of(handle), true));
        }
        first.pop().map(|handle| (At::of(handle), false))
    }

    fn was_stale(&self) {
        // Relaxed: as above.
        self.since.store(self.before.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
