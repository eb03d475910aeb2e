//! The known objects: how everybody reads them, and which keys stay although nothing is known of them: for the sake of open
//! replaces, and of snapshots.

mod changes;
mod snapshot;
mod view;

use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::epoch::Guard;
use crate::sync::{fence_after_rmw, pause_point, planted};

use super::core::Core;
use super::entry::{Entry, Slot};
use super::shard::Shard;
use super::word::{Newest, State, Word};
pub use changes::{KnownChange, OtherQueueError};
pub use snapshot::FifoSnapshot;
pub use view::FifoKnown;

impl<K, V> Core<K, V> {
    /// Whether anybody may ask for a key of which nothing is known: a snapshot that shows what was; or an open replace, for a
    /// number that is not below its own, or, where the known objects are elsewhere, whether the key has been seen at all.
    pub(super) fn is_asked_for(&self, shard: &Shard<K, V>, entry: Entry<'_, V>) -> bool {
        let oldest = self.replaces.oldest_open();
        if planted("who is asked for goes at once") {
            return false;
        }
        let by_list = match oldest {
            // A close ends streams whose calls may be on their way still, until it is sealed.
            u64::MAX => self.closing.is_sealing(),
            oldest => !self.keeps_known || entry.settled() >= 2 * oldest,
        };
        by_list || entry.version.has_older(&shard.objects)
    }

    /// Whether a call may ask for the numbers of keys: of an open replace, or of one that a close has cut whose calls may be on
    /// their way still.
    #[inline(always)]
    pub(super) fn is_listing(&self) -> bool {
        self.replaces.oldest_open() != u64::MAX
            || self.closing.is_sealing() && !planted("a close cuts calls off")
    }

    /// Whether an entry with this word stays only because it is asked for (E9).
    #[inline(always)]
    pub(super) fn is_only_asked_for(&self, word: Word) -> bool {
        word.state() == State::Idle && !(self.keeps_known && word.kind() == Newest::Live)
    }

    /// The entry has come to rest as `word`, as it is asked for: looks whether it still is.
    pub(super) fn ask_again(&self, shard: &Shard<K, V>, index: Index, word: Word, guard: &Guard) {
        // Pairs with the fences in `forget_unasked` and `look_at`: either it sees this entry at rest, or this sees that the replace
        // has ended, or the old version gone.
        if !planted("no fence when an entry stays") {
            fence_after_rmw();
        }
        if !self.is_asked_for(shard, shard.entries.get(index)) {
            self.retire_unasked(shard, index, word, guard);
        }
    }

    pub(super) fn retire_unasked(&self, shard: &Shard<K, V>, index: Index, word: Word, guard: &Guard) {
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
            let pick = |index, slot: &Slot<K>, _: &Guard| {
                let word = slot.head().word();
                self.is_only_asked_for(word).then_some((index, word))
            };
            shard.stretches(pick, |met, guard| {
                for (index, word) in met {
                    if !self.is_asked_for(shard, shard.entries.get(index)) {
                        self.retire_unasked(shard, index, word, &guard);
                    }
                }
            });
        }
    }
}
