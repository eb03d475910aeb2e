//! What happened to a key: deltas, the changes that make them, and the one rule that merges them.

mod change;
mod raw;

use std::fmt;
use std::num::NonZeroU64;

pub use change::Change;
pub use raw::Compression;
pub(crate) use raw::{DeltaList, FactHead, Object, RawDelta, RawKind, append};

/// What a [`Delta`] says, without its object.
///
/// ```
/// use delta_fifo::DeltaKind;
///
/// assert!(DeltaKind::DeletedFinalStateUnknown.is_deletion());
/// assert!(!DeltaKind::Replaced.is_deletion());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// The object was added.
    Added,
    /// The object was changed.
    Updated,
    /// The object was deleted, and its final state is known.
    Deleted,
    /// The object was deleted, and its final state is not known: a tombstone.
    DeletedFinalStateUnknown,
    /// The object stood in a list that replaced everything.
    Replaced,
    /// Nothing changed: a resync hands the known object out once more.
    Sync,
}

impl DeltaKind {
    /// Whether the object is gone after a delta of this kind. Wait-free, O(1).
    pub fn is_deletion(self) -> bool {
        matches!(self, DeltaKind::Deleted | DeltaKind::DeletedFinalStateUnknown)
    }
}

/// A deletion that was missed: the key, and the newest object that was seen for it.
///
/// ```
/// use delta_fifo::{Delta, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.replace([])?; // the list no longer has it
/// let lease = queue.pop()?;
/// let Delta::DeletedFinalStateUnknown(tombstone) = lease.deltas().newest() else { panic!() };
/// assert_eq!((*tombstone.key, tombstone.object), ("a", Some(&1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tombstone<'a, K, V> {
    /// The key that is gone.
    pub key: &'a K,
    /// The newest object that the queue has seen for the key; none if a user's store could not tell.
    pub object: Option<&'a V>,
}

/// One change of one object, lent by a [`Lease`](crate::Lease).
///
/// ```
/// use delta_fifo::{Delta, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// let lease = queue.pop()?;
/// match lease.deltas().newest() {
///     Delta::Added(object) => assert_eq!(*object, 1),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Delta<'a, K, V> {
    /// The object was added.
    Added(&'a V),
    /// The object was changed.
    Updated(&'a V),
    /// The object was deleted; this is its final state.
    Deleted(&'a V),
    /// The object was deleted and nobody saw its final state.
    DeletedFinalStateUnknown(Tombstone<'a, K, V>),
    /// The object stood in a list that replaced everything.
    Replaced(&'a V),
    /// The known object once more, by a resync (or by a replace, if the queue was built so).
    Sync(&'a V),
}

impl<'a, K, V> Delta<'a, K, V> {
    /// The object that the delta carries: every kind has one but a tombstone of an object that was never seen.
    /// Wait-free, O(1).
    pub fn object(&self) -> Option<&'a V> {
        match *self {
            Delta::Added(object)
            | Delta::Updated(object)
            | Delta::Deleted(object)
            | Delta::Replaced(object)
            | Delta::Sync(object) => Some(object),
            Delta::DeletedFinalStateUnknown(Tombstone { object, .. }) => object,
        }
    }

    /// What the delta says, without its object. Wait-free, O(1).
    pub fn kind(&self) -> DeltaKind {
        match self {
            Delta::Added(_) => DeltaKind::Added,
            Delta::Updated(_) => DeltaKind::Updated,
            Delta::Deleted(_) => DeltaKind::Deleted,
            Delta::DeletedFinalStateUnknown(_) => DeltaKind::DeletedFinalStateUnknown,
            Delta::Replaced(_) => DeltaKind::Replaced,
            Delta::Sync(_) => DeltaKind::Sync,
        }
    }

    /// Whether the object is gone after this delta. Wait-free, O(1).
    pub fn is_deletion(&self) -> bool {
        self.kind().is_deletion()
    }
}

/// All that happened to one key since it was last handed out, oldest first. Never empty.
///
/// Borrowed from a [`Lease`](crate::Lease): reading copies no object. All methods are wait-free and O(1).
///
/// ```
/// use delta_fifo::{DeltaKind, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.delete("a", 2)?;
/// let lease = queue.pop()?;
/// let kinds: Vec<_> = lease.deltas().iter().map(|delta| delta.kind()).collect();
/// assert_eq!(kinds, [DeltaKind::Added, DeltaKind::Deleted]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Deltas<'a, K, V> {
    key: &'a K,
    list: &'a [RawDelta<Object<V>>],
}

impl<'a, K, V> Deltas<'a, K, V> {
    pub(crate) fn new(key: &'a K, list: &'a [RawDelta<Object<V>>]) -> Self {
        debug_assert!(!list.is_empty(), "a lease has deltas");
        Deltas { key, list }
    }

    /// The first thing that happened. Wait-free, O(1).
    pub fn oldest(&self) -> Delta<'a, K, V> {
        self.list[0].lend(self.key)
    }

    /// The last thing that happened: after it, this is the state of the object. Wait-free, O(1).
    pub fn newest(&self) -> Delta<'a, K, V> {
        self.list[self.list.len() - 1].lend(self.key)
    }

    /// The deltas, oldest first. Wait-free, O(1).
    pub fn iter(&self) -> DeltasIter<'a, K, V> {
        DeltasIter { key: self.key, list: self.list.iter() }
    }

    /// What the queue says of each of them besides, in the order of [`iter`](Self::iter). Wait-free, O(1).
    ///
    /// ```
    /// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
    ///
    /// let queue: MutexDeltaFifo<&str, u32> = Builder::new().numbered().build();
    /// queue.add("a", 1)?;
    /// queue.update("a", 2)?;
    /// let lease = queue.pop()?;
    /// for (delta, info) in lease.deltas().iter().zip(lease.deltas().infos()) {
    ///     println!("{delta:?} is number {:?}", info.number());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn infos(&self) -> impl DoubleEndedIterator<Item = DeltaInfo> + ExactSizeIterator + use<'a, K, V> {
        self.list.iter().map(RawDelta::info)
    }

    /// What the queue says of the newest one besides. Wait-free, O(1).
    pub fn newest_info(&self) -> DeltaInfo {
        self.list[self.list.len() - 1].info()
    }

    /// How many there are: at least one. Wait-free, O(1).
    #[expect(clippy::len_without_is_empty, reason = "deltas are never empty")]
    pub fn len(&self) -> usize {
        self.list.len()
    }
}

/// What a queue says of a delta besides, if it was built so.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new().unchanged(|old, new| old == new).numbered().build();
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// queue.replace([("a", 1)])?; // the list shows nothing new
/// let lease = queue.pop()?;
/// let info = lease.deltas().newest_info();
/// assert!(info.is_unchanged());
/// assert_eq!(info.number(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaInfo {
    number: Option<NonZeroU64>,
    unchanged: bool,
}

impl DeltaInfo {
    /// The delta's number; none if the queue does not give any. See [`Builder::numbered`](crate::Builder::numbered).
    /// Wait-free, O(1).
    pub fn number(&self) -> Option<u64> {
        self.number.map(NonZeroU64::get)
    }

    /// Whether it is an item of a list that shows the object before it once more: then there is nothing to do for this
    /// delta, once those before it are processed. False if the queue does not compare them. See
    /// [`Builder::unchanged`](crate::Builder::unchanged). Wait-free, O(1).
    pub fn is_unchanged(&self) -> bool {
        self.unchanged
    }
}

/// Iterator over [`Deltas`], oldest first.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.add("a", 1)?;
/// queue.update("a", 2)?;
/// let lease = queue.pop()?;
/// let newest_first: Vec<_> = lease.deltas().iter().rev().filter_map(|delta| delta.object()).collect();
/// assert_eq!(newest_first, [&2, &1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DeltasIter<'a, K, V> {
    key: &'a K,
    list: std::slice::Iter<'a, RawDelta<Object<V>>>,
}

impl<'a, K, V> Iterator for DeltasIter<'a, K, V> {
    type Item = Delta<'a, K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        self.list.next().map(|delta| delta.lend(self.key))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.list.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for DeltasIter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.list.next_back().map(|delta| delta.lend(self.key))
    }
}

impl<K, V> ExactSizeIterator for DeltasIter<'_, K, V> {}

impl<'a, K, V> IntoIterator for Deltas<'a, K, V> {
    type Item = Delta<'a, K, V>;
    type IntoIter = DeltasIter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

// Derives would ask for `K: Clone, V: Clone`, and these only copy references.
macro_rules! copy_of_references {
    ($($name:ident),*) => {$(
        impl<K, V> Clone for $name<'_, K, V> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<K, V> Copy for $name<'_, K, V> {}
    )*};
}
copy_of_references!(Tombstone, Delta, Deltas);

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Tombstone<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tombstone").field("key", self.key).field("object", &self.object).finish()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Delta<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, object) = match self {
            Delta::Added(object) => ("Added", object),
            Delta::Updated(object) => ("Updated", object),
            Delta::Deleted(object) => ("Deleted", object),
            Delta::Replaced(object) => ("Replaced", object),
            Delta::Sync(object) => ("Sync", object),
            Delta::DeletedFinalStateUnknown(tombstone) => {
                return f.debug_tuple("DeletedFinalStateUnknown").field(tombstone).finish();
            }
        };
        f.debug_tuple(name).field(object).finish()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Deltas<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
