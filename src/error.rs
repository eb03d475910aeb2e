//! Errors. Every one gives back what it could not take, names the key or the item, and leaves the queue as it was.

use std::error::Error;

use crate::delta::Change;

/// An error of user code: of a key function, a transform or a store.
///
/// ```
/// use delta_fifo::BoxError;
///
/// let error: BoxError = "no name".into();
/// assert_eq!(error.to_string(), "no name");
/// ```
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// The queue is closed, and what was asked for can no longer come.
///
/// ```
/// use delta_fifo::{Closed, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.close();
/// assert_eq!(queue.pop().map(|_| ()), Err(Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why [`try_pop`](crate::DeltaQueue::try_pop) handed out nothing.
///
/// ```
/// use delta_fifo::{DeltaQueue, TryPopError, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// assert_eq!(queue.try_pop().map(|_| ()), Err(TryPopError::Empty));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryPopError {
    /// No key is in line now.
    Empty,
    /// The queue is closed and everything has been handed out.
    Closed,
}

/// Why a pop with a time limit handed out nothing.
///
/// ```
/// use delta_fifo::{DeltaQueue, PopTimeoutError, baseline::MutexDeltaFifo};
///
/// use std::time::Duration;
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// let popped = queue.pop_timeout(Duration::from_millis(1));
/// assert_eq!(popped.map(|_| ()), Err(PopTimeoutError::Timeout));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopTimeoutError {
    /// No key came in line in time.
    Timeout,
    /// The queue is closed and everything has been handed out.
    Closed,
}

/// Why a wait for the first sync, a mark or a replace ended without it.
///
/// ```
/// use delta_fifo::{DeltaQueue, WaitError, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.replace([("a", 1)])?;
/// let lease = queue.pop()?;
/// assert_eq!(queue.wait_synced(), Err(WaitError::WouldDeadlock));
/// lease.done();
/// queue.wait_synced()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time was up.
    Timeout,
    /// What was waited for can no longer come.
    Closed,
    /// The calling thread has popped a borrowed lease that is not ended and that it would wait for (even if it passed the
    /// lease on to another thread). End the lease first, or take leases that own their queue and wait with a time limit.
    WouldDeadlock,
}

/// Why a change was not taken.
///
/// ```
/// use delta_fifo::{ChangeErrorKind, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.close();
/// assert!(matches!(queue.add("a", 1).unwrap_err().kind, ChangeErrorKind::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum ChangeErrorKind {
    /// The queue is closed. An object whose transform ran beside the close comes back transformed.
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

/// Why a [`WorkQueue`](crate::WorkQueue) did not take a key, which comes back.
///
/// ```
/// use delta_fifo::{AddError, WorkQueue};
///
/// let queue = WorkQueue::new();
/// queue.shut_down();
/// let error = queue.add("a").unwrap_err();
/// assert_eq!(error.to_string(), r#"key "a": the queue is shut down"#);
/// assert_eq!(error.into_key(), "a");
/// ```
#[derive(Debug)]
pub enum AddError<K> {
    /// The queue is shut down.
    ShutDown(K),
    /// The thread that keeps the time could not be started.
    NoTimer(K, std::io::Error),
}

impl<K> AddError<K> {
    /// What was not taken.
    pub fn into_key(self) -> K {
        let (AddError::ShutDown(key) | AddError::NoTimer(key, _)) = self;
        key
    }
}

/// Changes that were not taken by [`change_all`](crate::DeltaQueue::change_all).
///
/// A rejected object rejects the whole call: then `rest` holds all changes, the objects before the bad one
/// transformed, and `index` says which was bad. If the queue was closed in the middle, the changes before `index`
/// were taken, and `rest` starts with the one at `index`.
///
/// ```
/// use delta_fifo::{Builder, Change, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, i32> = Builder::new()
///     .transform(|v: &mut i32| if *v < 0 { Err("negative".into()) } else { Ok(()) })
///     .build();
/// let error = queue.change_all([Change::Add("a", 1), Change::Add("b", -1)]).unwrap_err();
/// assert_eq!(error.to_string(), r#"change 1 (key "b"): negative"#);
/// assert_eq!((error.rest.len(), queue.pending_len()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use delta_fifo::{BeginReplaceError, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let running = queue.begin_replace()?;
/// assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress)));
/// drop(running);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use delta_fifo::{BeginReplaceError, DeltaQueue, ReplaceErrorKind, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let error = queue.replace_scope("east", [("a", 1)]).unwrap_err();
/// let ReplaceErrorKind::Begin(BeginReplaceError::UnknownScope(name)) = error.kind else { panic!() };
/// assert_eq!(name, "east");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use delta_fifo::{DeltaQueue, UpsertErrorKind, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let list = queue.begin_replace()?;
/// queue.close();
/// assert!(matches!(list.upsert("a", 1).unwrap_err().kind, UpsertErrorKind::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let list = queue.begin_replace()?;
/// queue.close();
/// let error = list.upsert("a", 1).unwrap_err();
/// assert_eq!(error.to_string(), r#"replace: key "a": the queue is closed"#);
/// assert_eq!((error.key, error.value), ("a", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UpsertError<K, V> {
    /// Why.
    pub kind: UpsertErrorKind,
    /// The key.
    pub key: K,
    /// The object.
    pub value: V,
}

/// Why a streaming replace could not be committed. The replace is then as if dropped.
///
/// ```
/// use delta_fifo::{CommitError, DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let list = queue.begin_replace()?;
/// queue.close();
/// assert!(matches!(list.commit(), Err(CommitError::Closed)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum CommitError {
    /// The queue was closed meanwhile, which cut the replace.
    Closed,
    /// The user's store could not list its keys.
    ListKeys(BoxError),
}

/// Why a resync did nothing.
///
/// ```
/// use delta_fifo::{DeltaQueue, ResyncError, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.close();
/// assert!(matches!(queue.resync(), Err(ResyncError::Closed)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum ResyncError {
    /// The queue is closed.
    Closed,
    /// The user's store could not list its keys.
    ListKeys(BoxError),
}

/// A key that was not resynced, because the queue is closed.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.close();
/// assert_eq!(queue.resync_key("a").unwrap_err().key, "a");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResyncKeyError<K> {
    /// The key that was to be resynced.
    pub key: K,
}

/// A version that was not marked, because the queue is closed.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// queue.close();
/// assert_eq!(queue.mark(17).unwrap_err().to_string(), "mark 17: the queue is closed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MarkError {
    /// The version that was to be marked.
    pub version: crate::Version,
}

/// What happened outside any call that could return it: see [`Builder::on_error`](crate::Builder::on_error).
///
/// ```
/// use delta_fifo::{Builder, DeltaQueue, ErrorEvent, baseline::MutexDeltaFifo};
///
/// let queue: MutexDeltaFifo<&str, u32> = Builder::new()
///     .on_error(|event| match event {
///         ErrorEvent::GaveUp { key, attempts } => eprintln!("{key}: given up after {attempts} attempts"),
///         other => eprintln!("{other}"),
///     })
///     .build();
/// queue.add("a", 1)?;
/// queue.pop()?.give_up();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
