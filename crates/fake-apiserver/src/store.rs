//! What the server knows: objects as the bytes that it sends, and what happened to them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::faults::{Failure, Verb};

/// One object at one version.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Empty: it is in none.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) json: Bytes,
}

impl Entry {
    /// The same object at another version.
    pub(crate) fn json_at(&self, version: u64) -> Vec<u8> {
        let mut object: Value = serde_json::from_slice(&self.json).expect("it was written here");
        object["metadata"]["resourceVersion"] = version.to_string().into();
        serde_json::to_vec(&object).expect("a value is written")
    }
}

/// One step in the history of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) before: Option<Arc<Entry>>,
    /// For a deletion: as it was last, at the version of the deletion.
    pub(crate) object: Arc<Entry>,
    pub(crate) is_deletion: bool,
    /// What a watch without selectors is sent.
    pub(crate) line: Bytes,
}

/// All objects of a resource at one version, for the pages of lists.
pub(crate) type Snapshot = Arc<[Arc<Entry>]>;

#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// By namespace and name.
    pub(crate) all: BTreeMap<(String, String), Arc<Entry>>,
    pub(crate) log: VecDeque<Change>,
    /// The newest one, as long as nothing has changed.
    snapshot: Option<Snapshot>,
}

impl Objects {
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.snapshot.get_or_insert_with(|| self.all.values().cloned().collect()).clone()
    }
}

/// How watches come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Killed,
    Gone,
}

/// A list that has pages left.
#[derive(Debug)]
pub(crate) struct OpenList {
    pub(crate) snapshot: Snapshot,
    pub(crate) version: u64,
}

/// When every object was created: versions say which was first.
const CREATED: &str = "2024-01-01T00:00:00Z";
/// So many lists may have pages left; the oldest go first.
const OPEN_LISTS: usize = 64;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) version: u64,
    /// What led to versions up to this one is forgotten.
    pub(crate) compacted: u64,
    uids: u64,
    pub(crate) resources: HashMap<String, Objects>,
    pub(crate) history: usize,
    /// How often all watches have been ended, and how the last time.
    pub(crate) endings: (u64, Ending),
    pub(crate) bookmarks: u64,
    pub(crate) bookmark_period: Option<Duration>,
    pub(crate) open_lists: BTreeMap<u64, OpenList>,
    next_list: u64,
    pub(crate) is_down: bool,
    pub(crate) refuses_streams: bool,
    pub(crate) latency: Duration,
    pub(crate) failures: VecDeque<(Verb, Failure)>,
    pub(crate) requests: HashMap<Verb, u64>,
}

impl Default for State {
    fn default() -> Self {
        State {
            // Zero has a meaning of its own in requests.
            version: 1,
            compacted: 0,
            uids: 0,
            resources: HashMap::new(),
            history: usize::MAX,
            endings: (0, Ending::Closed),
            bookmarks: 0,
            bookmark_period: None,
            open_lists: BTreeMap::new(),
            next_list: 0,
            is_down: false,
            refuses_streams: false,
            latency: Duration::ZERO,
            failures: VecDeque::new(),
            requests: HashMap::new(),
        }
    }
}

pub(crate) fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(kind.len() + object.len() + 24);
    add_line(&mut line, kind, object);
    line.into()
}

pub(crate) fn add_line(to: &mut Vec<u8>, kind: &str, object: &[u8]) {
    to.extend_from_slice(b"{\"type\":\"");
    to.extend_from_slice(kind.as_bytes());
    to.extend_from_slice(b"\",\"object\":");
    to.extend_from_slice(object);
    to.extend_from_slice(b"}\n");
}

fn entry(namespace: &str, name: &str, mut object: Value, uid: String, version: u64) -> Entry {
    let metadata = &mut object["metadata"];
    metadata["name"] = name.into();
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata["uid"] = uid.as_str().into();
    metadata["resourceVersion"] = version.to_string().into();
    metadata["creationTimestamp"] = CREATED.into();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = match metadata.get("labels") {
        Some(Value::Object(labels)) => labels.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
        _ => Vec::new(),
    };
    let json = serde_json::to_vec(&object).expect("a value is written").into();
    Entry { namespace: namespace.to_owned(), name: name.to_owned(), labels, uid, version, json }
}

impl State {
    pub(crate) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.resources.get(resource)?.all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Creates the object, or puts it in the place of the one that is there.
    pub(crate) fn put(&mut self, resource: &str, namespace: &str, name: &str, object: Value) -> Arc<Entry> {
        self.version += 1;
        let version = self.version;
        let objects = self.resources.entry(resource.to_owned()).or_default();
        let key = (namespace.to_owned(), name.to_owned());
        let before = objects.all.get(&key).cloned();
        let uid = match &before {
            Some(before) => before.uid.clone(),
            None => {
                self.uids += 1;
                format!("00000000-0000-4000-8000-{:012x}", self.uids)
            }
        };
        let object = Arc::new(entry(namespace, name, object, uid, version));
        objects.all.insert(key, Arc::clone(&object));
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        let line = line(kind, &object.json);
        let change = Change { version, before, object: Arc::clone(&object), is_deletion: false, line };
        self.log(resource, change);
        object
    }

    pub(crate) fn delete(&mut self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let objects = self.resources.get_mut(resource)?;
        let before = objects.all.remove(&(namespace.to_owned(), name.to_owned()))?;
        self.version += 1;
        let version = self.version;
        let object: Value = serde_json::from_slice(&before.json).expect("it was written here");
        let object = Arc::new(entry(namespace, name, object, before.uid.clone(), version));
        let line = line("DELETED", &object.json);
        let (last, before) = (Arc::clone(&object), Some(before));
        self.log(resource, Change { version, before, object, is_deletion: true, line });
        Some(last)
    }

    fn log(&mut self, resource: &str, change: Change) {
        let objects = self.resources.get_mut(resource).expect("it has just been changed");
        objects.snapshot = None;
        objects.log.push_back(change);
        while objects.log.len() > self.history {
            let forgotten = objects.log.pop_front().expect("it is longer");
            // A watch of another resource may be told so for nothing, as with a real server's compaction.
            self.compacted = self.compacted.max(forgotten.version);
        }
    }

    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
        self.resources.values_mut().for_each(|objects| objects.log.clear());
        self.open_lists.clear();
    }

    pub(crate) fn end_watches(&mut self, ending: Ending) {
        self.endings = (self.endings.0 + 1, ending);
    }

    /// The number under which the rest of a list can be asked for.
    pub(crate) fn open_list(&mut self, snapshot: Snapshot, version: u64) -> u64 {
        self.next_list += 1;
        self.open_lists.insert(self.next_list, OpenList { snapshot, version });
        while self.open_lists.len() > OPEN_LISTS {
            self.open_lists.pop_first();
        }
        self.next_list
    }

    /// How this request is to fail, if it is.
    pub(crate) fn failure(&mut self, verb: Verb) -> Option<Failure> {
        *self.requests.entry(verb).or_default() += 1;
        let index = self.failures.iter().position(|(of, _)| *of == verb)?;
        self.failures.remove(index).map(|(_, failure)| failure)
    }
}
