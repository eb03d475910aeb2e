//! Lists and single objects.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;

use crate::ApiServer;
use crate::faults::Failure;
use crate::request::{Query, Route};
use crate::respond::{Answer, json_bytes, json_stream};
use crate::selector::Selector;
use crate::store::{Entry, Snapshot, State};

pub(crate) fn selector(route: &Route, query: &Query) -> Result<Selector, Failure> {
    Selector::new(&route.namespace, &query.labels, &query.fields)
        .map_err(|message| Failure::status(400, "BadRequest").with_message(message))
}

/// As a server answers whose cache does not have a version yet.
pub(crate) fn too_new(version: &str) -> Failure {
    Failure::status(504, "Timeout")
        .retry_after(1)
        .with_message(format!("Too large resource version: {version}"))
}

/// The page of a list from this object on, and where the next one begins.
fn page<'s>(
    snapshot: &'s Snapshot,
    start: usize,
    limit: Option<usize>,
    selector: &Selector,
) -> (Vec<&'s Arc<Entry>>, Option<usize>) {
    let mut page = Vec::new();
    for (at, entry) in snapshot.iter().enumerate().skip(start) {
        if selector.is_all() || selector.holds(entry) {
            if limit == Some(page.len()) {
                return (page, Some(at));
            }
            page.push(entry);
        }
    }
    (page, None)
}

/// The list, the object with which the page begins, and the version of the list.
fn begin(state: &mut State, route: &Route, query: &Query) -> Result<(Snapshot, usize, u64), Failure> {
    if let Some(token) = &query.token {
        let expired = || Failure::gone().with_message("The provided continue parameter is too old");
        let (list, start) = token.split_once('-').ok_or_else(expired)?;
        let (list, start) = (list.parse::<u64>().ok(), start.parse::<usize>().ok());
        let open = list.and_then(|list| state.open_lists.get(&list)).ok_or_else(expired)?;
        return Ok((Arc::clone(&open.snapshot), start.ok_or_else(expired)?, open.version));
    }
    if let Some(version) = &query.version {
        let number: u64 = version.parse().map_err(|_| Failure::status(400, "BadRequest"))?;
        if number > state.version {
            return Err(too_new(version));
        }
    }
    let snapshot = state.resources.entry(route.resource.clone()).or_default().snapshot();
    Ok((snapshot, 0, state.version))
}

impl ApiServer {
    pub(crate) fn list(&self, route: &Route, query: &Query) -> Answer {
        let selector = selector(route, query)?;
        // What follows the lock looks at what no longer changes.
        let (snapshot, start, version) = begin(&mut self.state(), route, query)?;
        let (page, next) = page(&snapshot, start, query.limit, &selector);
        let mut head =
            format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}""#);
        if let Some(next) = next {
            let list = match query.token.as_deref().and_then(|token| token.split_once('-')) {
                Some((list, _)) => list.parse().expect("it was found"),
                None => self.state().open_list(Arc::clone(&snapshot), version),
            };
            head.push_str(&format!(r#","continue":"{list}-{next}""#));
        }
        head.push_str(r#"},"items":["#);
        let mut parts = Vec::with_capacity(page.len() * 2 + 2);
        parts.push(Ok(Bytes::from(head)));
        for (at, entry) in page.into_iter().enumerate() {
            if at > 0 {
                parts.push(Ok(Bytes::from_static(b",")));
            }
            parts.push(Ok(entry.json.clone()));
        }
        parts.push(Ok(Bytes::from_static(b"]}")));
        Ok(json_stream(stream::iter(parts).boxed()))
    }

    pub(crate) fn get(&self, route: &Route) -> Answer {
        match self.state().get(&route.resource, &route.namespace, &route.name) {
            Some(entry) => Ok(json_bytes(200, entry.json.clone())),
            None => Err(not_found(route)),
        }
    }
}

pub(crate) fn not_found(route: &Route) -> Failure {
    let message = format!("{} {:?} not found", route.resource, route.name);
    Failure::status(404, "NotFound").with_message(message)
}
