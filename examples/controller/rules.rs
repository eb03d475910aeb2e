//! What may follow what in a trace, and what a reflector makes of it.
//!
//! The rules keep the set of objects that are there, as the client would have it. That is how they notice an
//! event that cannot have happened, and how they know which objects a later list shows to be gone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::fault::Fault;
use crate::json::Pair;
use crate::trace::{Action, Arrived, Key, Object, Placement, Step, Trace};
use crate::wire::{self, Line};

#[derive(Default)]
pub(crate) struct Rules {
    phase: Phase,
    /// The last watch has ended, and nothing has followed it yet.
    watch_ended: bool,
    live: HashSet<Key>,
    /// Every string that many objects share, once.
    strings: HashSet<Arc<str>>,
    keys: HashSet<Key>,
    steps: Vec<Step>,
    arrived: Arrived,
    expected: Vec<(Key, Box<str>)>,
}

#[derive(Default)]
enum Phase {
    /// There has been no list yet.
    #[default]
    Start,
    /// Within the pages of the list that begins on line `since`, all of the same resource version.
    Paging { since: u64, pages: u64, version: Box<str>, listed: HashSet<Key> },
    /// Within the initial events of the WatchList opened on line `since`.
    InitialEvents { since: u64, listed: HashSet<Key>, touched: HashSet<Key> },
    /// The client follows a watch.
    Watching,
    /// An ERROR has ended the watch: only a list or a WatchList can help.
    Expired,
    /// The final list has been read.
    Done,
}

impl Rules {
    /// Takes the next line, the one with this number.
    pub(crate) fn line(&mut self, number: u64, line: Line<'_>) -> Result<(), Fault> {
        if let Some(t) = line.time() {
            let t = Duration::from_micros(t);
            if t < self.arrived.lasted {
                return Err(Fault::TimeRunsBackwards { from: self.arrived.lasted, to: t });
            }
            self.arrived.lasted = t;
        }
        self.check_order(&line)?;
        match line {
            Line::Page(page) => self.page(number, page),
            Line::WatchOpen(open) => self.watch_open(number, &open),
            Line::Event(event) => self.event(&event),
            Line::WatchClosed(_) => {
                self.watch_ended = true;
                Ok(())
            }
            Line::Final(last) => self.final_list(&last),
        }
    }

    /// Counts what has been read.
    pub(crate) fn read(&mut self, bytes: usize) {
        self.arrived.bytes += bytes as u64;
    }

    /// The trace, if it is complete.
    pub(crate) fn finish(self, name: String) -> Result<Trace, Fault> {
        match self.phase {
            Phase::Done => {}
            Phase::Start if self.arrived.bytes == 0 => return Err(Fault::Empty),
            Phase::Paging { since, .. } => return Err(Fault::MissingLastPage { since }),
            Phase::InitialEvents { since, .. } => return Err(Fault::MissingInitialEventsEnd { since }),
            Phase::Start | Phase::Watching | Phase::Expired => return Err(Fault::MissingFinal),
        }
        let mut keys: Vec<Key> = self.keys.into_iter().collect();
        keys.sort_unstable();
        Ok(Trace { name, steps: self.steps, arrived: self.arrived, expected: self.expected, keys })
    }

    /// Refuses a line of a kind that cannot come now, whatever it says.
    fn check_order(&self, line: &Line<'_>) -> Result<(), Fault> {
        match (&self.phase, line) {
            (Phase::Done, _) => Err(Fault::AfterFinal),
            (Phase::Paging { .. }, Line::Page(_)) | (Phase::InitialEvents { .. }, Line::Event(_)) => Ok(()),
            (Phase::Paging { since, .. }, _) => Err(Fault::MissingLastPage { since: *since }),
            (Phase::InitialEvents { since, .. }, _) => Err(Fault::MissingInitialEventsEnd { since: *since }),
            (Phase::Start, Line::Event(_)) => Err(Fault::BeforeFirstList("event")),
            (Phase::Start, Line::WatchClosed(_)) => Err(Fault::BeforeFirstList("watch_closed")),
            (Phase::Start, Line::Final(_)) => Err(Fault::BeforeFirstList("final")),
            (Phase::Expired, Line::Event(_)) => Err(Fault::AfterError),
            (Phase::Start | Phase::Watching | Phase::Expired, _) => Ok(()),
        }
    }

    fn page(&mut self, number: u64, page: wire::Page<'_>) -> Result<(), Fault> {
        let (since, pages, version, mut listed) = match std::mem::replace(&mut self.phase, Phase::Watching) {
            Phase::Paging { since, pages, version, listed } => (since, pages, version, listed),
            _ => {
                self.begin_list();
                (number, 0, Box::from(&*page.resource_version), HashSet::new())
            }
        };
        if page.page != pages + 1 {
            return Err(Fault::PageOutOfSequence { expected: pages + 1, found: page.page });
        }
        if page.resource_version.is_empty() {
            return Err(Fault::NoVersion("page of a list"));
        }
        if *page.resource_version != *version {
            return Err(Fault::AnotherVersion { list: version, page: page.resource_version.into() });
        }
        self.arrived.pages += 1;
        for item in &page.items {
            let object = self.object(item)?;
            self.arrived.items += 1;
            listed.insert(object.key.clone());
            self.step(Action::Item(object));
        }
        if page.last {
            self.arrived.vanished += self.live.difference(&listed).count() as u64;
            self.end_list(&version, listed);
        } else {
            self.phase = Phase::Paging { since, pages: page.page, version, listed };
        }
        Ok(())
    }

    fn watch_open(&mut self, number: u64, open: &wire::WatchOpen<'_>) -> Result<(), Fault> {
        if !open.send_initial_events {
            return Err(Fault::NotAWatchList);
        }
        self.arrived.watch_lists += 1;
        self.begin_list();
        self.phase = Phase::InitialEvents { since: number, listed: HashSet::new(), touched: HashSet::new() };
        Ok(())
    }

    fn event(&mut self, event: &wire::Event<'_>) -> Result<(), Fault> {
        if std::mem::take(&mut self.watch_ended) {
            self.arrived.resumed += 1;
        }
        match &*event.kind {
            "ADDED" => self.added(&event.object()?),
            "MODIFIED" => self.modified(&event.object()?),
            "DELETED" => self.deleted(&event.object()?),
            "BOOKMARK" => self.bookmark(&event.object()?),
            "ERROR" => {
                event.check_error()?;
                self.error()
            }
            other => Err(Fault::UnknownEvent(other.to_owned())),
        }
    }

    fn added(&mut self, object: &wire::Object<'_>) -> Result<(), Fault> {
        let object = self.object(object)?;
        self.arrived.added += 1;
        if !self.current().insert(object.key.clone()) {
            return Err(Fault::AlreadyThere(object.key.to_string()));
        }
        // The first time that a WatchList names an object stands for an item of a list. Whatever else happens
        // before the end mark is a change like any other, and newer than that item.
        let first = match &mut self.phase {
            Phase::InitialEvents { touched, .. } => touched.insert(object.key.clone()),
            _ => false,
        };
        self.arrived.initial += u64::from(first);
        self.step(if first { Action::Item(object) } else { Action::Apply(object) });
        Ok(())
    }

    fn modified(&mut self, object: &wire::Object<'_>) -> Result<(), Fault> {
        let object = self.object(object)?;
        self.arrived.modified += 1;
        if !self.current().contains(&object.key) {
            return Err(Fault::NotThere { event: "MODIFIED", key: object.key.to_string() });
        }
        self.step(Action::Apply(object));
        Ok(())
    }

    fn deleted(&mut self, object: &wire::Object<'_>) -> Result<(), Fault> {
        let object = self.object(object)?;
        self.arrived.deleted += 1;
        if !self.current().remove(&object.key) {
            return Err(Fault::NotThere { event: "DELETED", key: object.key.to_string() });
        }
        self.step(Action::Delete(object));
        Ok(())
    }

    fn bookmark(&mut self, object: &wire::Object<'_>) -> Result<(), Fault> {
        let version = present(&object.metadata.resource_version)
            .ok_or(Fault::Incomplete { missing: "metadata.resourceVersion" })?;
        self.arrived.bookmarks += 1;
        match std::mem::replace(&mut self.phase, Phase::Watching) {
            Phase::InitialEvents { listed, touched, .. } if object.ends_initial_events() => {
                self.arrived.vanished += self.live.difference(&touched).count() as u64;
                self.end_list(version, listed);
            }
            phase => {
                self.phase = phase;
                self.step(Action::Bookmark { version: version.into() });
            }
        }
        Ok(())
    }

    fn error(&mut self) -> Result<(), Fault> {
        if let Phase::InitialEvents { since, .. } = self.phase {
            return Err(Fault::ErrorAmongInitialEvents { since });
        }
        self.arrived.errors += 1;
        self.phase = Phase::Expired;
        Ok(())
    }

    fn final_list(&mut self, last: &wire::Final<'_>) -> Result<(), Fault> {
        if last.resource_version.is_empty() {
            return Err(Fault::NoVersion("final"));
        }
        let mut seen = HashSet::with_capacity(last.items.len());
        for Pair(key, version) in &last.items {
            if !seen.insert(&**key) {
                return Err(Fault::TwiceInFinal(key.to_string()));
            }
            self.expected.push((Arc::from(&**key), Box::from(&**version)));
        }
        self.phase = Phase::Done;
        Ok(())
    }

    fn begin_list(&mut self) {
        self.arrived.lists += 1;
        self.watch_ended = false;
        self.step(Action::BeginList);
    }

    fn end_list(&mut self, version: &str, listed: HashSet<Key>) {
        self.live = listed;
        self.phase = Phase::Watching;
        self.step(Action::EndList { version: version.into() });
    }

    /// The objects that are there, by the list in progress if there is one.
    fn current(&mut self) -> &mut HashSet<Key> {
        match &mut self.phase {
            Phase::InitialEvents { listed, .. } => listed,
            _ => &mut self.live,
        }
    }

    fn step(&mut self, action: Action) {
        self.steps.push(Step { at: self.arrived.lasted, action });
    }

    fn object(&mut self, object: &wire::Object<'_>) -> Result<Arc<Object>, Fault> {
        let metadata = &object.metadata;
        let name = present(&metadata.name).ok_or(Fault::Incomplete { missing: "metadata.name" })?;
        let version = present(&metadata.resource_version)
            .ok_or(Fault::Incomplete { missing: "metadata.resourceVersion" })?;
        let namespace = present(&metadata.namespace);
        let key = namespace.map_or(Cow::Borrowed(name), |namespace| format!("{namespace}/{name}").into());
        Ok(Arc::new(Object {
            key: shared(&mut self.keys, &key),
            namespace: shared(&mut self.strings, namespace.unwrap_or_default()),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            version: version.into(),
            placement: self.placement(object),
        }))
    }

    fn placement(&mut self, object: &wire::Object<'_>) -> Option<Placement> {
        let phase = object.status.as_ref()?.phase.as_deref()?;
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        Some(Placement {
            node: node.map(|node| shared(&mut self.strings, node)),
            phase: shared(&mut self.strings, phase),
        })
    }
}

/// The server leaves out what is empty, so an empty field is a missing one.
fn present<'a>(field: &'a Option<Cow<'_, str>>) -> Option<&'a str> {
    field.as_deref().filter(|text| !text.is_empty())
}

fn shared(known: &mut HashSet<Arc<str>>, text: &str) -> Arc<str> {
    if let Some(known) = known.get(text) {
        return known.clone();
    }
    let new: Arc<str> = text.into();
    known.insert(new.clone());
    new
}
