//! Keeps a queue in step with a source.
//!
//! ```text
//!        ╭──────────── gone, expired ◀───────────╮
//!        ▼                                       │
//!      list ──▶ replace, page by page ──▶ watch from its version ◀─╮
//!        ▲ │                                     │                 │ closed, transient: from the newest version
//!        ╰─╯ broken half way: discarded, again   ╰─────────────────╯
//! ```

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{
    BeginReplaceError, Change, ChangeErrorKind, Closed, DeltaFifo, DeltaQueue, UpsertErrorKind,
};
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use crate::backoff::{Retry, RetryPolicy};
use crate::source::{ListWatch, PageRequest, SourceError, WatchEvent};
use crate::versions::ResourceVersion;

/// So many events are appended in one call, if they have come.
const CHUNK: usize = 64;
/// A watch that is closed sooner, and without an event, counts as failed.
const SHORT: Duration = Duration::from_secs(1);

/// The queue of a source: objects are shared with whoever keeps them.
pub type SourceQueue<L> = DeltaFifo<<L as ListWatch>::Key, Arc<<L as ListWatch>::Object>>;

/// Options of a [`Reflector`].
#[derive(Debug)]
pub struct ReflectorBuilder<L: ListWatch> {
    source: L,
    page_size: Option<usize>,
    retry: RetryPolicy,
    resync: Option<Duration>,
}

impl<L: ListWatch> ReflectorBuilder<L> {
    /// Objects in a page of a list; default 500, as client-go. None: all in one.
    #[must_use]
    pub fn page_size(mut self, objects: impl Into<Option<usize>>) -> Self {
        self.page_size = objects.into();
        self
    }

    /// How long to wait after a failure.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Every known object that is neither pending nor leased is handed out again so often; default: never.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// The reflector of this queue. No other source may feed it, unless by scopes.
    pub fn build(self, queue: Arc<SourceQueue<L>>) -> Reflector<L> {
        let (observed, _) = watch::channel(None);
        Reflector { options: self, queue, observed: Arc::new(observed) }
    }
}

/// Keeps a queue in step with a source: lists it, then watches it from the list's version on.
///
/// A list goes into the queue page by page, and its objects are not kept besides; one that breaks half way deletes nothing. A watch that
/// is closed goes on from the newest version that was told, be it by a bookmark; a version that is gone means another list.
#[derive(Debug)]
pub struct Reflector<L: ListWatch> {
    options: ReflectorBuilder<L>,
    queue: Arc<SourceQueue<L>>,
    observed: Arc<watch::Sender<Option<ResourceVersion>>>,
}

/// Why a reflector has ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// Somebody has closed the queue.
    #[error("the queue is closed")]
    Closed,
}

impl From<Closed> for ReflectorError {
    fn from(_: Closed) -> Self {
        ReflectorError::Closed
    }
}

/// Why one try to list ended.
enum ListFailure {
    Source(SourceError),
    Closed,
}

impl From<SourceError> for ListFailure {
    fn from(error: SourceError) -> Self {
        ListFailure::Source(error)
    }
}

/// A list that is in the queue, and the stream that goes on from it if it came by one.
struct Listed<W> {
    version: ResourceVersion,
    watch: Option<Pin<Box<W>>>,
}

/// How a watch ended.
enum Ended {
    /// From the newest version on it goes on.
    Closed,
    Failed(SourceError),
}

impl<L: ListWatch> Reflector<L> {
    /// With client-go's numbers.
    pub fn builder(source: L) -> ReflectorBuilder<L> {
        ReflectorBuilder { source, page_size: Some(500), retry: RetryPolicy::default(), resync: None }
    }

    /// What it feeds.
    pub fn queue(&self) -> &Arc<SourceQueue<L>> {
        &self.queue
    }

    /// How far it is; for any number of askers.
    #[must_use]
    pub fn progress(&self) -> Progress<L> {
        Progress { queue: Arc::clone(&self.queue), observed: self.observed.subscribe() }
    }

    /// Lists and watches until the future is dropped. What was appended stays.
    ///
    /// # Errors
    ///
    /// The queue is closed. Whatever the source does is tried again.
    pub async fn run(self) -> Result<std::convert::Infallible, ReflectorError> {
        let mut retry = Retry::new(self.options.retry.clone());
        let mut resync = self.options.resync.map(|period| {
            let mut ticks = interval_at(Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        loop {
            let Listed { mut version, mut watch } = self.list(&mut retry).await?;
            // Until the version is gone.
            loop {
                let started = Instant::now();
                let ended = match watch.take() {
                    Some(watch) => self.follow(watch, &mut version, &mut resync).await?,
                    None => match self.options.source.watch(version.clone()).await {
                        Ok(watch) => self.follow(Box::pin(watch), &mut version, &mut resync).await?,
                        Err(error) => Ended::Failed(error),
                    },
                };
                match ended {
                    Ended::Failed(error @ (SourceError::Gone(_) | SourceError::Expired(_))) => {
                        tracing::info!(%version, %error, "list again");
                        break;
                    }
                    Ended::Failed(error) => {
                        tracing::warn!(%version, %error, "watch failed");
                        sleep(retry.delay(error.retry_after())).await;
                    }
                    Ended::Closed if started.elapsed() < SHORT => sleep(retry.delay(None)).await,
                    Ended::Closed => {}
                }
            }
        }
    }

    /// Until one list is in the queue as a whole.
    async fn list(&self, retry: &mut Retry) -> Result<Listed<L::Watch>, Closed> {
        let mut in_pages = true;
        loop {
            match self.list_once(in_pages).await {
                Ok(listed) => return Ok(listed),
                Err(ListFailure::Closed) => return Err(Closed),
                Err(ListFailure::Source(error)) => {
                    tracing::warn!(%error, "list failed");
                    // The next one that takes too long for its tokens would fail as well.
                    in_pages = !matches!(error, SourceError::Expired(_));
                    if in_pages {
                        sleep(retry.delay(error.retry_after())).await;
                    }
                }
            }
        }
    }

    async fn list_once(&self, in_pages: bool) -> Result<Listed<L::Watch>, ListFailure> {
        match self.options.source.watch_list().await? {
            Some(watch) => self.list_by_stream(Box::pin(watch)).await,
            None => self.list_by_pages(in_pages).await,
        }
    }

    async fn list_by_pages(&self, in_pages: bool) -> Result<Listed<L::Watch>, ListFailure> {
        let replace = self.begin()?;
        let mut request =
            PageRequest { limit: self.options.page_size.filter(|_| in_pages), ..PageRequest::default() };
        loop {
            // Dropped half way, the replace leaves what was seen in line, and deletes nothing.
            let page = self.options.source.list(request.clone()).await?;
            for (key, object) in page.items {
                upsert::<L>(&replace, key, object)?;
            }
            let Some(next) = page.next else {
                commit::<L>(replace)?;
                self.observe(&page.version)?;
                return Ok(Listed { version: page.version, watch: None });
            };
            request.token = Some(next);
        }
    }

    async fn list_by_stream(&self, mut watch: Pin<Box<L::Watch>>) -> Result<Listed<L::Watch>, ListFailure> {
        let replace = self.begin()?;
        while let Some(event) = watch.next().await {
            match event? {
                WatchEvent::Added(key, object, _)
                | WatchEvent::Applied(key, object, _)
                | WatchEvent::Modified(key, object, _) => upsert::<L>(&replace, key, object)?,
                WatchEvent::InitialEnd(version) => {
                    commit::<L>(replace)?;
                    self.observe(&version)?;
                    return Ok(Listed { version, watch: Some(watch) });
                }
                WatchEvent::Deleted(..) => {
                    return Err(SourceError::transient("a deletion among the initial events").into());
                }
                WatchEvent::Bookmark(_) => {}
            }
        }
        Err(SourceError::transient("the stream ended before the end of the initial events").into())
    }

    /// Appends what the watch tells.
    async fn follow(
        &self,
        watch: Pin<Box<L::Watch>>,
        version: &mut ResourceVersion,
        resync: &mut Option<Interval>,
    ) -> Result<Ended, Closed> {
        let mut chunks = pin!(watch.ready_chunks(CHUNK));
        loop {
            let chunk = tokio::select! {
                () = tick(resync) => {
                    if let Err(error) = self.queue.resync() {
                        tracing::warn!(%error, "resync failed");
                    }
                    continue;
                }
                chunk = chunks.next() => chunk,
            };
            let Some(chunk) = chunk else { return Ok(Ended::Closed) };
            let (changes, failure) = self.read(chunk, version);
            self.append(changes)?;
            self.observe(version).map_err(|_| Closed)?;
            if let Some(error) = failure {
                return Ok(Ended::Failed(error));
            }
        }
    }
}

type Changes<L> = Vec<Change<<L as ListWatch>::Key, Arc<<L as ListWatch>::Object>>>;
type Events<L> = Vec<Result<WatchEvent<<L as ListWatch>::Key, <L as ListWatch>::Object>, SourceError>>;
type Replace<L> = delta_fifo::OwnedReplace<SourceQueue<L>>;

impl<L: ListWatch> Reflector<L> {
    /// What is to be appended of these events, in their order, up to the first failure; `version` goes along.
    fn read(&self, events: Events<L>, version: &mut ResourceVersion) -> (Changes<L>, Option<SourceError>) {
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            let (change, newer) = match event {
                Ok(WatchEvent::Added(key, object, newer)) => {
                    (Some(Change::Add(key, Arc::new(object))), newer)
                }
                Ok(WatchEvent::Modified(key, object, newer)) => {
                    (Some(Change::Update(key, Arc::new(object))), newer)
                }
                Ok(WatchEvent::Applied(key, object, newer)) => {
                    (Some(Change::Apply(key, Arc::new(object))), newer)
                }
                Ok(WatchEvent::Deleted(key, object, newer)) => {
                    (Some(Change::Delete(key, Arc::new(object))), newer)
                }
                Ok(WatchEvent::Bookmark(newer) | WatchEvent::InitialEnd(newer)) => (None, newer),
                Err(error) => return (changes, Some(error)),
            };
            changes.extend(change);
            *version = newer;
        }
        (changes, None)
    }

    /// An object that the transform rejects is left out: the others must not wait for it.
    fn append(&self, mut changes: Changes<L>) -> Result<(), Closed> {
        while !changes.is_empty() {
            match self.queue.change_all(std::mem::take(&mut changes)) {
                Ok(()) => {}
                Err(error) if matches!(error.kind, ChangeErrorKind::Closed) => return Err(Closed),
                Err(error) => {
                    tracing::error!(%error, "an object is left out");
                    changes = error.rest;
                    changes.remove(error.index);
                }
            }
        }
        Ok(())
    }

    /// Everything up to this version is in the queue.
    fn observe(&self, version: &ResourceVersion) -> Result<(), ListFailure> {
        self.queue.mark(version.clone()).map_err(|_| ListFailure::Closed)?;
        self.observed.send_if_modified(|observed| {
            let is_new = observed.as_ref() != Some(version);
            if is_new {
                *observed = Some(version.clone());
            }
            is_new
        });
        Ok(())
    }

    fn begin(&self) -> Result<Replace<L>, ListFailure> {
        self.queue.begin_replace_owned().map_err(|error| match error {
            BeginReplaceError::Closed => ListFailure::Closed,
            error => ListFailure::Source(SourceError::transient(error)),
        })
    }
}

fn upsert<L: ListWatch>(replace: &Replace<L>, key: L::Key, object: L::Object) -> Result<(), ListFailure> {
    match replace.upsert(key, Arc::new(object)) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind, UpsertErrorKind::Closed) => Err(ListFailure::Closed),
        Err(error) => {
            // As an event would be. A list without it deletes it, if it was known: nobody else could say what it is now.
            tracing::error!(%error, "an object is left out");
            Ok(())
        }
    }
}

fn commit<L: ListWatch>(replace: Replace<L>) -> Result<(), ListFailure> {
    match replace.commit() {
        Ok(_) => Ok(()),
        Err(_) => Err(ListFailure::Closed),
    }
}

/// Never, without a period.
async fn tick(resync: &mut Option<Interval>) {
    match resync {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// How far a [`Reflector`] is, and how far what is processed is behind.
#[derive(Debug)]
pub struct Progress<L: ListWatch> {
    queue: Arc<SourceQueue<L>>,
    observed: watch::Receiver<Option<ResourceVersion>>,
}

impl<L: ListWatch> Clone for Progress<L> {
    fn clone(&self) -> Self {
        Progress { queue: Arc::clone(&self.queue), observed: self.observed.clone() }
    }
}

/// Why a version can no longer come.
#[derive(Debug, thiserror::Error)]
#[error("version {version}: the reflector has ended, or the queue is closed")]
pub struct WaitProcessedError {
    /// What was waited for.
    pub version: ResourceVersion,
}

impl<L: ListWatch> Progress<L> {
    /// The newest version up to which everything is in the queue; none before the first list.
    #[must_use]
    pub fn observed(&self) -> Option<ResourceVersion> {
        self.observed.borrow().clone()
    }

    /// The newest version up to which everything has been processed. O(known keys) at most.
    #[must_use]
    pub fn processed(&self) -> Option<ResourceVersion> {
        self.queue.processed_through().map(|version| version.to_string().into())
    }

    /// Waits until everything up to this version has been processed: who has written it and got it from the source then sees its own
    /// write. A version that cannot be compared with others is waited for until it is the observed one.
    ///
    /// # Errors
    ///
    /// It can no longer come.
    pub async fn wait_processed(&mut self, version: &ResourceVersion) -> Result<(), WaitProcessedError> {
        let too_late = || WaitProcessedError { version: version.clone() };
        let reached = |observed: &Option<ResourceVersion>| {
            observed.as_ref().is_some_and(|observed| observed >= version)
        };
        let observed = self.observed.wait_for(reached).await.map_err(|_| too_late())?.clone();
        let mark = observed.expect("it has been reached");
        let completion = self.queue.mark(mark).map_err(|_| too_late())?;
        completion.wait_async().await.map_err(|_| too_late())
    }
}
