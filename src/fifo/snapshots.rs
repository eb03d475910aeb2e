//! What snapshots keep, and how it goes when they end.

use crate::delta::Object;
use crate::slab::Index;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{CHECKED, pause_point, planted};

use super::core::Core;
use super::epochs::Moment;
use super::kept::{fence_before_due, fence_behind_put};
use super::lines::At;
use super::panics::Panics;
use super::version::Keep;

/// So many versions are looked at in one go.
const STEPS: usize = if CHECKED { 1 } else { 16 };

/// The end of a snapshot looks at so many itself.
const FIRST_STEPS: usize = if CHECKED { 4 } else { 256 };

impl<K, V> Core<K, V> {
    pub(super) fn begin_snapshot(&self) -> Moment {
        self.epochs.begin(|watch| self.make_due(watch))
    }

    /// Nobody looks at this moment any more. Runs user code: not under a guard.
    pub(super) fn end_snapshot(&self, moment: Moment) {
        self.epochs.end(moment, |watch| {
            pause_point("snapshot: ended");
            self.make_due(watch);
        });
        if self.is_sweep_due() {
            self.sweep(FIRST_STEPS);
        }
    }

    /// K3: what is kept for the sake of this watch is to be looked at.
    fn make_due(&self, watch: Index) {
        if planted("what a snapshot has left stays") {
            return;
        }
        fence_before_due();
        self.shards
            .iter()
            .for_each(|shard| shard.kept.make_due(&self.lists, &shard.objects, watch, &self.due));
    }

    pub(super) fn is_sweep_due(&self) -> bool {
        // Relaxed: a hint.
        self.due.load(Ordering::Relaxed) > 0
    }

    /// A few steps, if a snapshot has ended. Whether there are more to be made. Runs user code: not under a guard.
    #[inline(always)]
    pub(super) fn sweep_if_due(&self) -> bool {
        self.is_sweep_due() && self.sweep(STEPS)
    }

    #[cold]
    fn sweep(&self, steps: usize) -> bool {
        let (mut garbage, mut looked) = (Vec::new(), 0);
        {
            let guard = epoch::pin();
            // Relaxed: whose turn it is.
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            for number in (0..self.shards.len()).map(|ahead| turn.wrapping_add(ahead) % self.shards.len()) {
                let shard = &self.shards[number];
                while looked < steps {
                    let batch = shard.kept.take_due(&shard.objects, (steps - looked).min(STEPS), &self.due);
                    let Some(batch) = batch else { break };
                    for (version, index) in batch.versions(&shard.objects) {
                        let at = At { shard: number, index, generation: 0 };
                        self.look_at(at, version, &mut garbage, &guard);
                        looked += 1;
                    }
                }
            }
        }
        let mut panics = Panics::default();
        panics.drop_each(garbage);
        panics.go_on();
        looked == steps
    }

    /// A version was taken out of what is due: it goes, with all of its key that no snapshot shows, or is kept for another one.
    fn look_at(&self, at: At, version: Object<V>, garbage: &mut Vec<Object<V>>, guard: &Guard) {
        let shard = &self.shards[at.shard];
        let entry = shard.entries.get(at.index);
        let (this, mut by) = (shard.objects.index_of(&version), None);
        entry.version.trim(&shard.objects, &self.epochs, garbage, |at, watched| {
            by = by.or((at == this).then_some(watched));
        });
        match by {
            Some(watched) => self.keep(at, Keep { version, watched }),
            None => garbage.push(version),
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

    /// K1, K3: a version of a key stays, as a snapshot shows it.
    pub(super) fn keep(&self, at: At, Keep { version, watched }: Keep<V>) {
        let shard = &self.shards[at.shard];
        shard.kept.put(&self.lists, &shard.objects, version, at.index, watched);
        fence_behind_put();
        if !self.epochs.is_watched(watched) && !planted("who keeps a version does not look again") {
            shard.kept.make_due(&self.lists, &shard.objects, watched.watch, &self.due);
        }
    }
}
