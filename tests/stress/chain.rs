//! The life of one key: its leases in their order, and what they handed out.

use std::collections::HashMap;

use delta_fifo::DeltaKind;

use super::record::{Call, Fate, Kind, Swept, Turn};
use super::shape::{Id, Plan, Shape, Variant};

/// A delta of a completed lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    kind: DeltaKind,
    object: Option<Id>,
    turn: usize,
    /// It was appended between these moments.
    low: u64,
    high: u64,
    /// When the change was called; none for a tombstone or a `Sync`.
    begin: Option<u64>,
}

pub(crate) struct Chain<'a> {
    /// The queue's `Family::MERGES_LATE`.
    pub(crate) late: bool,
    pub(crate) key: u32,
    pub(crate) shape: Shape,
    pub(crate) plan: Plan,
    pub(crate) calls: Vec<&'a Call>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) swept: &'a [Swept],
    pub(crate) links: Vec<Link>,
    pub(crate) delivered: HashMap<Id, u32>,
}

impl Chain<'_> {
    /// One lease at a time; what is given back comes first in the next one; the object before is the right one.
    pub(crate) fn leases(&mut self) {
        self.turns.sort_by_key(|turn| turn.taken);
        let mut known = None;
        for (at, turn) in self.turns.iter().enumerate() {
            let no_store = self.shape.variant == Variant::NoStore;
            let before = at.checked_sub(1).map(|before| &self.turns[before]);
            let given_back = before.filter(|before| !before.completed);
            // What was given back is thrown away; what was on its way comes by itself.
            let lost = given_back.filter(|_| self.plan.discards && turn.attempts == 1);
            if let Some(lost) = lost {
                known = lost.known();
            }
            assert_eq!(turn.previous, known.filter(|_| !no_store), "the object before, in {turn:?}");
            match given_back.filter(|_| lost.is_none()) {
                None => assert_eq!(turn.attempts, 1, "{turn:?}"),
                Some(before) => {
                    assert_eq!(turn.attempts, before.attempts + 1, "{turn:?}");
                    // Without a first list a dropped replace may turn out not to be the first.
                    let counts = before.initial && self.plan.first_list;
                    assert!(!counts || turn.initial, "{turn:?} is still initial");
                    if !self.shape.latest() {
                        let (last, first) = before.deltas.split_last().unwrap();
                        assert!(turn.deltas.starts_with(first), "{turn:?}\nafter {before:?}");
                        let joint = turn.deltas[first.len()];
                        let merged = joint.0.is_deletion() && last.0.is_deletion();
                        assert!(joint == *last || merged, "{turn:?}\nafter {before:?}");
                    }
                }
            }
            if let Some(before) = before {
                assert!(before.left < turn.taken, "two leases at once:\n{before:?}\n{turn:?}");
            }
            if turn.completed {
                known = turn.known();
            }
        }
    }

    /// What was delivered, in its order, and whether each delta may stand there.
    pub(crate) fn order(&mut self) {
        let calls: HashMap<Id, &Call> = self.calls.iter().map(|call| (call.id, *call)).collect();
        let (mut newest_begin, mut newest_change) = (0, 0);
        let mut newest: HashMap<u16, u32> = HashMap::new();
        let mut state: Option<Id> = None;
        for (number, turn) in self.turns.iter().enumerate().filter(|(_, turn)| turn.completed) {
            for &(kind, object) in &turn.deltas {
                let context = || format!("{kind:?}({object:?}) in {turn:?}");
                let mut link =
                    Link { kind, object, turn: number, low: newest_begin, high: turn.taken, begin: None };
                match kind {
                    DeltaKind::Sync => assert_eq!(object, state, "{}", context()),
                    // The store lost the object between the sweep's look at its keys and the pop.
                    DeltaKind::DeletedFinalStateUnknown
                        if object.is_none() && self.shape.variant == Variant::OwnStore =>
                    {
                        let swept = self
                            .swept
                            .iter()
                            .any(|swept| swept.sweeps(self.key) && swept.commit < turn.taken);
                        assert!(state.is_none() && swept, "no object: {}", context());
                    }
                    DeltaKind::DeletedFinalStateUnknown => {
                        let object = object.unwrap_or_else(|| panic!("no object: {}", context()));
                        let call =
                            calls.get(&object).unwrap_or_else(|| panic!("from nowhere: {}", context()));
                        if self.shape.latest() {
                            assert!(Some(object) == state || call.end > newest_begin, "{}", context());
                        } else {
                            assert_eq!(Some(object), state, "{}", context());
                        }
                        assert!(
                            self.may_sweep(call, turn.taken),
                            "why this tombstone? {}\n{call:?}\n{:#?}",
                            context(),
                            self.swept
                        );
                    }
                    _ => {
                        let object = object.expect("it has an object");
                        let call =
                            calls.get(&object).unwrap_or_else(|| panic!("from nowhere: {}", context()));
                        assert!(
                            matches!(call.fate, Fate::Accepted | Fate::Listed),
                            "{call:?} was not accepted, but delivered"
                        );
                        self.kind(call, kind, state, &context);
                        *self.delivered.entry(object).or_default() += 1;
                        assert!(call.begin < turn.taken, "too early: {}", context());
                        assert!(call.end > newest_begin, "out of order: {call:?}, {}", context());
                        let before = newest.insert(object.0, object.1).unwrap_or(0);
                        assert!(before < object.1, "{before} of the same thread came before {}", context());
                        if let Some((_, began)) = call.replace {
                            assert!(newest_change < began, "undoes a newer change: {call:?}, {}", context());
                        } else {
                            newest_change = newest_change.max(call.begin);
                        }
                        newest_begin = newest_begin.max(call.begin);
                        (link.low, link.high, link.begin) = (call.begin, call.end, Some(call.begin));
                    }
                }
                if kind.is_deletion() {
                    // A deletion that was merged into this one may have come before.
                    link.low = self.links.last().map_or(0, |before| before.low);
                }
                state = object.filter(|_| !kind.is_deletion());
                self.links.push(link);
            }
        }
    }

    fn kind(&self, call: &Call, kind: DeltaKind, state: Option<Id>, context: &dyn Fn() -> String) {
        let right = match call.kind {
            Kind::Delete => kind == DeltaKind::Deleted,
            _ if self.shape.latest() => !kind.is_deletion(),
            Kind::Add => kind == DeltaKind::Added,
            Kind::Update => kind == DeltaKind::Updated,
            Kind::Item => kind == DeltaKind::Replaced,
            Kind::Apply if self.shape.variant == Variant::NoStore => !kind.is_deletion(),
            Kind::Apply => (kind == DeltaKind::Added) == state.is_none() && !kind.is_deletion(),
            Kind::DeleteKey => false,
        };
        assert!(right, "the wrong kind: {call:?}, exists: {}, {}", state.is_some(), context());
    }

    /// Whether anybody may have put a tombstone over the object of `call` before `taken`.
    fn may_sweep(&self, call: &Call, taken: u64) -> bool {
        let mut deletes = self.calls.iter().filter(|other| other.kind == Kind::DeleteKey);
        deletes.any(|other| other.fate == Fate::Accepted && other.begin < taken && other.end > call.begin)
            || self.swept.iter().any(|swept| {
                let changed = call.replace.is_none_or(|(_, began)| began != swept.began);
                swept.sweeps(self.key)
                    && swept.commit < taken
                    && swept.end > call.begin
                    && call.begin < swept.began
                    && changed
            })
    }

    /// Whether it stands in the list that came before all else.
    pub(crate) fn is_first(&self, call: &Call) -> bool {
        self.plan.first_list && usize::from(call.id.0) == self.shape.threads
    }

    fn covers(&self, by: Id, calls: &HashMap<Id, &Call>, call: &Call) -> bool {
        if by == call.id {
            return true;
        }
        let Some(by) = calls.get(&by) else { return false };
        by.end > call.begin && by.replace.is_none_or(|(_, began)| call.begin < began)
    }

    /// For each live change the first lease that handed it out, or (if it was merged) something newer.
    pub(crate) fn first_turns(&self) -> Vec<(&Call, Option<usize>)> {
        let calls: HashMap<Id, &Call> = self.calls.iter().map(|call| (call.id, *call)).collect();
        let mut first: HashMap<Id, usize> = HashMap::new();
        for (number, turn) in self.turns.iter().enumerate() {
            let own = turn
                .deltas
                .iter()
                .filter(|(kind, _)| !matches!(kind, DeltaKind::Sync | DeltaKind::DeletedFinalStateUnknown));
            own.for_each(|(_, object)| {
                first.entry(object.unwrap()).or_insert(number);
            });
        }
        let find = |call: &Call| {
            // A list's item that was superseded in silence has nothing to wait for: what comes later, in any lease,
            // is not because of it. So has one that a deletion of what was gone already may have superseded.
            let silent = call.fate == Fate::Listed && !self.is_first(call) || self.may_be_void(call);
            if !self.shape.latest() || silent {
                return first.get(&call.id).copied();
            }
            self.turns.iter().position(|turn| {
                turn.taken > call.begin
                    && turn.deltas.iter().any(|&(kind, object)| match kind {
                        DeltaKind::Sync => false,
                        DeltaKind::DeletedFinalStateUnknown => true,
                        _ => self.covers(object.unwrap(), &calls, call),
                    })
            })
        };
        let live = self.calls.iter().filter(|call| call.is_live());
        let live = live.filter(|call| matches!(call.fate, Fate::Accepted | Fate::Listed));
        live.map(|&call| (call, find(call))).collect()
    }

    /// Nothing lost, nothing doubled, nothing late.
    pub(crate) fn complete(&self) {
        let latest_asked: Vec<u64> = std::iter::once(0)
            .chain(self.turns.iter().scan(0, |latest, turn| {
                *latest = turn.asked.max(*latest);
                Some(*latest)
            }))
            .collect();
        assert!(self.delivered.values().all(|&times| times == 1), "delivered twice: key {}", self.key);
        let calls: HashMap<Id, &Call> = self.calls.iter().map(|call| (call.id, *call)).collect();
        for (call, first) in self.first_turns() {
            match first {
                Some(first) => assert!(
                    latest_asked[first] <= call.end,
                    "{call:?} came with lease {first}, later than an earlier pop had to bring it"
                ),
                None if self.plan.discards => {}
                None if call.fate == Fate::Listed => {
                    let newer = |other: &&Call| {
                        other.id != call.id
                            && matches!(other.fate, Fate::Accepted | Fate::Listed)
                            && self.covers(other.id, &calls, call)
                    };
                    // A tombstone may have absorbed it too.
                    let swept =
                        || self.swept.iter().any(|swept| swept.sweeps(self.key) && swept.end > call.begin);
                    let merged = || self.calls.iter().any(newer) || swept();
                    assert!(self.may_supersede(call) || self.shape.latest() && merged(), "{call:?} is lost");
                }
                None if self.may_be_void(call) => {}
                None => panic!("{call:?} is lost\n{:#?}", self.turns),
            }
        }
        for call in &self.calls {
            match call.kind {
                Kind::Item if call.fate == Fate::Superseded => {
                    assert!(self.may_supersede(call), "{call:?}, by nobody")
                }
                Kind::Delete | Kind::DeleteKey if call.fate == Fate::Accepted => {
                    let counts = !self.shape.latest() && !self.plan.discards;
                    if counts && self.shape.variant != Variant::NoStore {
                        let delivered = self.delivered.contains_key(&call.id);
                        assert!(delivered || self.was_gone(call), "{call:?} is lost");
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether it may be an item that was accepted and yet superseded: a change that was handed out during the call, or
    /// deleted nothing, may be newer than the call could tell.
    fn may_be_void(&self, call: &Call) -> bool {
        self.late && call.kind == Kind::Item && self.may_supersede(call)
    }

    /// Whether a change was newer than the replace of this item.
    fn may_supersede(&self, item: &Call) -> bool {
        let (called, _) = item.replace.expect("it is an item");
        self.calls.iter().any(|call| call.is_change() && call.end > called && call.begin < item.end)
    }

    /// Whether the object may have been deleted at some moment of the call.
    fn was_gone(&self, call: &Call) -> bool {
        let until = |next: Option<&Link>| next.is_none_or(|next| next.high > call.begin);
        until(self.links.first())
            || self.links.iter().enumerate().any(|(at, link)| {
                link.kind.is_deletion() && link.low < call.end && until(self.links.get(at + 1))
            })
    }

    /// What was there before a replace and not in its list is deleted by it, unless a change was newer.
    pub(crate) fn swept(&self) {
        if self.plan.discards {
            return;
        }
        let links: Vec<&Link> = self.links.iter().filter(|link| link.kind != DeltaKind::Sync).collect();
        for swept in self.swept.iter().filter(|swept| swept.sweeps(self.key)) {
            for (at, link) in links.iter().enumerate() {
                if link.kind.is_deletion() || link.high > swept.called {
                    continue;
                }
                let next = links.get(at + 1);
                let over = next.is_some_and(|next| {
                    next.kind.is_deletion() || next.begin.is_some_and(|begin| begin < swept.end)
                });
                let forgotten =
                    self.shape.variant == Variant::NoStore && self.turns[link.turn].left < swept.end;
                let hidden = self.shape.latest()
                    && self
                        .calls
                        .iter()
                        .any(|call| call.is_change() && call.end > swept.called && call.begin < swept.end);
                assert!(over || forgotten || hidden, "{link:?} outlives {swept:?}\nthen {next:?}");
            }
        }
    }

    /// Whether `object` may have been known at some moment between the two.
    pub(crate) fn may_know(&self, object: Option<Id>, begin: u64, end: u64) -> bool {
        if self.shape.variant == Variant::NoStore {
            return object.is_none();
        }
        let taken = self.turns.partition_point(|turn| turn.taken < begin);
        let before = taken.checked_sub(1).and_then(|at| self.turns[at].known());
        if object == before || self.shape.variant == Variant::OwnStore {
            return true;
        }
        let after = &self.turns[taken..];
        if after.iter().any(|turn| turn.asked < end && turn.known() == object) {
            return true;
        }
        // A cancelled pop had the key, and what it saw comes again, or is merged.
        let call = object.and_then(|id| self.calls.iter().find(|call| call.id == id));
        let older = |id: Id| {
            self.turns[..taken].iter().any(|turn| turn.deltas.iter().any(|delta| delta.1 == Some(id)))
        };
        self.plan.cancels
            && match call {
                Some(call) => call.begin < end && !older(call.id),
                None => {
                    object.is_none()
                        && after.iter().any(|turn| turn.deltas.iter().any(|delta| delta.0.is_deletion()))
                }
            }
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.links.iter().filter(|link| link.kind == DeltaKind::Sync).count() as u64
    }

    pub(crate) fn last(&self) -> Option<Id> {
        self.links.last().and_then(|link| link.object.filter(|_| !link.kind.is_deletion()))
    }
}
