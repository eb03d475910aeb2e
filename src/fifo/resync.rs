//! What goes over all known keys: the end of a replace, and resync.
//!
//! Keys are looked at in stretches, each under a guard of its own, and pushed to one by one: nobody is stopped meanwhile.

use std::hash::{BuildHasher, Hash};

use crate::builder::Known;
use crate::delta::RawKind;
use crate::error::{BoxError, ResyncError, ResyncKeyError};
use crate::object::Key;
use crate::sync::epoch;
use crate::sync::planted;
use crate::table::{Position, hash_of};

use super::DeltaFifo;
use super::fact::Fact;
use super::known::STRIDE;
use super::panics::Panics;
use super::push::{Push, PushKey, Pushed, Rule};
use super::replaces::Open;
use super::word::{Newest, State};

/// What a sweep looks at.
pub(super) struct Sweep<K> {
    /// The keys in scope that there were after the replace began; none if all are. Newer keys are not swept anyway.
    candidates: Option<Vec<Hashed<K>>>,
    /// What the user's store lists.
    stored: Vec<Hashed<K>>,
}

/// A key with its hash, which is not asked for again.
pub(super) struct Hashed<K> {
    pub(super) key: Key<K>,
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
            self.entry_keys(|_| true, |key| keys.push(key));
            self.record_keys(u64::MAX, |key| keys.push(key));
            keys.retain(|met: &Hashed<K>| holds(&met.key));
            keys
        });
        Ok(Sweep { candidates, stored })
    }

    /// A tombstone for every key that exists, was not seen by the replace and was not changed since it began. Entries
    /// first, then records: a key that is popped in between is met in one of them.
    pub(super) fn sweep(&self, open: &Open, sweep: Sweep<K>, panics: &mut Panics) {
        let number = open.number();
        let mut visit = |key: &Hashed<K>, stored| panics.outlast(|| self.sweep_key(key, number, stored));
        match sweep.candidates {
            Some(candidates) => candidates.iter().for_each(|key| visit(key, false)),
            None => {
                if planted("records before entries") {
                    self.record_keys(2 * number, |key| visit(&key, false));
                }
                self.entry_keys(|newest| newest != Newest::Deleted, |key| visit(&key, false));
                if !planted("records before entries") {
                    self.record_keys(2 * number, |key| visit(&key, false));
                }
            }
        }
        sweep.stored.iter().for_each(|key| visit(key, true));
    }

    fn sweep_key(&self, key: &Hashed<K>, number: u64, stored: bool) {
        let Hashed { key, hash } = key;
        let hash = *hash;
        let shard = self.shard_of(hash);
        let guard = epoch::pin();
        let mut push = Push {
            shard,
            hash,
            key: PushKey::Shared(key),
            fact: self.fact_of(RawKind::Tombstone, number),
            rule: Rule::Swept { number, stored },
            since: self.marks.newest(),
            cell: Some(self.shards[shard].objects.draft(None)),
            value: &mut None,
            wanted: true,
            fresh: None,
        };
        self.push_owing(&mut push, &guard);
    }

    pub(super) fn resync_all(&self) -> Result<usize, ResyncError> {
        if self.closing.is_closed() {
            return Err(ResyncError::Closed);
        }
        let mut count = 0;
        let mut panics = Panics::default();
        let mut resync = |key: &Hashed<K>| {
            panics.outlast(|| {
                count += usize::from(self.resync_hashed(key.hash, PushKey::Shared(&key.key)) == Some(true));
            });
        };
        match self.known {
            Known::Inside => self.record_keys(u64::MAX, |key| resync(&key)),
            Known::None => {}
            Known::Store(_) => {
                let mut stored = self.list_store().map_err(ResyncError::ListKeys)?;
                stored.retain(|stored| self.ask_store(&stored.key).object().is_some());
                stored.iter().for_each(resync);
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
            false => (!self.closing.is_closed()).then_some(false),
        };
        resynced.ok_or_else(|| ResyncKeyError { key: key.expect("the queue has not taken it") })
    }

    /// None: the queue is closed.
    fn resync_hashed(&self, hash: u64, key: PushKey<'_, K>) -> Option<bool> {
        let shard = self.shard_of(hash);
        let guard = epoch::pin();
        // Under the guard: see `close`.
        if self.closing.is_closed() {
            return None;
        }
        let mut push = Push {
            shard,
            hash,
            key,
            fact: Fact::resync(self.background_resync),
            rule: Rule::Resync,
            since: self.marks.newest(),
            cell: Some(self.shards[shard].objects.draft(None)),
            value: &mut None,
            wanted: true,
            fresh: None,
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
                    drop(super::chain::take_version(&self.shards[shard].objects, carrier));
                }
                Some(appended)
            }
            Pushed::AskStore => unreachable!("only deletions ask the user's store"),
        }
    }

    /// For a broken twin: the object that is known now, to be a fact's.
    #[cfg(test)]
    fn carry(&self, push: &Push<'_, K, V>, guard: &epoch::Guard) -> Option<crate::slab::Index> {
        let shard = &self.shards[push.shard];
        let record = shard.records.get(shard.find_record(push.hash, push.key.get(), guard)?);
        Some(super::chain::keep(&shard.objects, record.object(&shard.objects)?))
    }

    /// The keys of all entries whose newest delta is such.
    fn entry_keys(&self, wanted: impl Fn(Newest) -> bool, mut f: impl FnMut(Hashed<K>)) {
        for shard in &self.shards {
            let mut from = Some(Position::default());
            while let Some(position) = from {
                let mut keys = Vec::new();
                let guard = epoch::pin();
                from = shard.active.walk(&shard.entries, position, STRIDE, &guard, |_, entry| {
                    let word = entry.word();
                    if word.state() != State::Retired && wanted(word.kind()) {
                        keys.push(Hashed { key: entry.key(&guard).clone(), hash: hash_of(entry) });
                    }
                });
                drop(guard);
                keys.into_iter().for_each(&mut f);
            }
        }
    }

    /// The keys of all records of keys that exist, with a lower number than this.
    fn record_keys(&self, below: u64, mut f: impl FnMut(Hashed<K>)) {
        for shard in &self.shards {
            let mut from = Some(Position::default());
            while let Some(position) = from {
                let mut keys = Vec::new();
                let guard = epoch::pin();
                from = shard.known.walk(&shard.records, position, STRIDE, &guard, |_, record| {
                    // The number before the object: see R2.
                    if record.number() < below && record.exists() {
                        keys.push(Hashed { key: record.key().clone(), hash: hash_of(record) });
                    }
                });
                drop(guard);
                keys.into_iter().for_each(&mut f);
            }
        }
    }
}
