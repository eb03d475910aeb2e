//! What goes over all known keys: the end of a replace, and resync.
//!
//! Keys are looked at in stretches, each under a guard of its own, and pushed to one by one: nobody is stopped meanwhile.

use std::hash::{BuildHasher, Hash};

use crate::builder::Known;
use crate::delta::RawKind;
use crate::error::{BoxError, ResyncError, ResyncKeyError};
use crate::sync::{epoch, planted};
use crate::table::hash_of;

use super::DeltaFifo;
use super::entry::{Entry, EntryKey, Slot};
use super::fact::Fact;
use super::hashing::hash_in;
use super::panics::Panics;
use super::push::{Push, PushKey, Pushed};
use super::replaces::Open;
use super::rules::Rule;
use super::shard::Shard;
use super::word::{Newest, State, Word};

/// What a sweep looks at.
pub(super) struct Sweep<K> {
    /// The keys in scope that there were after the replace began; none if all are. Newer keys are not swept anyway.
    candidates: Option<Vec<Hashed<EntryKey<K>>>>,
    /// What the user's store lists.
    stored: Vec<Hashed<K>>,
}

/// A key with its hash, which is not asked for again.
pub(super) struct Hashed<Key> {
    pub(super) key: Key,
    pub(super) hash: u64,
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// Everything that a sweep needs of user code, but the keys' `Eq`.
    pub(super) fn prepare_sweep(&self, open: &Open) -> Result<Sweep<K>, BoxError> {
        let mut stored = self.list_store()?;
        let candidates = open.scope().map(|scope| {
            let holds = &self.scopes[scope].holds;
            stored.retain(|stored| holds(&stored.key));
            let mut keys = Vec::new();
            self.keys(|_, _| true, |key| keys.push(key));
            keys.retain(|met: &Hashed<EntryKey<K>>| holds(&met.key));
            keys
        });
        Ok(Sweep { candidates, stored })
    }

    /// A tombstone for every key that exists, was not seen by the replace and was not changed since it began.
    pub(super) fn sweep(&self, open: &Open, sweep: Sweep<K>, panics: &mut Panics) {
        let number = open.number();
        let visit = |met: Hashed<EntryKey<K>>| {
            panics.outlast(|| self.sweep_key(PushKey::Lent(&met.key), met.hash, number, false));
            panics.contain(|| drop(met));
        };
        match sweep.candidates {
            Some(candidates) => candidates.into_iter().for_each(visit),
            None => {
                // Whose number is too high already is asked no more; nor is what the replace has placed. What is not in line yet
                // is met nevertheless (E4).
                let wanted = |shard: &Shard<K, V>, entry: Entry<'_, V>| {
                    let word = entry.word();
                    !shard.has_placed(entry, word, number)
                        && (Self::is_to_be_helped(word)
                            || word.kind() != Newest::Deleted && entry.settled() < 2 * number)
                };
                self.keys(wanted, visit);
            }
        }
        for Hashed { key, hash } in sweep.stored {
            let mut key = Some(key);
            panics.outlast(|| {
                // Not again, if an entry has the key already.
                if key.is_some() {
                    self.sweep_key(PushKey::Callers(&mut key), hash, number, true);
                }
            });
            panics.contain(|| drop(key));
        }
    }

    fn sweep_key(&self, key: PushKey<'_, K>, hash: u64, number: u64, stored: bool) {
        let shard = self.shard_of(hash);
        let guard = epoch::pin();
        // Under the guard, which a discard waits for: what the replace has placed, or what has come since, is still there. Once
        // it is thrown away, the key would pass for one that is not listed.
        if self.core.closing.is_discarding() && !planted("a sweep goes on during a discard") {
            return;
        }
        let mut push = Push {
            shard,
            hash,
            key,
            fact: self.fact_of(RawKind::Tombstone, number),
            rule: Rule::Swept { number, stored },
            since: self.marks.newest(),
            cell: Some(self.core.shards[shard].objects.draft(None)),
            value: &mut None,
            wanted: true,
        };
        if let (_, Some(link)) = self.push_owing(&mut push, &guard) {
            self.link(link, &guard);
        }
    }

    pub(super) fn resync_all(&self) -> Result<usize, ResyncError> {
        if self.core.closing.is_closed() {
            return Err(ResyncError::Closed);
        }
        let mut count = 0;
        let mut panics = Panics::default();
        let mut resync = |hash, key: PushKey<'_, K>| {
            count += usize::from(self.resync_hashed(hash, key) == Some(true));
        };
        match self.known {
            Known::Inside => {
                let wanted = |_: &Shard<K, V>, entry: Entry<'_, V>| {
                    let word = entry.word();
                    Self::is_to_be_helped(word) || word.state() == State::Idle && word.kind() == Newest::Live
                };
                self.keys(wanted, |met| panics.outlast(|| resync(met.hash, PushKey::Lent(&met.key))));
            }
            Known::None => {}
            Known::Store(_) => {
                let mut stored = self.list_store().map_err(ResyncError::ListKeys)?;
                stored.retain(|stored| self.ask_store(&stored.key).object().is_some());
                for Hashed { key, hash } in stored {
                    let mut key = Some(key);
                    panics.outlast(|| {
                        if key.is_some() {
                            resync(hash, PushKey::Callers(&mut key));
                        }
                    });
                    panics.contain(|| drop(key));
                }
            }
        }
        panics.go_on();
        Ok(count)
    }

    pub(super) fn resync_one(&self, key: K) -> Result<bool, ResyncKeyError<K>> {
        let known = match self.known {
            Known::Inside => true,
            // A store that cannot tell skips the key.
            Known::Store(_) => self.ask_store(&key).object().is_some(),
            Known::None => false,
        };
        let hash = self.hash(&key);
        let mut key = Some(key);
        let resynced = match known {
            true => self.resync_hashed(hash, PushKey::Callers(&mut key)),
            false => (!self.core.closing.is_closed()).then_some(false),
        };
        resynced.ok_or_else(|| ResyncKeyError { key: key.expect("the queue has not taken it") })
    }

    /// None: the queue is closed.
    fn resync_hashed(&self, hash: u64, key: PushKey<'_, K>) -> Option<bool> {
        let shard = self.shard_of(hash);
        let guard = epoch::pin();
        // Under the guard: see `close`.
        if self.core.closing.is_closed() {
            return None;
        }
        let mut push = Push {
            shard,
            hash,
            key,
            fact: Fact::resync(self.background_resync),
            rule: Rule::Resync,
            since: self.marks.newest(),
            cell: Some(self.core.shards[shard].objects.draft(None)),
            value: &mut None,
            wanted: true,
        };
        #[cfg(test)]
        if planted("a resync carries what it saw") {
            push.fact.carrier = self.carry(&push, &guard);
        }
        match self.push(&mut push, &guard) {
            Pushed::Done { appended, link } => {
                if let Some(link) = link {
                    self.link(link, &guard);
                }
                #[cfg(test)]
                if let (false, Some(carrier)) = (appended, push.fact.carrier) {
                    drop(super::chain::take_version(&self.core.shards[shard].objects, carrier));
                }
                Some(appended)
            }
            Pushed::AskStore => unreachable!("only deletions ask the user's store"),
        }
    }

    /// For a broken twin: the object that is known now, to be a fact's.
    #[cfg(test)]
    fn carry(&self, push: &Push<'_, K, V>, guard: &epoch::Guard) -> Option<crate::slab::Index> {
        let shard = &self.core.shards[push.shard];
        let entry = shard.find_entry(push.hash, push.key.get(), guard)?;
        Some(super::chain::keep(&shard.objects, entry.version.object(&shard.objects, &self.core.epochs)?))
    }

    /// E4: a key that has deltas and is not in line yet.
    fn is_to_be_helped(word: Word) -> bool {
        word.state() == State::Linking && !planted("what goes over all keys does not help")
    }

    /// The keys of all entries that are wanted, a few at a time.
    fn keys(
        &self,
        wanted: impl Fn(&Shard<K, V>, Entry<'_, V>) -> bool,
        mut f: impl FnMut(Hashed<EntryKey<K>>),
    ) {
        for (number, shard) in self.core.shards.iter().enumerate() {
            let pick = |index, slot: &Slot<K>, guard: &epoch::Guard| {
                let entry = shard.entries.get(index);
                let is_met = entry.word().state() != State::Retired && wanted(shard, entry);
                is_met.then(|| Hashed {
                    key: shard.entries.share(index, guard),
                    hash: hash_in(number, hash_of(slot)),
                })
            };
            shard.stretches(pick, |keys, guard| {
                drop(guard);
                keys.into_iter().for_each(&mut f);
            });
        }
    }
}
