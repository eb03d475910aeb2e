//! Replaces, whole lists and streams.

use std::hash::{BuildHasher, Hash};

use crate::builder::Emit;
use crate::delta::RawKind;
use crate::error::{
    BeginReplaceError, CommitError, ReplaceError, ReplaceErrorKind, UpsertError, UpsertErrorKind,
};
use crate::raw::{Awaited, BeginReplace, Deadline, RawQueue};
use crate::replace::Upsert;
use crate::scopes;
use crate::sync::epoch::{self, Guard};
use crate::sync::planted;

use super::DeltaFifo;
use super::fact::Fact;
use super::link::ToLink;
use super::panics::Panics;
use super::produce::{STRETCH, Stretch};
use super::push::{Push, PushKey, Pushed};
use super::replaces::Open;
use super::resync::Sweep;
use super::rules::Rule;
use super::shard::Shard;

/// An open replace.
pub struct Ticket(pub(super) Open);

/// An object of a list on its way into the queue. What the queue does not take drops under no guard.
struct Item<K, V> {
    hash: u64,
    key: Option<K>,
    value: Option<V>,
}

/// Drops the replace if it is not ended, as by a panic in the transform.
struct Running<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    open: Open,
    ended: bool,
}

impl<K: Hash + Eq, V, S> Drop for Running<'_, K, V, S> {
    fn drop(&mut self) {
        if !self.ended && !planted("a replace that panics stays open") {
            self.queue.abort_replace(&self.open);
        }
    }
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn begin(&self, how: BeginReplace<'_>) -> Result<Ticket, BeginReplaceError> {
        let scope = scopes::find(&self.scopes, how.scope)?;
        let begin = || match self.core.replaces.begin(scope, how.streaming) {
            Err(BeginReplaceError::ReplaceInProgress) if how.wait => None,
            begun => Some(begun.map(Ticket)),
        };
        self.watchers.wait_until(Deadline::Never, begin).expect("it waits for ever")
    }

    pub(super) fn upsert_one(
        &self,
        ticket: &Ticket,
        key: K,
        mut value: V,
        transformed: bool,
    ) -> Result<Upsert, UpsertError<K, V>> {
        if ticket.0.is_cut() {
            // Before the transform: the value comes back as it was.
            return Err(UpsertError { kind: UpsertErrorKind::Closed, key, value });
        }
        if let Err(scope) = scopes::check(&self.scopes, ticket.0.scope(), &key) {
            return Err(UpsertError { kind: UpsertErrorKind::OutOfScope(scope), key, value });
        }
        if !transformed {
            if let Err(source) = self.transform_raw(&mut value) {
                return Err(UpsertError { kind: UpsertErrorKind::Transform(source), key, value });
            }
        }
        let mut item = self.item((key, value));
        let guard = epoch::pin();
        // Under the guard: see `close`.
        if ticket.0.is_cut() {
            drop(guard);
            let (key, value) = (item.key.expect("not taken"), item.value.expect("not taken"));
            return Err(UpsertError { kind: UpsertErrorKind::Closed, key, value });
        }
        let (appended, link) = self.push_item(&ticket.0, &mut item, &guard);
        if let Some(link) = link {
            self.link(link, &guard);
        }
        drop(guard);
        self.core.shards[self.shard_of(item.hash)].tidy_if_left_alone();
        Ok(if appended { Upsert::Placed } else { Upsert::Superseded })
    }

    pub(super) fn commit_streamed(&self, ticket: Ticket) -> Result<Awaited, CommitError> {
        let running = Running { queue: self, open: ticket.0, ended: false };
        let sweep = self.prepare_sweep(&running.open).map_err(CommitError::ListKeys)?;
        if !self.core.replaces.begin_commit(&running.open) {
            return Err(CommitError::Closed);
        }
        Ok(self.finish_replace(running, sweep, Panics::default()))
    }

    pub(super) fn replace_listed(
        &self,
        ticket: Ticket,
        mut list: Vec<(K, V)>,
        transformed: bool,
    ) -> Result<Awaited, ReplaceError<K, V>> {
        let running = Running { queue: self, open: ticket.0, ended: false };
        let transform = (!transformed).then_some(|value: &mut V| self.transform_raw(value));
        let sweep = match scopes::check_list(&self.scopes, running.open.scope(), &mut list, transform) {
            Ok(()) => self.prepare_sweep(&running.open).map_err(ReplaceErrorKind::ListKeys),
            Err(kind) => Err(kind),
        };
        let sweep = match sweep {
            Ok(sweep) => sweep,
            Err(kind) => return Err(ReplaceError { kind, list }),
        };
        let mut items: Vec<Item<K, V>> = list.into_iter().map(|item| self.item(item)).collect();
        let mut panics = Panics::default();
        let mut left = &mut items[..];
        while !left.is_empty() {
            let (now, later) = left.split_at_mut(left.len().min(STRETCH));
            left = later;
            self.push_stretch(&running.open, now, &mut panics);
            left.iter().take(STRETCH).for_each(|item| self.shard_of_item(item).prefetch_bucket(item.hash));
            for item in now {
                panics.outlast(|| self.shard_of_item(item).tidy_if_left_alone());
            }
        }
        Ok(self.finish_replace(running, sweep, panics))
    }

    /// A few items under one guard.
    fn push_stretch(&self, open: &Open, items: &mut [Item<K, V>], panics: &mut Panics) {
        let mut stretch = Stretch::begin(self);
        for item in &*items {
            self.shard_of_item(item).prefetch_entry(item.hash, &stretch.guard);
        }
        for item in items {
            panics.outlast(|| {
                // Not again, if it was appended before the panic.
                if item.value.is_some() {
                    let (_, link) = self.push_item(open, item, &stretch.guard);
                    stretch.links.extend(link);
                }
            });
        }
    }

    fn shard_of_item(&self, item: &Item<K, V>) -> &Shard<K, V> {
        &self.core.shards[self.shard_of(item.hash)]
    }

    /// Whether it was appended, and a key to put in line.
    fn push_item(&self, open: &Open, item: &mut Item<K, V>, guard: &Guard) -> (bool, Option<ToLink>) {
        let kind = match self.emit {
            Emit::Replaced => RawKind::Replaced,
            Emit::Sync => RawKind::Sync,
        };
        let (number, shard) = (open.number(), self.shard_of(item.hash));
        let mut push = Push {
            shard,
            hash: item.hash,
            key: PushKey::Callers(&mut item.key),
            fact: self.fact_of(kind, number),
            rule: Rule::Item(number),
            since: self.marks.newest(),
            cell: Some(self.core.shards[shard].objects.draft(item.value.take())),
            value: &mut item.value,
            wanted: true,
        };
        self.push_owing(&mut push, guard)
    }

    /// A push for the sake of a replace, which it owes its completion. Whether it was appended, and a key to put in line.
    pub(super) fn push_owing(&self, push: &mut Push<'_, K, V>, guard: &Guard) -> (bool, Option<ToLink>) {
        let owed = Owed { queue: self, number: push.fact.debt };
        self.core.replaces.owe(push.fact.debt);
        let pushed = self.push(push, guard);
        std::mem::forget(owed);
        match pushed {
            Pushed::Done { appended, link } => (appended, link),
            Pushed::AskStore => unreachable!("only deletions ask the user's store"),
        }
    }

    pub(super) fn fact_of(&self, kind: RawKind, number: u64) -> Fact {
        let background = self.background_initial && self.core.replaces.is_first(number);
        Fact::listed(kind, number, background)
    }

    /// Everything listed is in line: sweeps the rest, and ends the replace. Then user code's panics go on.
    fn finish_replace(
        &self,
        mut running: Running<'_, K, V, S>,
        sweep: Sweep<K>,
        mut panics: Panics,
    ) -> Awaited {
        self.sweep(&running.open, sweep, &mut panics);
        // Somebody may wait in any case: see `replace_ended`.
        let _ = self.core.replaces.commit(&running.open);
        if self.core.closing.is_discarding() {
            self.discard();
        }
        self.replace_ended();
        running.ended = true;
        panics.go_on();
        Awaited::Replace(running.open.number())
    }

    fn item(&self, (key, value): (K, V)) -> Item<K, V> {
        Item { hash: self.hash(&key), key: Some(key), value: Some(value) }
    }
}

/// A debt that is taken back if the push panics.
struct Owed<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    number: u64,
}

impl<K: Hash + Eq, V, S> Drop for Owed<'_, K, V, S> {
    fn drop(&mut self) {
        if !planted("an item that panics is owed for ever") {
            self.queue.discharge(self.number);
        }
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    pub(super) fn abort_replace(&self, open: &Open) {
        if self.core.replaces.abort(open).is_made() {
            self.replace_ended();
        }
    }

    /// Forgets what was kept for the sake of open replaces, and wakes who waited for their end.
    fn replace_ended(&self) {
        self.core.forget_unasked();
        if self.core.closing.is_closed() {
            self.wake_consumers(usize::MAX);
        }
        self.wake_watchers();
    }
}
