//! A recording of ConfigMaps that come, change and go, written again.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use serde_json::Value;

use super::cluster::{Keys, Plan, Write};

pub(super) const NAME: &str = "configmaps-churn";
/// Objects in its first list.
pub(super) const FIRST: usize = 151;
/// Part of the program, so that it runs anywhere.
static RECORDED: &[u8] = include_bytes!("../../data/traces/configmaps-churn.jsonl.zst");

/// Its first list, and at most so many of its changes.
pub(super) fn plan(most: usize) -> Plan {
    let decoder = zstd::Decoder::with_buffer(RECORDED).expect("a test decodes it");
    let (mut keys, mut first, mut writes) = (Keys::default(), Vec::new(), Vec::new());
    for line in BufReader::new(decoder).lines() {
        let mut line: Value = serde_json::from_str(&line.expect("a test reads it")).expect("it is JSON");
        match (line["kind"].as_str(), line["type"].as_str()) {
            (Some("list"), _) => {
                let Value::Array(items) = line["items"].take() else { panic!("a list without items") };
                items.iter().for_each(|object| _ = number(&mut keys, object));
                first.extend(items);
            }
            (Some("event"), Some("ADDED" | "MODIFIED")) => {
                let object = line["object"].take();
                writes.push(Write::Put(number(&mut keys, &object), object));
            }
            (Some("event"), Some("DELETED")) => {
                let (object, text) = (&line["object"], |field| text(&line["object"], field));
                let (namespace, name) = (text("namespace"), text("name"));
                writes.push(Write::Delete { number: number(&mut keys, object), namespace, name });
            }
            _ => {}
        }
        if writes.len() == most {
            break;
        }
    }
    Plan { keys: Arc::new(keys), first, writes }
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

fn number(keys: &mut Keys, object: &Value) -> usize {
    keys.number_of(&text(object, "namespace"), &text(object, "name"))
}
