//! A source in memory: objects with versions, a log of what happened, and everything that can go wrong with a real one.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use delta_fifo_informer::{ListWatch, Page, PageRequest, ResourceVersion, SourceError, WatchEvent};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;

pub(crate) mod scripted;

/// An object: which number it carries, and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) version: u64,
}

type Event = WatchEvent<String, Object>;

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    /// The newest version.
    version: u64,
    /// What happened, and which version it led to. Older versions than those of the first are gone.
    log: VecDeque<(u64, Event)>,
    compacted: u64,
    /// Each raise ends all watches.
    connection: u64,
    /// What the next calls come to, before anything else.
    list_failures: VecDeque<SourceError>,
    watch_failures: VecDeque<SourceError>,
    /// The pages of the next list that fail, by number.
    broken_page: Option<usize>,
    streams_lists: bool,
    /// Lists that are being read page by page: by number, what is left and the version.
    open_lists: BTreeMap<usize, (VecDeque<Object>, u64)>,
    lists: usize,
    watches: usize,
}

/// Shared with the reflector that reads it.
#[derive(Clone)]
pub(crate) struct Memory {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { state: Arc::default(), changed: watch::channel(()).0 }
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics under it")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.send_replace(());
    }

    pub(crate) fn put(&self, name: &str, number: u64) -> u64 {
        let mut version = 0;
        self.change(|state| {
            state.version += 1;
            version = state.version;
            let object = Object { name: name.to_owned(), number, version };
            let event = match state.objects.insert(name.to_owned(), object.clone()) {
                None => Event::Added(name.to_owned(), object, version.to_string().into()),
                Some(_) => Event::Modified(name.to_owned(), object, version.to_string().into()),
            };
            state.log.push_back((version, event));
        });
        version
    }

    pub(crate) fn delete(&self, name: &str) -> u64 {
        let mut version = 0;
        self.change(|state| {
            let Some(mut object) = state.objects.remove(name) else { return };
            state.version += 1;
            version = state.version;
            object.version = version;
            state
                .log
                .push_back((version, Event::Deleted(name.to_owned(), object, version.to_string().into())));
        });
        version
    }

    /// Watches go on from a later version without anything having happened to these objects.
    pub(crate) fn bookmark(&self) -> u64 {
        let mut version = 0;
        self.change(|state| {
            state.version += 1;
            version = state.version;
            state.log.push_back((version, Event::Bookmark(version.to_string().into())));
        });
        version
    }

    /// What is older than the newest version can no longer be watched from.
    pub(crate) fn compact(&self) {
        self.change(|state| {
            state.log.clear();
            state.compacted = state.version;
        });
    }

    /// Ends all watches.
    pub(crate) fn disconnect(&self) {
        self.change(|state| state.connection += 1);
    }

    pub(crate) fn fail_list(&self, error: SourceError) {
        self.state().list_failures.push_back(error);
    }

    pub(crate) fn fail_watch(&self, error: SourceError) {
        self.state().watch_failures.push_back(error);
    }

    pub(crate) fn break_page(&self, number: usize) {
        self.state().broken_page = Some(number);
    }

    pub(crate) fn stream_lists(&self) {
        self.state().streams_lists = true;
    }

    /// How often it was listed, and watched.
    pub(crate) fn asked(&self) -> (usize, usize) {
        let state = self.state();
        (state.lists, state.watches)
    }

    pub(crate) fn objects(&self) -> Vec<Object> {
        self.state().objects.values().cloned().collect()
    }

    fn watch_from(
        &self,
        from: u64,
        initial: VecDeque<Event>,
    ) -> impl Stream<Item = Result<Event, SourceError>> + Send + use<> {
        let start = (self.clone(), self.state().connection, from, initial, self.changed.subscribe());
        unfold(start, |(memory, connection, from, mut initial, mut changed)| async move {
            loop {
                if let Some(event) = initial.pop_front() {
                    return Some((Ok(event), (memory, connection, from, initial, changed)));
                }
                changed.borrow_and_update();
                {
                    let state = memory.state();
                    if state.connection != connection {
                        return None;
                    }
                    let next = state.log.iter().find(|(version, _)| *version > from).cloned();
                    drop(state);
                    if let Some((version, event)) = next {
                        return Some((Ok(event), (memory, connection, version, initial, changed)));
                    }
                }
                changed.changed().await.ok()?;
            }
        })
    }
}

fn number(version: &ResourceVersion) -> u64 {
    version.as_str().parse().expect("this source's versions are numbers")
}

impl ListWatch for Memory {
    type Key = String;
    type Object = Object;
    type Watch = std::pin::Pin<Box<dyn Stream<Item = Result<Event, SourceError>> + Send>>;

    async fn list(&self, request: PageRequest) -> Result<Page<String, Object>, SourceError> {
        // A real one takes its time.
        tokio::time::sleep(Duration::from_micros(10)).await;
        let mut state = self.state();
        state.lists += usize::from(request.token.is_none());
        if let Some(error) = state.list_failures.pop_front() {
            return Err(error);
        }
        // All pages show what there was when the first was asked for.
        let (list, page) = match &request.token {
            Some(token) => {
                let (list, page) = token.split_once('/').expect("its own token");
                (list.parse().expect("a number"), page.parse().expect("a number"))
            }
            None => {
                let open = (state.objects.values().cloned().collect(), state.version);
                let list = state.lists;
                state.open_lists.insert(list, open);
                (list, 0)
            }
        };
        if request.limit.is_some() && state.broken_page == Some(page) {
            state.broken_page = None;
            return Err(SourceError::transient("the connection is lost"));
        }
        let (mut left, version) = state.open_lists.remove(&list).expect("it is open");
        let size = request.limit.unwrap_or(usize::MAX).min(left.len());
        let items = left.drain(..size).map(|object: Object| (object.name.clone(), object)).collect();
        let next = (!left.is_empty()).then(|| format!("{list}/{}", page + 1));
        state.open_lists.insert(list, (left, version));
        Ok(Page { items, next, version: version.to_string().into() })
    }

    async fn watch(&self, from: ResourceVersion) -> Result<Self::Watch, SourceError> {
        let from = number(&from);
        let mut state = self.state();
        state.watches += 1;
        if let Some(error) = state.watch_failures.pop_front() {
            return Err(error);
        }
        if from < state.compacted {
            return Err(SourceError::Gone(format!("{from} is older than {}", state.compacted).into()));
        }
        drop(state);
        Ok(Box::pin(self.watch_from(from, VecDeque::new())))
    }

    async fn watch_list(&self) -> Result<Option<Self::Watch>, SourceError> {
        let mut state = self.state();
        if !state.streams_lists {
            return Ok(None);
        }
        state.lists += 1;
        if let Some(error) = state.list_failures.pop_front() {
            return Err(error);
        }
        let version = state.version;
        let mut initial: VecDeque<Event> = state
            .objects
            .iter()
            .map(|(key, object)| Event::Added(key.clone(), object.clone(), object.version.to_string().into()))
            .collect();
        initial.push_back(Event::InitialEnd(version.to_string().into()));
        drop(state);
        Ok(Some(Box::pin(self.watch_from(version, initial))))
    }
}
