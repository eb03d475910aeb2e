//! Where objects come from.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use delta_fifo::BoxError;
use futures_util::Stream;

use crate::versions::ResourceVersion;

/// A source that can be listed in pages, and watched from a version on.
///
/// The key of an object never changes, and every version that is handed out can be watched from, until the source says that it is gone.
pub trait ListWatch: Send + Sync + 'static {
    /// What identifies an object.
    type Key: Hash + Eq + Clone + Debug + Send + Sync + 'static;
    /// An object.
    type Object: Send + Sync + 'static;
    /// Changes as they happen. Its end means no more than that somebody has closed it.
    type Watch: Stream<Item = Result<WatchEvent<Self::Key, Self::Object>, SourceError>> + Send;

    /// One page of a list. All pages of a list show the source as of one version.
    fn list(
        &self,
        request: PageRequest,
    ) -> impl Future<Output = Result<Page<Self::Key, Self::Object>, SourceError>> + Send;

    /// What has changed since that version, and what does from now on.
    fn watch(&self, from: ResourceVersion) -> impl Future<Output = Result<Self::Watch, SourceError>> + Send;

    /// A list as a stream: all objects as additions, then [`WatchEvent::InitialEnd`], then changes. What happens before that end may stand
    /// before it as well, also deletions: a cache that is not new enough yet sends what it has, and catches up. None where the source
    /// cannot: then it is listed in pages.
    fn watch_list(&self) -> impl Future<Output = Result<Option<Self::Watch>, SourceError>> + Send {
        std::future::ready(Ok(None))
    }
}

/// Which page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// Objects in a page at most; none for all in one.
    pub limit: Option<usize>,
    /// What the page before said; none for the first.
    pub token: Option<String>,
    /// Show this version or a newer one: what a cache has will do. None, as a reflector asks: the newest there is.
    pub at_least: Option<ResourceVersion>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<K, V> {
    /// The objects with their keys.
    pub items: Vec<(K, V)>,
    /// The token of the next page; none: this was the last.
    pub next: Option<String>,
    /// Of the whole list. That of the last page counts.
    pub version: ResourceVersion,
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum WatchEvent<K, V> {
    /// There is a new object.
    Added(K, V, ResourceVersion),
    /// An object is another.
    Modified(K, V, ResourceVersion),
    /// One of the two: the source does not tell.
    Applied(K, V, ResourceVersion),
    /// An object is gone; as it was last.
    Deleted(K, V, ResourceVersion),
    /// Nothing: everything up to this version was told.
    Bookmark(ResourceVersion),
    /// All that there was when a [`watch_list`](ListWatch::watch_list) began has been told; this is its version.
    InitialEnd(ResourceVersion),
}

/// Why a source did not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source no longer has that version (HTTP 410, or its equal inside a watch): it must be listed again.
    #[error("the version is gone: {0}")]
    Gone(BoxError),
    /// The token of a page is too old: the list must begin anew.
    #[error("the list has expired: {0}")]
    Expired(BoxError),
    /// The source has come to its end: it will never answer again. Whoever reads it ends as well.
    #[error("the source has ended: {0}")]
    Ended(BoxError),
    /// Anything else, which may be better the next time.
    #[error("{source}")]
    Transient {
        /// What went wrong.
        source: BoxError,
        /// The source asks not to be asked again before that.
        retry_after: Option<Duration>,
    },
}

impl SourceError {
    /// An error that may be better the next time.
    pub fn transient(source: impl Into<BoxError>) -> Self {
        SourceError::Transient { source: source.into(), retry_after: None }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            SourceError::Transient { retry_after, .. } => *retry_after,
            SourceError::Gone(_) | SourceError::Expired(_) | SourceError::Ended(_) => None,
        }
    }
}
