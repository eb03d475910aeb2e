//! Recordings, from JSON lines to steps. Their format stands in `tests/data/traces/README.md` at the top of the repository.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader};

use delta_fifo_perf::workload::Key;
use delta_fifo_perf::workload::replay::{Step, Trace};
use serde::Deserialize;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// All of a recording.
pub(super) fn decode(compressed: &[u8]) -> Result<Trace> {
    let mut lines = BufReader::with_capacity(1 << 16, zstd::Decoder::with_buffer(compressed)?);
    let (mut decoder, mut line, mut number) = (Decoder::default(), String::new(), 0);
    while lines.read_line(&mut line)? > 0 {
        number += 1;
        decoder.line(&line).map_err(|error| format!("line {number}: {error}"))?;
        line.clear();
    }
    decoder
        .end
        .map(|end| Trace { keys: decoder.keys, steps: decoder.steps, end })
        .ok_or("it has no end".into())
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    last: bool,
    #[serde(borrow)]
    items: Vec<Object<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    object: Option<Object<'a>>,
}

#[derive(Deserialize)]
struct Final<'a> {
    #[serde(borrow)]
    items: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
}

#[derive(Default)]
struct Decoder {
    keys: Vec<Key>,
    numbers: HashMap<Key, u32>,
    /// By key: whether it is there, after the steps so far.
    exists: Vec<bool>,
    steps: Vec<Step>,
    /// The pages so far of a list that goes on.
    pages: Vec<u32>,
    end: Option<Vec<bool>>,
}

impl Decoder {
    fn line(&mut self, line: &str) -> Result<()> {
        match &*serde_json::from_str::<Line<'_>>(line)?.kind {
            "list" => {
                let page: Page<'_> = serde_json::from_str(line)?;
                for item in page.items {
                    let number = self.number(item);
                    self.pages.push(number);
                }
                if page.last {
                    let items = std::mem::take(&mut self.pages);
                    self.exists.fill(false);
                    items.iter().for_each(|&number| self.exists[number as usize] = true);
                    self.steps.push(Step::List(items));
                }
            }
            "event" => self.event(serde_json::from_str(line)?)?,
            // The next line says what comes of it.
            "watch_closed" => {}
            "final" => {
                let last: Final<'_> = serde_json::from_str(line)?;
                let mut end = vec![false; self.keys.len()];
                for (key, _) in last.items {
                    let number =
                        self.numbers.get(&*key).ok_or("a key that never came is there in the end")?;
                    end[*number as usize] = true;
                }
                if end != self.exists {
                    return Err("the steps do not lead to the end".into());
                }
                self.end = Some(end);
            }
            other => return Err(format!("{other} is not among what is replayed here").into()),
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>) -> Result<()> {
        let (step, exists): (fn(u32) -> Step, bool) = match &*event.kind {
            "ADDED" => (Step::Add, true),
            "MODIFIED" => (Step::Update, true),
            "DELETED" => (Step::Delete, false),
            "BOOKMARK" | "ERROR" => return Ok(()),
            other => return Err(format!("an event {other}").into()),
        };
        let number = self.number(event.object.ok_or("an event without an object")?);
        let before = std::mem::replace(&mut self.exists[number as usize], exists);
        if before == (event.kind == "ADDED") {
            return Err(format!("{} of {}, which is not so", event.kind, self.keys[number as usize]).into());
        }
        self.steps.push(step(number));
        Ok(())
    }

    fn number(&mut self, object: Object<'_>) -> u32 {
        let Metadata { name, namespace } = object.metadata;
        let key: Key = if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() };
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.keys.push(key.clone());
            self.exists.push(false);
            self.keys.len() as u32 - 1
        })
    }
}
