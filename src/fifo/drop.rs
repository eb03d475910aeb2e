//! The end of a queue's life, and what it shows of itself before.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::DeltaFifo;
use super::chain;
use super::shard::Shard;
use super::word::State;

/// Keys and objects are dropped here and now, by the thread that drops the queue, whatever panics; only bare memory is
/// left to others (handles of objects that users have kept).
impl<K, V, S> Drop for DeltaFifo<K, V, S> {
    fn drop(&mut self) {
        let mut panic = None;
        for shard in &self.shards {
            dismantle(shard, |step| {
                let done = catch_unwind(AssertUnwindSafe(step));
                panic = panic.take().or(done.err());
            });
        }
        if let Some(panic) = panic.filter(|_| !std::thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

fn dismantle<K, V>(shard: &Shard<K, V>, mut contain: impl FnMut(&mut dyn FnMut())) {
    shard.entries.for_each(|entry| {
        let facts = chain::take(&shard.objects, entry.word().newest());
        let (key, holders) = entry.dismantle();
        // Several values whose `Drop` may panic: each by itself.
        let (mut facts, mut key) = (facts.into_iter(), key);
        let mut holders = Some(holders);
        while let Some(fact) = facts.next() {
            let mut fact = Some(fact);
            contain(&mut || drop(fact.take()));
        }
        contain(&mut || drop(key.take()));
        contain(&mut || drop(holders.take()));
    });
    shard.records.for_each(|record| {
        let (mut key, version) = record.dismantle();
        let mut object = version.map(|version| chain::take_version(&shard.objects, version));
        contain(&mut || drop(object.take()));
        contain(&mut || drop(key.take()));
    });
    while shard.objects.has_dead() {
        contain(&mut || shard.objects.bury_dead());
    }
}

impl<K, V, S> fmt::Debug for DeltaFifo<K, V, S> {
    /// How many keys there are, and the state of every entry.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries = Vec::new();
        self.visit_entries(|entry| {
            let word = entry.word();
            if word.state() != State::Retired {
                entries.push(word);
            }
        });
        f.debug_struct("DeltaFifo")
            .field("pending", &self.pending_len_now())
            .field("entries", &entries)
            .field("delays", &self.delays)
            .field("closing", &self.closing)
            .field("consumers", &self.consumers)
            .finish_non_exhaustive()
    }
}
