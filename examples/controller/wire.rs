//! The lines of a trace as they are written: JSON to typed fields, no rules yet.
//!
//! Objects are the API server's own bytes, several kilobytes each. Only the fields that a controller of this
//! size needs are kept; serde skips the rest, but still checks that it is JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;

/// The annotation that marks the end of a WatchList's initial events.
const INITIAL_EVENTS_END: &str = "true";

/// One line.
pub(crate) enum Line<'a> {
    Page(Page<'a>),
    Event(Event<'a>),
    WatchClosed(WatchClosed),
    WatchOpen(WatchOpen),
    Final(Final<'a>),
}

/// One page of a LIST.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<'a> {
    pub(crate) t: u64,
    pub(crate) page: u64,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    #[serde(default)]
    pub(crate) last: bool,
    #[serde(borrow)]
    pub(crate) items: Vec<Object<'a>>,
}

/// One watch event. What its object has to look like depends on its type.
#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    pub(crate) t: u64,
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
pub(crate) struct WatchClosed {
    pub(crate) t: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchOpen {
    pub(crate) t: u64,
    pub(crate) send_initial_events: bool,
}

/// The last line: what the server held when all had been quiet.
#[derive(Deserialize)]
pub(crate) struct Final<'a> {
    #[serde(rename = "resourceVersion", borrow)]
    _resource_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) items: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The part of an object that is looked at.
#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(crate) spec: Option<Spec<'a>>,
    #[serde(borrow)]
    pub(crate) status: Option<Status<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) node_name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(crate) struct Status<'a> {
    #[serde(borrow)]
    pub(crate) phase: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(rename = "k8s.io/initial-events-end", borrow)]
    initial_events_end: Option<Cow<'a, str>>,
}

/// What an ERROR event carries instead of an object.
#[derive(Deserialize)]
struct ErrorStatus {
    #[serde(rename = "code")]
    _code: u16,
}

impl<'a> Line<'a> {
    /// Reads one line, without its line feed.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        #[serde(expecting = "a JSON object")]
        struct Tag<'a> {
            #[serde(borrow)]
            kind: Cow<'a, str>,
        }
        // Two passes: serde's tagged enums would copy every object into a tree first.
        let tag: Tag<'a> = parse(bytes)?;
        match &*tag.kind {
            "list" => parse(bytes).map(Line::Page),
            "event" => parse(bytes).map(Line::Event),
            "watch_closed" => parse(bytes).map(Line::WatchClosed),
            "watch_open" => parse(bytes).map(Line::WatchOpen),
            "final" => parse(bytes).map(Line::Final),
            other => Err(Fault::UnknownKind(other.to_owned())),
        }
    }

    /// Microseconds since the start of the recording, where the line has them.
    pub(crate) fn time(&self) -> Option<u64> {
        match self {
            Line::Page(page) => Some(page.t),
            Line::Event(event) => Some(event.t),
            Line::WatchClosed(closed) => Some(closed.t),
            Line::WatchOpen(open) => Some(open.t),
            Line::Final(_) => None,
        }
    }
}

impl<'a> Event<'a> {
    /// The object of an ADDED, MODIFIED, DELETED or BOOKMARK event.
    pub(crate) fn object(&self) -> Result<Object<'a>, Fault> {
        parse(self.object.get().as_bytes())
    }

    /// Checks that an ERROR event carries a Status with a code.
    pub(crate) fn check_error(&self) -> Result<(), Fault> {
        parse::<ErrorStatus>(self.object.get().as_bytes()).map(drop)
    }
}

impl Object<'_> {
    /// Whether this bookmark ends the initial events of a WatchList.
    pub(crate) fn ends_initial_events(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.initial_events_end.as_deref()) == Some(INITIAL_EVENTS_END)
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(Fault::from_json)
}
