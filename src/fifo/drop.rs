//! The end of a queue's life, and what it shows of itself before.

use std::fmt;

use super::DeltaFifo;
use super::chain;
use super::panics::Panics;
use super::shard::Shard;
use super::word::State;

/// Keys and objects are dropped here and now, by the thread that drops the queue, whatever panics; only bare memory is
/// left to others (handles of objects that users have kept).
impl<K, V, S> Drop for DeltaFifo<K, V, S> {
    fn drop(&mut self) {
        let mut panics = Panics::default();
        self.shards.iter_mut().for_each(|shard| dismantle(shard, &mut panics));
        panics.go_on();
    }
}

fn dismantle<K, V>(shard: &mut Shard<K, V>, panics: &mut Panics) {
    let Shard { entries, objects, limbo, .. } = shard;
    panics.contain(|| limbo.recycle_rest(entries.slots(), |index| entries.recycle(index)));
    entries.for_each(|index, entry| {
        if entry.word().state() == State::Retired {
            return;
        }
        let facts = chain::take(objects, entry.word().newest());
        let (version, holders) = entry.dismantle();
        let object = version.map(|version| chain::take_version(objects, version));
        // Several values whose `Drop` may panic: each by itself.
        facts.into_iter().for_each(|fact| _ = panics.contain(|| drop(fact)));
        panics.contain(|| drop(holders));
        panics.contain(|| drop(object));
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
            .field("delays", &self.delays)
            .field("closing", &self.closing)
            .field("consumers", &self.consumers)
            .finish_non_exhaustive()
    }
}
