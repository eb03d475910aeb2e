//! The lines of a trace as they are written: JSON to typed fields, no rules yet.
//!
//! Objects are the API server's own bytes, several kilobytes each. Only the fields that a controller of this
//! size needs are kept; serde skips the rest, but still checks that it is JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json::{JsonObject, Pair, parse_object, whole_number};

/// The annotation that marks the end of a WatchList's initial events.
const INITIAL_EVENTS_END: &str = "true";

/// One line.
pub(crate) enum Line<'a> {
    Page(Page<'a>),
    Event(Event<'a>),
    WatchClosed(WatchClosed<'a>),
    WatchOpen(WatchOpen<'a>),
    Final(Final<'a>),
}

/// One page of a LIST.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<'a> {
    #[serde(deserialize_with = "whole_number")]
    pub(crate) t: u64,
    #[serde(deserialize_with = "whole_number")]
    pub(crate) page: u64,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    #[serde(default)]
    pub(crate) last: bool,
    #[serde(borrow)]
    pub(crate) items: Vec<JsonObject<Object<'a>>>,
}

/// One watch event. What its object has to look like depends on its type.
#[derive(Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(deserialize_with = "whole_number")]
    pub(crate) t: u64,
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The end of a watch. Why it ended changes nothing, but has to be told.
#[derive(Deserialize)]
pub(crate) struct WatchClosed<'a> {
    #[serde(deserialize_with = "whole_number")]
    pub(crate) t: u64,
    #[serde(rename = "reason", borrow)]
    _reason: Cow<'a, str>,
}

/// The start of a WatchList. Its resource version may be empty: any that the server has will do.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchOpen<'a> {
    #[serde(deserialize_with = "whole_number")]
    pub(crate) t: u64,
    #[serde(rename = "resourceVersion", borrow)]
    _resource_version: Cow<'a, str>,
    pub(crate) send_initial_events: bool,
}

/// The last line: what the server held when all had been quiet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Final<'a> {
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) items: Vec<Pair<'a>>,
}

/// The part of an object that is looked at.
#[derive(Deserialize)]
pub(crate) struct Object<'a> {
    #[serde(borrow)]
    pub(crate) metadata: JsonObject<Metadata<'a>>,
    #[serde(borrow)]
    pub(crate) spec: Option<JsonObject<Spec<'a>>>,
    #[serde(borrow)]
    pub(crate) status: Option<JsonObject<Status<'a>>>,
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
    annotations: Option<JsonObject<Annotations<'a>>>,
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
    #[serde(rename = "code", deserialize_with = "whole_number")]
    _code: u64,
}

impl<'a> Line<'a> {
    /// Reads one line, without its line feed.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(borrow)]
            kind: Cow<'a, str>,
        }
        if bytes.trim_ascii().is_empty() {
            return Err(Fault::EmptyLine);
        }
        // All of it: serde_json does not look into the strings that it skips.
        let text = std::str::from_utf8(bytes).map_err(|error| Fault::not_utf8(&error))?;
        // Two passes: serde's tagged enums would copy every object into a tree first.
        let tag: Tag<'a> = parse_object(text)?;
        match &*tag.kind {
            "list" => parse_object(text).map(Line::Page),
            "event" => parse_object(text).map(Line::Event),
            "watch_closed" => parse_object(text).map(Line::WatchClosed),
            "watch_open" => parse_object(text).map(Line::WatchOpen),
            "final" => parse_object(text).map(Line::Final),
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
        parse_object(self.object.get())
    }

    /// Checks that an ERROR event carries a Status with a code.
    pub(crate) fn check_error(&self) -> Result<(), Fault> {
        parse_object::<ErrorStatus>(self.object.get()).map(drop)
    }
}

impl Object<'_> {
    /// Whether this bookmark ends the initial events of a WatchList.
    pub(crate) fn ends_initial_events(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.initial_events_end.as_deref()) == Some(INITIAL_EVENTS_END)
    }
}
