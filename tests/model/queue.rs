//! The queue as the documentation describes it, for one thread and without any care for speed.
//!
//! Where the documentation leaves an order open, the model is told what came and checks that it was allowed: a key's
//! place in line is an interval of moments.

use std::collections::{BTreeMap, BTreeSet};

use delta_fifo::{Change, DeltaKind, OnAbandon};

use super::config::{Config, Known, Scopes, backoff, in_scope};

/// A delta: its kind, and its object.
pub(crate) type Fact = (DeltaKind, Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// The key is leased.
    Dirty,
    Delayed,
    /// On its way into the line, or out of it and not yet leased: in histories alone, see `steps.rs`.
    Coming,
    Going,
    /// It went in line at some moment of these.
    Line {
        earliest: u64,
        latest: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending {
    deltas: Vec<Fact>,
    /// The same before anything was merged, while they may still come after deltas that are given back.
    unmerged: Vec<Fact>,
    /// What was given back, and what came after it, in a queue that compares identities: they are joined when they are handed out.
    shown: Vec<Fact>,
    since_shown: Vec<Fact>,
    place: Place,
    attempts: u32,
    /// Of deltas that were given back.
    previous: Option<Option<u32>>,
    /// Replaces that touched it; whether a lease with their deltas has ended.
    debts: BTreeMap<usize, bool>,
    /// Only a resync, or the first replace, put it in line.
    background: bool,
    /// How many marks there were when its oldest delta came.
    since: u64,
    /// The same, if a key that was dirty at the end of a lease holds marks back by one more.
    at_worst: u64,
}

/// What a lease shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leased {
    pub(crate) deltas: Vec<Fact>,
    pub(crate) attempts: u32,
    pub(crate) previous: Option<u32>,
    pub(crate) initial: bool,
    debts: BTreeMap<usize, bool>,
    background: bool,
    since: u64,
    at_worst: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Key {
    pending: Option<Pending>,
    lease: Option<Leased>,
    /// Moves with the lease.
    known: Option<u32>,
    /// When the last change of it was called.
    changed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Replace {
    began: u64,
    scope: Option<usize>,
    seen: BTreeSet<u8>,
    open: bool,
    committed: bool,
    /// Discarded, and discarded before it was handed out.
    lost: (bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum First {
    Undecided,
    Replace(usize),
    Synced,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    GiveUp,
    Requeue,
    AfterZero,
    AfterLong,
    Backoff,
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Change,
    Replace,
    Resync,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    config: Config,
    keys: BTreeMap<u8, Key>,
    replaces: Vec<Replace>,
    first: Vec<First>,
    changed: bool,
    pub(crate) synced: bool,
    pub(crate) delivered: bool,
    pub(crate) closed: bool,
    /// Keys and deltas, once there was a discard.
    pub(crate) discarded: Option<(u64, u64)>,
    pub(crate) merged: u64,
    pub(crate) marks: u64,
    lost: (u64, u64),
    now: u64,
    pops: u64,
    /// Pops of the background line while a key stood in the first, and pops of the first since.
    out_of_turn: u64,
    waited: u64,
}

fn rank(kind: DeltaKind) -> u8 {
    match kind {
        DeltaKind::Added => 3,
        DeltaKind::Updated => 2,
        DeltaKind::Replaced => 1,
        _ => 0,
    }
}

impl Model {
    pub(crate) fn new(config: &Config) -> Self {
        let scopes = if config.scopes == Scopes::None { 1 } else { 2 };
        Model {
            config: config.clone(),
            keys: BTreeMap::new(),
            replaces: Vec::new(),
            first: vec![First::Undecided; scopes],
            changed: false,
            synced: false,
            delivered: false,
            closed: false,
            discarded: None,
            merged: 0,
            marks: 0,
            lost: (u64::MAX, u64::MAX),
            now: 0,
            pops: 0,
            out_of_turn: 0,
            waited: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn key(&mut self, key: u8) -> &mut Key {
        self.keys.entry(key).or_default()
    }

    /// Section 2, compression.
    fn merge(&mut self, deltas: &mut Vec<Fact>, new: Fact) {
        let before = deltas.len() + 1;
        match deltas.last().copied() {
            Some(last) if last.0.is_deletion() && new.0.is_deletion() => {
                if last.0 != DeltaKind::Deleted {
                    *deltas.last_mut().unwrap() = new;
                }
            }
            Some(last) if self.config.latest && !last.0.is_deletion() => {
                deltas.pop();
                let kind = if rank(last.0) > rank(new.0) { last.0 } else { new.0 };
                if new.0.is_deletion() {
                    deltas.clear();
                    deltas.push(new);
                } else {
                    deltas.push((kind, new.1));
                }
            }
            _ => deltas.push(new),
        }
        self.merged += (before - deltas.len()) as u64;
    }

    fn append(&mut self, key: u8, fact: Fact, origin: Origin, replace: Option<usize>, at: u64) {
        let first = replace.is_some_and(|replace| self.is_first(replace));
        let background = origin == Origin::Resync && self.config.background_resync
            || first && self.config.background_initial;
        let fresh = Pending {
            deltas: Vec::new(),
            unmerged: Vec::new(),
            shown: Vec::new(),
            since_shown: Vec::new(),
            place: Place::Dirty,
            attempts: 0,
            previous: None,
            debts: BTreeMap::new(),
            background: true,
            since: self.marks,
            at_worst: self.marks,
        };
        let mut pending = self.key(key).pending.take().unwrap_or(fresh);
        pending.unmerged.push(fact);
        if self.config.identity {
            pending.since_shown.push(fact);
        }
        self.merge(&mut pending.deltas, fact);
        let moves = pending.background && !background;
        pending.background &= background;
        if let Some(replace) = replace {
            pending.debts.entry(replace).or_insert(false);
        }
        let in_line = Place::Line { earliest: at, latest: at };
        let entry = self.key(key);
        match &mut pending.place {
            place @ Place::Dirty if entry.lease.is_none() => *place = in_line,
            Place::Dirty | Place::Coming | Place::Going => {}
            place @ Place::Delayed => *place = in_line,
            place @ Place::Line { .. } if moves => *place = in_line,
            Place::Line { latest, .. } => *latest = at.min(*latest),
        }
        entry.pending = Some(pending);
    }

    fn exists(&self, key: u8) -> bool {
        self.keys.get(&key).is_some_and(|key| match &key.pending {
            Some(pending) => !pending.deltas.last().unwrap().0.is_deletion(),
            None => key.known.is_some(),
        })
    }

    fn newest_object(&mut self, key: u8) -> Option<u32> {
        let key = self.key(key);
        key.pending.as_ref().map_or(key.known, |pending| pending.deltas.last().unwrap().1)
    }

    /// Section 2. The object has passed the transform.
    pub(crate) fn change(&mut self, change: &Change<u8, u32>) {
        let at = self.tick();
        let key = *change.key();
        if self.config.scopes == Scopes::None {
            self.changed = true;
            if self.first[0] == First::Undecided {
                self.first[0] = First::Synced;
            }
        }
        let entry = self.key(key);
        let deletable = entry.pending.is_some() || entry.known.is_some();
        let fact = match *change {
            Change::Add(_, value) => (DeltaKind::Added, Some(value)),
            Change::Update(_, value) => (DeltaKind::Updated, Some(value)),
            Change::Apply(_, value) if self.exists(key) => (DeltaKind::Updated, Some(value)),
            Change::Apply(_, value) => (DeltaKind::Added, Some(value)),
            _ if !deletable => return self.settle(),
            Change::Delete(_, value) => (DeltaKind::Deleted, Some(value)),
            Change::DeleteKey(_) => (DeltaKind::DeletedFinalStateUnknown, self.newest_object(key)),
        };
        self.append(key, fact, Origin::Change, None, at);
        self.key(key).changed = at;
        self.settle();
    }

    pub(crate) fn resync(&mut self) -> usize {
        let at = self.tick();
        let keys: Vec<u8> = self.keys.keys().copied().collect();
        keys.into_iter().filter(|&key| self.resync_key_at(key, at)).count()
    }

    pub(crate) fn resync_key(&mut self, key: u8) -> bool {
        let at = self.tick();
        self.resync_key_at(key, at)
    }

    fn resync_key_at(&mut self, key: u8, at: u64) -> bool {
        let entry = self.key(key);
        let idle = entry.pending.is_none() && entry.lease.is_none();
        let object = entry.known.filter(|_| idle);
        if object.is_some() {
            self.append(key, (DeltaKind::Sync, object), Origin::Resync, None, at);
        }
        object.is_some()
    }

    // ---- section 4

    /// None if another one is in progress.
    pub(crate) fn begin(&mut self, scope: Option<usize>) -> Option<usize> {
        let disjoint = self.config.scopes == Scopes::Disjoint;
        let overlaps =
            |other: &Replace| !disjoint || scope.is_none() || other.scope.is_none() || other.scope == scope;
        if self.replaces.iter().any(|other| other.open && overlaps(other)) {
            return None;
        }
        let (began, number) = (self.tick(), self.replaces.len());
        self.replaces.push(Replace {
            began,
            scope,
            seen: BTreeSet::new(),
            open: true,
            committed: false,
            lost: (false, false),
        });
        for (index, first) in self.first.iter_mut().enumerate() {
            if *first == First::Undecided && scope.is_none_or(|scope| scope == index) {
                *first = First::Replace(number);
            }
        }
        Some(number)
    }

    pub(crate) fn is_open(&self, replace: usize) -> bool {
        self.replaces[replace].open
    }

    pub(crate) fn scope(&self, replace: usize) -> Option<usize> {
        self.replaces[replace].scope
    }

    /// Whether the object was placed; else it was superseded.
    pub(crate) fn upsert(&mut self, replace: usize, key: u8, value: u32) -> bool {
        let at = self.tick();
        self.replaces[replace].seen.insert(key);
        if self.key(key).changed > self.replaces[replace].began {
            return false;
        }
        let kind = if self.config.emit_sync { DeltaKind::Sync } else { DeltaKind::Replaced };
        self.append(key, (kind, Some(value)), Origin::Replace, Some(replace), at);
        true
    }

    pub(crate) fn commit(&mut self, replace: usize) {
        let at = self.tick();
        let keys: Vec<u8> = self.keys.keys().copied().collect();
        for key in keys {
            let Replace { began, scope, ref seen, .. } = self.replaces[replace];
            let in_scope = scope.is_none_or(|scope| in_scope(scope, key));
            if in_scope && !seen.contains(&key) && self.exists(key) && self.key(key).changed < began {
                let tombstone = (DeltaKind::DeletedFinalStateUnknown, self.newest_object(key));
                self.append(key, tombstone, Origin::Replace, Some(replace), at);
            }
        }
        (self.replaces[replace].open, self.replaces[replace].committed) = (false, true);
        self.settle();
    }

    pub(crate) fn abort(&mut self, replace: usize) {
        self.replaces[replace].open = false;
        for first in &mut self.first {
            if *first == First::Replace(replace) {
                *first = if self.changed { First::Synced } else { First::Undecided };
            }
        }
        self.settle();
    }

    fn is_first(&self, replace: usize) -> bool {
        self.first.contains(&First::Replace(replace))
    }

    /// Keys that a replace still waits for: to be completed, or to be delivered.
    fn debts(&self, replace: usize) -> (bool, bool) {
        let all = self.keys.values().flat_map(|key| {
            let pending = key.pending.as_ref().map(|pending| &pending.debts);
            pending.into_iter().chain(key.lease.as_ref().map(|lease| &lease.debts))
        });
        let own: Vec<bool> = all.filter_map(|debts| debts.get(&replace).copied()).collect();
        let lost = self.replaces[replace].lost;
        (lost.0 || !own.is_empty(), lost.1 || own.contains(&false))
    }

    pub(crate) fn is_complete(&self, replace: usize) -> bool {
        self.replaces[replace].committed && !self.debts(replace).0
    }

    /// Section 5.
    fn settle(&mut self) {
        for index in 0..self.first.len() {
            if let First::Replace(replace) = self.first[index] {
                if self.is_complete(replace) {
                    self.first[index] = First::Synced;
                }
            }
        }
        self.synced |= self.first.iter().all(|&first| first == First::Synced);
        self.delivered |= self.first.iter().all(|&first| match first {
            First::Undecided => false,
            First::Replace(replace) => self.replaces[replace].committed && !self.debts(replace).1,
            First::Synced => true,
        });
    }
}

#[path = "identities.rs"]
mod identities;
#[path = "lease.rs"]
mod lease;
#[path = "steps.rs"]
mod steps;
