//! What can be seen of the known objects: live, and as of one moment.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::builder::Known;
use crate::fifo::entry::{Entries, Slot};
use crate::fifo::{DeltaFifo, mix};
use crate::known::{KnownObject, KnownView};
use crate::object::Key;
use crate::resolve::Before;
use crate::sync::atomic::Ordering;
use crate::sync::epoch;
use crate::table::Position;

/// The live view of a [`DeltaFifo`]'s known objects.
///
/// Looking a key up costs O(1) expected and is lock-free. The iterator takes handles of a few dozen objects at a time
/// and holds nothing back in between. Over a user's store nothing is kept here: every call asks the store, a look-up goes
/// through all its keys, and its errors (also reported to the error hook) look like absence. Read the store itself
/// instead. Over no known objects the view is empty.
///
/// ```
/// use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
///
/// let queue = DeltaFifo::<String, u32>::new();
/// queue.add("a".to_string(), 1)?;
/// queue.pop()?.done();
/// assert_eq!(queue.known().get_with("a", |object| object + 1), Some(2));
/// assert_eq!(queue.known().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FifoKnown<'q, K, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
}

impl<'q, K, V, S> FifoKnown<'q, K, V, S> {
    pub(in crate::fifo) fn new(queue: &'q DeltaFifo<K, V, S>) -> Self {
        FifoKnown { queue }
    }
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    fn stored(&self, key: K) -> Option<KnownObject<K, V>> {
        match self.ask_store(&key) {
            Before::Known(object) => Some(KnownObject::new(Key::alone(key), object)),
            Before::Absent | Before::CannotTell => None,
        }
    }

    fn find_known<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let shard = &self.shards[self.shard_of(hash)];
        let guard = epoch::pin();
        let entries = &shard.entries;
        let is_it = |slot: &Slot<K, V>| Entries::key_met(slot, &guard).borrow() == key;
        let index = shard.table.find(entries.slots(), hash, is_it, &guard)?;
        let object = entries.get(index).version.object(&shard.objects)?;
        Some(KnownObject::of_entry(entries.share(index, &guard), object))
    }

    /// The known objects of one shard from a position on, and where to go on.
    fn stretch(&self, shard: usize, from: Position) -> (Vec<KnownObject<K, V>>, Option<Position>) {
        let shard = &self.shards[shard];
        let guard = epoch::pin();
        shard.stretch(from, &guard, |index, slot| {
            let object = slot.head().version.object(&shard.objects)?;
            Some(KnownObject::of_entry(shard.entries.share(index, &guard), object))
        })
    }

    pub(in crate::fifo) fn clone_known(&self) -> FifoSnapshot<K, V, S> {
        let mut table: HashMap<u64, Vec<KnownObject<K, V>>> = HashMap::new();
        let mut len = 0;
        for known in self.known_view().iter() {
            len += 1;
            table.entry(self.hash(known.key())).or_default().push(known);
        }
        FifoSnapshot { inner: Arc::new(Inner { table, len, hasher: Arc::clone(&self.hasher) }) }
    }

    pub(in crate::fifo) fn known_view(&self) -> FifoKnown<'_, K, V, S> {
        FifoKnown::new(self)
    }
}

impl<K, V, S> KnownView<K, V> for FifoKnown<'_, K, V, S>
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
            Known::Inside => self.queue.find_known(key),
            Known::None => None,
            Known::Store(_) => {
                let mut keys = self.queue.list_store().unwrap_or_default().into_iter();
                self.queue.stored(keys.find(|stored| stored.key.borrow() == key)?.key)
            }
        }
    }

    fn len(&self) -> usize {
        match &self.queue.known {
            // Relaxed: as far as it got.
            Known::Inside => {
                self.queue.shards.iter().map(|shard| shard.objects_known.load(Ordering::Relaxed)).sum()
            }
            Known::None => 0,
            Known::Store(_) => self.queue.list_store().map_or(0, |keys| keys.len()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        let queue = self.queue;
        let stored = queue.list_store().unwrap_or_default();
        let stored = stored.into_iter().filter_map(|stored| queue.stored(stored.key));
        Stretches { queue, shard: 0, from: Some(Position::default()), known: Vec::new() }.chain(stored)
    }
}

/// Goes over the shards, a few records at a time.
struct Stretches<'q, K, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    shard: usize,
    from: Option<Position>,
    known: Vec<KnownObject<K, V>>,
}

impl<K, V, S> Iterator for Stretches<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    type Item = KnownObject<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.known.is_empty() && self.shard < self.queue.shards.len() {
            match self.from.take() {
                Some(from) => (self.known, self.from) = self.queue.stretch(self.shard, from),
                None => (self.shard, self.from) = (self.shard + 1, Some(Position::default())),
            }
        }
        self.known.pop()
    }
}

impl<K, V, S> fmt::Debug for FifoKnown<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoKnown").finish_non_exhaustive()
    }
}

/// The known objects of a [`DeltaFifo`] as of one moment.
///
/// Taking it collects the handles of all objects while others go on: **O(n)**, lock-free, and each object is that of some
/// moment meanwhile, so it is not a consistent cut. Cloning, looking up and counting cost O(1), iterating O(n);
/// nothing needs the queue any more, which may be gone.
///
/// ```
/// use delta_fifo::{DeltaFifo, DeltaQueue, KnownView};
///
/// let queue = DeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// let snapshot = queue.snapshot();
/// drop(queue);
/// assert_eq!(snapshot.get(&"a"), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FifoSnapshot<K, V, S> {
    inner: Arc<Inner<K, V, S>>,
}

struct Inner<K, V, S> {
    table: HashMap<u64, Vec<KnownObject<K, V>>>,
    len: usize,
    hasher: Arc<S>,
}

impl<K, V, S> Clone for FifoSnapshot<K, V, S> {
    fn clone(&self) -> Self {
        FifoSnapshot { inner: Arc::clone(&self.inner) }
    }
}

impl<K, V, S> KnownView<K, V> for FifoSnapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    fn find<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = mix(self.inner.hasher.hash_one(key));
        self.inner.table.get(&hash)?.iter().find(|known| known.key().borrow() == key).cloned()
    }

    fn len(&self) -> usize {
        self.inner.len
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        self.inner.table.values().flatten().cloned()
    }
}

impl<K, V, S> fmt::Debug for FifoSnapshot<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FifoSnapshot").field("len", &self.inner.len).finish_non_exhaustive()
    }
}
