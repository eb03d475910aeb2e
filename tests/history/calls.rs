//! The calls of a queue that are recorded, and what they are answered.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use delta_fifo::{Change, DeltaQueue, Lease};

use super::door;
use super::recorder::Record;
use crate::model::queue::{Ending, Fact};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Change(Change<u8, u32>),
    ChangeAll(Vec<Change<u8, u32>>),
    Replace(Vec<(u8, u32)>),
    /// A replace of this thread's, in pieces.
    Begin,
    Upsert(u8, u32),
    Commit,
    Abort,
    Resync,
    ResyncKey(u8),
    Pop,
    PopBatch(usize),
    End(u8, Ending),
    Get(u8),
    Snapshot,
    /// Only when nothing else runs.
    Lengths,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// `ReplaceInProgress`.
    Refused,
    Was(bool),
    Count(usize),
    /// None for a pop that found nothing.
    Leased(Vec<Seen>),
    Known(Option<u32>),
    All(BTreeMap<u8, u32>),
    /// Pending and leased keys.
    Lengths(usize, usize),
}

/// A key that may let other threads run where the queue hashes it or compares it: so calls overlap that would be over before
/// anybody else has a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: u8,
    pub(crate) pauses: bool,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.pauses {
            door::yield_now();
        }
        self.name.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        if self.pauses || other.pauses {
            door::yield_now();
        }
        self.name == other.name
    }
}

impl Eq for Key {}

pub(crate) fn with_key(change: Change<u8, u32>, key: Key) -> Change<Key, u32> {
    match change {
        Change::Add(_, object) => Change::Add(key, object),
        Change::Update(_, object) => Change::Update(key, object),
        Change::Apply(_, object) => Change::Apply(key, object),
        Change::Delete(_, object) => Change::Delete(key, object),
        Change::DeleteKey(_) => Change::DeleteKey(key),
    }
}

/// What a lease shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: u8,
    pub(crate) deltas: Vec<Fact>,
    pub(crate) attempts: u32,
    pub(crate) previous: Option<u32>,
}

pub(crate) type History = Vec<Record<Call, Answer>>;

pub(crate) fn seen<Q: DeltaQueue<Key = Key, Value = u32>>(lease: &Lease<'_, Q>) -> Seen {
    Seen {
        key: lease.key().name,
        deltas: lease.deltas().iter().map(|delta| (delta.kind(), delta.object().copied())).collect(),
        attempts: lease.attempts(),
        previous: lease.previous().copied(),
    }
}
