//! Replaying one recorded run on a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use delta_fifo::{Builder, Delta, DeltaQueue, Emit, KnownView, Lease, TryPopError, Work, WorkQueue};

use crate::common::{Family, Store};
use crate::record::{Expect, Known, Recording, Run, Step};

/// The first difference, with its place.
pub(crate) fn replay<F: Family>(recording: &Recording, run: &Run) -> Result<(), String> {
    let mut step = 0;
    let result = match run.config.as_str() {
        "workqueue" => replay_workqueue::<F>(run, &mut step),
        _ => replay_deltas::<F>(run, &mut step),
    };
    result.map_err(|wrong| {
        let op = step.checked_sub(1).and_then(|index| run.steps.get(index)).map_or("", |step| &step.op);
        format!("{}, seed {}, step {step} ({op}): {wrong}", recording.path.display(), run.seed)
    })
}

fn equal<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}")) }
}

fn say<T, E: Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("expected success, got {error:?}"))
}

fn need<T: Clone>(field: &str, value: &Option<T>) -> Result<T, String> {
    value.clone().ok_or_else(|| format!("the step has no {field:?}"))
}

fn replay_deltas<F: Family>(run: &Run, number: &mut usize) -> Result<(), String> {
    let store = Store::default();
    let (mode, _) = run.config.split_once('-').unwrap_or((&run.config, ""));
    let emit = match run.emit.as_deref() {
        Some("Replaced") => Emit::Replaced,
        Some("Sync") => Emit::Sync,
        other => return Err(format!("there is no emit {other:?}")),
    };
    let mut builder = Builder::new().replace_emits(emit);
    match (mode, &run.known) {
        ("none", Known::Null) => builder = builder.no_known_objects(),
        ("inside", Known::Null) => {}
        ("external", Known::Objects(known)) => {
            store.set(known.clone());
            builder = builder.known_objects(store.clone());
        }
        (_, known) => return Err(format!("known objects {known:?} make no sense for {mode}")),
    }
    let queue: F::Queue<String, u32> = builder.build();
    for step in &run.steps {
        *number += 1;
        if step.op == "pop" {
            pop(&queue, &store, step)?;
        } else {
            produce(&queue, step)?;
        }
        equal("len", queue.pending_len(), step.len)?;
        equal("leased", queue.leased_len(), 0)?;
        if let Some(synced) = step.synced {
            equal("synced", queue.has_synced(), synced)?;
        }
    }
    equal("after the last step", queue.try_pop().map(|lease| lease.key().clone()), Err(TryPopError::Empty))?;
    let final_known = match mode {
        "none" => {
            equal("known objects", queue.known().len(), 0)?;
            Known::Null
        }
        "external" => Known::Objects(store.objects()),
        _ => Known::Objects(
            queue
                .known()
                .iter()
                .map(|known| (known.key().clone(), *known.object()))
                .collect::<BTreeMap<_, _>>(),
        ),
    };
    equal("final_known", final_known, run.final_known.clone())
}

fn produce<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q, step: &Step) -> Result<(), String> {
    let key = || need("k", &step.k);
    let value = || need("v", &step.v);
    match step.op.as_str() {
        "add" => say(queue.add(key()?, value()?)),
        "update" => say(queue.update(key()?, value()?)),
        "delete" => say(queue.delete(key()?, value()?)),
        "delete_key" => say(queue.delete_key(key()?)),
        "replace" => say(queue.replace(need("list", &step.list)?)),
        "resync" => say(queue.resync()),
        other => Err(format!("there is no step {other:?}")),
    }
}

/// The next pops hand out exactly what is expected, in any order if there are several.
fn pop<Q>(queue: &Q, store: &Store, step: &Step) -> Result<(), String>
where
    Q: DeltaQueue<Key = String, Value = u32>,
{
    equal("n", step.expect.len(), need("n", &step.n)?)?;
    let mut got = Vec::new();
    for _ in &step.expect {
        let lease = queue.try_pop().map_err(|error| format!("expected a lease, got {error:?}"))?;
        store.note(&lease);
        got.push(show(&lease));
        if step.requeue { lease.requeue() } else { lease.done() }
    }
    got.sort();
    for (got, expected) in got.iter_mut().zip(&step.expect) {
        if expected.initial.is_none() {
            got.initial = None;
        }
    }
    equal("pops", got.as_slice(), step.expect.as_slice())
}

fn show<Q: DeltaQueue<Key = String, Value = u32>>(lease: &Lease<'_, Q>) -> Expect {
    let text = |delta: Delta<'_, String, u32>| match delta {
        Delta::Added(value) => format!("A{value}"),
        Delta::Updated(value) => format!("U{value}"),
        Delta::Deleted(value) => format!("D{value}"),
        Delta::Replaced(value) => format!("R{value}"),
        Delta::Sync(value) => format!("S{value}"),
        Delta::DeletedFinalStateUnknown(tombstone) => match tombstone.object {
            Some(value) => format!("T{value}"),
            None => "T-".to_owned(),
        },
    };
    Expect {
        k: lease.key().clone(),
        d: lease.deltas().iter().map(text).collect(),
        prev: lease.previous().copied(),
        initial: Some(lease.is_initial()),
    }
}

/// Marks only: a queue of keys with several leases open at once.
fn replay_workqueue<F: Family>(run: &Run, number: &mut usize) -> Result<(), String> {
    let queue: F::Queue<String, ()> = Builder::new().no_known_objects().build();
    let mut leases = BTreeMap::new();
    // Marked again while leased: pending, but not in line.
    let mut dirty = BTreeSet::new();
    for step in &run.steps {
        *number += 1;
        let key = need("k", &step.k)?;
        match step.op.as_str() {
            "update" => {
                if leases.contains_key(&key) {
                    dirty.insert(key.clone());
                }
                say(queue.update(key, ()))?;
            }
            "pop" => {
                let lease = queue.try_pop().map_err(|error| format!("expected {key:?}, got {error:?}"))?;
                equal("pop", lease.key(), &key)?;
                if leases.insert(key, lease).is_some() {
                    return Err("expected a free key, got one that is leased".to_owned());
                }
            }
            "done" => {
                dirty.remove(&key);
                leases.remove(&key).ok_or_else(|| format!("{key:?} is not leased"))?.done();
            }
            other => return Err(format!("there is no step {other:?}")),
        }
        equal("len", queue.pending_len(), step.len + dirty.len())?;
        equal("leased", queue.leased_len(), leases.len())?;
    }
    equal("leases at the end", leases.len(), 0)?;
    equal("pending at the end", queue.pending_len(), 0)
}

/// The same by a [`WorkQueue`], which knows itself what is in line.
pub(crate) fn replay_face(recording: &Recording, run: &Run) -> Result<(), String> {
    let queue: WorkQueue<String> = WorkQueue::new();
    let mut working = BTreeMap::new();
    for (number, step) in run.steps.iter().enumerate() {
        let result = face_step(&queue, &mut working, step);
        result.map_err(|wrong| {
            format!("{}, seed {}, step {number} ({}): {wrong}", recording.path.display(), run.seed, step.op)
        })?;
    }
    equal("work at the end", working.len(), 0)
}

fn face_step<'q>(
    queue: &'q WorkQueue<String>,
    working: &mut BTreeMap<String, Work<'q, String>>,
    step: &Step,
) -> Result<(), String> {
    let key = need("k", &step.k)?;
    match step.op.as_str() {
        "update" => say(queue.add(key))?,
        "pop" => {
            let work = queue.try_get().map_err(|error| format!("expected {key:?}, got {error:?}"))?;
            equal("pop", &*work, &key)?;
            if working.insert(key, work).is_some() {
                return Err("expected a free key, got one that is worked on".to_owned());
            }
        }
        "done" => working.remove(&key).ok_or_else(|| format!("{key:?} is not worked on"))?.done(),
        other => return Err(format!("there is no step {other:?}")),
    }
    equal("len", queue.len(), step.len)
}
