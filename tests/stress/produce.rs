//! Threads that change: changes, replaces, resyncs, marks, and the close.

use std::cell::Cell;
use std::time::Duration;

use delta_fifo::{
    BeginReplaceError, Change, ChangeErrorKind, CommitError, DeltaQueue, ReplaceErrorKind, Upsert,
    UpsertErrorKind,
};

use crate::common::Family;

use super::record::{Call, Fate, Kind, Seen, Swept};
use super::shape::{Key, Object, SCOPES, Variant};
use super::watchdog::Doing;
use super::worker::Worker;

impl<F: Family> Worker<'_, F> {
    fn call(&mut self, key: u32, kind: Kind) -> Call {
        self.number += 1;
        let id = (self.index, self.number);
        Call { key, kind, id, begin: 0, end: 0, fate: Fate::Accepted, replace: None }
    }

    pub(crate) fn key(&self, name: u32) -> Key {
        Key::new(&self.round.tally, name)
    }

    fn object(&self, call: &Call) -> Object {
        Object::new(&self.round.tally, call.id, call.key)
    }

    fn any_key(&mut self) -> u32 {
        self.random.below(self.round.shape.keys.into()) as u32
    }

    fn any_change(&mut self) -> (Call, Change<Key, Object>) {
        let (name, plan) = (self.any_key(), self.round.plan);
        let kind = match self.random.below(10) {
            0 | 1 if plan.deletes => Kind::Delete,
            2 if plan.delete_keys => Kind::DeleteKey,
            3..5 => Kind::Update,
            5..7 => Kind::Apply,
            _ => Kind::Add,
        };
        let call = self.call(name, kind);
        let key = self.key(name);
        let change = match kind {
            Kind::Update => Change::Update(key, self.object(&call)),
            Kind::Apply => Change::Apply(key, self.object(&call)),
            Kind::Delete => Change::Delete(key, self.object(&call)),
            Kind::DeleteKey => Change::DeleteKey(key),
            Kind::Add | Kind::Item => Change::Add(key, self.object(&call)),
        };
        (call, change)
    }

    pub(crate) fn change(&mut self) {
        self.doing(Doing::Change);
        if self.random.one_in(6) {
            return self.change_all();
        }
        let (mut call, change) = self.any_change();
        let queue = &self.round.queue;
        call.begin = self.now();
        let result = match change {
            Change::Add(key, object) => queue.add(key, object),
            Change::Update(key, object) => queue.update(key, object),
            Change::Apply(key, object) => queue.apply(key, object),
            Change::Delete(key, object) => queue.delete(key, object),
            Change::DeleteKey(key) => queue.delete_key(key),
        };
        call.end = self.now();
        if let Err(error) = result {
            assert!(matches!(error.kind, ChangeErrorKind::Closed));
            came_back(&call, &error.change);
            call.fate = Fate::Rejected;
        }
        self.log.calls.push(call);
    }

    fn change_all(&mut self) {
        let (mut calls, changes): (Vec<_>, Vec<_>) =
            (0..self.random.below(4)).map(|_| self.any_change()).unzip();
        let begin = self.now();
        let result = self.round.queue.change_all(changes);
        let end = self.now();
        if let Err(error) = result {
            assert!(matches!(error.kind, ChangeErrorKind::Closed));
            assert_eq!(error.index + error.rest.len(), calls.len());
            for (call, change) in calls[error.index..].iter_mut().zip(&error.rest) {
                came_back(call, change);
                call.fate = Fate::Rejected;
            }
        }
        calls.iter_mut().for_each(|call| (call.begin, call.end) = (begin, end));
        self.log.calls.append(&mut calls);
    }

    pub(crate) fn replace(&mut self) {
        self.doing(Doing::Replace);
        let scope = (self.round.shape.variant == Variant::Scopes && !self.random.one_in(3))
            .then(|| self.random.below(2) as u32);
        if self.round.plan.deletes && self.random.one_in(2) {
            self.replace_list(scope, true);
        } else {
            self.stream(scope);
        }
    }

    /// The names in a list. Nothing is swept where nothing may be deleted.
    fn names(&mut self, scope: Option<u32>, some: bool) -> Vec<u32> {
        let all = (0..self.round.shape.keys).filter(|key| scope.is_none_or(|scope| key % 2 == scope));
        all.filter(|_| !(some && self.round.plan.deletes && self.random.one_in(4))).collect()
    }

    /// Whether it happened.
    pub(crate) fn replace_list(&mut self, scope: Option<u32>, some: bool) -> bool {
        let names = self.names(scope, some);
        let calls: Vec<Call> = names.iter().map(|&name| self.call(name, Kind::Item)).collect();
        let items: Vec<_> = calls.iter().map(|call| (self.key(call.key), self.object(call))).collect();
        let (round, began) = (self.round, Cell::new(0));
        // The first look at the list comes after the replace began.
        let begins = std::iter::from_fn(|| {
            began.set(round.now());
            None
        });
        let called = self.now();
        let result = match scope {
            None => round.queue.replace(begins.chain(items)),
            Some(scope) => round.queue.replace_scope(SCOPES[scope as usize], begins.chain(items)),
        };
        let (end, began) = (self.now(), began.get());
        let fate = match result {
            Ok(completion) => {
                self.waits.push((began, completion));
                let listed = names.into_iter().collect();
                self.log.swept.push(Swept { called, began, commit: began, end, scope, listed });
                Fate::Listed
            }
            Err(error) => {
                use BeginReplaceError::{Closed, ReplaceInProgress};
                assert!(matches!(error.kind, ReplaceErrorKind::Begin(Closed | ReplaceInProgress)));
                assert!(error.list.iter().map(|(_, object)| object.id).eq(calls.iter().map(|call| call.id)));
                Fate::Rejected
            }
        };
        let replace = Some((called, began));
        self.log.calls.extend(calls.into_iter().map(|call| Call {
            begin: called,
            end,
            fate,
            replace,
            ..call
        }));
        fate == Fate::Listed
    }

    fn stream(&mut self, scope: Option<u32>) {
        let names = self.names(scope, true);
        let round = self.round;
        let called = self.now();
        let replace = match scope {
            None => round.queue.begin_replace(),
            Some(scope) => round.queue.begin_replace_scope(SCOPES[scope as usize]),
        };
        let began = self.now();
        let Ok(replace) = replace else { return };
        for &name in &names {
            let mut call = self.call(name, Kind::Item);
            let (key, object) = (self.key(name), self.object(&call));
            call.replace = Some((called, began));
            call.begin = self.now();
            let result = replace.upsert(key, object);
            call.end = self.now();
            call.fate = match result {
                Ok(Upsert::Placed) => Fate::Accepted,
                Ok(Upsert::Superseded) => Fate::Superseded,
                Err(error) => {
                    assert!(matches!(error.kind, UpsertErrorKind::Closed));
                    assert_eq!((error.key.name, error.value.id), (name, call.id));
                    Fate::Rejected
                }
            };
            self.log.calls.push(call);
            self.pause(30);
        }
        if self.random.one_in(3) {
            return;
        }
        let commit = self.now();
        match replace.commit() {
            Ok(completion) => {
                let end = self.now();
                self.waits.push((began, completion));
                let listed = names.into_iter().collect();
                self.log.swept.push(Swept { called, began, commit, end, scope, listed });
            }
            Err(error) => assert!(matches!(error, CommitError::Closed)),
        }
    }

    pub(crate) fn resync(&mut self) {
        self.doing(Doing::Resync);
        if self.random.one_in(3) {
            self.log.syncs += self.round.queue.resync().unwrap_or(0) as u64;
        } else {
            let key = self.any_key();
            let appended = self.round.queue.resync_key(self.key(key));
            self.log.syncs += u64::from(appended.unwrap_or(false));
        }
    }

    /// The version is the moment before the call: what had returned by then is before the mark.
    pub(crate) fn mark(&mut self) {
        self.doing(Doing::Mark);
        let version = self.now();
        if let Ok(mark) = self.round.queue.mark(version) {
            self.pause(2);
            if mark.is_complete() {
                let end = self.now();
                self.log.seen.push(Seen::Through(version, end));
            }
        }
    }

    pub(crate) fn close(&mut self) {
        self.doing(Doing::Close);
        let queue = &self.round.queue;
        let begin = self.now();
        if self.round.plan.discards {
            let discarded = queue.close_discard();
            assert!(discarded.deltas >= discarded.keys);
        } else if self.random.one_in(2) {
            queue.close();
        } else if queue.close_and_wait_timeout(Duration::from_micros(300)).is_ok() {
            let end = self.now();
            self.log.seen.push(Seen::Through(u64::MAX, end));
        }
        assert!(queue.is_closed());
        let end = self.now();
        self.log.closes.push((begin, end));
    }
}

fn came_back(call: &Call, change: &Change<Key, Object>) {
    assert_eq!(change.key().name, call.key);
    assert_eq!(change.value().map(|object| object.id), (call.kind != Kind::DeleteKey).then_some(call.id));
}
