//! The keys that are pending or leased, and what happened to them: the part that stands behind a mutex.

use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::Kind;
use crate::workload::{Key, Object};

/// Shared between the lease and the known objects.
pub(super) type Value = Arc<Object>;

/// One inline: a key that is handed out in time has one delta.
pub(super) type Deltas = SmallVec<[(Kind, Value); 1]>;

/// Entries live in slots that are reused, so whoever has a [`Handle`] finds its entry without a look-up.
#[derive(Default)]
pub(super) struct Pending {
    index: HashTable<Handle>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    leased: usize,
}

/// The place of an entry. It stands in the index and, while the entry waits, in line. The hash is here and not in the slot,
/// so that the index is searched and grown without touching slots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) hash: u64,
    slot: u32,
}

/// One cache line: it wanders from the producer's core to the consumer's and back.
#[repr(align(64))]
#[derive(Default)]
struct Slot {
    /// For look-ups. `None` in a free slot.
    key: Option<Key>,
    /// A second one, for the lease; `None` while leased. The producer makes it, while the key is in its cache and before it
    /// takes the lock: made by the consumer it would be a cache miss inside the lock.
    lent: Option<Key>,
    deltas: Deltas,
    /// The lease that runs, or ran last, ends with a deletion.
    deleted: bool,
    /// The last list in which the key stood.
    listed: u32,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// A key on its way in: everything that can be prepared before the lock.
pub(super) struct Incoming {
    hash: u64,
    key: Key,
    lent: Key,
    kind: Kind,
    value: Value,
}

impl Incoming {
    #[inline]
    pub(super) fn new(hash: u64, key: Key, kind: Kind, object: Object) -> Self {
        Self::of(hash, key, kind, Arc::new(object))
    }

    /// Of an object that is there already.
    pub(super) fn of(hash: u64, key: Key, kind: Kind, value: Value) -> Self {
        Self { hash, lent: Key::clone(&key), key, kind, value }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }
}

/// What a change did; what it did not need is given back, to be dropped outside the lock.
pub(super) enum Pushed {
    InLine(Handle),
    Joined {
        _spare: (Key, Key),
    },
    /// A deletion of what does not exist, or is deleted already.
    Refused {
        _spare: Incoming,
    },
}

pub(super) struct Lease {
    pub(super) handle: Handle,
    pub(super) key: Key,
    pub(super) deltas: Deltas,
    /// The known object before these deltas: a lease shows it, and it is dropped outside every lock.
    pub(super) previous: Option<Value>,
    /// A record that is no longer known.
    pub(super) forgotten: Option<(Key, Value)>,
}

impl Lease {
    pub(super) fn deltas(&self) -> impl Iterator<Item = (Kind, &Object)> {
        self.deltas.iter().map(|(kind, value)| (*kind, &**value))
    }
}

/// How a lease ended.
pub(super) enum Ended {
    /// The entry is gone; its key is given back, to be dropped outside the lock.
    Clean { _spare: Key },
    /// Changes arrived meanwhile: the slot goes in line.
    Dirty,
}

impl Pending {
    #[inline]
    pub(super) fn push(&mut self, incoming: Incoming) -> Pushed {
        self.place(incoming).1
    }

    /// The slot too.
    #[inline]
    fn place(&mut self, incoming: Incoming) -> (u32, Pushed) {
        let Incoming { hash, key, lent, kind, value } = incoming;
        let slots = &mut self.slots;
        let found = self.index.find(hash, |handle| {
            handle.hash == hash && slots[handle.slot as usize].key.as_ref() == Some(&key)
        });
        if let Some(handle) = found {
            slots[handle.slot as usize].deltas.push((kind, value));
            return (handle.slot, Pushed::Joined { _spare: (key, lent) });
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            slots.push(Slot::default());
            u32::try_from(slots.len() - 1).expect("fewer than 2^32 keys pending at once")
        });
        let entry = &mut slots[slot as usize];
        (entry.key, entry.lent) = (Some(key), Some(lent));
        entry.deltas.push((kind, value));
        let handle = Handle { hash, slot };
        self.index.insert_unique(hash, handle, |handle| handle.hash);
        (slot, Pushed::InLine(handle))
    }

    /// Makes room for a list of so many keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        self.index.reserve(keys, |handle| handle.hash);
        self.slots.reserve(keys.saturating_sub(self.free.len()));
    }

    /// Pushes an item of a list, and remembers that its key stands in it: no set of the keys is needed.
    pub(super) fn push_item(&mut self, incoming: Incoming, list: u32) -> Pushed {
        let (slot, pushed) = self.place(incoming);
        self.slots[slot as usize].listed = list;
        pushed
    }

    /// Appends a tombstone to every key in here that exists and does not stand in the list. `known` is the object of a key
    /// whose deltas are all with its lease.
    pub(super) fn bury_unlisted(&mut self, list: u32, known: impl Fn(u64, &Key) -> Value) {
        for handle in &self.index {
            let entry = &mut self.slots[handle.slot as usize];
            if entry.listed == list {
                continue;
            }
            let newest = match entry.deltas.last() {
                Some((newest, _)) if newest.deletes() => continue,
                Some((_, value)) => Value::clone(value),
                None if entry.deleted => continue,
                None => known(handle.hash, entry.key.as_ref().expect("what is in the index has its key")),
            };
            entry.deltas.push((Kind::Tombstone, newest));
        }
    }

    /// Whether the key is pending or leased.
    #[inline]
    pub(super) fn contains(&self, hash: u64, key: &Key) -> bool {
        let is_it = |handle: &Handle| {
            handle.hash == hash && self.slots[handle.slot as usize].key.as_ref() == Some(key)
        };
        self.index.find(hash, is_it).is_some()
    }

    /// Pushes a deletion, if there is something to delete. `known` is asked only about a key that is not in here.
    pub(super) fn push_deletion(
        &mut self,
        incoming: Incoming,
        known: impl FnOnce(&Incoming) -> bool,
    ) -> Pushed {
        let slots = &self.slots;
        let found = self.index.find(incoming.hash, |handle| {
            handle.hash == incoming.hash && slots[handle.slot as usize].key.as_ref() == Some(&incoming.key)
        });
        let exists = match found.map(|handle| &slots[handle.slot as usize]) {
            Some(entry) => match entry.deltas.last() {
                Some((newest, _)) => !newest.deletes(),
                None => !entry.deleted,
            },
            None => known(&incoming),
        };
        if exists { self.push(incoming) } else { Pushed::Refused { _spare: incoming } }
    }

    /// Leases the entry of a handle that was in line.
    #[inline]
    pub(super) fn lease(&mut self, handle: Handle) -> Lease {
        let entry = &mut self.slots[handle.slot as usize];
        self.leased += 1;
        entry.deleted = entry.deltas.last().is_some_and(|(kind, _)| kind.deletes());
        Lease {
            handle,
            key: entry.lent.take().expect("in line, so not leased"),
            deltas: std::mem::take(&mut entry.deltas),
            previous: None,
            forgotten: None,
        }
    }

    /// Ends a lease.
    #[inline]
    pub(super) fn done(&mut self, lease: &Lease) -> Ended {
        let handle = lease.handle;
        let entry = &mut self.slots[handle.slot as usize];
        self.leased -= 1;
        if !entry.deltas.is_empty() {
            entry.lent = Some(Key::clone(&lease.key));
            return Ended::Dirty;
        }
        let key = entry.key.take().expect("a leased entry has its key");
        if let Ok(found) = self.index.find_entry(handle.hash, |other| *other == handle) {
            found.remove();
        }
        self.free.push(handle.slot);
        Ended::Clean { _spare: key }
    }

    /// Keys that are in line or dirty.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| !slot.deltas.is_empty()).count()
    }

    pub(super) fn leased(&self) -> usize {
        self.leased
    }
}
