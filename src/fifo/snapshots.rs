//! What snapshots keep, and how it goes when they end.

use crate::delta::Object;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{pause_point, planted};

use super::core::Core;
use super::epochs::Moment;
use super::lines::At;
use super::panics::Panics;

/// So many keys are looked at in one go.
const STEPS: usize = if cfg!(delta_fifo_loom) { 1 } else { 16 };

/// The end of a snapshot looks at so many itself.
const FIRST_STEPS: usize = if cfg!(delta_fifo_loom) { 4 } else { 256 };

impl<K, V> Core<K, V> {
    /// Nobody looks at this moment any more. Runs user code: not under a guard.
    pub(super) fn end_snapshot(&self, moment: Moment) {
        self.epochs.end(moment);
        pause_point("snapshot: ended");
        self.aged.all_due();
        self.sweep(FIRST_STEPS);
    }

    /// A few steps, if a snapshot has ended. Whether there are more to be made. Runs user code: not under a guard.
    pub(super) fn sweep_if_due(&self) -> bool {
        self.aged.is_due() && self.sweep(STEPS)
    }

    #[cold]
    fn sweep(&self, steps: usize) -> bool {
        let mut garbage = Vec::new();
        let looked = {
            let guard = epoch::pin();
            let keys = std::iter::from_fn(|| self.aged.take(&guard)).take(steps);
            keys.map(|at| self.look_at(at, &mut garbage, &guard)).count()
        };
        let mut panics = Panics::default();
        panics.drop_each(garbage);
        panics.go_on();
        looked == steps
    }

    /// A key was taken out of the line of aged ones: takes out what no snapshot shows any more.
    fn look_at(&self, at: At, garbage: &mut Vec<Object<V>>, guard: &Guard) {
        let shard = &self.shards[at.shard];
        let entry = shard.entries.get(at.index);
        entry.version.clear_aged();
        pause_point("sweep: flag off");
        entry.version.trim(&shard.objects, &self.epochs, garbage);
        if entry.version.has_older(&shard.objects) {
            self.keep_in_view(at, garbage, guard);
        }
        // SeqCst fence: pairs with that in `ask_again`.
        if !planted("no fence behind a sweep") {
            fence(Ordering::SeqCst);
        }
        let word = entry.word();
        if self.is_only_asked_for(word) && !self.is_asked_for(shard, entry) {
            self.retire_unasked(shard, at.index, word, guard);
        }
    }

    /// A key has versions that only snapshots show: it is looked at again when one ends.
    pub(super) fn keep_in_view(&self, at: At, garbage: &mut impl Extend<Object<V>>, guard: &Guard) {
        let shard = &self.shards[at.shard];
        let version = &shard.entries.get(at.index).version;
        if version.set_aged() {
            self.aged.push(At { generation: 0, ..at }, guard);
            // For snapshots that have ended before it was there (G2).
            version.trim(&shard.objects, &self.epochs, garbage);
        }
    }
}
