//! What can be seen of the known objects, live.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::builder::Known;
use crate::delta::Object;
use crate::fifo::DeltaFifo;
use crate::fifo::core::Core;
use crate::fifo::shard::Shard;
use crate::known::{KnownObject, KnownView};
use crate::object::Key;
use crate::resolve::Before;
use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::epoch::{self, Guard};
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
        let guard = epoch::pin();
        let (shard, index, object) = self.look_up(key, &guard)?;
        Some(KnownObject::of_entry(shard.entries.share(index, &guard), object))
    }

    fn look_up<Q>(&self, key: &Q, guard: &Guard) -> Option<(&Shard<K, V>, Index, Object<V>)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let shard = &self.core.shards[self.shard_of(hash)];
        let entry = shard.find_entry(hash, key, guard)?;
        let object = entry.version.object(&shard.objects, &self.core.epochs)?;
        Some((shard, entry.index(), object))
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

    fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if !self.queue.keeps_known() {
            return self.find(key).map(|known| f(known.object()));
        }
        // Without a handle of the key; and `f`, which may take long, under no guard.
        let object = self.queue.look_up(key, &epoch::pin()).map(|(_, _, object)| object);
        object.map(|object| f(&object))
    }

    fn len(&self) -> usize {
        match &self.queue.known {
            // Relaxed: as far as it got.
            Known::Inside => {
                self.queue.core.shards.iter().map(|shard| shard.objects_known.load(Ordering::Relaxed)).sum()
            }
            Known::None => 0,
            Known::Store(_) => self.queue.list_store().map_or(0, |keys| keys.len()),
        }
    }

    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>> {
        let queue = self.queue;
        let stored = queue.list_store().unwrap_or_default();
        let stored = stored.into_iter().filter_map(|stored| queue.stored(stored.key));
        let from = Some(Position::default());
        let known = Stretches { core: &*queue.core, shard: 0, from, known: Vec::new() };
        known.chain(stored)
    }
}

/// Goes over the shards, a few entries at a time.
struct Stretches<'c, K, V> {
    core: &'c Core<K, V>,
    shard: usize,
    from: Option<Position>,
    known: Vec<KnownObject<K, V>>,
}

impl<K, V> Stretches<'_, K, V> {
    /// The known objects of one shard from a position on, and where to go on.
    fn stretch(&self, from: Position) -> (Vec<KnownObject<K, V>>, Option<Position>) {
        let shard = &self.core.shards[self.shard];
        let guard = epoch::pin();
        shard.stretch(from, &guard, |index, slot| {
            let object = slot.head().version.object(&shard.objects, &self.core.epochs)?;
            Some(KnownObject::of_entry(shard.entries.share(index, &guard), object))
        })
    }
}

impl<K, V> Iterator for Stretches<'_, K, V> {
    type Item = KnownObject<K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.known.is_empty() && self.shard < self.core.shards.len() {
            match self.from.take() {
                Some(from) => (self.known, self.from) = self.stretch(from),
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
