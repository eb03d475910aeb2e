//! Watches: lines of JSON for as long as somebody reads.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use tokio::sync::watch as signal;
use tokio::time::{Instant, sleep_until};

use crate::ApiServer;
use crate::faults::Failure;
use crate::read::{selector, too_new};
use crate::request::{Query, Route};
use crate::respond::{Answer, json_stream};
use crate::selector::Selector;
use crate::store::{Change, Ending, Snapshot, State, add_line, line};

/// So many changes are read under one lock.
const BATCH: usize = 256;
/// Lines of a list's objects go together up to so many bytes.
const CHUNK: usize = 64 * 1024;

struct Watch {
    server: ApiServer,
    changed: signal::Receiver<()>,
    resource: String,
    selector: Selector,
    /// Everything up to this version has been read.
    read: u64,
    lines: VecDeque<Bytes>,
    /// What there is at first, from this object on: comes before the lines.
    initial: Option<(Snapshot, usize)>,
    endings: u64,
    bookmarks: u64,
    wants_bookmarks: bool,
    next_bookmark: Option<Instant>,
    until: Option<Instant>,
    has_ended: bool,
    /// What comes last.
    error: Option<io::Error>,
}

fn bookmark(version: u64, is_initial_end: bool) -> Bytes {
    let mut metadata = json!({ "resourceVersion": version.to_string(), "creationTimestamp": null });
    if is_initial_end {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let object = json!({ "kind": "Bookmark", "apiVersion": "v1", "metadata": metadata });
    line("BOOKMARK", &serde_json::to_vec(&object).expect("a value is written"))
}

impl Watch {
    /// What a watch with this selector is sent of a change: an object that no longer is among its own is gone for it.
    fn line(&self, change: &Change) -> Option<Bytes> {
        if self.selector.is_all() {
            return Some(change.line.clone());
        }
        let was = change.before.as_ref().is_some_and(|before| self.selector.holds(before));
        let is = !change.is_deletion && self.selector.holds(&change.object);
        Some(match (was, is) {
            (false, false) => return None,
            (false, true) => line("ADDED", &change.object.json),
            (true, true) => line("MODIFIED", &change.object.json),
            (true, false) => match &change.before {
                // As it was when it last was one of them, at the version at which it no longer is.
                Some(before) if !change.is_deletion => line("DELETED", &before.json_at(change.version)),
                _ => line("DELETED", &change.object.json),
            },
        })
    }

    /// All objects that there are, as additions; each is written when it is read, so that the list never stands here as a whole.
    fn add_initial(&mut self, state: &mut State) {
        self.initial = Some((state.resources.entry(self.resource.clone()).or_default().snapshot(), 0));
        self.read = state.version;
    }

    /// The next of them.
    fn next_initial(&mut self) -> Option<Bytes> {
        let (snapshot, next) = self.initial.as_mut()?;
        let mut chunk = Vec::new();
        while let Some(entry) = snapshot.get(*next).filter(|_| chunk.len() < CHUNK) {
            *next += 1;
            if self.selector.holds(entry) {
                add_line(&mut chunk, "ADDED", &entry.json);
            }
        }
        if chunk.is_empty() {
            self.initial = None;
            return None;
        }
        Some(chunk.into())
    }

    fn end(&mut self, line: Option<Bytes>) {
        self.lines.extend(line);
        self.has_ended = true;
    }

    /// What has come since.
    fn fill(&mut self) {
        let server = self.server.clone();
        let state = server.state();
        let (endings, ending) = state.endings;
        if endings != self.endings {
            self.endings = endings;
            match ending {
                Ending::Closed => self.end(None),
                Ending::Gone => self.end(Some(line("ERROR", &Failure::gone().bytes()))),
                Ending::Killed => {
                    self.end(Some(Bytes::from_static(b"{\"type\":\"MODIFIED\",\"object\":{\"meta")));
                    let kind = io::ErrorKind::ConnectionReset;
                    self.error = Some(io::Error::new(kind, "the connection is broken"));
                }
            }
            return;
        }
        if self.read < state.compacted {
            self.end(Some(line("ERROR", &Failure::gone().bytes())));
            return;
        }
        let log = state.resources.get(&self.resource).map(|objects| &objects.log);
        let mut is_all = true;
        if let Some(log) = log {
            let start = log.partition_point(|change| change.version <= self.read);
            for change in log.range(start..).take(BATCH) {
                self.read = change.version;
                self.lines.extend(self.line(change));
            }
            is_all = log.len() - start <= BATCH;
        }
        if is_all {
            self.read = state.version;
            let now = Instant::now();
            let is_due = self.next_bookmark.is_some_and(|next| next <= now);
            if is_due {
                self.next_bookmark = state.bookmark_period.map(|period| now + period);
            }
            if self.wants_bookmarks && (is_due || self.bookmarks != state.bookmarks) {
                self.lines.push_back(bookmark(self.read, false));
            }
            self.bookmarks = state.bookmarks;
        }
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(line) = self.next_initial().or_else(|| self.lines.pop_front()) {
                return Some(Ok(line));
            }
            if self.has_ended {
                return self.error.take().map(Err);
            }
            self.changed.borrow_and_update();
            self.fill();
            if self.lines.is_empty() && !self.has_ended {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        tokio::select! {
            // The sender is in the server, of which this is a handle.
            _ = self.changed.changed() => {}
            () = sleep_until(self.next_bookmark.unwrap_or(far)) => {}
            () = sleep_until(self.until.unwrap_or(far)) => {
                let line = self.wants_bookmarks.then(|| bookmark(self.read, false));
                self.end(line);
            }
        }
    }
}

impl ApiServer {
    pub(crate) fn watch(&self, route: &Route, query: &Query) -> Answer {
        let selector = selector(route, query)?;
        let mut state = self.state();
        if query.wants_initial && state.refuses_streams {
            let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the \
                           WatchList feature gate is enabled";
            return Err(Failure::status(422, "Invalid").with_message(message));
        }
        let from: u64 = match query.version.as_deref() {
            None => 0,
            Some(text) => text.parse().map_err(|_| Failure::status(400, "BadRequest"))?,
        };
        if from > state.version {
            return Err(too_new(&from.to_string()));
        }
        let mut watch = Watch {
            server: self.clone(),
            changed: self.changed.subscribe(),
            resource: route.resource.clone(),
            selector,
            read: from,
            lines: VecDeque::new(),
            initial: None,
            endings: state.endings.0,
            bookmarks: state.bookmarks,
            wants_bookmarks: query.wants_bookmarks,
            next_bookmark: state.bookmark_period.map(|period| Instant::now() + period),
            until: query.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            has_ended: false,
            error: None,
        };
        if query.wants_initial || from == 0 {
            watch.add_initial(&mut state);
        }
        if query.wants_initial {
            watch.lines.push_back(bookmark(watch.read, true));
        }
        drop(state);
        let lines = stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) });
        Ok(json_stream(lines.boxed()))
    }
}
