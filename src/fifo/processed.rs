//! How far the marks are processed: a look at all entries, which is spared as long as the one is behind that was furthest
//! behind last time.

use std::sync::PoisonError;

use crate::replace::Version;
use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, planted};

use super::DeltaFifo;
use super::entry::Entry;
use super::word::State;

/// An entry that is not completed, with the lowest number that there was (E8).
#[derive(Clone, Copy)]
struct Behind {
    shard: usize,
    index: Index,
    since: u64,
}

/// Who was furthest behind at the last look. Only spares looks: whoever is asked says itself whether it still is.
#[derive(Default)]
pub(super) struct LastLook(Mutex<Option<Behind>>);

impl LastLook {
    fn get(&self) -> Option<Behind> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, behind: Option<Behind>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = behind;
    }
}

impl<K, V, S> DeltaFifo<K, V, S> {
    /// Brings the marks up to date: everything that is not completed is newer than what they say afterwards.
    pub(super) fn process_marks(&self) -> Option<Version> {
        let last = self.last_look.get();
        let still = last.filter(|last| {
            let entry = self.core.shards[last.shard].entries.get(last.index);
            since(entry) == Some(last.since) || planted("the last look is for ever")
        });
        let through = still.map_or_else(|| self.look_at_all(), |behind| behind.since);
        self.marks.processed(through)
    }

    fn look_at_all(&self) -> u64 {
        // Before the entries: what comes while they are looked at is newer.
        let newest = self.marks.newest();
        let mut behind: Option<Behind> = None;
        for (shard, of) in self.core.shards.iter().enumerate() {
            of.entries.for_each(|index, entry| {
                if let Some(since) = since(entry).filter(|since| *since < newest) {
                    // Of several the last: those that came first mostly end first.
                    if behind.is_none_or(|behind| since <= behind.since) {
                        behind = Some(Behind { shard, index, since });
                    }
                }
            });
        }
        let newest =
            if planted("the newest mark is read after the look") { self.marks.newest() } else { newest };
        self.last_look.set(behind);
        behind.map_or(newest, |behind| behind.since)
    }
}

/// The number of an entry whose deltas are not completed.
fn since<V>(entry: Entry<'_, V>) -> Option<u64> {
    let completed = matches!(entry.word().state(), State::Retired | State::Idle);
    // Relaxed: published by the exchange that brought the word here, or too low (E8).
    (!completed).then(|| entry.cold().since.load(Ordering::Relaxed))
}
