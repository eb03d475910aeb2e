//! Versions that stay because snapshots show them: each is in the list of one snapshot that does, so that it is looked at when
//! that one ends, also if its key never changes again.
//!
//! ```text
//!  lists   watch 1 ─▶ version ─▶ version ─▶ 0        of each shard; a snapshot ends, and its lists are due
//!          watch 2 ─▶ version ─▶ 0
//!  due     tag │ ─▶ version ═▶ version ═▶ 0          chains that are to be looked at
//!                      ▼          ▼
//!                   version       0                  ─▶ the link of a cell, ═▶ its note
//! ```
//!
//! # Invariants
//!
//! - **K1, one place.** When the holder has decided that a version stays, it puts it in the list of a watch on an epoch that shows it.
//!   From then on it is in a list, in a chain that is due, or in the hands of a thread which looks at it; until whoever has it in
//!   hands finds that it was taken out of its key's versions.
//! - **K2, reference.** While it is there the list, the chain, or the thread owns a reference to it. So its cell is not recycled; its
//!   link is the list's; and its note, where a fact has its number, says of which entry it is. Who takes the cell for the
//!   fact which it was learns from the word that it is not.
//! - **K3, late.** Whoever puts a version in a list has a fence, and then looks whether the watch is still on that epoch; whoever takes
//!   a watch off, or on to another epoch, has a fence, and then makes its lists due. So one of the two does.
//! - **K4, tag.** Each chain that is taken raises the tag. While it is the same nothing was taken, so what was read of the first chain is
//!   right. (As for the stock of `slab.rs`, I4.)
//!
//! A thread that is stopped with versions in its hands, those of one batch at most but for a list that it is about to make due, keeps these from
//! being found until it goes on. All is lock-free, and allocates nothing but the places of lists.

use crate::delta::{FactHead, Object};
use crate::slab::{INDEX_MASK, Index, Rows, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{fence_after_rmw, pause_point, planted, weaken, width};

use super::Objects;
use super::chain;
use super::epochs::Watched;

/// Where the tag of `due` begins (K4).
const TAG: u32 = 32;
/// What is before it.
const CHAIN: u64 = u32::MAX as u64;

fn index(bits: u64) -> Option<Index> {
    Index::new(bits as u32 & INDEX_MASK)
}

/// K2. The entry is in the lower half, the next chain in the upper one.
fn note(head: &FactHead) -> &AtomicU64 {
    &head.settled
}

/// A list of one watch and one shard: the index of the first version, or 0.
#[derive(Default)]
struct List(AtomicU32);

/// All lists. Those of one watch, one for each shard, lie side by side.
pub(super) struct Lists {
    lists: Rows<List>,
    shards: u32,
}

impl Lists {
    pub(super) fn new(shards: usize) -> Self {
        Lists { lists: Rows::new(), shards: shards as u32 }
    }

    fn place(&self, watch: Index, shard: usize) -> Index {
        let before = (watch.get() - 1).checked_mul(self.shards).expect("fewer than 2^22 snapshots at once");
        Index::MIN.saturating_add(before + shard as u32)
    }

    fn provide(&self, watch: Index, shard: usize) -> &AtomicU32 {
        let place = self.place(watch, shard);
        self.lists.provide(place);
        &self.lists.get(place).0
    }

    fn get(&self, watch: Index, shard: usize) -> Option<&AtomicU32> {
        self.lists.try_get(self.place(watch, shard)).map(|List(list)| list)
    }
}

/// The versions of one shard that stay, and are due.
pub(super) struct Kept {
    /// The number of the shard.
    shard: usize,
    /// The upper half is the tag, the lower the first version of the first chain.
    due: AtomicU64,
}

/// Some versions that are due, linked, for the caller to look at.
pub(super) struct Batch {
    next: Option<Index>,
    left: usize,
}

impl Kept {
    pub(super) fn new(shard: usize) -> Self {
        Kept { shard, due: AtomicU64::new((width::FIRST as u64) << TAG) }
    }

    /// K1, K2: puts a version of an entry in the list of a watch. K3: the caller looks after that.
    pub(super) fn put<V>(
        &self,
        lists: &Lists,
        objects: &Objects<V>,
        version: Object<V>,
        entry: Index,
        watched: Watched,
    ) {
        let list = lists.provide(watched.watch, self.shard);
        let version = match planted("a version in a list is not counted") {
            true => objects.index_of(&version),
            false => chain::keep(objects, version),
        };
        // Relaxed: published by the exchange.
        note(objects.head(version)).store(u64::from(entry.get()), Ordering::Relaxed);
        let link = objects.slab().get(version).link();
        // Relaxed: the exchange says whether it is still so.
        let mut first = list.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            link.store(first, Ordering::Relaxed);
            pause_point("kept: link written");
            let publish = weaken("a version is put in a list relaxed", Ordering::Release);
            // Release: pairs with `make_due` (Acquire); publishes link and note. It fails when somebody else has put one there, or
            // made the list due. Nothing but all of it is ever taken off, so one that is first again is no trap.
            match list.compare_exchange(first, version.get(), publish, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        pause_point("kept: in a list");
    }

    /// K3: the caller has had a fence since the watch was taken off. `chains` is raised if there is another chain.
    pub(super) fn make_due<V>(
        &self,
        lists: &Lists,
        objects: &Objects<V>,
        watch: Index,
        chains: &AtomicUsize,
    ) {
        let Some(list) = lists.get(watch, self.shard) else { return };
        // Relaxed: ordered by the fence.
        if list.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Acquire: pairs with `put` (Release).
        let first = list.swap(0, weaken("a list is taken relaxed", Ordering::Acquire));
        pause_point("kept: list in hand");
        if let Some(first) = Index::new(first) {
            // Relaxed: it is counted before it is there.
            chains.fetch_add(1, Ordering::Relaxed);
            self.push_due(objects, first);
        }
    }

    fn push_due<V>(&self, objects: &Objects<V>, first: Index) {
        let note = note(objects.head(first));
        // Relaxed: the caller has the chain. Also of `due`: the exchange says whether it is still so.
        let entry = note.load(Ordering::Relaxed) as u32;
        let mut due = self.due.load(Ordering::Relaxed);
        loop {
            let next = u64::from(due as u32) << 32;
            // Relaxed: published by the exchange.
            note.store(next | u64::from(entry), Ordering::Relaxed);
            pause_point("kept: chain linked");
            let new = due & !CHAIN | u64::from(first.get());
            let publish = weaken("a chain is pushed relaxed", Ordering::Release);
            // Release: pairs with `take_due` (Acquire); passes the chain on. It fails when somebody else has pushed or taken one.
            match self.due.compare_exchange(due, new, publish, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => due = now,
            }
        }
    }

    /// Takes up to `max` versions that are due. `chains` is lowered if a chain is used up.
    pub(super) fn take_due<V>(
        &self,
        objects: &Objects<V>,
        max: usize,
        chains: &AtomicUsize,
    ) -> Option<Batch> {
        // Acquire, here and at a failed exchange: pairs with `push_due` (Release), also of those further down, as the stack is changed
        // by read-modify-writes alone.
        let mut due = self.due.load(weaken("a chain is read relaxed", Ordering::Acquire));
        let lost = weaken("a chain that came first is read relaxed", Ordering::Acquire);
        let first = loop {
            let first = index(due)?;
            // Relaxed: it was published with the first, or the exchange fails (K4).
            let next = note(objects.head(first)).load(Ordering::Relaxed) >> 32;
            pause_point("kept: chain read");
            let tag = (due >> TAG) as u32;
            let raised = if planted("a chain is taken and leaves the tag") { tag } else { width::after(tag) };
            let new = u64::from(raised) << TAG | u64::from(next as u32 & INDEX_MASK);
            // Relaxed: by K4 it is the very value that was read, and acquired, before.
            match self.due.compare_exchange(due, new, Ordering::Relaxed, lost) {
                Ok(_) => break first,
                Err(now) => due = now,
            }
        };
        pause_point("kept: chain in hand");
        // Relaxed: the chain is this thread's.
        let next = |version| Index::new(objects.slab().get(version).link().load(Ordering::Relaxed));
        let (mut last, mut left) = (first, 1);
        while let Some(further) = next(last).filter(|_| left < max) {
            (last, left) = (further, left + 1);
        }
        match next(last) {
            Some(rest) => self.push_due(objects, rest),
            // Relaxed: just a number.
            None => _ = chains.fetch_sub(1, Ordering::Relaxed),
        }
        Some(Batch { next: Some(first), left })
    }

    /// All that is left, when nobody else is there any more.
    pub(super) fn take_rest<V>(&self, lists: &Lists, objects: &Objects<V>, watches: u32) -> Vec<Object<V>> {
        let chains = AtomicUsize::new(0);
        // The highest is the last that there was.
        (1..=watches).filter_map(Index::new).for_each(|watch| self.make_due(lists, objects, watch, &chains));
        let batches = std::iter::from_fn(|| self.take_due(objects, usize::MAX, &chains));
        batches.flat_map(|batch| batch.versions(objects)).map(|(version, _)| version).collect()
    }
}

impl Batch {
    /// Each version with the entry that it is of. The caller has the references.
    pub(super) fn versions<V>(mut self, objects: &Objects<V>) -> impl Iterator<Item = (Object<V>, Index)> {
        std::iter::from_fn(move || {
            let at = self.next.filter(|_| self.left > 0)?;
            self.left -= 1;
            // Relaxed, both: `take_due` has acquired them.
            self.next = Index::new(objects.slab().get(at).link().load(Ordering::Relaxed));
            let entry = index(note(objects.head(at)).load(Ordering::Relaxed)).expect("a note says which");
            Some((chain::take_version(objects, at), entry))
        })
    }
}

/// K3: between what was put in a list and a look at its watch.
pub(super) fn fence_behind_put() {
    if !planted("no fence behind a kept version") {
        fence_after_rmw();
    }
}

/// K3: between a watch that was taken off and the look at its lists.
pub(super) fn fence_before_due() {
    if !planted("no fence when a snapshot ends") {
        fence(Ordering::SeqCst);
    }
}
