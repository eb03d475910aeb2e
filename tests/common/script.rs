//! Sequences of calls, in a notation that reads like what happens.
//!
//! Steps are separated by `;`. An object `a1` has the key `a` and the value 1.
//!
//! | step | meaning |
//! |---|---|
//! | `add a1`, `update a1`, `apply a1`, `delete a1`, `delete_key a` | the call, which must succeed |
//! | `replace [a1 b2]`, `resync`, `resync_key a`, `close` | the same |
//! | `known a1 b1` | makes these the known objects of an empty queue |
//! | `pop a:[A1 U2]` | the next pop hands out exactly this; then done |
//! | `hold a:[A1 U2]` | the same, but the lease stays open |
//! | `any a:[A1] b:[T(b1)]` | the next pops hand out exactly these in any order; then done |
//! | `done a`, `requeue a`, `give_up a`, `drop a` | ends the open lease of `a` |
//! | `empty`, `closed` | `try_pop` says so |
//! | `pending 2`, `leased 1` | the lengths |
//! | `synced`, `unsynced`, `delivered`, `undelivered` | the first sync |
//!
//! After `pop` and `hold`: `was 1` or `was -` (the previous object), `try 2` (the attempts), `initial` or `later`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use delta_fifo::{DeltaQueue, Lease, TryPopError};

use super::notation::lease_text;
use super::store::Store;

/// Plays `steps` on `queue`. Leases that are open at the end are done.
pub(crate) fn play<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q, steps: &str) {
    Script::new(queue).play(steps);
}

/// A queue and the leases that are open.
pub(crate) struct Script<'q, Q: DeltaQueue<Key = String, Value = u32>> {
    queue: &'q Q,
    store: Option<&'q Store>,
    open: BTreeMap<String, Lease<'q, Q>>,
}

impl<'q, Q: DeltaQueue<Key = String, Value = u32>> Script<'q, Q> {
    pub(crate) fn new(queue: &'q Q) -> Self {
        Script { queue, store: None, open: BTreeMap::new() }
    }

    /// The consumer notes in `store` what each pop hands out, before the lease ends.
    pub(crate) fn over(queue: &'q Q, store: &'q Store) -> Self {
        Script { queue, store: Some(store), open: BTreeMap::new() }
    }

    pub(crate) fn play(&mut self, steps: &str) -> &mut Self {
        for (index, step) in steps.split(';').map(str::trim).filter(|step| !step.is_empty()).enumerate() {
            if let Err(wrong) = self.step(step) {
                panic!("step {} `{step}` of `{steps}`: {wrong}", index + 1);
            }
        }
        self
    }

    fn step(&mut self, step: &str) -> Result<(), String> {
        let (name, rest) = step.split_once(' ').unwrap_or((step, ""));
        let queue = self.queue;
        let object = || object(rest);
        match name {
            "add" => succeed(queue.add(object().0, object().1)),
            "update" => succeed(queue.update(object().0, object().1)),
            "apply" => succeed(queue.apply(object().0, object().1)),
            "delete" => succeed(queue.delete(object().0, object().1)),
            "delete_key" => succeed(queue.delete_key(rest.to_owned())),
            "replace" => succeed(queue.replace(objects(rest.trim_matches(['[', ']'])))),
            "resync" => succeed(queue.resync()),
            "resync_key" => succeed(queue.resync_key(rest.to_owned())),
            "close" => equal("close", queue.close(), true),
            "known" => self.make_known(rest),
            "pop" => {
                let lease = self.pop()?;
                expect(&lease, rest)?;
                self.end(lease, Lease::done);
                Ok(())
            }
            "hold" => {
                let lease = self.pop()?;
                expect(&lease, rest)?;
                self.open.insert(lease.key().clone(), lease);
                Ok(())
            }
            "any" => self.pop_any(rest),
            "done" => self.end_open(rest, Lease::done),
            "requeue" => self.end_open(rest, Lease::requeue),
            "give_up" => self.end_open(rest, Lease::give_up),
            "drop" => self.end_open(rest, drop),
            "empty" => self.refused(TryPopError::Empty),
            "closed" => self.refused(TryPopError::Closed),
            "pending" => equal("pending_len", queue.pending_len(), number(rest)),
            "leased" => equal("leased_len", queue.leased_len(), number(rest)),
            "synced" => equal("has_synced", queue.has_synced(), true),
            "unsynced" => equal("has_synced", queue.has_synced(), false),
            "delivered" => equal("has_delivered", queue.has_delivered(), true),
            "undelivered" => equal("has_delivered", queue.has_delivered(), false),
            _ => panic!("there is no step {name:?}"),
        }
    }

    fn pop(&self) -> Result<Lease<'q, Q>, String> {
        self.queue.try_pop().map_err(|error| format!("the pop said {error:?}"))
    }

    fn make_known(&self, list: &str) -> Result<(), String> {
        for (key, value) in objects(list) {
            succeed(self.queue.add(key.clone(), value))?;
            let lease = self.pop()?;
            equal("key", lease.key(), &key)?;
            self.end(lease, Lease::done);
        }
        Ok(())
    }

    fn pop_any(&self, expected: &str) -> Result<(), String> {
        let mut expected: Vec<String> =
            expected.split_inclusive(']').map(|text| text.trim().into()).collect();
        let mut got = Vec::new();
        for _ in 0..expected.len() {
            let lease = self.pop()?;
            got.push(lease_text(&lease));
            self.end(lease, Lease::done);
        }
        expected.sort();
        got.sort();
        equal("pops", got, expected)
    }

    fn end_open(&mut self, key: &str, how: impl FnOnce(Lease<'q, Q>)) -> Result<(), String> {
        let lease = self.open.remove(key).unwrap_or_else(|| panic!("no lease of {key} is open"));
        self.end(lease, how);
        Ok(())
    }

    fn end(&self, lease: Lease<'q, Q>, how: impl FnOnce(Lease<'q, Q>)) {
        if let Some(store) = self.store {
            store.note(&lease);
        }
        how(lease);
    }

    fn refused(&self, expected: TryPopError) -> Result<(), String> {
        match self.queue.try_pop() {
            Ok(lease) => Err(format!("popped {}", lease_text(&lease))),
            Err(error) => equal("try_pop", error, expected),
        }
    }
}

impl<Q: DeltaQueue<Key = String, Value = u32>> Drop for Script<'_, Q> {
    fn drop(&mut self) {
        for (_, lease) in std::mem::take(&mut self.open) {
            lease.done();
        }
    }
}

fn expect<Q: DeltaQueue<Key = String, Value = u32>>(
    lease: &Lease<'_, Q>,
    expected: &str,
) -> Result<(), String> {
    let (content, mut traits) = match expected.split_once(']') {
        Some((content, traits)) => (format!("{content}]"), traits.split_whitespace()),
        None => panic!("deltas are missing in {expected:?}"),
    };
    equal("lease", lease_text(lease), content)?;
    while let Some(name) = traits.next() {
        match name {
            "initial" => equal("is_initial", lease.is_initial(), true)?,
            "later" => equal("is_initial", lease.is_initial(), false)?,
            "try" => equal("attempts", lease.attempts() as usize, number(traits.next().unwrap_or_default()))?,
            "was" => {
                let previous = lease.previous().map_or("-".to_owned(), u32::to_string);
                equal("previous", previous.as_str(), traits.next().unwrap_or_default())?;
            }
            _ => panic!("a lease has no {name:?}"),
        }
    }
    Ok(())
}

fn succeed<T, E: Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

fn equal<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}")) }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

fn object(text: &str) -> (String, u32) {
    let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or_else(|| panic!("{text:?} has no value"));
    (text[..digits].to_owned(), number(&text[digits..]) as u32)
}

fn objects(text: &str) -> Vec<(String, u32)> {
    text.split_whitespace().map(object).collect()
}
