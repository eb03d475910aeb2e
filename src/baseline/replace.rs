//! Replace, resync and marks.

use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::RwLock;

use crate::builder::{Emit, Known};
use crate::delta::{Object, RawDelta, RawKind};
use crate::error::{
    BeginReplaceError, CommitError, ReplaceError, ReplaceErrorKind, UpsertError, UpsertErrorKind,
};
use crate::queue::DeltaQueue;
use crate::raw::{Awaited, BeginReplace, Deadline, RawQueue};
use crate::replace::Upsert;
use crate::scopes;

use super::MutexDeltaFifo;
use super::entry::Origins;
use super::lock::{Locked, write};
use super::records::Records;
use super::state::{Append, State};
use super::sweep::{Sweep, Target};
use super::table::Slot;

/// An open replace.
pub struct Ticket {
    pub(super) number: u64,
    /// Index of its scope.
    pub(super) scope: Option<usize>,
}

/// An object of a list on its way into the queue. What the queue does not take drops outside the lock.
struct Item<K, V> {
    hash: u64,
    key: Option<K>,
    object: Option<Object<V>>,
}

/// Drops the replace if it is not ended, as by a panic in the transform.
struct Running<'q, K: Hash + Eq + Send + Sync, V: Send + Sync, S: BuildHasher + Send + Sync> {
    queue: &'q MutexDeltaFifo<K, V, S>,
    ticket: Ticket,
    ended: bool,
}

impl<K: Hash + Eq + Send + Sync, V: Send + Sync, S: BuildHasher + Send + Sync> Drop for Running<'_, K, V, S> {
    fn drop(&mut self) {
        if !self.ended {
            self.queue.abort_replace(&self.ticket);
        }
    }
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn begin(&self, how: BeginReplace<'_>) -> Result<Ticket, BeginReplaceError> {
        let scope = scopes::find(&self.scopes, how.scope)?;
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(BeginReplaceError::Closed);
            }
            match state.replaces.begin(scope, how.streaming) {
                Ok(number) => return Ok(Ticket { number, scope }),
                Err(BeginReplaceError::ReplaceInProgress) if how.wait => {
                    state.sleep_for_progress(Deadline::Never);
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn upsert_one(
        &self,
        ticket: &Ticket,
        key: K,
        mut value: V,
        transformed: bool,
    ) -> Result<Upsert, UpsertError<K, V>> {
        if self.is_closed() {
            // Before the transform: the value comes back as it was.
            return Err(UpsertError { kind: UpsertErrorKind::Closed, key, value });
        }
        if let Err(scope) = scopes::check(&self.scopes, ticket.scope, &key) {
            return Err(UpsertError { kind: UpsertErrorKind::OutOfScope(scope), key, value });
        }
        if !transformed {
            if let Err(source) = self.transform_raw(&mut value) {
                return Err(UpsertError { kind: UpsertErrorKind::Transform(source), key, value });
            }
        }
        let mut item = self.item((key, value));
        let mut state = self.lock();
        if !state.replaces.is_open(ticket.number) {
            drop(state);
            let key = item.key.expect("the queue did not take it");
            let value = item.object.and_then(Object::into_inner).expect("nobody has seen it");
            return Err(UpsertError { kind: UpsertErrorKind::Closed, key, value });
        }
        let slot = state.place(ticket.number, &mut item, &self.records);
        if let Some(slot) = slot {
            state.append_listed(ticket.number, slot, &mut item, self.emit);
        }
        drop(state);
        Ok(if slot.is_some() { Upsert::Placed } else { Upsert::Superseded })
    }

    pub(super) fn commit_streamed(&self, ticket: Ticket) -> Result<Awaited, CommitError> {
        let mut running = Running { queue: self, ticket, ended: false };
        let number = running.ticket.number;
        let sweep = self.prepare_sweep(&running.ticket).map_err(CommitError::ListKeys)?;
        let mut state = self.lock();
        if !state.replaces.is_open(number) {
            running.ended = true;
            return Err(CommitError::Closed);
        }
        let targets = state.plan_sweep(number, &sweep, &self.known, &self.records);
        state.sweep(number, targets, &self.records);
        self.end_replace(&mut state, number);
        running.ended = true;
        Ok(Awaited::Replace(number))
    }

    pub(super) fn replace_listed(
        &self,
        ticket: Ticket,
        mut list: Vec<(K, V)>,
        transformed: bool,
    ) -> Result<Awaited, ReplaceError<K, V>> {
        let mut running = Running { queue: self, ticket, ended: false };
        let number = running.ticket.number;
        let transform = (!transformed).then_some(|value: &mut V| self.transform_raw(value));
        let sweep = match scopes::check_list(&self.scopes, running.ticket.scope, &mut list, transform) {
            Ok(()) => self.prepare_sweep(&running.ticket).map_err(ReplaceErrorKind::ListKeys),
            Err(kind) => Err(kind),
        };
        let sweep = match sweep {
            Ok(sweep) => sweep,
            Err(kind) => return Err(ReplaceError { kind, list }),
        };
        let mut items: Vec<Item<K, V>> = list.into_iter().map(|item| self.item(item)).collect();
        let mut state = self.lock();
        let (slots, targets) = state.plan_list(number, &mut items, &sweep, &self.known, &self.records);
        for (slot, item) in slots.into_iter().zip(&mut items) {
            if let Some(slot) = slot {
                state.append_listed(number, slot, item, self.emit);
            }
        }
        state.sweep(number, targets, &self.records);
        self.end_replace(&mut state, number);
        running.ended = true;
        drop(state);
        Ok(Awaited::Replace(number))
    }

    fn end_replace(&self, state: &mut Locked<'_, K, V, S>, number: u64) {
        state.replaces.commit(number);
        if state.discarded.is_some() {
            state.discard();
        }
        self.replace_ended(state);
    }

    pub(super) fn abort_replace(&self, ticket: &Ticket) {
        let mut state = self.lock();
        state.replaces.abort(ticket.number);
        self.replace_ended(&mut state);
    }

    /// Forgets what was kept for the sake of open replaces, and wakes who waited for their end.
    pub(super) fn replace_ended(&self, state: &mut State<K, V>) {
        if state.replaces.none_open() {
            let mut records = write(&self.records);
            match &self.known {
                Known::Inside => state.garbage.keys.extend(records.forget_absent()),
                Known::None | Known::Store(_) => state.garbage.records.push(records.clear()),
            }
        }
        state.wakes.progress = true;
        if state.is_finished() {
            state.wakes.all = true;
        }
    }

    fn item(&self, (key, value): (K, V)) -> Item<K, V> {
        Item { hash: self.hasher.hash_one(&key), key: Some(key), object: Some(Object::alone(value)) }
    }
}

impl<K: Eq, V> State<K, V> {
    /// The entry for an object of a list, unless a newer change supersedes it.
    fn place(&mut self, number: u64, item: &mut Item<K, V>, records: &RwLock<Records<K, V>>) -> Option<Slot> {
        let slot = self.entry(item.hash, &mut item.key, records);
        let entry = self.entries.get(slot);
        if entry.settled <= 2 * number {
            return Some(slot);
        }
        if entry.is_vacant() {
            let key = self.entries.remove(slot).0;
            self.garbage.keys.push(key);
        }
        None
    }

    fn append_listed(&mut self, number: u64, slot: Slot, item: &mut Item<K, V>, emit: Emit) {
        let kind = match emit {
            Emit::Replaced => RawKind::Replaced,
            Emit::Sync => RawKind::Sync,
        };
        let how = self.of_replace(number);
        self.append(slot, RawDelta::new(kind, item.object.take()), how);
    }

    pub(super) fn of_replace(&self, number: u64) -> Append {
        let first = self.replaces.is_first(number);
        let origin = if first { Origins::FIRST_REPLACE } else { Origins::REPLACE };
        Append { origin, settled: 2 * number, replace: Some(number) }
    }

    /// Where every object of a list goes, and what its sweep will take: after this nothing can fail. A panic of a
    /// key's `Eq` leaves everything as it was.
    fn plan_list(
        &mut self,
        number: u64,
        items: &mut [Item<K, V>],
        sweep: &Sweep<K>,
        known: &Known<K, V>,
        records: &RwLock<Records<K, V>>,
    ) -> (Vec<Option<Slot>>, Vec<Target<K>>) {
        let mut slots = Vec::with_capacity(items.len());
        let planned = catch_unwind(AssertUnwindSafe(|| {
            for item in items {
                let slot = self.place(number, item, records);
                if let Some(slot) = slot {
                    let entry = self.entries.get_mut(slot);
                    // Seen by this replace: its sweep passes it by.
                    entry.settled = entry.settled.max(2 * number);
                }
                slots.push(slot);
            }
            self.plan_sweep(number, sweep, known, records)
        }));
        match planned {
            Ok(targets) => (slots, targets),
            Err(panic) => {
                self.remove_vacant();
                resume_unwind(panic)
            }
        }
    }

    /// Removes entries that were made and never used.
    fn remove_vacant(&mut self) {
        let vacant: Vec<Slot> =
            self.entries.iter().filter(|(_, _, entry)| entry.is_vacant()).map(|(slot, _, _)| slot).collect();
        for slot in vacant {
            let key = self.entries.remove(slot).0;
            self.garbage.keys.push(key);
        }
    }
}
