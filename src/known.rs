//! Known objects: what is visible of them, and the user's own store in their place.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

use crate::delta::Object;
use crate::error::BoxError;
use crate::fifo::EntryKey;
use crate::object::Key;

/// A user's own store of known objects, over which a queue is built as client-go's is over its indexer.
///
/// The consumer brings the store up to date before it ends a lease. The queue calls the store outside its locks, and
/// goes on after an error as each call documents; every error reaches
/// [`Builder::on_error`](crate::Builder::on_error).
///
/// A pair of closures will do:
///
/// ```
/// use std::{collections::HashMap, sync::{Arc, Mutex}};
/// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let store = Arc::new(Mutex::new(HashMap::from([("a", 1)])));
/// let (keys, get) = (store.clone(), store.clone());
/// let queue: MutexDeltaFifo<&str, i32> = Builder::new()
///     .known_objects((
///         move || Ok(keys.lock().unwrap().keys().copied().collect()),
///         move |key: &&str| Ok(get.lock().unwrap().get(key).copied()),
///     ))
///     .build();
/// queue.replace([])?; // the store knows "a", the list does not
/// assert!(queue.pop()?.deltas().newest().is_deletion());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KnownObjects<K, V>: Send + Sync {
    /// All keys of which the store holds an object. Called by `replace` and `resync`, outside every lock.
    fn keys(&self) -> Result<Vec<K>, BoxError>;

    /// The object of `key`. Called once per pop, outside every lock, and where a call needs to know.
    fn get(&self, key: &K) -> Result<Option<V>, BoxError>;
}

impl<K, V, L, G> KnownObjects<K, V> for (L, G)
where
    L: Fn() -> Result<Vec<K>, BoxError> + Send + Sync,
    G: Fn(&K) -> Result<Option<V>, BoxError> + Send + Sync,
{
    fn keys(&self) -> Result<Vec<K>, BoxError> {
        (self.0)()
    }

    fn get(&self, key: &K) -> Result<Option<V>, BoxError> {
        (self.1)(key)
    }
}

/// One known object with its key: a cheap handle, good after the queue is gone.
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// let known = queue.known().find(&"a").expect("a is known");
/// drop(queue);
/// assert_eq!((known.key(), known.object()), (&"a", &1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KnownObject<K, V> {
    key: SharedKey<K>,
    object: Object<V>,
}

/// A key by itself, or in an entry of the sharded queue.
enum SharedKey<K> {
    Alone(Key<K>),
    OfEntry(EntryKey<K>),
}

impl<K> Deref for SharedKey<K> {
    type Target = K;

    fn deref(&self) -> &K {
        match self {
            SharedKey::Alone(key) => key,
            SharedKey::OfEntry(key) => key,
        }
    }
}

impl<K> Clone for SharedKey<K> {
    fn clone(&self) -> Self {
        match self {
            SharedKey::Alone(key) => SharedKey::Alone(key.clone()),
            SharedKey::OfEntry(key) => SharedKey::OfEntry(key.clone()),
        }
    }
}

impl<K, V> KnownObject<K, V> {
    pub(crate) fn new(key: Key<K>, object: Object<V>) -> Self {
        KnownObject { key: SharedKey::Alone(key), object }
    }

    pub(crate) fn of_entry(key: EntryKey<K>, object: Object<V>) -> Self {
        KnownObject { key: SharedKey::OfEntry(key), object }
    }

    /// Whether both are handles of one object.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        self.object.ptr_eq(&other.object)
    }

    /// The key. Wait-free, O(1).
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The object. Wait-free, O(1).
    pub fn object(&self) -> &V {
        &self.object
    }
}

impl<K, V> Clone for KnownObject<K, V> {
    fn clone(&self) -> Self {
        KnownObject { key: self.key.clone(), object: Object::clone(&self.object) }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for KnownObject<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownObject").field("key", self.key()).field("object", &self.object).finish()
    }
}

/// The key of a known object: a cheap handle, good after the queue is gone.
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<String, u32>::new();
/// queue.add("a".to_string(), 1)?;
/// queue.pop()?.done();
/// let key = queue.known().keys().next().expect("a is known");
/// drop(queue);
/// assert_eq!(key.as_str(), "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KnownKey<K>(SharedKey<K>);

impl<K> Deref for KnownKey<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K> Clone for KnownKey<K> {
    fn clone(&self) -> Self {
        KnownKey(self.0.clone())
    }
}

impl<K: fmt::Debug> fmt::Debug for KnownKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What can be read of the known objects: of a queue's, live ([`DeltaQueue::known`](crate::DeltaQueue::known)), or of
/// a [`snapshot`](crate::DeltaQueue::snapshot), where nothing changes any more. Progress and cost stand at each
/// queue's own view.
///
/// ```
/// use delta_fifo::{DeltaQueue, KnownView, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<String, u32>::new();
/// queue.add("a".to_string(), 1)?;
/// assert_eq!(queue.known().get("a"), None); // no pop has handed it out yet
/// queue.pop()?.done();
/// let before = queue.snapshot();
/// queue.update("a".to_string(), 2)?;
/// queue.pop()?.done();
/// assert_eq!(queue.known().get("a"), Some(2));
/// assert_eq!(before.get("a"), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KnownView<K, V> {
    /// The object of a key, with its key. O(1) expected; progress is the view's.
    fn find<Q>(&self, key: &Q) -> Option<KnownObject<K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized;

    /// A clone of the object of a key. O(1) expected; progress is the view's.
    fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Lends the object of a key to `f`, which runs outside every lock. O(1) expected; progress is the view's.
    fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key).map(|known| f(known.object()))
    }

    /// Whether an object of this key is known. O(1) expected; progress is the view's.
    fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_with(key, |_| ()).is_some()
    }

    /// How many objects are known. O(1); progress is the view's.
    fn len(&self) -> usize;

    /// Whether none is. O(1); progress is the view's.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The known objects in any order, each key at most once. Over a live view the iterator is weakly consistent:
    /// each object is that of some moment during the iteration. O(n); progress is the view's.
    fn iter(&self) -> impl Iterator<Item = KnownObject<K, V>>;

    /// Lends all known objects to `f`, with their keys: as [`iter`](Self::iter), but without a handle of each.
    fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        self.iter().for_each(|known| f(known.key(), known.object()));
    }

    /// The keys, as [`iter`](Self::iter) gives them. O(n); progress is the view's.
    fn keys(&self) -> impl Iterator<Item = KnownKey<K>> {
        self.iter().map(|known| KnownKey(known.key))
    }
}
