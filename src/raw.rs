//! What a queue does for the types that wrap it ([`Lease`](crate::Lease), [`Replace`](crate::Replace),
//! [`Completion`](crate::Completion)). Not nameable outside the crate, so that queues can grow without breaking anyone.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::delta::{Change, Deltas};
use crate::error::{
    BeginReplaceError, BoxError, ChangeAllError, Closed, CommitError, MarkError, PopTimeoutError,
    ReplaceError, UpsertError, WaitError,
};
use crate::lease::Outcome;
use crate::replace::{Upsert, Version};

/// How long a call may wait.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    Now,
    At(Instant),
    Never,
}

impl Deadline {
    /// The earlier of the two.
    pub fn or_at(self, at: Option<Instant>) -> Self {
        match (self, at) {
            (Deadline::Never, Some(at)) => Deadline::At(at),
            (Deadline::At(deadline), Some(at)) => Deadline::At(deadline.min(at)),
            (deadline, _) => deadline,
        }
    }
}

/// What can be waited for besides keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Everything that the first replace (of every scope) touched is completed.
    Synced,
    /// Everything that this replace appended is completed.
    Replace(u64),
    /// Everything that was appended before this mark is completed.
    Mark(u64),
    /// Nothing is pending and no lease is left.
    Drained,
}

/// Which replace begins.
#[derive(Clone, Copy, Debug)]
pub struct BeginReplace<'a> {
    /// The name of a declared scope; none for all keys.
    pub scope: Option<&'a str>,
    /// A close cuts it.
    pub streaming: bool,
    /// Waits for a running one to end.
    pub wait: bool,
}

impl<'a> BeginReplace<'a> {
    pub fn list(scope: Option<&'a str>) -> Self {
        BeginReplace { scope, streaming: false, wait: false }
    }

    pub fn stream(scope: Option<&'a str>) -> Self {
        BeginReplace { scope, streaming: true, wait: false }
    }

    pub fn waiting(self) -> Self {
        BeginReplace { wait: true, ..self }
    }
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    By(Outcome),
    Abandoned,
}

/// What a lease holds while it is open.
pub trait HeldLease<K, V> {
    fn key(&self) -> &K;
    fn deltas(&self) -> Deltas<'_, K, V>;
    fn previous(&self) -> Option<&V>;
    fn is_initial(&self) -> bool;
    fn attempts(&self) -> u32;
    fn waited(&self) -> Option<Duration>;
}

/// A borrowed queue, or a handle that keeps it alive.
pub(crate) enum QueueRef<'q, Q> {
    Borrowed(&'q Q),
    Owned(Arc<Q>),
}

impl<Q> Clone for QueueRef<'_, Q> {
    fn clone(&self) -> Self {
        match self {
            QueueRef::Borrowed(queue) => QueueRef::Borrowed(queue),
            QueueRef::Owned(queue) => QueueRef::Owned(Arc::clone(queue)),
        }
    }
}

impl<Q> std::ops::Deref for QueueRef<'_, Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        match self {
            QueueRef::Borrowed(queue) => queue,
            QueueRef::Owned(queue) => queue,
        }
    }
}

pub trait RawQueue<K, V>: Sized {
    type Held: HeldLease<K, V> + Send + Sync;
    type Ticket: Send + Sync;

    /// By which deadlines are meant.
    fn clock(&self) -> &Clock;

    /// What the queue does to every incoming object. The calls below whose names say so expect it done.
    fn transform_raw(&self, value: &mut V) -> Result<(), BoxError>;
    fn change_transformed(&self, change: Change<K, V>) -> Result<(), Change<K, V>>;
    fn change_all_transformed(&self, changes: Vec<Change<K, V>>) -> Result<(), ChangeAllError<K, V>>;

    fn pop_raw(&self, deadline: Deadline) -> Result<Self::Held, PopTimeoutError>;
    fn pop_raw_async(&self) -> impl Future<Output = Result<Self::Held, Closed>> + Send;
    fn pop_batch_raw(&self, max: usize, deadline: Deadline) -> Result<Vec<Self::Held>, PopTimeoutError>;
    fn pop_batch_raw_async(&self, max: usize)
    -> impl Future<Output = Result<Vec<Self::Held>, Closed>> + Send;

    fn end(&self, held: Self::Held, ending: Ending);
    fn end_all(&self, held: Vec<Self::Held>, outcome: Outcome);
    /// The lease no longer counts as one of the thread that popped it.
    fn disown(&self, held: &mut Self::Held);

    fn begin_replace_raw(&self, how: BeginReplace<'_>) -> Result<Self::Ticket, BeginReplaceError>;
    /// The whole list at once. Ends the replace, whatever it returns.
    fn replace_list_raw(
        &self,
        ticket: Self::Ticket,
        list: Vec<(K, V)>,
        transformed: bool,
    ) -> Result<Awaited, ReplaceError<K, V>>;
    fn upsert_raw(
        &self,
        ticket: &Self::Ticket,
        key: K,
        value: V,
        transformed: bool,
    ) -> Result<Upsert, UpsertError<K, V>>;
    /// Ends the replace, whatever it returns.
    fn commit_raw(&self, ticket: Self::Ticket) -> Result<Awaited, CommitError>;
    fn abort_raw(&self, ticket: Self::Ticket);

    fn mark_raw(&self, version: Version) -> Result<Awaited, MarkError>;
    /// Nobody will ask for this any more.
    fn forget(&self, awaited: Awaited);
    /// `None` while it can still come; `Some(Err(Closed))` when it no longer can.
    fn check(&self, awaited: Awaited) -> Option<Result<(), Closed>>;
    fn wait_raw(&self, awaited: Awaited, deadline: Deadline) -> Result<(), WaitError>;
    fn wait_raw_async(&self, awaited: Awaited) -> impl Future<Output = Result<(), Closed>> + Send;
}
