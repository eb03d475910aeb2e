//! Keys that wait for their time.

use std::time::Instant;

use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::end::LazyPin;
use super::lines::At;
use super::link::ToLink;

impl<K, V, S> DeltaFifo<K, V, S> {
    /// A key has become Delayed.
    pub(super) fn delay(&self, until: Instant, link: ToLink) {
        pause_point("delay: not noted yet");
        if self.delays.add(until, link.at.handle()) && !planted("a new earliest wakes nobody") {
            // All who sleep must wake earlier than they thought; who goes to sleep later sees it.
            self.wake_consumers(usize::MAX);
        }
    }

    /// As [`promote`](Self::promote), where a guard is only needed for that.
    #[inline(always)]
    pub(super) fn promote_lazily(&self, pin: &mut LazyPin) {
        if self.delays.is_any() {
            self.promote_due(pin.guard());
        }
    }

    /// Puts delayed keys in line whose time has come: every pop does, and whoever puts a key in line.
    #[inline(always)]
    pub(super) fn promote(&self, guard: &Guard) {
        if self.delays.is_any() {
            self.promote_due(guard);
        }
    }

    #[cold]
    fn promote_due(&self, guard: &Guard) {
        let moment = self.clock.now();
        while let Some(handle) = self.delays.pop_due(moment) {
            self.promote_one(At::of(handle), guard);
        }
    }

    /// The same, whatever their time is.
    pub(super) fn promote_all(&self, guard: &Guard) {
        while let Some(handle) = self.delays.pop_any() {
            self.promote_one(At::of(handle), guard);
        }
    }

    fn promote_one(&self, at: At, guard: &Guard) {
        let entry = self.core.shards[at.shard].entries.get(at.index);
        // Repeats when a fact has come, which puts the key in line by itself.
        loop {
            let word = entry.word();
            let Some(next) = word.due(at.generation) else { return };
            self.date(entry, word, next);
            pause_point("promote: before the exchange");
            if entry.advance(word, next) {
                pause_point("promote: due");
                self.moved(word, next);
                return self.put_in_line(ToLink::new(at.shard, at.index, next), guard);
            }
        }
    }
}
