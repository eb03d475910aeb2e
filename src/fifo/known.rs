//! The known objects: how everybody reads them, and which keys stay for the sake of open replaces.

mod view;

use std::hash::Hash;

use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::epoch::Guard;
use crate::sync::{fence_after_rmw, pause_point, planted};

use super::DeltaFifo;
use super::entry::{Entry, Slot};
use super::shard::Shard;
use super::word::{Newest, State, Word};
pub use view::{FifoKnown, FifoSnapshot};

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Whether an open replace may ask for a key of which nothing is known: for a number that is not below its own, or, where
    /// the known objects are elsewhere, whether the key has been seen at all.
    pub(super) fn is_asked_for(&self, entry: &Entry<V>) -> bool {
        let oldest = self.replaces.oldest_open();
        // A close ends streams whose calls may be on their way still, until it is sealed.
        if oldest == u64::MAX && self.closing.is_closed() && !self.closing.is_sealed() {
            return true;
        }
        if oldest == u64::MAX || planted("who is asked for goes at once") {
            return false;
        }
        !self.keeps_known() || entry.settled() >= 2 * oldest
    }

    /// Whether an entry with this word stays for the sake of open replaces alone (E9).
    pub(super) fn is_only_asked_for(&self, word: Word) -> bool {
        word.state() == State::Idle && !(self.keeps_known() && word.kind() == Newest::Live)
    }

    /// The entry has come to rest as `word`, for the sake of open replaces: looks whether they are open still.
    pub(super) fn ask_again(&self, shard: &Shard<K, V>, index: Index, word: Word, guard: &Guard) {
        // Pairs with the fence in `forget_unasked`: either it sees this entry, or this sees that the replace has ended.
        if !planted("no fence when an entry stays") {
            fence_after_rmw();
        }
        if !self.is_asked_for(shard.entries.get(index)) {
            self.retire_unasked(shard, index, word, guard);
        }
    }

    fn retire_unasked(&self, shard: &Shard<K, V>, index: Index, word: Word, guard: &Guard) {
        // Fails if the key has become pending, or somebody else has retired it.
        if shard.entries.get(index).advance(word, word.retired()) {
            pause_point("known: retired");
            // Relaxed: only the count matters.
            shard.asked.fetch_sub(1, Ordering::Relaxed);
            shard.retire_entry(index, guard);
        }
    }

    /// Retires the entries that were kept for the sake of replaces that have ended.
    pub(super) fn forget_unasked(&self) {
        // Pairs with the fence in `ask_again`.
        if !planted("no fence before entries go") {
            crate::sync::atomic::fence(Ordering::SeqCst);
        }
        for shard in &self.shards {
            // Relaxed: ordered by the fence.
            if shard.asked.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let pick = |index, slot: &Slot<K, V>, _: &Guard| {
                let word = slot.head().word();
                self.is_only_asked_for(word).then_some((index, word))
            };
            shard.stretches(pick, |met, guard| {
                for (index, word) in met {
                    if !self.is_asked_for(shard.entries.get(index)) {
                        self.retire_unasked(shard, index, word, &guard);
                    }
                }
            });
        }
    }
}
