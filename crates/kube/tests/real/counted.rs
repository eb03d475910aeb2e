//! A source that is counted, and held between the pages of a list.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use delta_fifo_informer::{ListWatch, Page, PageRequest, ResourceVersion, SourceError};
use tokio::sync::watch;

/// How often a source was asked for what.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    lists: AtomicUsize,
    pages: AtomicUsize,
    streams: AtomicUsize,
    watches: AtomicUsize,
    expired: AtomicUsize,
    is_held: watch::Sender<bool>,
    waiting: watch::Sender<bool>,
}

impl Asked {
    // Relaxed, all of them: counts.
    /// Lists that were begun in pages.
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    /// Pages that came, of all lists.
    pub(crate) fn pages(&self) -> usize {
        self.pages.load(Ordering::Relaxed)
    }

    /// Lists that began as a stream.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Watches that began.
    pub(crate) fn watches(&self) -> usize {
        self.watches.load(Ordering::Relaxed)
    }

    /// Lists whose token was too old.
    pub(crate) fn expired(&self) -> usize {
        self.expired.load(Ordering::Relaxed)
    }

    /// From now on a list gets no second page.
    pub(crate) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    /// Until a list waits for its second page.
    pub(crate) async fn until_held(&self) {
        self.waiting.subscribe().wait_for(|waiting| *waiting).await.expect("it is here");
    }

    pub(crate) fn release(&self) {
        self.is_held.send_replace(false);
    }
}

fn count(of: &AtomicUsize) {
    of.fetch_add(1, Ordering::Relaxed);
}

/// Asks another source.
#[derive(Debug)]
pub(crate) struct Counted<L> {
    source: L,
    asked: Arc<Asked>,
}

impl<L> Counted<L> {
    pub(crate) fn new(source: L) -> (Counted<L>, Arc<Asked>) {
        let asked = Arc::<Asked>::default();
        (Counted { source, asked: Arc::clone(&asked) }, asked)
    }
}

impl<L: ListWatch> ListWatch for Counted<L> {
    type Key = L::Key;
    type Object = L::Object;
    type Watch = L::Watch;

    async fn list(&self, request: PageRequest) -> Result<Page<L::Key, L::Object>, SourceError> {
        if request.token.is_none() {
            count(&self.asked.lists);
        } else {
            self.asked.waiting.send_replace(true);
            let mut is_held = self.asked.is_held.subscribe();
            is_held.wait_for(|held| !held).await.expect("it is here");
            self.asked.waiting.send_replace(false);
        }
        let page = self.source.list(request).await;
        match &page {
            Ok(_) => count(&self.asked.pages),
            Err(SourceError::Expired(_)) => count(&self.asked.expired),
            Err(_) => {}
        }
        page
    }

    async fn watch(&self, from: ResourceVersion) -> Result<L::Watch, SourceError> {
        let watch = self.source.watch(from).await?;
        count(&self.asked.watches);
        Ok(watch)
    }

    async fn watch_list(&self) -> Result<Option<L::Watch>, SourceError> {
        let watch = self.source.watch_list().await?;
        if watch.is_some() {
            count(&self.asked.streams);
        }
        Ok(watch)
    }
}
