//! Create, update, patch, delete.

use serde_json::Value;

use crate::ApiServer;
use crate::faults::{Failure, Verb};
use crate::read::not_found;
use crate::request::Route;
use crate::respond::{Answer, json_bytes};
use crate::store::State;

/// RFC 7386.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("it was made one").remove(&key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn conflict(what: &str) -> Failure {
    Failure::status(409, "Conflict").with_message(what)
}

impl ApiServer {
    pub(crate) fn write(&self, verb: Verb, route: &Route, body: &[u8], is_apply: bool) -> Answer {
        let object = match body {
            [] => Value::Null,
            body => serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?,
        };
        self.change(|state| match verb {
            Verb::Create => create(state, route, object),
            Verb::Update => update(state, route, object),
            Verb::Patch => patch(state, route, object, is_apply),
            _ => delete(state, route, &object),
        })
    }
}

fn bad(message: &str) -> Failure {
    Failure::status(400, "BadRequest").with_message(message)
}

fn create(state: &mut State, route: &Route, mut object: Value) -> Answer {
    if text(&object, "name").is_empty() && !text(&object, "generateName").is_empty() {
        object["metadata"]["name"] = format!("{}{:05}", text(&object, "generateName"), state.version).into();
    }
    let name = text(&object, "name").to_owned();
    if name.is_empty() {
        return Err(Failure::status(422, "Invalid").with_message("name or generateName is required"));
    }
    if state.get(&route.resource, &route.namespace, &name).is_some() {
        return Err(Failure::status(409, "AlreadyExists").with_message(format!("{name:?} already exists")));
    }
    Ok(json_bytes(201, state.put(&route.resource, &route.namespace, &name, object).json.clone()))
}

fn update(state: &mut State, route: &Route, object: Value) -> Answer {
    let known = state.get(&route.resource, &route.namespace, &route.name).ok_or_else(|| not_found(route))?;
    let version = text(&object, "resourceVersion");
    if !version.is_empty() && version != known.version.to_string() {
        return Err(conflict(
            "the object has been modified; please apply your changes to the latest version",
        ));
    }
    let uid = text(&object, "uid");
    if !uid.is_empty() && uid != known.uid {
        return Err(conflict("the UID in the precondition is another"));
    }
    Ok(json_bytes(200, state.put(&route.resource, &route.namespace, &route.name, object).json.clone()))
}

fn patch(state: &mut State, route: &Route, patch: Value, is_apply: bool) -> Answer {
    let mut object = match state.get(&route.resource, &route.namespace, &route.name) {
        Some(known) => serde_json::from_slice(&known.json).expect("it was written here"),
        None if is_apply => Value::Null,
        None => return Err(not_found(route)),
    };
    let before = object.clone();
    merge(&mut object, patch);
    if object == before {
        // Nothing has changed: no new version.
        let body = serde_json::to_vec(&object).expect("a value is written");
        return Ok(json_bytes(200, body.into()));
    }
    Ok(json_bytes(200, state.put(&route.resource, &route.namespace, &route.name, object).json.clone()))
}

fn delete(state: &mut State, route: &Route, options: &Value) -> Answer {
    let known = state.get(&route.resource, &route.namespace, &route.name).ok_or_else(|| not_found(route))?;
    let wanted = |field: &str| options["preconditions"][field].as_str();
    if wanted("uid").is_some_and(|uid| uid != known.uid)
        || wanted("resourceVersion").is_some_and(|version| version != known.version.to_string())
    {
        return Err(conflict("a precondition does not hold"));
    }
    let last =
        state.delete(&route.resource, &route.namespace, &route.name).ok_or_else(|| not_found(route))?;
    Ok(json_bytes(200, last.json.clone()))
}
