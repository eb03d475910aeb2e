//! The complete set of objects, told as a stream; marks in the stream of changes; and waiting for either.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Closed, CommitError, ReplaceError, UpsertError, WaitError};
use crate::queue::DeltaQueue;
use crate::raw::{Awaited, Deadline, QueueRef};

/// What became of an object that a streaming replace was given.
///
/// ```
/// use delta_fifo::{DeltaQueue, Upsert, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
///
/// let list = queue.begin_replace()?;
/// queue.add("a", 2)?; // newer than the list
/// assert_eq!(list.upsert("a", 1)?, Upsert::Superseded);
/// assert_eq!(list.upsert("b", 1)?, Upsert::Placed);
/// list.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upsert {
    /// It was appended.
    Placed,
    /// A change that was called after the replace began is newer: the object was dropped.
    Superseded,
}

/// A replace in the streaming form: objects as they arrive, then [`commit`](Self::commit).
///
/// Dropping it without a commit leaves what was seen in line, deletes nothing, and decides nothing about the first
/// sync. A forgotten one (`mem::forget`) blocks later replaces of the same keys and nothing else.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("gone", 1)?;
/// queue.pop()?.done();
///
/// let list = queue.begin_replace()?;
/// list.upsert("a", 1)?; // page by page
/// list.upsert("b", 1)?;
/// let completion = list.commit()?;
/// assert_eq!(queue.pending_len(), 3); // a, b, and a tombstone for "gone"
///
/// queue.pop_batch(3)?.done();
/// assert!(completion.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a replace that is dropped without a commit deletes nothing"]
pub struct Replace<'q, Q: DeltaQueue> {
    queue: QueueRef<'q, Q>,
    /// Taken when the replace ends.
    ticket: Option<Q::Ticket>,
}

/// A [`Replace`] that owns a handle of its queue.
///
/// ```
/// use delta_fifo::{DeltaQueue, OwnedReplace, baseline::MutexDeltaFifo};
///
/// use std::sync::Arc;
///
/// let queue = Arc::new(MutexDeltaFifo::<&str, u32>::new());
/// let list: OwnedReplace<_> = queue.begin_replace_owned()?;
/// std::thread::spawn(move || {
///     list.upsert("a", 1).unwrap();
///     list.commit().unwrap();
/// })
/// .join()
/// .unwrap();
/// assert_eq!(queue.pending_len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type OwnedReplace<Q> = Replace<'static, Q>;

impl<'q, Q: DeltaQueue> Replace<'q, Q> {
    pub(crate) fn new(queue: QueueRef<'q, Q>, ticket: Q::Ticket) -> Self {
        Replace { queue, ticket: Some(ticket) }
    }

    /// Appends one object of the list, as [`replace`](crate::DeltaQueue::replace) does. A later object of the same
    /// key is a second delta. O(1) expected.
    ///
    /// # Errors
    ///
    /// The queue was closed meanwhile, the transform rejected the object, or its key is not in the scope. The key
    /// and the object come back.
    pub fn upsert(&self, key: Q::Key, value: Q::Value) -> Result<Upsert, UpsertError<Q::Key, Q::Value>> {
        self.upsert_as(key, value, false)
    }

    /// Ends the list: every key that exists, was not in it and was not changed since the replace began gets a
    /// tombstone. O(keys that exist).
    ///
    /// # Errors
    ///
    /// The queue was closed meanwhile, or the user's store cannot list its keys; the replace is then as if dropped.
    pub fn commit(mut self) -> Result<Completion<'q, Q>, CommitError> {
        let ticket = self.ticket.take().expect("the replace is open");
        let awaited = self.queue.commit_raw(ticket)?;
        Ok(Completion::new(self.queue.clone(), awaited))
    }
}

impl<'q, Q: DeltaQueue> Replace<'q, Q> {
    pub(crate) fn upsert_as(
        &self,
        key: Q::Key,
        value: Q::Value,
        transformed: bool,
    ) -> Result<Upsert, UpsertError<Q::Key, Q::Value>> {
        let ticket = self.ticket.as_ref().expect("the replace is open");
        self.queue.upsert_raw(ticket, key, value, transformed)
    }

    /// The whole list at once.
    pub(crate) fn finish_list(
        mut self,
        list: Vec<(Q::Key, Q::Value)>,
        transformed: bool,
    ) -> Result<Completion<'q, Q>, ReplaceError<Q::Key, Q::Value>> {
        let ticket = self.ticket.take().expect("the replace is open");
        let awaited = self.queue.replace_list_raw(ticket, list, transformed)?;
        Ok(Completion::new(self.queue.clone(), awaited))
    }
}

impl<Q: DeltaQueue> Drop for Replace<'_, Q> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.queue.abort_raw(ticket);
        }
    }
}

impl<Q: DeltaQueue> fmt::Debug for Replace<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replace").finish_non_exhaustive()
    }
}

/// Waits until something that was appended has been completed: each lease ended with `done` or `give_up`.
///
/// Of a replace: everything that it appended. Of a [`mark`](crate::DeltaQueue::mark): everything that was appended
/// before it.
///
/// ```
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.add("a", 1)?;
/// let mark = queue.mark(17)?;
/// assert!(!mark.is_complete());
/// queue.pop()?.done();
/// mark.wait()?; // returns at once
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Completion<'q, Q: DeltaQueue> {
    queue: QueueRef<'q, Q>,
    awaited: Awaited,
}

impl<'q, Q: DeltaQueue> Completion<'q, Q> {
    pub(crate) fn new(queue: QueueRef<'q, Q>, awaited: Awaited) -> Self {
        Completion { queue, awaited }
    }

    /// Whether it is complete now. O(1); progress is the queue's.
    pub fn is_complete(&self) -> bool {
        matches!(self.queue.check(self.awaited), Some(Ok(())))
    }

    /// Blocks until it is complete. A forgotten lease holds it back for ever. O(1) each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// It can no longer come, or the calling thread would wait for its own lease.
    pub fn wait(&self) -> Result<(), WaitError> {
        self.queue.wait_raw(self.awaited, Deadline::Never)
    }

    /// Blocks until it is complete, at most for `timeout`. O(1) each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// The time was up, it can no longer come, or the calling thread would wait for its own lease.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.queue.wait_raw(self.awaited, self.queue.clock().after(timeout))
    }

    /// Waits until it is complete. Cancel-safe, on any executor; does not notice a lease of the same task. O(1)
    /// each time a lease ends meanwhile.
    ///
    /// # Errors
    ///
    /// It can no longer come.
    pub fn wait_async(&self) -> impl Future<Output = Result<(), Closed>> + Send + '_ {
        self.queue.wait_raw_async(self.awaited)
    }
}

impl<Q: DeltaQueue> Drop for Completion<'_, Q> {
    fn drop(&mut self) {
        self.queue.forget(self.awaited);
    }
}

impl<Q: DeltaQueue> fmt::Debug for Completion<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("is_complete", &self.is_complete()).finish()
    }
}

/// A version of the source, as it came: opaque here, and in the order in which it was marked.
///
/// ```
/// use delta_fifo::Version;
///
/// assert_eq!(Version::from(17).to_string(), "17");
/// assert_ne!(Version::from(17), Version::from("17"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Repr);

/// A number needs no allocation, and most sources number their versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Repr {
    Number(u64),
    Text(Arc<str>),
}

impl From<u64> for Version {
    fn from(number: u64) -> Self {
        Version(Repr::Number(number))
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Version(Repr::Text(text.into()))
    }
}

impl From<String> for Version {
    fn from(text: String) -> Self {
        Version(Repr::Text(text.into()))
    }
}

impl From<Arc<str>> for Version {
    fn from(text: Arc<str>) -> Self {
        Version(Repr::Text(text))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => text.fmt(f),
        }
    }
}
