//! What the next pops will need is brought near.

use crate::sync::CHECKED;

use super::DeltaFifo;
use super::lines::{At, Popped};

/// So many keys behind the one that it takes a pop asks for the entry, and later for what the entry leads to.
const FAR: u64 = 5;
const NEAR: u64 = 2;

/// Only time depends on what is brought near.
impl<K, V, S> DeltaFifo<K, V, S> {
    /// A handle, out of the line. What the next pops will need is brought near.
    #[inline(always)]
    pub(super) fn next_in_line(&self) -> Option<(At, bool)> {
        let Popped { at, from_background, ahead: [far, near] } = self.lines.pop_and_glance([FAR, NEAR])?;
        if !CHECKED {
            far.into_iter().for_each(|handle| self.bring_entry(At::of(handle)));
            near.into_iter().for_each(|handle| self.bring_objects(At::of(handle)));
        }
        Some((at, from_background))
    }

    #[inline(always)]
    pub(super) fn bring_entry(&self, at: At) {
        self.core.shards[at.shard].entries.prefetch(at.index);
    }

    /// What the entry leads to, which should be near itself.
    #[inline(always)]
    pub(super) fn bring_objects(&self, at: At) {
        if CHECKED {
            return;
        }
        let shard = &self.core.shards[at.shard];
        let slot = shard.entries.spot(at.index);
        let entry = slot.head();
        let indices = [entry.version.index(), entry.word().newest()];
        indices.into_iter().flatten().for_each(|index| shard.objects.prefetch_to_write(index));
    }
}
