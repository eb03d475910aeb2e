//! Which replaces are running, what each still waits for, and what the first of them means for `has_synced`.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use crate::error::BeginReplaceError;

/// A key that a replace touched and that is not completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Debt {
    replace: u64,
    /// It has been handed out, and that lease has ended.
    delivered: bool,
}

impl Debt {
    pub(super) fn is_of(&self, replace: u64) -> bool {
        self.replace == replace
    }
}

/// What one key owes. Scoped replaces and relists can add up.
pub(crate) type Debts = SmallVec<[Debt; 1]>;

/// Adds what `newer` owes to `older`.
pub(super) fn join(older: &mut Debts, newer: Debts) -> Vec<Debt> {
    let mut twice = Vec::new();
    for debt in newer {
        if older.iter().any(|known| known.replace == debt.replace) {
            twice.push(debt);
        } else {
            older.push(debt);
        }
    }
    twice
}

struct Open {
    /// Index of the scope; none for a plain replace.
    scope: Option<usize>,
    streaming: bool,
}

/// Keys that one replace touched, each counted once while it is pending.
#[derive(Default)]
struct Batch {
    outstanding: usize,
    undelivered: usize,
    committed: bool,
    /// Some of it was discarded: it can no longer be completed.
    failed: bool,
}

/// How far the first sync of one scope is. A queue without declared scopes has one that holds every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// Neither a replace has begun, nor (without declared scopes) a change been made.
    Undecided,
    /// This replace is the first, unless it is dropped.
    Replace(u64),
    Synced,
}

pub(super) struct Replaces {
    /// The number of the newest replace that has begun.
    newest: u64,
    open: BTreeMap<u64, Open>,
    batches: HashMap<u64, Batch>,
    scopes: Vec<First>,
    /// Scopes were declared: changes decide nothing.
    scoped: bool,
    disjoint: bool,
    /// A change was called while the first replace was open; it decides if that replace is dropped.
    changed: bool,
}

impl Replaces {
    pub(super) fn new(scopes: usize, disjoint: bool) -> Self {
        Replaces {
            newest: 0,
            open: BTreeMap::new(),
            batches: HashMap::new(),
            scopes: vec![First::Undecided; scopes.max(1)],
            scoped: scopes > 0,
            disjoint,
            changed: false,
        }
    }

    /// The settled number of a change that is made now: newer than every replace that has begun.
    pub(super) fn change_number(&self) -> u64 {
        2 * self.newest + 1
    }

    pub(super) fn none_open(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, replace: u64) -> bool {
        self.open.contains_key(&replace)
    }

    /// Whether a replace is running that a close does not cut.
    pub(super) fn running(&self) -> bool {
        self.open.values().any(|open| !open.streaming)
    }

    pub(super) fn begin(&mut self, scope: Option<usize>, streaming: bool) -> Result<u64, BeginReplaceError> {
        let overlaps =
            |open: &Open| !self.disjoint || open.scope.is_none() || scope.is_none() || open.scope == scope;
        if self.open.values().any(overlaps) {
            return Err(BeginReplaceError::ReplaceInProgress);
        }
        self.newest += 1;
        self.open.insert(self.newest, Open { scope, streaming });
        self.batches.insert(self.newest, Batch::default());
        for (index, first) in self.scopes.iter_mut().enumerate() {
            if *first == First::Undecided && scope.is_none_or(|scope| scope == index) {
                *first = First::Replace(self.newest);
            }
        }
        Ok(self.newest)
    }

    pub(super) fn commit(&mut self, replace: u64) {
        self.open.remove(&replace);
        if let Some(batch) = self.batches.get_mut(&replace) {
            batch.committed = true;
        }
        self.settle(replace);
    }

    /// The replace is dropped: it is as if it had never begun, but for what it has put in line.
    pub(super) fn abort(&mut self, replace: u64) {
        self.open.remove(&replace);
        self.batches.remove(&replace);
        for first in &mut self.scopes {
            if *first == First::Replace(replace) {
                *first = if self.changed { First::Synced } else { First::Undecided };
            }
        }
    }

    /// Nobody will ask for this replace any more.
    pub(super) fn forget(&mut self, replace: u64) {
        if !self.is_first(replace) {
            self.batches.remove(&replace);
        }
    }

    /// Drops all streaming replaces, as a close does.
    pub(super) fn cut_streaming(&mut self) {
        let cut: Vec<u64> =
            self.open.iter().filter(|(_, open)| open.streaming).map(|(&replace, _)| replace).collect();
        for replace in cut {
            self.abort(replace);
        }
    }

    /// A producer made a change.
    pub(super) fn change(&mut self) {
        if !self.scoped && !self.changed {
            self.changed = true;
            if self.scopes[0] == First::Undecided {
                self.scopes[0] = First::Synced;
            }
        }
    }

    pub(super) fn is_first(&self, replace: u64) -> bool {
        self.scopes.contains(&First::Replace(replace))
    }

    pub(super) fn owes_first(&self, debts: &[Debt]) -> bool {
        debts.iter().any(|debt| self.is_first(debt.replace))
    }

    /// A replace touched a key: its debt, unless the key owes it already.
    pub(super) fn owe(&mut self, debts: &mut Debts, replace: u64) {
        if debts.iter().any(|debt| debt.replace == replace) {
            return;
        }
        // Nobody asks for these any more. So a key owes no more replaces than there are handles to wait for.
        debts.retain(|debt| self.batches.contains_key(&debt.replace));
        if let Some(batch) = self.batches.get_mut(&replace) {
            batch.outstanding += 1;
            batch.undelivered += 1;
            debts.push(Debt { replace, delivered: false });
        }
    }

    /// The key is completed.
    pub(super) fn complete(&mut self, debts: &[Debt]) {
        for debt in debts {
            if let Some(batch) = self.batches.get_mut(&debt.replace) {
                batch.outstanding -= 1;
                batch.undelivered -= usize::from(!debt.delivered);
                self.settle(debt.replace);
            }
        }
    }

    /// The key has been handed out, and its lease has ended in some way.
    pub(super) fn deliver(&mut self, debts: &mut [Debt]) {
        for debt in debts.iter_mut().filter(|debt| !debt.delivered) {
            debt.delivered = true;
            if let Some(batch) = self.batches.get_mut(&debt.replace) {
                batch.undelivered -= 1;
            }
        }
    }

    /// What the key owes was discarded.
    pub(super) fn fail(&mut self, debts: &[Debt]) {
        for debt in debts {
            if let Some(batch) = self.batches.get_mut(&debt.replace) {
                batch.failed = true;
            }
        }
    }

    fn settle(&mut self, replace: u64) {
        let Some(batch) = self.batches.get(&replace) else { return };
        if batch.committed && batch.outstanding == 0 {
            self.batches.remove(&replace);
            for first in &mut self.scopes {
                if *first == First::Replace(replace) {
                    *first = First::Synced;
                }
            }
        }
    }

    pub(super) fn synced(&self) -> bool {
        self.scopes.iter().all(|&first| first == First::Synced)
    }

    pub(super) fn delivered(&self) -> bool {
        self.scopes.iter().all(|&first| match first {
            First::Undecided => false,
            First::Replace(replace) => {
                let batch = &self.batches[&replace];
                batch.committed && batch.undelivered == 0
            }
            First::Synced => true,
        })
    }

    /// Whether the first sync can still come after a close.
    pub(super) fn can_sync(&self) -> bool {
        self.scopes.iter().all(|&first| match first {
            First::Undecided => false,
            First::Replace(replace) => !self.batches[&replace].failed,
            First::Synced => true,
        })
    }

    /// Whether everything that a committed replace appended is completed; none if it can no longer be.
    pub(super) fn is_complete(&self, replace: u64) -> Option<bool> {
        match self.batches.get(&replace) {
            None => Some(true),
            Some(batch) if batch.failed => None,
            Some(_) => Some(false),
        }
    }
}
