//! The lines in which keys stand: the first, the background line, and keys that were given back by a pop that came to
//! nothing. What stands in them are handles; whether one is still good is said by the entry's word.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::key_queue::{FEW, Handle, KeyQueue};
use crate::owner;
use crate::slab::Index;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{CachePadded, pause_point, planted, thread_local};

use super::word::GENERATION_BITS;

thread_local! {
    /// Which line is the next one's turn. Threads begin at different ones.
    static TURN: Cell<usize> = Cell::new(owner::current_thread() as usize);
}

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
    /// More of its kind, where keys may overtake each other: one less than a power of two.
    others: Box<[KeyQueue]>,
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
    /// `first`: how many lines there are in place of the first, a power of two.
    pub(super) fn new(first: usize, background: bool) -> Self {
        debug_assert!(first.is_power_of_two(), "a mask chooses the line");
        Lines {
            first: KeyQueue::new(),
            others: (1..first).map(|_| KeyQueue::new()).collect(),
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
            _ => self.line(at.shard),
        };
        line.push(at.handle());
    }

    /// At the tail of the first line, in this order.
    pub(super) fn push_all(&self, handles: &[Handle]) {
        if self.others.is_empty() {
            return self.first.push_batch(handles);
        }
        for number in 0..=self.others.len() {
            let of_it = |handle: &&Handle| At::of(**handle).shard & self.others.len() == number;
            let handles: SmallVec<[Handle; 32]> = handles.iter().filter(of_it).copied().collect();
            self.line(number).push_batch(&handles);
        }
    }

    /// The line of a shard's keys, by the shard's number or any that is as much as that.
    #[inline(always)]
    fn line(&self, shard: usize) -> &KeyQueue {
        (shard & self.others.len()).checked_sub(1).map_or(&self.first, |number| &self.others[number])
    }

    /// All of them, beginning with another one each time, so that none is left out.
    fn by_turns(&self) -> impl Iterator<Item = &KeyQueue> {
        let turn = TURN.with(|turn| turn.replace(turn.get().wrapping_add(1)));
        (0..=self.others.len()).map(move |ahead| self.line(turn.wrapping_add(ahead)))
    }

    fn pop_first(&self) -> Option<Handle> {
        if self.others.is_empty() { self.first.pop() } else { self.by_turns().find_map(KeyQueue::pop) }
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
        let plain = self.background.is_none() && self.others.is_empty();
        if self.front_len.load(Ordering::Relaxed) == 0 && plain {
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
            None => self.pop_first().map(|handle| (At::of(handle), false)),
            Some(second) => second.pop(|| self.pop_first()),
        }
    }

    /// A handle that was popped was stale: its turn has not been yet.
    pub(super) fn was_stale(&self, from_background: bool) {
        if let Some(second) = &self.background {
            second.was_stale(from_background);
        }
    }

    /// Up to `max` handles, appended to `into`. False if they have to be popped one by one, as the next turn depends on what
    /// becomes of each.
    pub(super) fn pop_all(&self, max: usize, into: &mut Vec<Handle>) -> bool {
        // Relaxed: as in `push_front`.
        let plain = self.background.is_none() && self.front_len.load(Ordering::Relaxed) == 0;
        if plain && self.others.is_empty() {
            self.first.pop_batch(max, into);
        } else if plain {
            self.by_turns().for_each(|line| _ = line.pop_batch(max - into.len(), into));
        }
        plain
    }
}

impl Background {
    fn pop(&self, first: impl Fn() -> Option<Handle>) -> Option<(At, bool)> {
        // Relaxed, all: only the count matters, and two pops that read the same take two turns for one.
        let since = self.since.load(Ordering::Relaxed);
        let starved = planted("the background has no turn");
        let from_first = if since < BACKGROUND_TURN - 1 || starved { first() } else { None };
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
        first().map(|handle| (At::of(handle), false))
    }

    fn was_stale(&self, from_background: bool) {
        // Relaxed, all: as above.
        let since = match from_background {
            true => self.before.load(Ordering::Relaxed),
            false => self.since.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.since.store(since, Ordering::Relaxed);
    }
}
