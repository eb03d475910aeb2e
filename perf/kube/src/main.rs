//! kube-runtime's store as one of the laboratory's, and with its scheduler as a queue: the same workloads and checks, in a process
//! of its own.
//!
//! One run, of a workload that is read from standard input as JSON. Its figures go to standard output, as JSON too.

mod queue;

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;

use delta_fifo_perf::peers::Peer;
use delta_fifo_perf::stores::{Entry, Measured, Plain, Plan, Snapshot, Store};
use delta_fifo_perf::workload::description::{Description, Work};
use delta_fifo_perf::workload::{Case, Key, KeySet, Object, windowed};
use kube_runtime::reflector::store::{Store as Reader, Writer};
use kube_runtime::reflector::{Lookup, ObjectRef};
use kube_runtime::watcher::Event;
use parking_lot::Mutex;
use queue::Queue;
use serde_json::{Value, json};

const VERSION: &str = "kube-runtime 5";

/// An object that says its name and namespace and has nothing else of a resource, which is in the store's favour.
#[derive(Clone)]
struct Named {
    key: Key,
    object: Object,
}

/// Keys are `namespace/name`.
fn split(key: &Key) -> (&str, &str) {
    key.split_once('/').expect("a key has a namespace")
}

impl Lookup for Named {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        "Named".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "named".into()
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(split(&self.key).1.into())
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        Some(split(&self.key).0.into())
    }

    fn resource_version(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        None
    }
}

struct Kube {
    writer: Mutex<Writer<Named>>,
    reader: Reader<Named>,
}

impl Store for Kube {
    type Snapshot = State;

    fn filled(keys: &KeySet) -> Self {
        let writer = Writer::new(());
        let store = Self { reader: writer.as_reader(), writer: Mutex::new(writer) };
        (0..keys.len()).for_each(|number| store.write(keys.key(number), Object::new(0, number as u32, 1)));
        store
    }

    fn write(&self, key: &Key, object: Object) {
        let event = Event::Apply(Named { key: key.clone(), object });
        self.writer.lock().apply_watcher_event(&event);
    }

    fn snapshot(&self) -> State {
        State(self.reader.state())
    }

    fn get_with<R>(&self, key: &Key, f: impl FnOnce(&Object) -> R) -> Option<R> {
        let (namespace, name) = split(key);
        let named = self.reader.get(&ObjectRef::new(name).within(namespace))?;
        Some(f(&named.object))
    }
}

/// All that is in the store.
struct State(Vec<Arc<Named>>);

impl Snapshot for State {
    fn scan(&self, mut see: impl FnMut(&Key, &Object)) {
        self.0.iter().for_each(|named| see(&named.key, &named.object));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let description: Description = serde_json::from_reader(std::io::stdin().lock())?;
    let figures = match &description.work {
        Work::Store(plan) => as_store(&description, plan),
        Work::Windowed { case, handler, .. } if handler.is_zero() && case.consumers == 1 => {
            as_queue(case, &description.keys())
        }
        _ => return Err("its store, or W1 with one consumer".into()),
    };
    println!("{figures}");
    Ok(())
}

fn as_store(description: &Description, plan: &Plan) -> Value {
    let &Description { known, seed, .. } = description;
    let (keys, absent) = (description.keys(), KeySet::absent(known, seed));
    let entry = Entry::new::<Kube>("kube", "kube-runtime's store");
    let Measured { times, hits, misses, written, violations } =
        (entry.measure)(plan, &keys, &absent, &Plain::filled(&keys));
    json!({
        "snapshot": times.snapshot,
        "drop": times.drop,
        "scan": times.scan,
        "hit": hits.ns,
        "miss": misses.ns,
        "written": written.map(|written| written.ns),
        "version": VERSION,
        "violations": violations,
    })
}

/// Once to get warm.
fn as_queue(case: &Case, keys: &KeySet) -> Value {
    let run = || windowed::run(&Queue::new(), case, keys);
    let mut outcome = run();
    if outcome.violations.is_empty() {
        outcome = run();
    }
    json!({
        "elapsed": outcome.elapsed.as_nanos() as u64,
        "changes": outcome.changes,
        "version": VERSION,
        "violations": outcome.violations,
    })
}
