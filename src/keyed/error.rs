//! What a queue of objects can refuse.

use std::error::Error;
use std::fmt;

use crate::error::{BoxError, ReplaceErrorKind};

/// Why an object was not taken.
///
/// ```
/// use delta_fifo::{Builder, Keyed, KeyedErrorKind, baseline::MutexDeltaFifo};
///
/// #[derive(Debug)]
/// struct Pod(&'static str, u32);
///
/// let queue: Keyed<MutexDeltaFifo<&'static str, Pod>> = Builder::new()
///     .key_fn(|pod: &Pod| if pod.0.is_empty() { Err("no name".into()) } else { Ok(pod.0) })
///     .build();
///
/// assert!(matches!(queue.add(Pod("", 1)).unwrap_err().kind, KeyedErrorKind::Key(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum KeyedErrorKind {
    /// The key function failed.
    Key(BoxError),
    /// The transform hook rejected the object.
    Transform(BoxError),
    /// The queue is closed.
    Closed,
    /// A streaming replace is limited to a scope in which the object's key is not.
    OutOfScope(String),
}

/// An object that was not taken; it comes back as the transform left it, and nothing has changed.
///
/// ```
/// use delta_fifo::{Builder, Keyed, baseline::MutexDeltaFifo};
///
/// #[derive(Debug)]
/// struct Pod(&'static str, u32);
///
/// let queue: Keyed<MutexDeltaFifo<&'static str, Pod>> = Builder::new()
///     .key_fn(|pod: &Pod| if pod.0.is_empty() { Err("no name".into()) } else { Ok(pod.0) })
///     .build();
///
/// let error = queue.add(Pod("", 1)).unwrap_err();
/// assert_eq!(error.to_string(), "the object has no key: no name");
/// assert_eq!(error.value.1, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedError<V> {
    /// Why.
    pub kind: KeyedErrorKind,
    /// The object.
    pub value: V,
}

/// Why a list of objects was not taken.
///
/// ```
/// use delta_fifo::{Builder, Keyed, KeyedReplaceErrorKind, baseline::MutexDeltaFifo};
///
/// #[derive(Debug)]
/// struct Pod(&'static str, u32);
///
/// let queue: Keyed<MutexDeltaFifo<&'static str, Pod>> = Builder::new()
///     .key_fn(|pod: &Pod| if pod.0.is_empty() { Err("no name".into()) } else { Ok(pod.0) })
///     .build();
///
/// let error = queue.replace([Pod("a", 1), Pod("", 2)]).unwrap_err();
/// assert!(matches!(error.kind, KeyedReplaceErrorKind::Key { index: 1, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum KeyedReplaceErrorKind {
    /// The key function failed for the item at `index`.
    Key {
        /// Position in the list, from 0.
        index: usize,
        /// What the key function said.
        source: BoxError,
    },
    /// Anything that a list with keys can be refused for.
    Replace(ReplaceErrorKind),
}

/// A list that was not taken; it comes back whole, and nothing has changed.
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
/// let error = queue.replace([Pod("a", 1), Pod("", 2)]).unwrap_err();
/// assert_eq!(error.to_string(), "replace: item 1 has no key: no name");
/// assert_eq!((error.list.len(), queue.pending_len()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyedReplaceError<V> {
    /// Why.
    pub kind: KeyedReplaceErrorKind,
    /// The caller's list, objects before a bad one as the transform left them.
    pub list: Vec<V>,
}

/// Why there is no key.
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
/// assert!(matches!(queue.key_of(&Pod("", 1)), Err(KeyOfError::Key(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum KeyOfError {
    /// The key function failed.
    Key(BoxError),
    /// There are no deltas whose newest could have a key.
    NoDeltas,
}

impl fmt::Display for KeyedErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyedErrorKind::Key(source) => write!(f, "the object has no key: {source}"),
            KeyedErrorKind::Transform(source) => fmt::Display::fmt(source, f),
            KeyedErrorKind::Closed => f.write_str("the queue is closed"),
            KeyedErrorKind::OutOfScope(scope) => write!(f, "the object's key is not in scope {scope:?}"),
        }
    }
}

impl<V> fmt::Display for KeyedError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<V> fmt::Debug for KeyedError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedError({self})")
    }
}

impl<V> Error for KeyedError<V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            KeyedErrorKind::Key(source) | KeyedErrorKind::Transform(source) => Some(&**source),
            KeyedErrorKind::Closed | KeyedErrorKind::OutOfScope(_) => None,
        }
    }
}

impl<V> fmt::Display for KeyedReplaceError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            KeyedReplaceErrorKind::Key { index, source } => {
                write!(f, "replace: item {index} has no key: {source}")
            }
            KeyedReplaceErrorKind::Replace(kind) => kind.describe(f, |_| None::<&str>),
        }
    }
}

impl<V> fmt::Debug for KeyedReplaceError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedReplaceError({self})")
    }
}

impl<V> Error for KeyedReplaceError<V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            KeyedReplaceErrorKind::Key { source, .. } => Some(&**source),
            KeyedReplaceErrorKind::Replace(kind) => kind.source(),
        }
    }
}

impl fmt::Display for KeyOfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyOfError::Key(source) => write!(f, "the object has no key: {source}"),
            KeyOfError::NoDeltas => f.write_str("there are no deltas"),
        }
    }
}

impl Error for KeyOfError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            KeyOfError::Key(source) => Some(&**source),
            KeyOfError::NoDeltas => None,
        }
    }
}
