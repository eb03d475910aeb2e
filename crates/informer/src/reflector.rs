//! Keeps a queue in step with a source.
//!
//! ```text
//!        ╭──────────── gone, expired ◀───────────╮
//!        ▼                                       │
//!      list ──▶ replace, page by page ──▶ watch from its version ◀─╮
//!        ▲ │                                     │                 │ closed, transient: from the newest version
//!        ╰─╯ broken half way: discarded, again   ╰─────────────────╯
//! ```

mod running;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{Closed, DeltaFifo};
use tokio::sync::watch;

use crate::backoff::RetryPolicy;
use crate::progress::{Observed, Progress};
use crate::source::{ListWatch, SourceError};

use running::Running;

/// The queue of a source: objects are shared with whoever keeps them.
pub type SourceQueue<L> = DeltaFifo<<L as ListWatch>::Key, Arc<<L as ListWatch>::Object>>;

/// Options of a [`Reflector`].
#[derive(Debug)]
pub struct ReflectorBuilder<L: ListWatch> {
    source: L,
    name: String,
    page_size: Option<usize>,
    retry: RetryPolicy,
    resync: Option<Duration>,
    on_error: OnError,
}

type ErrorHook = dyn Fn(&SourceError) + Send + Sync;

/// Who is told of a source's errors.
struct OnError(Option<Box<ErrorHook>>);

impl fmt::Debug for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "none" })
    }
}

impl<L: ListWatch> ReflectorBuilder<L> {
    /// What it is called in metrics and spans; default: the type of its objects.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Objects in a page of a list; default 500, as client-go. None, or 0: all in one.
    #[must_use]
    pub fn page_size(mut self, objects: impl Into<Option<usize>>) -> Self {
        self.page_size = objects.into().filter(|objects| *objects > 0);
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

    /// Told of each error of the source, before it is asked again: client-go's `WatchErrorHandler`. All are logged besides.
    #[must_use]
    pub fn on_error(mut self, told: impl Fn(&SourceError) + Send + Sync + 'static) -> Self {
        self.on_error = OnError(Some(Box::new(told)));
        self
    }

    /// The reflector of this queue, which keeps its known objects. No other source may feed it: a list says of all keys whether they are there.
    pub fn build(self, queue: Arc<SourceQueue<L>>) -> Reflector<L> {
        let (observed, _) = watch::channel(Observed::default());
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
    observed: Arc<watch::Sender<Observed>>,
}

/// Why a reflector has ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// Somebody has closed the queue.
    #[error("the queue is closed")]
    Closed,
    /// The source says that it will never answer again ([`SourceError::Ended`]).
    #[error(transparent)]
    SourceEnded(SourceError),
}

impl From<Closed> for ReflectorError {
    fn from(_: Closed) -> Self {
        ReflectorError::Closed
    }
}

impl<L: ListWatch> Reflector<L> {
    /// With client-go's numbers.
    pub fn builder(source: L) -> ReflectorBuilder<L> {
        let name = std::any::type_name::<L::Object>().rsplit("::").next().unwrap_or_default().to_owned();
        let (page_size, retry) = (Some(500), RetryPolicy::default());
        ReflectorBuilder { source, name, page_size, retry, resync: None, on_error: OnError(None) }
    }

    fn tell(&self, error: &SourceError) {
        if let Some(told) = &self.options.on_error.0 {
            told(error);
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// What it feeds.
    pub fn queue(&self) -> &Arc<SourceQueue<L>> {
        &self.queue
    }

    /// How far it is; for any number of askers.
    #[must_use]
    pub fn progress(&self) -> Progress<L> {
        Progress::new(Arc::clone(&self.queue), self.observed.subscribe())
    }

    /// Lists and watches until the future is dropped. What was appended stays.
    ///
    /// # Errors
    ///
    /// The queue is closed, or the source has ended. Whatever else the source does is tried again.
    pub async fn run(self) -> Result<std::convert::Infallible, ReflectorError> {
        Running::new(self).run().await
    }
}
