//! What happened to a key: deltas, the changes that make them, and the one rule that merges them.

use std::fmt;

use smallvec::SmallVec;

/// How much of what is pending for one key may be merged.
///
/// Merging changes how many deltas are handed out, never the last state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Only deletions that follow each other directly are merged, as in client-go: a real `Deleted` wins over a
    /// tombstone, the older of two real ones and the newer of two tombstones stays.
    #[default]
    Deletions,
    /// At most the newest deletion and, after it, one live delta are kept, so that memory is bounded by the
    /// number of keys however slow the consumers are. The live delta carries the newest object; it is `Added` if
    /// an `Added` was merged into it, else `Updated`, else `Replaced`, else `Sync`.
    Latest,
}

/// One change of one key, as a value: what [`DeltaQueue::change`](crate::DeltaQueue::change) and
/// [`change_all`](crate::DeltaQueue::change_all) take.
///
/// ```
/// use delta_fifo::{Change, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.change_all([Change::Add("a", 1), Change::Update("a", 2)])?;
/// assert_eq!(queue.pop()?.deltas().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<K, V> {
    /// Append `Added`.
    Add(K, V),
    /// Append `Updated`.
    Update(K, V),
    /// Append `Added` if the key does not exist, else `Updated`.
    Apply(K, V),
    /// Append `Deleted` with the final object, if the key is pending or known.
    Delete(K, V),
    /// Append a tombstone with the newest object that the queue has seen, if the key is pending or known.
    DeleteKey(K),
}

impl<K, V> Change<K, V> {
    /// The key that changes.
    pub fn key(&self) -> &K {
        match self {
            Change::Add(key, _) | Change::Update(key, _) | Change::Apply(key, _) | Change::Delete(key, _) => {
                key
            }
            Change::DeleteKey(key) => key,
        }
    }

    /// The object, if the change has one.
    pub fn value(&self) -> Option<&V> {
        match self {
            Change::Add(_, value)
            | Change::Update(_, value)
            | Change::Apply(_, value)
            | Change::Delete(_, value) => Some(value),
            Change::DeleteKey(_) => None,
        }
    }

    /// The object, taken out.
    pub fn into_value(self) -> Option<V> {
        self.into_parts().2
    }

    pub(crate) fn value_mut(&mut self) -> Option<&mut V> {
        match self {
            Change::Add(_, value)
            | Change::Update(_, value)
            | Change::Apply(_, value)
            | Change::Delete(_, value) => Some(value),
            Change::DeleteKey(_) => None,
        }
    }

    pub(crate) fn into_parts(self) -> (RawKind, K, Option<V>) {
        match self {
            Change::Add(key, value) => (RawKind::Added, key, Some(value)),
            Change::Update(key, value) => (RawKind::Updated, key, Some(value)),
            Change::Apply(key, value) => (RawKind::Applied, key, Some(value)),
            Change::Delete(key, value) => (RawKind::Deleted, key, Some(value)),
            Change::DeleteKey(key) => (RawKind::Tombstone, key, None),
        }
    }

    /// The inverse of [`into_parts`](Self::into_parts), for changes that are handed back.
    pub(crate) fn from_parts(kind: RawKind, key: K, value: Option<V>) -> Self {
        match (kind, value) {
            (RawKind::Added, Some(value)) => Change::Add(key, value),
            (RawKind::Applied, Some(value)) => Change::Apply(key, value),
            (RawKind::Deleted, Some(value)) => Change::Delete(key, value),
            (_, Some(value)) => Change::Update(key, value),
            (_, None) => Change::DeleteKey(key),
        }
    }
}

/// What a [`Delta`] says, without its object.
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
    /// Whether the object is gone after a delta of this kind.
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

    /// What the delta says, without its object.
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

    /// Whether the object is gone after this delta.
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

    /// The first thing that happened.
    pub fn oldest(&self) -> Delta<'a, K, V> {
        self.list[0].lend(self.key)
    }

    /// The last thing that happened: after it, this is the state of the object.
    pub fn newest(&self) -> Delta<'a, K, V> {
        self.list[self.list.len() - 1].lend(self.key)
    }

    /// The deltas, oldest first.
    pub fn iter(&self) -> DeltasIter<'a, K, V> {
        DeltasIter { key: self.key, list: self.list.iter() }
    }

    /// How many there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "deltas are never empty")]
    pub fn len(&self) -> usize {
        self.list.len()
    }
}

/// Iterator over [`Deltas`], oldest first.
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
        match self {
            Delta::DeletedFinalStateUnknown(tombstone) => {
                f.debug_tuple("DeletedFinalStateUnknown").field(tombstone).finish()
            }
            other => {
                let name = format!("{:?}", other.kind());
                f.debug_tuple(&name).field(&other.object()).finish()
            }
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Deltas<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The handle by which the queue, the known objects and the leases share one object.
pub(crate) type Object<V> = std::sync::Arc<V>;

/// The kind of a [`RawDelta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawKind {
    Added,
    Updated,
    /// `Added` or `Updated`: settled by [`resolve`](crate::resolve::resolve), never handed out.
    Applied,
    Replaced,
    Sync,
    Deleted,
    Tombstone,
}

impl RawKind {
    pub(crate) fn is_deletion(self) -> bool {
        matches!(self, RawKind::Deleted | RawKind::Tombstone)
    }

    /// Under `Compression::Latest` the live kind of the higher rank survives. An `Applied` turns out as `Added` or
    /// `Updated`, so it stands between the two: merged with `Updated` it still decides.
    fn rank(self) -> u8 {
        match self {
            RawKind::Added => 4,
            RawKind::Applied => 3,
            RawKind::Updated => 2,
            RawKind::Replaced => 1,
            RawKind::Sync | RawKind::Deleted | RawKind::Tombstone => 0,
        }
    }
}

/// A delta as the queues store it. A `Sync` or tombstone without an object refers to the one before it: the delta
/// that precedes it, else the known object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawDelta<O> {
    pub(crate) kind: RawKind,
    pub(crate) object: Option<O>,
}

impl<O> RawDelta<O> {
    pub(crate) fn new(kind: RawKind, object: Option<O>) -> Self {
        RawDelta { kind, object }
    }
}

impl<V> RawDelta<Object<V>> {
    fn lend<'a, K>(&'a self, key: &'a K) -> Delta<'a, K, V> {
        let object = self.object.as_deref();
        match (self.kind, object) {
            (RawKind::Added, Some(object)) => Delta::Added(object),
            (RawKind::Updated, Some(object)) => Delta::Updated(object),
            (RawKind::Replaced, Some(object)) => Delta::Replaced(object),
            (RawKind::Sync, Some(object)) => Delta::Sync(object),
            (RawKind::Deleted, Some(object)) => Delta::Deleted(object),
            (RawKind::Tombstone, object) => Delta::DeletedFinalStateUnknown(Tombstone { key, object }),
            (kind, _) => unreachable!("{kind:?} was not resolved before it was handed out"),
        }
    }
}

/// Deltas of one key, oldest first. Most keys have one or two at a time.
pub(crate) type DeltaList<O> = SmallVec<[RawDelta<O>; 2]>;

/// Appends `new` to `list`, merged as `compression` says. What is merged away goes to `merged`, whose owner drops it
/// where dropping a user's object is harmless.
pub(crate) fn append<O: Clone>(
    list: &mut DeltaList<O>,
    mut new: RawDelta<O>,
    compression: Compression,
    merged: &mut Vec<RawDelta<O>>,
) {
    let Some(last) = list.last_mut() else {
        list.push(new);
        return;
    };
    if new.kind == RawKind::Applied {
        new.kind = if last.kind.is_deletion() { RawKind::Added } else { RawKind::Updated };
    }
    if new.object.is_none() {
        // What `new` refers to may be merged away below.
        new.object = last.object.clone();
    }
    match (last.kind.is_deletion(), new.kind.is_deletion()) {
        (true, true) if last.kind == RawKind::Deleted => merged.push(new),
        (true, true) => merged.push(std::mem::replace(last, new)),
        (false, true) if compression == Compression::Latest => {
            merged.extend(list.drain(..));
            list.push(new);
        }
        (false, false) if compression == Compression::Latest => {
            if last.kind.rank() > new.kind.rank() {
                new.kind = last.kind;
            }
            merged.push(std::mem::replace(last, new));
        }
        _ => list.push(new),
    }
}

#[cfg(test)]
mod tests;
