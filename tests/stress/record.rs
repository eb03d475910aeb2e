//! What the threads write down. Moments are numbers from one counter.

use std::collections::BTreeSet;

use delta_fifo::DeltaKind;

use super::shape::Id;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Add,
    Update,
    Apply,
    Delete,
    DeleteKey,
    /// Of a replace.
    Item,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Accepted,
    Rejected,
    Superseded,
    /// An item of a list: nobody tells whether it was superseded.
    Listed,
}

/// One change, or one item of a replace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) key: u32,
    pub(crate) kind: Kind,
    pub(crate) id: Id,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) fate: Fate,
    /// Of an item: before its replace was called, and when that had begun.
    pub(crate) replace: Option<(u64, u64)>,
}

impl Call {
    pub(crate) fn is_change(&self) -> bool {
        self.kind != Kind::Item && self.fate == Fate::Accepted
    }

    pub(crate) fn is_live(&self) -> bool {
        !matches!(self.kind, Kind::Delete | Kind::DeleteKey)
    }
}

/// A replace that was committed.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) called: u64,
    pub(crate) began: u64,
    pub(crate) commit: u64,
    pub(crate) end: u64,
    pub(crate) scope: Option<u32>,
    pub(crate) listed: BTreeSet<u32>,
}

impl Swept {
    pub(crate) fn sweeps(&self, key: u32) -> bool {
        self.scope.is_none_or(|scope| key % 2 == scope) && !self.listed.contains(&key)
    }
}

/// One lease.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) key: u32,
    /// Before the pop was called, and after it returned.
    pub(crate) asked: u64,
    pub(crate) taken: u64,
    /// Before the lease was ended.
    pub(crate) left: u64,
    pub(crate) deltas: Vec<(DeltaKind, Option<Id>)>,
    pub(crate) previous: Option<Id>,
    pub(crate) initial: bool,
    pub(crate) attempts: u32,
    /// Ended with `done` or `give_up`.
    pub(crate) completed: bool,
}

impl Turn {
    /// What is known after it was handed out.
    pub(crate) fn known(&self) -> Option<Id> {
        let &(kind, object) = self.deltas.last().expect("a lease has deltas");
        object.filter(|_| !kind.is_deletion())
    }
}

/// What the queue said; the last moment is after the call returned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    Known {
        key: u32,
        object: Option<Id>,
        begin: u64,
        end: u64,
    },
    Synced(u64),
    Delivered(u64),
    /// Everything whose call returned before the first moment is completed.
    Through(u64, u64),
    /// Everything that the replace that had begun at the first moment appended is completed.
    Replaced(u64, u64),
    /// A pop said that nothing can come any more.
    Closed(u64),
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) calls: Vec<Call>,
    pub(crate) swept: Vec<Swept>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) seen: Vec<Seen>,
    /// Before and after each close.
    pub(crate) closes: Vec<(u64, u64)>,
    /// How many `Sync` were appended.
    pub(crate) syncs: u64,
}

impl Log {
    pub(crate) fn join(&mut self, mut other: Log) {
        self.calls.append(&mut other.calls);
        self.swept.append(&mut other.swept);
        self.turns.append(&mut other.turns);
        self.seen.append(&mut other.seen);
        self.closes.append(&mut other.closes);
        self.syncs += other.syncs;
    }
}
