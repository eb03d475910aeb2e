//! A queue that follows a `kube::runtime::watcher` stream.
//!
//! # Lists
//!
//! ```text
//!          Init                 InitApply                    InitDone
//!  ──▶ begin a replace ──▶ upsert into it, any number ──▶ commit: what was not in it is deleted
//!          ▲ Init again: the one before is discarded, and deletes nothing
//! ```
//!
//! - **F1.** Only a list whose beginning and end were both seen deletes anything.
//! - **F2.** Whatever else becomes of a list, its objects are in the queue: as of an unfinished replace, or, without `Init`, as changes.
//! - **F3.** Events go into the queue in their order.

use std::fmt::Debug;
use std::sync::Arc;

use delta_fifo::{
    BeginReplaceError, Change, ChangeErrorKind, CommitError, DeltaQueue, OwnedReplace, UpsertErrorKind,
};
use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::watcher;

use crate::Queue;
use crate::key::{Interner, ObjectKey, key_of};

/// So many events are appended in one call, if they have come.
const CHUNK: usize = 64;

/// Feeds a queue from a [`kube::runtime::watcher()`] stream: by value, no object is cloned.
///
/// For who has such a stream. It says less than [`ApiListWatch`](crate::ApiListWatch) does: not which changes are additions (the queue
/// knows), nor the versions of lists and bookmarks; a mark is set for the version of each change.
///
/// ```no_run
/// use delta_fifo_kube::{WatcherFeed, queue};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::runtime::{WatchStreamExt, watcher};
/// use kube::{Api, Client};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let pods = Api::<Pod>::all(Client::try_default().await?);
/// let queue = queue();
/// let feed = WatcherFeed::new(queue.clone());
/// tokio::spawn(feed.run(watcher(pods, watcher::Config::default()).default_backoff()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WatcherFeed<K: Resource + Send + Sync + 'static> {
    queue: Arc<Queue<K>>,
    keys: Option<Arc<Interner>>,
    replace: Option<OwnedReplace<Queue<K>>>,
    changes: Vec<Change<ObjectKey, Arc<K>>>,
    /// Of the newest of the changes.
    version: Option<String>,
}

/// How a stream came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// Between lists.
    Complete,
    /// In the middle of a list: nothing was deleted by it.
    UnfinishedList,
}

/// Why a queue cannot be fed any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// It is closed.
    #[error("the queue is closed")]
    Closed,
    /// Somebody else lists into it: each of the two would delete what the other has.
    #[error("another source feeds the queue")]
    OtherSource,
}

impl<K> WatcherFeed<K>
where
    K: Resource + Send + Sync + 'static,
{
    /// Of this queue, which no other source may feed.
    #[must_use]
    pub fn new(queue: Arc<Queue<K>>) -> Self {
        WatcherFeed { queue, keys: None, replace: None, changes: Vec::new(), version: None }
    }

    /// Shares keys with other sources of the same objects.
    #[must_use]
    pub fn intern_keys_in(mut self, keys: Arc<Interner>) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Until the stream ends; a `watcher` never does by itself.
    ///
    /// Its errors are logged, and it is read on: it comes back by itself. Not without a pause, though, unless the stream has one
    /// (`default_backoff`).
    ///
    /// # Errors
    ///
    /// The queue is closed, or somebody else lists into it.
    pub async fn run(
        mut self,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    ) -> Result<FeedEnd, FeedError> {
        let mut chunks = std::pin::pin!(events.ready_chunks(CHUNK));
        while let Some(chunk) = chunks.next().await {
            for event in chunk {
                match event {
                    Ok(event) => self.take(event)?,
                    // A list may go on after it: only another `Init` says that it does not.
                    Err(error) => tracing::warn!(%error, "watcher failed"),
                }
            }
            self.flush()?;
        }
        Ok(if self.replace.is_some() { FeedEnd::UnfinishedList } else { FeedEnd::Complete })
    }

    fn take(&mut self, event: watcher::Event<K>) -> Result<(), FeedError> {
        match event {
            watcher::Event::Apply(object) => self.change(object, Change::Apply),
            watcher::Event::Delete(object) => self.change(object, Change::Delete),
            watcher::Event::Init => {
                self.flush()?;
                // First, since a queue has but one.
                if self.replace.take().is_some() {
                    tracing::info!("a list that was not finished is discarded");
                }
                self.replace = Some(self.queue.begin_replace_owned().map_err(|error| match error {
                    BeginReplaceError::Closed => FeedError::Closed,
                    _ => FeedError::OtherSource,
                })?);
            }
            watcher::Event::InitApply(object) => self.upsert(object)?,
            watcher::Event::InitDone => {
                self.flush()?;
                match self.replace.take().map(OwnedReplace::commit) {
                    Some(Err(CommitError::Closed)) => return Err(FeedError::Closed),
                    Some(Err(error)) => tracing::error!(%error, "a list deletes nothing"),
                    Some(Ok(_)) => {}
                    None => tracing::warn!("a list whose beginning is missing deletes nothing"),
                }
            }
        }
        Ok(())
    }

    fn key(&self, object: &K) -> Option<ObjectKey> {
        let key = key_of(self.keys.as_deref(), object);
        if key.is_none() {
            tracing::error!("an object without a name is left out");
        }
        key
    }

    fn change(&mut self, object: K, change: impl FnOnce(ObjectKey, Arc<K>) -> Change<ObjectKey, Arc<K>>) {
        let Some(key) = self.key(&object) else { return };
        self.version = object.meta().resource_version.clone();
        self.changes.push(change(key, Arc::new(object)));
    }

    fn upsert(&mut self, object: K) -> Result<(), FeedError> {
        if self.replace.is_none() {
            // F1, F2. Its version says nothing: objects of a list come in any order.
            let version = self.version.take();
            self.change(object, Change::Apply);
            self.version = version;
            return Ok(());
        }
        self.flush()?;
        let (Some(key), Some(replace)) = (self.key(&object), &self.replace) else { return Ok(()) };
        match replace.upsert(key, Arc::new(object)) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind, UpsertErrorKind::Closed) => Err(FeedError::Closed),
            Err(error) => {
                tracing::error!(%error, "an object is left out");
                Ok(())
            }
        }
    }

    /// An object that the queue's transform rejects is left out: the others must not wait for it.
    fn flush(&mut self) -> Result<(), FeedError> {
        let mut changes = std::mem::take(&mut self.changes);
        while !changes.is_empty() {
            match self.queue.change_all(changes.drain(..)) {
                Ok(()) => {}
                Err(error) if matches!(error.kind, ChangeErrorKind::Closed) => return Err(FeedError::Closed),
                Err(error) => {
                    tracing::error!(%error, "an object is left out");
                    changes = error.rest;
                    changes.remove(error.index);
                }
            }
        }
        // Its memory is used again.
        self.changes = changes;
        match self.version.take() {
            Some(version) => self.queue.mark(version).map(drop).map_err(|_| FeedError::Closed),
            None => Ok(()),
        }
    }
}
