//! A queue that takes objects alone and finds their keys itself.

mod error;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use crate::builder::Builder;
use crate::delta::{Change, Delta, Deltas, Tombstone};
use crate::error::{BeginReplaceError, BoxError, CommitError, ReplaceErrorKind, UpsertErrorKind};
use crate::queue::DeltaQueue;
use crate::raw::{BeginReplace, QueueRef};
use crate::replace::{Completion, Replace, Upsert};

pub use error::{KeyOfError, KeyedError, KeyedErrorKind, KeyedReplaceError, KeyedReplaceErrorKind};

type KeyFn<K, V> = Box<dyn Fn(&V) -> Result<K, BoxError> + Send + Sync>;

/// A [`Builder`] with a key function: what [`Builder::key_fn`] returns.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, Keyed, KeyedBuilder, RandomState, baseline::MutexDeltaFifo};
///
/// let builder: KeyedBuilder<u32, u32, RandomState> = Builder::new().key_fn(|object| Ok(object % 10));
/// let queue: Keyed<MutexDeltaFifo<u32, u32>> = builder.build();
/// queue.add(42)?;
/// assert_eq!(*queue.pop()?.key(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedBuilder<K, V, S> {
    builder: Builder<K, V, S>,
    key_fn: KeyFn<K, V>,
}

impl<K: Hash + Eq, V, S: BuildHasher> KeyedBuilder<K, V, S> {
    pub(crate) fn new(builder: Builder<K, V, S>, key_fn: KeyFn<K, V>) -> Self {
        KeyedBuilder { builder, key_fn }
    }

    /// The queue, of the type that the caller names. O(1).
    pub fn build<Q>(self) -> Keyed<Q>
    where
        Q: DeltaQueue<Key = K, Value = V, Hasher = S>,
    {
        Keyed { queue: Arc::new(self.builder.build()), key_fn: self.key_fn }
    }
}

impl<K, V, S> fmt::Debug for KeyedBuilder<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyedBuilder").field(&self.builder).finish()
    }
}

/// A face over a queue that takes objects alone. The key is taken by the builder's key function, after the transform.
///
/// Everything else is the queue's own: a `Keyed` dereferences to it, as an `Arc`. Changes given to the queue itself, with
/// a key, pass the transform as well, but not the key function.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, Keyed, baseline::MutexDeltaFifo};
///
/// let queue: Keyed<MutexDeltaFifo<String, (String, u32)>> =
///     Builder::new().key_fn(|object: &(String, u32)| Ok(object.0.clone())).build();
/// queue.add(("a".to_string(), 1))?;
/// let lease = queue.pop()?;
/// assert_eq!(lease.key(), "a");
/// assert_eq!(queue.key_of(lease.deltas())?, "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Keyed<Q: DeltaQueue> {
    queue: Arc<Q>,
    key_fn: KeyFn<Q::Key, Q::Value>,
}

// As the queue: a key function that panics has changed nothing of it.
impl<Q: DeltaQueue + RefUnwindSafe> UnwindSafe for Keyed<Q> {}
impl<Q: DeltaQueue + RefUnwindSafe> RefUnwindSafe for Keyed<Q> {}

/// What [`Keyed::key_of`] finds the key of.
///
/// ```
/// use delta_fifo::{Builder, KeyOfError, Keyed, baseline::MutexDeltaFifo};
///
/// #[derive(Debug)]
/// struct Pod(&'static str, u32);
///
/// let queue: Keyed<MutexDeltaFifo<&'static str, Pod>> = Builder::new()
///     .key_fn(|pod: &Pod| if pod.0.is_empty() { Err("no name".into()) } else { Ok(pod.0) })
///     .build();
///
/// assert_eq!(queue.key_of(&Pod("a", 1))?, "a");
/// let no_deltas: &[delta_fifo::Delta<'_, &'static str, Pod>] = &[];
/// assert!(matches!(queue.key_of(delta_fifo::KeyOf::Deltas(no_deltas)), Err(KeyOfError::NoDeltas)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum KeyOf<'a, K, V> {
    /// An object: by the key function.
    Object(&'a V),
    /// A tombstone: it knows its key.
    Tombstone(Tombstone<'a, K, V>),
    /// Deltas, oldest first: the key of their newest.
    Deltas(&'a [Delta<'a, K, V>]),
    /// One delta.
    Delta(Delta<'a, K, V>),
}

impl<'a, K, V> From<&'a V> for KeyOf<'a, K, V> {
    fn from(object: &'a V) -> Self {
        KeyOf::Object(object)
    }
}

impl<'a, K, V> From<Tombstone<'a, K, V>> for KeyOf<'a, K, V> {
    fn from(tombstone: Tombstone<'a, K, V>) -> Self {
        KeyOf::Tombstone(tombstone)
    }
}

impl<'a, K, V> From<Delta<'a, K, V>> for KeyOf<'a, K, V> {
    fn from(delta: Delta<'a, K, V>) -> Self {
        KeyOf::Delta(delta)
    }
}

impl<'a, K, V> From<Deltas<'a, K, V>> for KeyOf<'a, K, V> {
    fn from(deltas: Deltas<'a, K, V>) -> Self {
        KeyOf::Delta(deltas.newest())
    }
}

impl<Q: DeltaQueue> Keyed<Q> {
    /// Appends `Added`. O(1) expected, as all single changes.
    ///
    /// # Errors
    ///
    /// The transform or the key function rejected the object, or the queue is closed. The object comes back, and
    /// nothing has changed.
    pub fn add(&self, value: Q::Value) -> Result<(), KeyedError<Q::Value>> {
        self.change(value, Change::Add)
    }

    /// Appends `Updated`. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn update(&self, value: Q::Value) -> Result<(), KeyedError<Q::Value>> {
        self.change(value, Change::Update)
    }

    /// Appends `Added` if the key does not exist, else `Updated`. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn apply(&self, value: Q::Value) -> Result<(), KeyedError<Q::Value>> {
        self.change(value, Change::Apply)
    }

    /// Appends `Deleted` if the key is pending or known, else nothing. O(1) expected.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn delete(&self, value: Q::Value) -> Result<(), KeyedError<Q::Value>> {
        self.change(value, Change::Delete)
    }

    /// Tells the complete set of objects, as [`DeltaQueue::replace`]. O(items + keys that exist).
    ///
    /// # Errors
    ///
    /// Also if the key function fails for an item, whose index is named.
    pub fn replace(
        &self,
        list: impl IntoIterator<Item = Q::Value>,
    ) -> Result<Completion<'_, Q>, KeyedReplaceError<Q::Value>> {
        self.replace_list(BeginReplace::list(None), list)
    }

    /// The same, waiting for a running replace to end first. Waits for the running one, then O(items + keys that
    /// exist).
    ///
    /// # Errors
    ///
    /// As [`replace`](Self::replace), but for the running one.
    pub fn replace_wait(
        &self,
        list: impl IntoIterator<Item = Q::Value>,
    ) -> Result<Completion<'_, Q>, KeyedReplaceError<Q::Value>> {
        self.replace_list(BeginReplace::list(None).waiting(), list)
    }

    /// The same as [`replace`](Self::replace), limited to the keys of one declared scope. O(items + keys that exist).
    ///
    /// # Errors
    ///
    /// Also if no such scope was declared, or an item's key is outside it.
    pub fn replace_scope(
        &self,
        scope: &str,
        list: impl IntoIterator<Item = Q::Value>,
    ) -> Result<Completion<'_, Q>, KeyedReplaceError<Q::Value>> {
        self.replace_list(BeginReplace::list(Some(scope)), list)
    }

    /// Begins a replace in the streaming form, as [`DeltaQueue::begin_replace`]. O(1).
    ///
    /// # Errors
    ///
    /// Another replace is running, or the queue is closed.
    pub fn begin_replace(&self) -> Result<KeyedReplace<'_, Q>, BeginReplaceError> {
        Ok(KeyedReplace { keyed: self, replace: self.queue.begin_replace()? })
    }

    /// Begins a replace of one declared scope, as [`DeltaQueue::begin_replace_scope`]. O(1).
    ///
    /// # Errors
    ///
    /// Also if no such scope was declared.
    pub fn begin_replace_scope(&self, scope: &str) -> Result<KeyedReplace<'_, Q>, BeginReplaceError> {
        Ok(KeyedReplace { keyed: self, replace: self.queue.begin_replace_scope(scope)? })
    }

    /// The key of an object, a tombstone or deltas (of their newest), as client-go's `KeyOf`. O(1).
    ///
    /// # Errors
    ///
    /// The key function failed, or there are no deltas.
    pub fn key_of<'a>(&self, item: impl Into<KeyOf<'a, Q::Key, Q::Value>>) -> Result<Q::Key, KeyOfError>
    where
        Q::Key: Clone + 'a,
        Q::Value: 'a,
    {
        match item.into() {
            KeyOf::Object(object) => (self.key_fn)(object).map_err(KeyOfError::Key),
            KeyOf::Tombstone(tombstone) => Ok(tombstone.key.clone()),
            KeyOf::Deltas(deltas) => match deltas.last() {
                Some(&newest) => self.key_of(newest),
                None => Err(KeyOfError::NoDeltas),
            },
            KeyOf::Delta(Delta::DeletedFinalStateUnknown(tombstone)) => Ok(tombstone.key.clone()),
            KeyOf::Delta(
                Delta::Added(object)
                | Delta::Updated(object)
                | Delta::Deleted(object)
                | Delta::Replaced(object)
                | Delta::Sync(object),
            ) => (self.key_fn)(object).map_err(KeyOfError::Key),
        }
    }

    /// The queue itself. Wait-free, O(1).
    pub fn into_inner(self) -> Arc<Q> {
        self.queue
    }

    fn prepare(&self, value: &mut Q::Value) -> Result<Q::Key, KeyedErrorKind> {
        if self.queue.is_closed() {
            // Before the transform: the value comes back as it was.
            return Err(KeyedErrorKind::Closed);
        }
        self.queue.transform_raw(value).map_err(KeyedErrorKind::Transform)?;
        (self.key_fn)(value).map_err(KeyedErrorKind::Key)
    }

    fn change(
        &self,
        mut value: Q::Value,
        change: impl FnOnce(Q::Key, Q::Value) -> Change<Q::Key, Q::Value>,
    ) -> Result<(), KeyedError<Q::Value>> {
        let key = match self.prepare(&mut value) {
            Ok(key) => key,
            Err(kind) => return Err(KeyedError { kind, value }),
        };
        self.queue.change_transformed(change(key, value)).map_err(|change| KeyedError {
            kind: KeyedErrorKind::Closed,
            value: change.into_value().expect("the change had an object"),
        })
    }

    fn replace_list(
        &self,
        how: BeginReplace<'_>,
        list: impl IntoIterator<Item = Q::Value>,
    ) -> Result<Completion<'_, Q>, KeyedReplaceError<Q::Value>> {
        // The replace begins before the first object is looked at: changes called from here on are newer.
        let replace = match self.queue.begin_replace_raw(how) {
            Ok(ticket) => Replace::new(QueueRef::Borrowed(&*self.queue), ticket),
            Err(error) => return Err(refused(ReplaceErrorKind::Begin(error), list)),
        };
        let mut values: Vec<Q::Value> = list.into_iter().collect();
        let mut keys = Vec::with_capacity(values.len());
        for (index, value) in values.iter_mut().enumerate() {
            // A close beside it does not matter: the replace has begun.
            let transformed = self.queue.transform_raw(value).map_err(|source| {
                KeyedReplaceErrorKind::Replace(ReplaceErrorKind::Transform { index, source })
            });
            let key = transformed.and_then(|()| {
                (self.key_fn)(value).map_err(|source| KeyedReplaceErrorKind::Key { index, source })
            });
            match key {
                Ok(key) => keys.push(key),
                Err(kind) => return Err(KeyedReplaceError { kind, list: values }),
            }
        }
        let list = keys.into_iter().zip(values).collect();
        replace.finish_list(list, true).map_err(|error| KeyedReplaceError {
            kind: KeyedReplaceErrorKind::Replace(error.kind),
            list: error.list.into_iter().map(|(_, value)| value).collect(),
        })
    }
}

fn refused<V>(kind: ReplaceErrorKind, list: impl IntoIterator<Item = V>) -> KeyedReplaceError<V> {
    KeyedReplaceError { kind: KeyedReplaceErrorKind::Replace(kind), list: list.into_iter().collect() }
}

impl<Q: DeltaQueue> Deref for Keyed<Q> {
    type Target = Arc<Q>;

    fn deref(&self) -> &Arc<Q> {
        &self.queue
    }
}

impl<Q: DeltaQueue> fmt::Debug for Keyed<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}

/// A [`Replace`] that takes objects alone.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, Keyed, baseline::MutexDeltaFifo};
///
/// #[derive(Debug)]
/// struct Pod(&'static str, u32);
///
/// let queue: Keyed<MutexDeltaFifo<&'static str, Pod>> = Builder::new()
///     .key_fn(|pod: &Pod| if pod.0.is_empty() { Err("no name".into()) } else { Ok(pod.0) })
///     .build();
///
/// let list = queue.begin_replace()?;
/// list.upsert(Pod("a", 1))?;
/// list.commit()?;
/// assert_eq!(queue.pending_len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a replace that is dropped without a commit deletes nothing"]
pub struct KeyedReplace<'q, Q: DeltaQueue> {
    keyed: &'q Keyed<Q>,
    replace: Replace<'q, Q>,
}

impl<'q, Q: DeltaQueue> KeyedReplace<'q, Q> {
    /// Appends one object of the list, as [`Replace::upsert`]. O(1) expected.
    ///
    /// # Errors
    ///
    /// As there, or the key function failed. The object comes back.
    pub fn upsert(&self, mut value: Q::Value) -> Result<Upsert, KeyedError<Q::Value>> {
        let key = match self.keyed.prepare(&mut value) {
            Ok(key) => key,
            Err(kind) => return Err(KeyedError { kind, value }),
        };
        self.replace.upsert_as(key, value, true).map_err(|error| KeyedError {
            kind: match error.kind {
                UpsertErrorKind::Closed => KeyedErrorKind::Closed,
                UpsertErrorKind::Transform(source) => KeyedErrorKind::Transform(source),
                UpsertErrorKind::OutOfScope(scope) => KeyedErrorKind::OutOfScope(scope),
            },
            value: error.value,
        })
    }

    /// Ends the list, as [`Replace::commit`]. O(keys that exist).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn commit(self) -> Result<Completion<'q, Q>, CommitError> {
        self.replace.commit()
    }
}

impl<Q: DeltaQueue> fmt::Debug for KeyedReplace<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedReplace").finish_non_exhaustive()
    }
}
