//! A trace, decoded: what a reflector would have been told, step by step, and what the server held at the end.
//!
//! Everything is read and checked before anything is replayed, so that a damaged file gives no half result and
//! so that decoding does not count as time spent in the queue.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fault::{Damage, Fault};
use crate::rules::Rules;
use crate::wire::Line;

/// `namespace/name`, or the name alone for objects without a namespace.
pub(crate) type Key = Arc<str>;

/// What a trace tells, in the order in which the client read it.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The file's name without its extensions.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    pub(crate) arrived: Arrived,
    /// Keys and resource versions of the list that the recorder made separately at the very end.
    pub(crate) expected: Vec<(Key, Box<str>)>,
    /// Every key that occurs, sorted.
    pub(crate) keys: Vec<Key>,
}

#[derive(Debug)]
pub(crate) struct Step {
    /// Since the start of the recording.
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// What the reflector does about a line, or about one item of it.
#[derive(Debug)]
pub(crate) enum Action {
    /// A LIST or a WatchList begins.
    BeginList,
    /// An object of the list.
    Item(Arc<Object>),
    /// The list is complete: what it did not name is gone.
    EndList { version: Box<str> },
    /// ADDED or MODIFIED.
    Apply(Arc<Object>),
    /// DELETED, with the object's last state; its resource version is that of the deletion.
    Delete(Arc<Object>),
    /// A bookmark: nothing changed up to this resource version.
    Bookmark { version: Box<str> },
}

impl Action {
    /// The resource version that the client has reached with this, if it tells one.
    pub(crate) fn version(&self) -> Option<&str> {
        match self {
            // An item's own version is older than that of its list, which is not complete yet.
            Action::BeginList | Action::Item(_) => None,
            Action::EndList { version } | Action::Bookmark { version } => Some(version),
            Action::Apply(object) | Action::Delete(object) => Some(&object.version),
        }
    }
}

/// What a controller of this size keeps of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) namespace: Arc<str>,
    /// Tells an object from a later one of the same name.
    pub(crate) uid: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) placement: Option<Placement>,
}

/// Where a pod is and how it does. Other objects have none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placement {
    /// None while it is not scheduled.
    pub(crate) node: Option<Arc<str>>,
    pub(crate) phase: Arc<str>,
}

/// What came in, counted while decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Uncompressed.
    pub(crate) bytes: u64,
    /// From the start of the recording to its last line that has a time.
    pub(crate) lasted: Duration,
    /// LISTs and WatchLists.
    pub(crate) lists: u64,
    pub(crate) watch_lists: u64,
    pub(crate) pages: u64,
    /// Objects of the lists' pages.
    pub(crate) items: u64,
    pub(crate) added: u64,
    /// The ADDED events among them that stand for the items of a list.
    pub(crate) initial: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    pub(crate) bookmarks: u64,
    pub(crate) errors: u64,
    /// Watches that went on from the last resource version, without a new list.
    pub(crate) resumed: u64,
    /// Objects that a list showed to be gone, without a DELETED event for them.
    pub(crate) vanished: u64,
}

impl Arrived {
    /// Watch events without bookmarks and errors.
    pub(crate) fn events(&self) -> u64 {
        self.added + self.modified + self.deleted
    }

    /// Objects that lists named, whichever way they were told.
    pub(crate) fn listed(&self) -> u64 {
        self.items + self.initial
    }

    /// Changes that the queue has to hand out: what the producer offers and what the lists show to be gone.
    pub(crate) fn changes(&self) -> u64 {
        self.items + self.events() + self.vanished
    }
}

macro_rules! recorded {
    ($($file:literal),+ $(,)?) => {
        &[$((
            $file,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/traces/", $file)).as_slice(),
        )),+]
    };
}

/// The traces of `tests/data/traces`, part of the program so that it runs anywhere.
pub(crate) const EMBEDDED: &[(&str, &[u8])] =
    recorded!["mixed-namespaces-small.jsonl", "pods-watchlist.jsonl.zst", "leases.jsonl.zst"];

/// Reads and checks a trace from a file, plain or compressed.
pub(crate) fn load(path: &Path) -> Result<Trace, Damage> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(open) => decode(&file, BufReader::with_capacity(1 << 16, open)),
        Err(error) => Err(Damage { file, line: None, fault: Fault::Unreadable(error) }),
    }
}

/// Reads and checks a trace. `file` names it, in messages and, without its extensions, as the trace's name.
///
/// What is compressed is told by its first bytes or by the name's ending.
pub(crate) fn decode(file: &str, mut data: impl BufRead) -> Result<Trace, Damage> {
    let damage = |line, fault| Damage { file: file.to_owned(), line, fault };
    let magic = zstd::zstd_safe::MAGICNUMBER.to_le_bytes();
    let start = data.fill_buf().map_err(|error| damage(None, Fault::Unreadable(error)))?;
    if start.starts_with(&magic) || file.ends_with(".zst") {
        let plain =
            zstd::Decoder::with_buffer(data).map_err(|error| damage(Some(1), Fault::Compression(error)))?;
        decode_lines(file, BufReader::with_capacity(1 << 16, plain), Fault::Compression)
    } else {
        decode_lines(file, data, Fault::Unreadable)
    }
}

fn decode_lines(
    file: &str,
    mut data: impl BufRead,
    unreadable: impl Fn(io::Error) -> Fault,
) -> Result<Trace, Damage> {
    let mut rules = Rules::default();
    let mut text = Vec::new();
    let mut number = 0;
    let damage = |line, fault| Damage { file: file.to_owned(), line: Some(line), fault };
    loop {
        text.clear();
        let read =
            data.read_until(b'\n', &mut text).map_err(|error| damage(number + 1, unreadable(error)))?;
        if read == 0 {
            break;
        }
        number += 1;
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        Line::parse(line).and_then(|line| rules.line(number, line)).map_err(|fault| damage(number, fault))?;
        rules.read(read);
    }
    // What is missing at the end is missing after the last line there is.
    rules.finish(name_of(file)).map_err(|fault| damage(number.max(1), fault))
}

/// `traces/pods.jsonl.zst` → `pods`.
fn name_of(file: &str) -> String {
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy());
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    name.strip_suffix(".jsonl").unwrap_or(name).to_owned()
}
