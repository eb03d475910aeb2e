//! The end of a queue's life, and what it shows of itself before.

use std::fmt;

use crate::delta::Object;
use crate::sync::Arc as Shared;
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::chain::{self, Facts};
use super::core::Core;
use super::lines::At;
use super::panics::Panics;
use super::parts::Legacy;
use super::shard::Shard;
use super::word::State;

/// Keys and objects are dropped here and now, by the thread that drops the queue, whatever panics; only bare memory is
/// left to others (handles of objects that users have kept). If there are snapshots, what they show stays, and keys.
impl<K, V, S> Drop for DeltaFifo<K, V, S> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        panics.contain(|| self.publishing.clear());
        if Shared::strong_count(&self.core) > 1 {
            self.core.leave_to_snapshots(&mut panics);
        }
        panics.go_on();
    }
}

impl<K, V> Core<K, V> {
    /// Takes away what no snapshot shows. The queue is gone: only snapshots, and what they sweep, are left.
    fn leave_to_snapshots(&self, panics: &mut Panics) {
        for (number, shard) in self.shards.iter().enumerate() {
            shard.entries.for_each(|index, entry| {
                let word = entry.word();
                if word.state() == State::Retired {
                    return;
                }
                pause_point("leave: at an entry");
                // Fails never: what sweeps change are words without facts.
                let facts = match word.newest() {
                    Some(_) if entry.drain(word, word.drained()) => {
                        chain::take(&shard.objects, word.newest())
                    }
                    _ => Facts::new(),
                };
                let mut objects = Vec::new();
                if planted("a queue takes along what snapshots show") {
                    objects.extend(entry.version.dismantle(&shard.objects));
                }
                if entry.version.exists() {
                    let installed = entry.version.install(&shard.objects, &self.epochs, None, &mut objects);
                    objects.extend(installed.before);
                    let at = At { shard: number, index, generation: 0 };
                    installed.kept.into_iter().for_each(|kept| self.keep(at, kept));
                }
                // At rest there is nothing left to anybody; and who sweeps may have retired the entry by now, and use its link.
                let is_at_rest = word.state() == State::Idle && !planted("a key at rest has left something");
                let legacy = if is_at_rest { Legacy::default() } else { entry.take_legacy() };
                drop_each(facts, legacy, objects, panics);
            });
        }
    }
}

/// Several values whose `Drop` may panic: each by itself.
fn drop_each<V>(facts: Facts<V>, legacy: Legacy<V>, objects: Vec<Object<V>>, panics: &mut Panics) {
    panics.drop_each(facts);
    let Legacy { given_back, left } = legacy;
    panics.contain(|| {
        if planted("a queue forgets what came back") {
            std::mem::forget(given_back)
        } else {
            drop(given_back)
        }
    });
    panics.contain(|| drop(left));
    panics.drop_each(objects);
}

/// The queue is gone, and so are its snapshots.
impl<K, V> Drop for Core<K, V> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        let watches = self.epochs.watches();
        for shard in &mut self.shards {
            panics.drop_each(shard.kept.take_rest(&self.lists, &shard.objects, watches));
            dismantle(shard, &mut panics);
        }
        panics.go_on();
    }
}

fn dismantle<K, V>(shard: &mut Shard<K, V>, panics: &mut Panics) {
    let Shard { entries, objects, limbo, .. } = shard;
    panics.contain(|| limbo.recycle_rest(entries.slots(), |index| entries.recycle(index)));
    entries.for_each(|index, entry| {
        if entry.word().state() == State::Retired && !planted("what is retired is dropped again") {
            return;
        }
        let facts = chain::take(objects, entry.word().newest());
        let versions = entry.version.dismantle(objects).collect();
        drop_each(facts, entry.take_legacy(), versions, panics);
        panics.contain(|| entries.recycle(index));
    });
    while objects.has_dead() {
        panics.contain(|| objects.bury_dead());
    }
}

impl<K, V, S> fmt::Debug for DeltaFifo<K, V, S> {
    /// How many keys there are, and the state of every entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = Vec::new();
        self.visit_entries(|entry| {
            let word = entry.word();
            if !matches!(word.state(), State::Retired | State::Idle) {
                entries.push(word);
            }
        });
        f.debug_struct("DeltaFifo")
            .field("pending", &self.pending_len_now())
            .field("entries", &entries)
            .field("now", &self.delays.stamp(self.clock.now()))
            .field("delays", &self.delays)
            .field("closing", &self.core.closing)
            .field("consumers", &self.consumers)
            .finish_non_exhaustive()
    }
}
