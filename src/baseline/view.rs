//! What can be seen of the known objects: live, and as of one moment.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::builder::Known;
use crate::delta::Object;
use crate::known::{KnownObject, KnownView};
use crate::object::Key;
use crate::resolve::Before;

use super::MutexDeltaFifo;
use super::lock::read;
use super::table::Table;

/// The live view of a [`MutexDeltaFifo`]'s known objects.
///
/// Looking a key up costs O(1) expected under the store's read lock, for which it waits; iterating clones the handles
/// of all objects first, O(n). Over a user's store nothing is kept here: every call asks the store, a look-up goes
/// through all its keys, and its errors (also reported to the error hook) look like absence. Read the store itself
/// instead. Over no known objects the view is empty.
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<String, u32>::new();
/// queue.add("a".to_string(), 1)?;
/// queue.pop()?.done();
/// assert_eq!(queue.known().get_with("a", |object| object + 1), Some(2));
/// assert_eq!(queue.known().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutexKnown<'q, K, V, S> {
    queue: &'q MutexDeltaFifo<K, V, S>,
}

impl<'q, K, V, S> MutexKnown<'q, K, V, S> {
    pub(super) fn new(queue: &'q MutexDeltaFifo<K, V, S>) -> Self {
        MutexKnown { queue }
    }
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// The keys of the user's store, each once; none if it cannot list them.
    fn stored_keys(&self) -> Vec<Key<K>> {
        let keys = self.list_store().unwrap_or_default();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    fn stored(&self) -> impl Iterator<Item = (Key<K>, Object<V>)> {
        self.stored_keys().into_iter().filter_map(|key| match self.ask_store(&key) {
            Before::Known(object) => Some((key, object)),
            Before::Absent | Before::CannotTell => None,
        })
    }

    fn all_known(&self) -> Vec<KnownObject<K, V>> {
        match &self.known {
            Known::Inside => {
                let records = read(&self.records);
                let known = records.table.iter().filter_map(|(_, key, record)| {
                    let object = record.object.as_ref()?;
                    Some(KnownObject::new(Key::clone(key), Object::clone(object)))
                });
                known.collect()
            }
            Known::None => Vec::new(),
            Known::Store(_) => self.stored().map(|(key, object)| KnownObject::new(key, object)).collect(),
        }
    }

    pub(super) fn clone_known(&self) -> MutexSnapshot<K, V, S> {
        let mut table = Table::new();
        if let Known::Inside = self.known {
            let records = read(&self.records);
            for (slot, key, record) in records.table.iter() {
                if let Some(object) = &record.object {
                    table.insert(records.table.hash(slot), Key::clone(key), Object::clone(object));
                }
            }
        } else {
            for (key, object) in self.stored() {
                table.insert(self.hasher.hash_one(&key), key, object);
            }
        }
        MutexSnapshot { table: Arc::new(table), hasher: Arc::clone(&self.hasher) }
    }
}

impl<K, V, S> KnownView<K, V> for MutexKnown<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn find<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        match &self.queue.known {
            Known::Inside => {
                let hash = self.queue.hasher.hash_one(key);
                let records = read(&self.queue.records);
                let slot = records.table.find(hash, key)?;
                let object = records.table.get(slot).object.as_ref()?;
                Some(KnownObject::new(Key::clone(records.table.key(slot)), Object::clone(object)))
            }
            Known::None => None,
            Known::Store(_) => {
                let mut keys = self.queue.stored_keys().into_iter();
                let key = keys.find(|stored| (**stored).borrow() == key)?;
                match self.queue.ask_store(&key) {
                    Before::Known(object) => Some(KnownObject::new(key, object)),
                    Before::Absent | Before::CannotTell => None,
                }
            }
        }
    }

    fn len(&self) -> usize {
        match &self.queue.known {
            Known::Inside => read(&self.queue.records).len(),
            Known::None => 0,
            Known::Store(_) => self.queue.stored_keys().len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        self.queue.all_known().into_iter()
    }
}

impl<K, V, S> fmt::Debug for MutexKnown<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexKnown").finish_non_exhaustive()
    }
}

/// The known objects of a [`MutexDeltaFifo`] as of one moment.
///
/// Taking it clones the handles of all objects under the store's read lock: **O(n)**, and pops wait meanwhile.
/// Cloning, looking up and counting cost O(1), iterating O(n); nothing waits for the queue any more, which may be
/// gone. Over a user's store it is put together from one call for each key, and is no consistent cut.
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// let snapshot = queue.snapshot();
/// drop(queue);
/// assert_eq!(snapshot.get(&"a"), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutexSnapshot<K, V, S> {
    table: Arc<Table<K, Object<V>>>,
    hasher: Arc<S>,
}

impl<K, V, S> Clone for MutexSnapshot<K, V, S> {
    fn clone(&self) -> Self {
        MutexSnapshot { table: Arc::clone(&self.table), hasher: Arc::clone(&self.hasher) }
    }
}

impl<K, V, S> KnownView<K, V> for MutexSnapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn find<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let slot = self.table.find(self.hasher.hash_one(key), key)?;
        Some(KnownObject::new(Key::clone(self.table.key(slot)), Object::clone(self.table.get(slot))))
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        self.table.iter().map(|(_, key, object)| KnownObject::new(Key::clone(key), Object::clone(object)))
    }
}

impl<K, V, S> fmt::Debug for MutexSnapshot<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexSnapshot").field("len", &self.table.len()).finish_non_exhaustive()
    }
}
