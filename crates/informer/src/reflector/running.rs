//! A reflector at work.

use std::collections::HashSet;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{BeginReplaceError, Change, Closed, DeltaQueue, OwnedReplace, UpsertErrorKind};
use futures_util::StreamExt;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use super::{Reflector, ReflectorError, SourceQueue};
use crate::backoff::Retry;
use crate::metrics::ReflectorMetrics;
use crate::resync;
use crate::source::{ListWatch, PageRequest, SourceError, WatchEvent};
use crate::versions::ResourceVersion;

/// So many events are appended in one call, if they have come.
const CHUNK: usize = 64;
/// A watch that is closed sooner, and without an event, counts as failed.
const SHORT: Duration = Duration::from_secs(1);

/// A reflector at work.
pub(super) struct Running<L: ListWatch> {
    reflector: Reflector<L>,
    metrics: ReflectorMetrics,
    retry: Retry,
    resync: Option<Interval>,
}

/// Why one try to list ended.
enum ListFailure {
    Source(SourceError),
    Closed,
}

impl From<Closed> for ListFailure {
    fn from(_: Closed) -> Self {
        ListFailure::Closed
    }
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

impl<L: ListWatch> Running<L> {
    pub(super) fn new(reflector: Reflector<L>) -> Self {
        let resync = resync::from_now(reflector.options.resync).map(|(first, period)| {
            let mut ticks = interval_at(first, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        let metrics = ReflectorMetrics::new(reflector.name());
        Running { metrics, retry: Retry::new(reflector.options.retry.clone()), resync, reflector }
    }

    pub(super) async fn run(mut self) -> Result<std::convert::Infallible, ReflectorError> {
        loop {
            let Listed { mut version, mut watch } = self.list().await?;
            let listed = Instant::now();
            // Until the version is gone.
            loop {
                let (started, mut items) = (Instant::now(), 0);
                self.metrics.watch_begins();
                let ended = self.watch(watch.take(), &mut version, &mut items).await?;
                let is_short = matches!(ended, Ended::Closed) && items == 0 && started.elapsed() < SHORT;
                self.metrics.watched(items, started.elapsed(), is_short);
                if let Ended::Failed(error) = &ended {
                    self.reflector.tell(error);
                }
                match ended {
                    Ended::Failed(error @ (SourceError::Gone(_) | SourceError::Expired(_))) => {
                        tracing::info!(name = self.reflector.name(), %version, %error, "list again");
                        // A source whose lists cannot be watched from for long must not be asked for them without end.
                        if listed.elapsed() < SHORT {
                            sleep(self.retry.delay(None)).await;
                        }
                        break;
                    }
                    Ended::Failed(error @ SourceError::Ended(_)) => {
                        return Err(ReflectorError::SourceEnded(error));
                    }
                    Ended::Failed(error) => {
                        tracing::warn!(name = self.reflector.name(), %version, %error, "watch failed");
                        sleep(self.retry.delay(error.retry_after())).await;
                    }
                    Ended::Closed if is_short => sleep(self.retry.delay(None)).await,
                    Ended::Closed => {}
                }
            }
        }
    }

    /// Until one list is in the queue as a whole.
    async fn list(&mut self) -> Result<Listed<L::Watch>, ReflectorError> {
        let (mut in_pages, mut by_stream) = (true, true);
        loop {
            let failure = match self.list_once(in_pages, &mut by_stream).await {
                Ok(listed) => return Ok(listed),
                Err(failure) => failure,
            };
            if let ListFailure::Source(error) = &failure {
                self.reflector.tell(error);
            }
            match failure {
                ListFailure::Closed => return Err(ReflectorError::Closed),
                ListFailure::Source(error @ SourceError::Ended(_)) => {
                    return Err(ReflectorError::SourceEnded(error));
                }
                ListFailure::Source(error) => {
                    tracing::warn!(name = self.reflector.name(), %error, "list failed");
                    // The next one that takes too long for its tokens would fail as well: at once in one, the first time.
                    let was_in_pages =
                        std::mem::replace(&mut in_pages, !matches!(error, SourceError::Expired(_)));
                    if in_pages || !was_in_pages {
                        sleep(self.retry.delay(error.retry_after())).await;
                    }
                }
            }
        }
    }

    /// `by_stream`: false once that has failed, so that the next one comes in pages, as client-go's does.
    async fn list_once(&self, in_pages: bool, by_stream: &mut bool) -> Result<Listed<L::Watch>, ListFailure> {
        let (started, mut items) = (Instant::now(), 0);
        self.metrics.list_begins();
        let stream = match std::mem::take(by_stream) {
            true => self.reflector.options.source.watch_list().await?,
            false => None,
        };
        let listed = match stream {
            Some(watch) => self.list_by_stream(Box::pin(watch), &mut items).await?,
            None => self.list_by_pages(in_pages, &mut items).await?,
        };
        self.observe(&listed.version)?;
        self.metrics.listed(items, started.elapsed());
        Ok(listed)
    }

    async fn list_by_pages(
        &self,
        in_pages: bool,
        items: &mut usize,
    ) -> Result<Listed<L::Watch>, ListFailure> {
        let replace = self.begin()?;
        let mut request = PageRequest {
            limit: self.reflector.options.page_size.filter(|_| in_pages),
            ..PageRequest::default()
        };
        loop {
            // Dropped half way, the replace leaves what was seen in line, and deletes nothing.
            let page = self.reflector.options.source.list(request.clone()).await?;
            *items += page.items.len();
            self.metrics.added(page.items.len());
            for (key, object) in page.items {
                upsert::<L>(&replace, key, object)?;
            }
            let Some(next) = page.next else {
                commit::<L>(replace)?;
                return Ok(Listed { version: page.version, watch: None });
            };
            request.token = Some(next);
            consume_budget().await;
        }
    }

    async fn list_by_stream(
        &self,
        mut watch: Pin<Box<L::Watch>>,
        items: &mut usize,
    ) -> Result<Listed<L::Watch>, ListFailure> {
        let replace = self.begin()?;
        // A change is newer than the list: who was deleted by one, only another can bring back.
        let mut taken_back = HashSet::new();
        while let Some(event) = watch.next().await {
            match event? {
                WatchEvent::Added(key, object, _)
                | WatchEvent::Applied(key, object, _)
                | WatchEvent::Modified(key, object, _) => {
                    *items += 1;
                    self.metrics.added(1);
                    if taken_back.contains(&key) {
                        self.append(vec![Change::Apply(key, Arc::new(object))])?;
                    } else {
                        upsert::<L>(&replace, key, object)?;
                    }
                }
                WatchEvent::InitialEnd(version) => {
                    commit::<L>(replace)?;
                    return Ok(Listed { version, watch: Some(watch) });
                }
                WatchEvent::Deleted(key, object, _) => {
                    self.metrics.added(1);
                    taken_back.insert(key.clone());
                    self.append(vec![Change::Delete(key, Arc::new(object))])?;
                }
                WatchEvent::Bookmark(_) => {}
            }
            consume_budget().await;
        }
        Err(SourceError::transient("the stream ended before the end of the initial events").into())
    }

    /// Appends what the watch tells: one that is open, or a new one from that version. Both `version` and `items` go along.
    async fn watch(
        &mut self,
        open: Option<Pin<Box<L::Watch>>>,
        version: &mut ResourceVersion,
        items: &mut usize,
    ) -> Result<Ended, Closed> {
        let watch = match open {
            Some(watch) => watch,
            None => match self.reflector.options.source.watch(version.clone()).await {
                Ok(watch) => Box::pin(watch),
                Err(error) => return Ok(Ended::Failed(error)),
            },
        };
        let mut chunks = pin!(watch.ready_chunks(CHUNK));
        loop {
            let chunk = tokio::select! {
                () = tick(&mut self.resync) => {
                    if let Err(error) = self.reflector.queue.resync() {
                        tracing::warn!(name = self.reflector.name(), %error, "resync failed");
                    }
                    continue;
                }
                chunk = chunks.next() => chunk,
            };
            let Some(chunk) = chunk else { return Ok(Ended::Closed) };
            let read = read::<L>(chunk, version);
            *items += read.changes.len();
            self.metrics.added(read.changes.len());
            self.append(read.changes)?;
            for passed in read.passed.iter().filter(|passed| *passed != version) {
                self.observe(passed)?;
            }
            self.observe(version)?;
            if let Some(error) = read.failure {
                return Ok(Ended::Failed(error));
            }
            // A watch that always has more must not keep others from the thread.
            consume_budget().await;
        }
    }
}

type Changes<L> = Vec<Change<<L as ListWatch>::Key, Arc<<L as ListWatch>::Object>>>;
type Events<L> = Vec<Result<WatchEvent<<L as ListWatch>::Key, <L as ListWatch>::Object>, SourceError>>;
type Replace<L> = OwnedReplace<SourceQueue<L>>;

/// What some events say, up to the first failure.
struct Read<L: ListWatch> {
    changes: Changes<L>,
    /// Their versions that are no numbers, which the newest one does not speak for.
    passed: Vec<ResourceVersion>,
    failure: Option<SourceError>,
}

/// In the order of the events; `version` goes along.
fn read<L: ListWatch>(events: Events<L>, version: &mut ResourceVersion) -> Read<L> {
    let (mut changes, mut passed) = (Vec::with_capacity(events.len()), Vec::new());
    for event in events {
        let (change, newer) = match event {
            Ok(WatchEvent::Added(key, object, newer)) => (Some(Change::Add(key, Arc::new(object))), newer),
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
            Err(error) => return Read { changes, passed, failure: Some(error) },
        };
        changes.extend(change);
        if !newer.is_number() {
            passed.push(newer.clone());
        }
        *version = newer;
    }
    Read { changes, passed, failure: None }
}

impl<L: ListWatch> Running<L> {
    /// An object that the transform rejects is left out: the others must not wait for it. If it is the last of a deletion, the deletion
    /// stays.
    fn append(&self, changes: Changes<L>) -> Result<(), Closed> {
        let rejected = |change: Change<L::Key, _>, error| {
            tracing::error!(key = ?change.key(), %error, "an object is left out");
            match change {
                Change::Delete(key, _) => Some(Change::DeleteKey(key)),
                _ => None,
            }
        };
        self.reflector.queue.change_each(changes, rejected).map_err(|_| Closed)
    }

    /// Everything up to this version is in the queue.
    fn observe(&self, version: &ResourceVersion) -> Result<(), Closed> {
        let mut marked = Ok(());
        self.reflector.observed.send_if_modified(|observed| {
            // Inside, so that nobody who waits sets a mark with an older version after this one.
            marked = self.reflector.queue.mark(version.clone()).map(drop).map_err(|_| Closed);
            marked.is_ok() && observed.observe(version)
        });
        self.metrics.observed(version);
        marked
    }

    fn begin(&self) -> Result<Replace<L>, ListFailure> {
        self.reflector.queue.begin_replace_owned().map_err(|error| match error {
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
