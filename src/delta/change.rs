//! What producers say.

use super::raw::RawKind;

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
    /// The key that changes. Wait-free, O(1).
    pub fn key(&self) -> &K {
        match self {
            Change::Add(key, _) | Change::Update(key, _) | Change::Apply(key, _) | Change::Delete(key, _) => {
                key
            }
            Change::DeleteKey(key) => key,
        }
    }

    /// The key that changes, without the object. O(1).
    pub fn into_key(self) -> K {
        match self {
            Change::Add(key, _) | Change::Update(key, _) | Change::Apply(key, _) | Change::Delete(key, _) => {
                key
            }
            Change::DeleteKey(key) => key,
        }
    }

    /// The object, if the change has one. Wait-free, O(1).
    pub fn value(&self) -> Option<&V> {
        match self {
            Change::Add(_, value)
            | Change::Update(_, value)
            | Change::Apply(_, value)
            | Change::Delete(_, value) => Some(value),
            Change::DeleteKey(_) => None,
        }
    }

    /// The object, taken out. Wait-free, O(1).
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
