//! What goes over all known keys: the end of a replace, and resync.

use std::hash::{BuildHasher, Hash};
use std::sync::RwLock;

use crate::builder::Known;
use crate::delta::{RawDelta, RawKind};
use crate::error::{BoxError, ErrorEvent, ResyncError, ResyncKeyError};
use crate::object::Key;

use super::MutexDeltaFifo;
use super::entry::Entry;
use super::lock::read;
use super::records::Records;
use super::replace::Ticket;
use super::state::{Append, State};
use super::table::{Slot, Table};

/// A key that gets a tombstone or a `Sync`.
pub(super) enum Target<K> {
    Entry(Slot),
    /// It has a record and no entry.
    Record(Slot),
    /// Only the user's store has it. The last number is its settled number.
    Stored(u64, Key<K>, u64),
}

/// What a sweep looks at.
pub(super) struct Sweep<K> {
    /// The keys in scope that there were after the replace began; none if all are. Newer keys are not swept anyway.
    pub(super) candidates: Option<Vec<(u64, Key<K>)>>,
    /// What the user's store lists.
    pub(super) stored: Vec<(u64, Key<K>)>,
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// Everything that a sweep needs of user code, outside the lock.
    pub(super) fn prepare_sweep(&self, ticket: &Ticket) -> Result<Sweep<K>, BoxError> {
        let mut stored = self.list_store()?;
        let candidates = ticket.scope.map(|scope| {
            let holds = &self.scopes[scope].holds;
            stored.retain(|(_, key)| holds(key));
            let mut keys = self.lock().all_keys(&self.records);
            keys.retain(|(_, key)| holds(key));
            keys
        });
        Ok(Sweep { candidates, stored })
    }

    /// The keys of the user's store, if there is one.
    pub(super) fn list_store(&self) -> Result<Vec<(u64, Key<K>)>, BoxError> {
        let Known::Store(store) = &self.known else { return Ok(Vec::new()) };
        match store.keys() {
            Ok(keys) => {
                // A store may list a key twice.
                let mut once = Table::new();
                for key in keys {
                    let hash = self.hasher.hash_one(&key);
                    if once.find(hash, &key).is_none() {
                        once.insert(hash, Key::alone(key), ());
                    }
                }
                Ok(once.iter().map(|(slot, key, ())| (once.hash(slot), Key::clone(key))).collect())
            }
            Err(error) => {
                self.report(&ErrorEvent::StoreKeys { error: &*error });
                Err(error)
            }
        }
    }

    pub(super) fn resync_all(&self) -> Result<usize, ResyncError> {
        let mut stored = self.list_store().map_err(ResyncError::ListKeys)?;
        stored.retain(|(_, key)| self.ask_store(key).object().is_some());
        let mut state = self.lock();
        if state.closed {
            return Err(ResyncError::Closed);
        }
        let targets = match &self.known {
            Known::Inside => state.idle_records(&self.records),
            Known::None => Vec::new(),
            Known::Store(_) => state.idle_stored(&stored, &self.records),
        };
        let count = targets.len();
        for target in targets {
            let slot = state.target_entry(target, &self.records);
            state.append(slot, RawDelta::new(RawKind::Sync, None), Append::of_resync());
        }
        Ok(count)
    }

    pub(super) fn resync_one(&self, key: K) -> Result<bool, ResyncKeyError<K>> {
        let hash = self.hasher.hash_one(&key);
        let stored = match self.known {
            // A store that cannot tell skips the key.
            Known::Store(_) => self.ask_store(&key).object().is_some(),
            Known::Inside | Known::None => false,
        };
        let mut key = Some(key);
        let mut state = self.lock();
        if state.closed {
            return Err(ResyncKeyError { key: key.take().expect("the key is here") });
        }
        let wanted = key.as_ref().expect("the key is here");
        if state.entries.find(hash, wanted).is_some() {
            return Ok(false);
        }
        let known = match self.known {
            Known::Inside => read(&self.records).knows(hash, wanted),
            Known::Store(_) => stored,
            Known::None => false,
        };
        if known {
            let slot = state.entry(hash, &mut key, &self.records);
            state.append(slot, RawDelta::new(RawKind::Sync, None), Append::of_resync());
        }
        drop(state);
        Ok(known)
    }
}

impl<K: Eq, V> State<K, V> {
    /// Every key that exists, was not seen by the replace and was not changed since it began.
    pub(super) fn plan_sweep(
        &self,
        number: u64,
        sweep: &Sweep<K>,
        known: &Known<K, V>,
        records: &RwLock<Records<K, V>>,
    ) -> Vec<Target<K>> {
        let mut targets = Vec::new();
        let old = |settled: u64| settled < 2 * number;
        let take_entry = |entry: &Entry<V>| old(entry.settled) && entry.exists();
        let records = read(records);
        let take_record = |slot: Slot| {
            let record = records.table.get(slot);
            record.exists() && old(record.settled) && !matches!(known, Known::None)
        };
        match &sweep.candidates {
            None => {
                let entries = self.entries.iter().filter(|(_, _, entry)| take_entry(entry));
                targets.extend(entries.map(|(slot, _, _)| Target::Entry(slot)));
                targets.extend(self.idle(&records).filter(|&slot| take_record(slot)).map(Target::Record));
            }
            Some(candidates) => {
                for (hash, key) in candidates {
                    match (self.entries.find(*hash, &**key), records.table.find(*hash, &**key)) {
                        (Some(slot), _) if take_entry(self.entries.get(slot)) => {
                            targets.push(Target::Entry(slot));
                        }
                        (None, Some(slot)) if take_record(slot) => targets.push(Target::Record(slot)),
                        _ => {}
                    }
                }
            }
        }
        for (hash, key) in &sweep.stored {
            // With a record it was looked at above; without one nothing has happened to it since.
            if self.entries.find(*hash, &**key).is_none() && records.table.find(*hash, &**key).is_none() {
                targets.push(Target::Stored(*hash, Key::clone(key), 0));
            }
        }
        targets
    }

    pub(super) fn sweep(&mut self, number: u64, targets: Vec<Target<K>>, records: &RwLock<Records<K, V>>) {
        let how = self.of_replace(number);
        for target in targets {
            let slot = self.target_entry(target, records);
            self.append(slot, RawDelta::new(RawKind::Tombstone, None), how);
        }
    }

    /// The entry of a target, made if it has none. No `Eq` runs.
    fn target_entry(&mut self, target: Target<K>, records: &RwLock<Records<K, V>>) -> Slot {
        match target {
            Target::Entry(slot) => slot,
            Target::Record(slot) => {
                let records = read(records);
                let (hash, key) = (records.table.hash(slot), Key::clone(records.table.key(slot)));
                let settled = records.table.get(slot).settled;
                self.entries.insert(hash, key, Entry::new(settled))
            }
            Target::Stored(hash, key, settled) => self.entries.insert(hash, key, Entry::new(settled)),
        }
    }

    /// Known keys that are neither pending nor leased.
    fn idle_records(&self, records: &RwLock<Records<K, V>>) -> Vec<Target<K>> {
        self.idle(&read(records)).map(Target::Record).collect()
    }

    /// Records with an object whose keys have no entry.
    fn idle<'r>(&'r self, records: &'r Records<K, V>) -> impl Iterator<Item = Slot> + 'r {
        let known = records.table.iter().filter(|(_, _, record)| record.exists());
        known
            .filter(|(slot, key, _)| self.entries.find(records.table.hash(*slot), &***key).is_none())
            .map(|(slot, _, _)| slot)
    }

    fn idle_stored(&self, stored: &[(u64, Key<K>)], records: &RwLock<Records<K, V>>) -> Vec<Target<K>> {
        let idle = stored.iter().filter(|(hash, key)| self.entries.find(*hash, &**key).is_none());
        idle.map(|(hash, key)| Target::Stored(*hash, Key::clone(key), self.settled(*hash, key, records)))
            .collect()
    }

    /// The keys of all entries and records.
    fn all_keys(&self, records: &RwLock<Records<K, V>>) -> Vec<(u64, Key<K>)> {
        let records = read(records);
        let entries = self.entries.iter().map(|(slot, key, _)| (self.entries.hash(slot), Key::clone(key)));
        let idle =
            self.idle(&records).map(|slot| (records.table.hash(slot), Key::clone(records.table.key(slot))));
        entries.chain(idle).collect()
    }
}
