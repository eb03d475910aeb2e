//! What the errors say. Keys are shown by `Debug`; objects never are.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};

use super::*;

const CLOSED: &str = "the queue is closed";

impl Display for Closed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(CLOSED)
    }
}

impl Display for TryPopError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryPopError::Empty => "no key is in line",
            TryPopError::Closed => CLOSED,
        })
    }
}

impl Display for PopTimeoutError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PopTimeoutError::Timeout => "no key came in line in time",
            PopTimeoutError::Closed => CLOSED,
        })
    }
}

impl Display for WaitError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitError::Timeout => "the time was up",
            WaitError::Closed => CLOSED,
            WaitError::WouldDeadlock => "the caller would wait for its own lease",
        })
    }
}

impl<K: Debug> Display for AddError<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AddError::ShutDown(key) => write!(f, "key {key:?}: the queue is shut down"),
            AddError::NoTimer(key, source) => write!(f, "key {key:?}: the time cannot be kept: {source}"),
        }
    }
}

impl<K: Debug> Error for AddError<K> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AddError::ShutDown(_) => None,
            AddError::NoTimer(_, source) => Some(source),
        }
    }
}

impl Display for ChangeErrorKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ChangeErrorKind::Closed => f.write_str(CLOSED),
            ChangeErrorKind::Transform(source) => Display::fmt(source, f),
        }
    }
}

impl ChangeErrorKind {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ChangeErrorKind::Closed => None,
            ChangeErrorKind::Transform(source) => Some(&**source),
        }
    }
}

impl<K: Debug, V> Display for ChangeError<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "change of key {:?}: {}", self.change.key(), self.kind)
    }
}

impl<K: Debug, V> Display for ChangeAllError<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.rest.get(self.at) {
            Some(change) => write!(f, "change {} (key {:?}): {}", self.index, change.key(), self.kind),
            None => write!(f, "change {}: {}", self.index, self.kind),
        }
    }
}

impl Display for BeginReplaceError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            BeginReplaceError::ReplaceInProgress => f.write_str("another replace is in progress"),
            BeginReplaceError::Closed => f.write_str(CLOSED),
            BeginReplaceError::UnknownScope(name) => write!(f, "no scope {name:?} was declared"),
        }
    }
}

impl ReplaceErrorKind {
    /// Says what is wrong; `key` shows the key of an item, where there is one.
    pub(crate) fn describe<K: Debug>(
        &self,
        f: &mut Formatter<'_>,
        key: impl Fn(usize) -> Option<K>,
    ) -> fmt::Result {
        let item = |index: usize| match key(index) {
            Some(key) => format!("item {index} (key {key:?})"),
            None => format!("item {index}"),
        };
        match self {
            ReplaceErrorKind::Begin(error) => write!(f, "replace: {error}"),
            ReplaceErrorKind::Transform { index, source } => write!(f, "replace: {}: {source}", item(*index)),
            ReplaceErrorKind::OutOfScope { index, scope } => {
                write!(f, "replace: {} is not in scope {scope:?}", item(*index))
            }
            ReplaceErrorKind::ListKeys(source) => write!(f, "replace: known keys cannot be listed: {source}"),
        }
    }

    pub(crate) fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ReplaceErrorKind::Begin(error) => Some(error),
            ReplaceErrorKind::Transform { source, .. } | ReplaceErrorKind::ListKeys(source) => {
                Some(&**source)
            }
            ReplaceErrorKind::OutOfScope { .. } => None,
        }
    }
}

impl<K: Debug, V> Display for ReplaceError<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.kind.describe(f, |index| self.list.get(index).map(|(key, _)| key))
    }
}

impl<K: Debug, V> Display for UpsertError<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            UpsertErrorKind::Closed => write!(f, "replace: key {:?}: {CLOSED}", self.key),
            UpsertErrorKind::Transform(source) => write!(f, "replace: key {:?}: {source}", self.key),
            UpsertErrorKind::OutOfScope(scope) => {
                write!(f, "replace: key {:?} is not in scope {scope:?}", self.key)
            }
        }
    }
}

impl Display for CommitError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            CommitError::Closed => write!(f, "replace: {CLOSED}"),
            CommitError::ListKeys(source) => write!(f, "replace: known keys cannot be listed: {source}"),
        }
    }
}

impl Display for ResyncError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ResyncError::Closed => write!(f, "resync: {CLOSED}"),
            ResyncError::ListKeys(source) => write!(f, "resync: known keys cannot be listed: {source}"),
        }
    }
}

impl<K: Debug> Display for ResyncKeyError<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "resync of key {:?}: {CLOSED}", self.key)
    }
}

impl<K: Debug> Debug for ResyncKeyError<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ResyncKeyError({self})")
    }
}

impl Display for MarkError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "mark {}: {CLOSED}", self.version)
    }
}

impl<K: Debug> Debug for ErrorEvent<'_, K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl<K: Debug> Display for ErrorEvent<'_, K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ErrorEvent::StoreGet { key, error } => write!(f, "known object of key {key:?}: {error}"),
            ErrorEvent::StoreKeys { error } => write!(f, "known keys cannot be listed: {error}"),
            ErrorEvent::GaveUp { key, attempts } => {
                write!(f, "gave up on key {key:?} after {attempts} attempts")
            }
            ErrorEvent::WakerPanicked => f.write_str("a waker panicked"),
            ErrorEvent::TimerThread { error } => write!(f, "the timer thread did not start: {error}"),
        }
    }
}

// The objects in these need no `Debug`: they are left out.
macro_rules! debug_without_objects {
    ($($name:ident),*) => {$(
        impl<K: Debug, V> Debug for $name<K, V> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}
debug_without_objects!(ChangeError, ChangeAllError, ReplaceError, UpsertError);

impl Error for Closed {}
impl Error for TryPopError {}
impl Error for PopTimeoutError {}
impl Error for WaitError {}
impl Error for BeginReplaceError {}
impl Error for MarkError {}
impl<K: Debug> Error for ResyncKeyError<K> {}

impl<K: Debug, V> Error for ChangeError<K, V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }
}

impl<K: Debug, V> Error for ChangeAllError<K, V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }
}

impl<K: Debug, V> Error for ReplaceError<K, V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }
}

impl<K: Debug, V> Error for UpsertError<K, V> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            UpsertErrorKind::Transform(source) => Some(&**source),
            UpsertErrorKind::Closed | UpsertErrorKind::OutOfScope(_) => None,
        }
    }
}

impl Error for CommitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CommitError::Closed => None,
            CommitError::ListKeys(source) => Some(&**source),
        }
    }
}

impl Error for ResyncError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ResyncError::Closed => None,
            ResyncError::ListKeys(source) => Some(&**source),
        }
    }
}
