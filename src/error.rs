//! Errors. Every one gives back what it could not take, names the key or the item, and leaves the queue as it was.

use std::error::Error;

use crate::delta::Change;

/// An error of user code: of a key function, a transform or a store.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// The queue is closed, and what was asked for can no longer come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why [`try_pop`](crate::DeltaQueue::try_pop) handed out nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryPopError {
    /// No key is in line now.
    Empty,
    /// The queue is closed and everything has been handed out.
    Closed,
}

/// Why a pop with a time limit handed out nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopTimeoutError {
    /// No key came in line in time.
    Timeout,
    /// The queue is closed and everything has been handed out.
    Closed,
}

/// Why a wait for the first sync, a mark or a replace ended without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time was up.
    Timeout,
    /// What was waited for can no longer come.
    Closed,
    /// The calling thread holds a borrowed lease that it popped itself and would wait for. Finish the lease first, or
    /// take leases that own their queue and wait with a time limit.
    WouldDeadlock,
}

/// Why a change was not taken.
#[derive(Debug)]
pub enum ChangeErrorKind {
    /// The queue is closed.
    Closed,
    /// The transform hook rejected the object, which comes back as the hook left it.
    Transform(BoxError),
}

/// A change that was not taken; it comes back whole, and nothing has changed.
///
/// ```
/// use delta_fifo::{Change, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.close();
/// let error = queue.add("a", 1).unwrap_err();
/// assert_eq!(error.to_string(), r#"change of key "a": the queue is closed"#);
/// assert_eq!(error.change, Change::Add("a", 1));
/// ```
pub struct ChangeError<K, V> {
    /// Why.
    pub kind: ChangeErrorKind,
    /// What was not taken.
    pub change: Change<K, V>,
}

/// Changes that were not taken by [`change_all`](crate::DeltaQueue::change_all).
///
/// A rejected object rejects the whole call: then `rest` holds all changes, and `index` says which was bad. If the
/// queue was closed in the middle, the changes before `index` were taken, and `rest` starts with the one at `index`.
pub struct ChangeAllError<K, V> {
    /// Why.
    pub kind: ChangeErrorKind,
    /// The position of the bad change, or of the first that was not taken, in the caller's list.
    pub index: usize,
    /// What was not taken, in order.
    pub rest: Vec<Change<K, V>>,
    /// Where the bad change stands in `rest`.
    pub(crate) at: usize,
}

/// Why a replace did not begin.
#[derive(Debug)]
pub enum BeginReplaceError {
    /// Another replace is running that this one overlaps.
    ReplaceInProgress,
    /// The queue is closed.
    Closed,
    /// No scope of this name was declared in the builder.
    UnknownScope(String),
}

/// Why a list was not taken.
#[derive(Debug)]
pub enum ReplaceErrorKind {
    /// The replace could not begin.
    Begin(BeginReplaceError),
    /// The transform hook rejected the item at `index`.
    Transform {
        /// Position in the list, from 0.
        index: usize,
        /// What the hook said.
        source: BoxError,
    },
    /// The item at `index` does not belong to the scope that is being replaced.
    OutOfScope {
        /// Position in the list, from 0.
        index: usize,
        /// The scope's name.
        scope: String,
    },
    /// The user's store could not list its keys.
    ListKeys(BoxError),
}

/// A list that was not taken; it comes back whole (objects before a rejected one as the transform left them), and
/// nothing has changed.
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, i32> = Builder::new()
///     .transform(|v: &mut i32| if *v < 0 { Err("negative".into()) } else { Ok(()) })
///     .build();
/// let error = queue.replace([("a", 1), ("b", -1)]).unwrap_err();
/// assert_eq!(error.to_string(), r#"replace: item 1 (key "b"): negative"#);
/// assert_eq!(error.list.len(), 2);
/// ```
pub struct ReplaceError<K, V> {
    /// Why.
    pub kind: ReplaceErrorKind,
    /// The caller's list.
    pub list: Vec<(K, V)>,
}

/// Why an object was not taken by a streaming replace.
#[derive(Debug)]
pub enum UpsertErrorKind {
    /// The queue was closed meanwhile, which cut the replace.
    Closed,
    /// The transform hook rejected the object, which comes back as the hook left it.
    Transform(BoxError),
    /// The key does not belong to the scope that is being replaced.
    OutOfScope(String),
}

/// An object that a streaming replace did not take; the replace goes on, except when it was cut by a close.
pub struct UpsertError<K, V> {
    /// Why.
    pub kind: UpsertErrorKind,
    /// The key.
    pub key: K,
    /// The object.
    pub value: V,
}

/// Why a streaming replace could not be committed. The replace is then as if dropped.
#[derive(Debug)]
pub enum CommitError {
    /// The queue was closed meanwhile, which cut the replace.
    Closed,
    /// The user's store could not list its keys.
    ListKeys(BoxError),
}

/// Why a resync did nothing.
#[derive(Debug)]
pub enum ResyncError {
    /// The queue is closed.
    Closed,
    /// The user's store could not list its keys.
    ListKeys(BoxError),
}

/// A version that was not marked, because the queue is closed.
#[derive(Debug)]
pub struct MarkError {
    /// The version that was to be marked.
    pub version: crate::Version,
}

/// What happened outside any call that could return it: see [`Builder::on_error`](crate::Builder::on_error).
#[non_exhaustive]
pub enum ErrorEvent<'a, K> {
    /// The user's store could not say whether it holds an object; each call says how it goes on.
    StoreGet {
        /// The key that was asked for.
        key: &'a K,
        /// What the store said.
        error: &'a (dyn Error + 'static),
    },
    /// The user's store could not list its keys.
    StoreKeys {
        /// What the store said.
        error: &'a (dyn Error + 'static),
    },
    /// A consumer gave up on a key: its deltas are gone.
    GaveUp {
        /// The key.
        key: &'a K,
        /// How often it had been handed out.
        attempts: u32,
    },
    /// A waker or the timer hook panicked; everybody else was woken nevertheless.
    WakerPanicked,
    /// The thread that wakes async consumers for delayed keys could not be started.
    TimerThread {
        /// What the operating system said.
        error: &'a (dyn Error + 'static),
    },
}

mod display;
