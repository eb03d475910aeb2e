//! What is different between two snapshots.

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, Hash};

use crate::known::{KnownObject, KnownView};
use crate::sync::Arc as Shared;

use super::snapshot::{Cut, FifoSnapshot, Inner};

/// A key of which two snapshots show different things.
///
/// What a key's object is compared by is its identity: one that was replaced by an equal one has changed. Over a user's store, which
/// hands out copies, every key in both has.
///
/// ```
/// use delta_fifo::{DeltaFifo, DeltaQueue, KnownChange};
///
/// let queue = DeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// queue.pop()?.done();
/// let before = queue.snapshot();
/// queue.add("b", 1)?;
/// queue.delete("a", 1)?;
/// queue.pop_batch(2)?.done();
/// let mut keys: Vec<_> = queue.snapshot().changes_since(&before)?.map(|change| *change.key()).collect();
/// keys.sort_unstable();
/// assert_eq!(keys, ["a", "b"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum KnownChange<K, V> {
    /// Known in the newer snapshot only.
    Added(KnownObject<K, V>),
    /// Known in both, with different objects.
    Changed {
        /// What the older snapshot shows.
        before: KnownObject<K, V>,
        /// What the newer one shows.
        after: KnownObject<K, V>,
    },
    /// Known in the older snapshot only.
    Removed(KnownObject<K, V>),
}

impl<K, V> KnownChange<K, V> {
    fn of(before: Option<KnownObject<K, V>>, after: Option<KnownObject<K, V>>) -> Option<Self> {
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(KnownChange::Added(after)),
            (Some(before), None) => Some(KnownChange::Removed(before)),
            (Some(before), Some(after)) => {
                let changed = !before.is_same_object(&after);
                changed.then_some(KnownChange::Changed { before, after })
            }
        }
    }

    /// The key. O(1).
    pub fn key(&self) -> &K {
        match self {
            KnownChange::Added(known) | KnownChange::Removed(known) => known.key(),
            KnownChange::Changed { after, .. } => after.key(),
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for KnownChange<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnownChange::Added(known) => f.debug_tuple("Added").field(known).finish(),
            KnownChange::Removed(known) => f.debug_tuple("Removed").field(known).finish(),
            KnownChange::Changed { before, after } => {
                f.debug_struct("Changed").field("before", before).field("after", after).finish()
            }
        }
    }
}

/// Two snapshots that are not of one queue cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherQueueError;

impl fmt::Display for OtherQueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the snapshots are of different queues")
    }
}

impl Error for OtherQueueError {}

impl<K, V, S> FifoSnapshot<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The keys of which this snapshot shows something else than `older`, each once: added, changed, or removed since. In
    /// no particular order. If `older` is the newer one, what was added is removed, and the other way round. The iterator is
    /// lock-free. O(most keys that there ever were at once).
    ///
    /// # Errors
    ///
    /// If `older` is of another queue.
    pub fn changes_since<'s>(
        &'s self,
        older: &'s Self,
    ) -> Result<impl Iterator<Item = KnownChange<K, V>> + 's, OtherQueueError> {
        let (cut, collected) = match (&*self.inner, &*older.inner) {
            (Inner::Cut(cut), Inner::Cut(older)) if Shared::ptr_eq(&cut.core, &older.core) => {
                (Some(cut.changes_since(older)), None)
            }
            (Inner::Collected { of, .. }, Inner::Collected { of: olders, .. })
                if Shared::ptr_eq(of, olders) =>
            {
                let gone = older.iter().filter(|known| !self.contains(known.key()));
                let here =
                    self.iter().filter_map(|known| KnownChange::of(older.find(known.key()), Some(known)));
                (None, Some(gone.map(KnownChange::Removed).chain(here)))
            }
            _ => return Err(OtherQueueError),
        };
        Ok(cut.into_iter().flatten().chain(collected.into_iter().flatten()))
    }
}

impl<K, V> Cut<K, V> {
    fn changes_since(&self, older: &Self) -> impl Iterator<Item = KnownChange<K, V>> {
        self.places().filter_map(|place| {
            let shown = |cut: &Self| cut.see(place).map(|seen| seen.share());
            KnownChange::of(shown(older), shown(self))
        })
    }
}
