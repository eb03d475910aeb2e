//! A source that answers as it was told to.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delta_fifo_informer::{ListWatch, Page, PageRequest, ResourceVersion, SourceError, WatchEvent};
use futures_util::stream::{self, Stream, StreamExt};

use super::Object;

pub(crate) type Event = WatchEvent<String, Object>;
pub(crate) type Events = Pin<Box<dyn Stream<Item = Result<Event, SourceError>> + Send>>;

/// What it says to a list, a watch and a streaming list; by how often it was asked before.
pub(crate) struct Scripted {
    pub(crate) list: fn(usize) -> Result<Page<String, Object>, SourceError>,
    pub(crate) watch: fn(usize) -> Result<Events, SourceError>,
    pub(crate) watch_list: fn(usize) -> Result<Option<Events>, SourceError>,
    pub(crate) asked: Arc<Asked>,
}

#[derive(Default)]
pub(crate) struct Asked {
    lists: AtomicUsize,
    watches: AtomicUsize,
}

impl Asked {
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }
}

impl Default for Scripted {
    /// There is nothing, and nothing happens.
    fn default() -> Self {
        Scripted {
            list: |_| Ok(Page { items: Vec::new(), next: None, version: "1".into() }),
            watch: |_| Ok(stream::pending().boxed()),
            watch_list: |_| Ok(None),
            asked: Arc::default(),
        }
    }
}

pub(crate) fn object(name: &str, number: u64) -> Object {
    Object { name: name.to_owned(), number, version: number }
}

/// These events, and then none.
pub(crate) fn events(events: impl IntoIterator<Item = Event, IntoIter: Send + 'static>) -> Events {
    stream::iter(events.into_iter().map(Ok)).chain(stream::pending()).boxed()
}

impl ListWatch for Scripted {
    type Key = String;
    type Object = Object;
    type Watch = Events;

    async fn list(&self, _: PageRequest) -> Result<Page<String, Object>, SourceError> {
        // A real one takes its time.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        (self.list)(self.asked.lists.fetch_add(1, Ordering::Relaxed))
    }

    async fn watch(&self, _: ResourceVersion) -> Result<Events, SourceError> {
        (self.watch)(self.asked.watches.fetch_add(1, Ordering::Relaxed))
    }

    async fn watch_list(&self) -> Result<Option<Events>, SourceError> {
        (self.watch_list)(self.asked.lists())
    }
}
