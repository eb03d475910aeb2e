//! The known objects: how the holder of a key's lease changes them, and how everybody reads them.

mod view;

use std::hash::Hash;

use crate::delta::Object;
use crate::object::Key;
use crate::slab::Index;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::epoch::{self, Guard};
use crate::sync::{pause_point, planted};
use crate::table::Position;

use super::DeltaFifo;
use super::chain;
use super::records::{Reserved, State};
use super::shard::Shard;
pub use view::{FifoKnown, FifoSnapshot};

/// So many records are looked at under one guard.
pub(super) const STRIDE: usize = 64;

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// The record of a leased key, made if there is none, for its holder to install something (R3). Runs the key's `Eq`.
    pub(super) fn reserve_record(
        &self,
        shard: &Shard<K, V>,
        hash: u64,
        key: &Key<K>,
        guard: &Guard,
    ) -> Index {
        // Repeats when a record has been removed, by the end of a replace.
        loop {
            if let Some(index) = shard.find_record(hash, key, guard) {
                match shard.records.get(index).reserve() {
                    Reserved::AsItWas => return index,
                    Reserved::WasAbsent => {
                        // Relaxed: only the count matters.
                        shard.absent.fetch_sub(1, Ordering::Relaxed);
                        pause_point("known: record reserved");
                        return index;
                    }
                    Reserved::Gone => {
                        pause_point("known: record is gone");
                        shard.known.remove(&shard.records, index, guard);
                        continue;
                    }
                }
            }
            let index = shard.records.take();
            shard.records.get(index).prepare(key.clone());
            pause_point("known: record prepared");
            let mut unused = Unused { shard, index, used: false };
            unused.used = shard.insert_record(hash, index, guard).is_ok();
            if unused.used {
                return index;
            }
        }
    }

    /// The holder makes `newest` what is known of its key, instead of `before`, which it gets if it is known no more.
    pub(super) fn install(
        &self,
        shard: &Shard<K, V>,
        index: Index,
        before: Option<&Object<V>>,
        newest: Option<&Object<V>>,
        guard: &Guard,
    ) -> Option<Object<V>> {
        let record = shard.records.get(index);
        let old = match (before, newest) {
            (Some(before), Some(newest)) if before.ptr_eq(newest) => return None,
            (_, Some(newest)) if planted("a version owns nothing") => {
                record.set(&State::Object(shard.objects.index_of(newest)))
            }
            (_, Some(newest)) => record.set(&State::Object(chain::keep(&shard.objects, newest.clone()))),
            (_, None) => {
                // Relaxed: counted before it shows, so that the count is never too low.
                shard.absent.fetch_add(1, Ordering::Relaxed);
                pause_point("known: absence counted");
                record.set(&State::Absent)
            }
        };
        let old = old.filter(|_| !planted("the version before is forgotten"));
        let old = old.map(|old| chain::take_version(&shard.objects, old));
        pause_point("known: installed");
        // Relaxed, both: only the count matters.
        match (before, newest) {
            (None, Some(_)) => _ = shard.objects_known.fetch_add(1, Ordering::Relaxed),
            (Some(_), None) => _ = shard.objects_known.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
        if newest.is_none() {
            self.leave_absent(shard, index, guard);
        }
        old
    }

    /// A record without an object stays while an open replace may ask for its number.
    pub(super) fn leave_absent(&self, shard: &Shard<K, V>, index: Index, guard: &Guard) {
        if self.is_asked_for(shard, index) {
            // SeqCst fence: pairs with that in `forget_absent`: either it sees this record, or this sees that the replace
            // has ended.
            if !planted("no fence when a record stays") {
                fence(Ordering::SeqCst);
            }
            if self.is_asked_for(shard, index) {
                return;
            }
        }
        self.remove_absent(shard, index, guard);
    }

    /// Whether an open replace may ask for a record without an object: for a number that is not below its own, or, where the
    /// known objects are elsewhere, whether the key has been seen at all.
    fn is_asked_for(&self, shard: &Shard<K, V>, index: Index) -> bool {
        let oldest = self.replaces.oldest_open();
        let number = if self.keeps_known() { shard.records.get(index).number() } else { u64::MAX - 1 };
        number >= oldest.saturating_mul(2) && !planted("absent records go at once")
    }

    fn remove_absent(&self, shard: &Shard<K, V>, index: Index, guard: &Guard) {
        if shard.records.get(index).remove() {
            pause_point("known: record removed");
            // Relaxed: only the count matters.
            shard.absent.fetch_sub(1, Ordering::Relaxed);
            shard.retire_record(index, guard);
        }
    }

    /// Removes the records that were kept for the sake of replaces that have ended.
    pub(super) fn forget_absent(&self) {
        // SeqCst fence: pairs with that in `leave_absent`.
        if !planted("no fence before records go") {
            fence(Ordering::SeqCst);
        }
        for shard in &self.shards {
            // Relaxed: ordered by the fence.
            if shard.absent.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut from = Some(Position::default());
            while let Some(position) = from {
                let guard = epoch::pin();
                let mut absent = Vec::new();
                from = shard.known.walk(&shard.records, position, STRIDE, &guard, |index, record| {
                    if !record.has_object() {
                        absent.push(index);
                    }
                });
                for index in absent {
                    if !self.is_asked_for(shard, index) {
                        self.remove_absent(shard, index, &guard);
                    }
                }
            }
        }
    }
}

/// A record that was prepared and did not get into the table.
struct Unused<'s, K, V> {
    shard: &'s Shard<K, V>,
    index: Index,
    used: bool,
}

impl<K, V> Drop for Unused<'_, K, V> {
    fn drop(&mut self) {
        if !self.used {
            drop(self.shard.records.get(self.index).clear());
            self.shard.records.give(self.index);
        }
    }
}
