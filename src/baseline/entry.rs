//! A key that is pending or leased.

use std::time::{Duration, Instant};

use crate::delta::{DeltaList, Deltas, Object, RawDelta, RawKind};
use crate::object::Key;
use crate::raw::HeldLease;
use crate::resolve::Before;

use super::lines::Place;
use super::replaces::Debts;
use super::table::Slot;

/// Where facts came from, as bits: it decides the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins(u8);

impl Origins {
    pub(super) const CHANGE: Origins = Origins(1);
    pub(super) const REPLACE: Origins = Origins(2);
    pub(super) const FIRST_REPLACE: Origins = Origins(4);
    pub(super) const RESYNC: Origins = Origins(8);

    pub(super) fn join(&mut self, other: Origins) {
        self.0 |= other.0;
    }

    pub(super) fn within(self, allowed: Origins) -> bool {
        self.0 & !allowed.0 == 0
    }
}

/// What a lease gave back.
pub(super) struct GivenBack<V> {
    pub(super) deltas: DeltaList<Object<V>>,
    pub(super) previous: Option<Object<V>>,
    pub(super) attempts: u32,
}

pub(super) struct OpenLease {
    /// The thread that holds it as a borrow; 0 if nobody can tell.
    pub(super) thread: u32,
    /// Whether the key exists after its deltas.
    pub(super) live: bool,
    /// Its deltas' number in the marks.
    pub(super) since: u64,
    pub(super) origins: Origins,
    pub(super) debts: Debts,
}

/// An entry exists while its key is pending or leased.
pub(super) struct Entry<V> {
    /// What was appended since the key was last handed out.
    pub(super) facts: DeltaList<Object<V>>,
    /// What comes before the facts. Rare, and most of an entry's size if it stood here.
    pub(super) given_back: Option<Box<GivenBack<V>>>,
    pub(super) origins: Origins,
    pub(super) debts: Debts,
    /// Number in the marks, while the key is pending.
    pub(super) since: u64,
    pub(super) place: Place,
    /// Since when it waits, where that is measured and it does not wait for its time. Not here, so that it costs nothing elsewhere.
    pub(super) waits: Option<Box<Instant>>,
    pub(super) lease: Option<OpenLease>,
    /// What the last lease left, if the entry outlived it: newer than a user's store may be.
    pub(super) left: Option<Before<Object<V>>>,
    /// 2·n for the list of replace n, 2·n+1 for a change made after it began; only rises.
    pub(super) settled: u64,
}

impl<V> Entry<V> {
    pub(super) fn new(settled: u64) -> Self {
        Entry {
            facts: DeltaList::new(),
            given_back: None,
            origins: Origins::default(),
            debts: Debts::new(),
            since: 0,
            place: Place::Nowhere,
            waits: None,
            lease: None,
            left: None,
            settled,
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.facts.is_empty() || self.given_back.is_some()
    }

    /// Neither pending nor leased: just made, or about to be removed.
    pub(super) fn is_vacant(&self) -> bool {
        !self.is_pending() && self.lease.is_none()
    }

    /// Whether the key exists, as far as its entry knows: by the newest delta, pending or handed out.
    pub(super) fn exists(&self) -> bool {
        let given_back = self.given_back.as_ref().and_then(|given_back| given_back.deltas.last());
        match self.facts.last().or(given_back) {
            Some(newest) => !newest.kind.is_deletion(),
            None => self.lease.as_ref().is_some_and(|lease| lease.live),
        }
    }

    /// How many deltas are pending.
    pub(super) fn depth(&self) -> usize {
        self.facts.len() + self.given_back.as_ref().map_or(0, |given_back| given_back.deltas.len())
    }
}

/// What was taken out of an entry for a lease, before it is known what the facts come to.
pub(super) struct Taken<K, V> {
    pub(super) slot: Slot,
    pub(super) key: Key<K>,
    pub(super) facts: DeltaList<Object<V>>,
    pub(super) given_back: Option<Box<GivenBack<V>>>,
    pub(super) left: Option<Before<Object<V>>>,
    pub(super) initial: bool,
    pub(super) times: Option<Box<Times>>,
}

impl<K, V> Taken<K, V> {
    /// Whether a deletion without a final object was accepted, for which the user's store was to have the object.
    pub(super) fn is_swept(&self) -> bool {
        let unseen = |fact: &RawDelta<Object<V>>| fact.kind == RawKind::Tombstone && fact.object.is_none();
        self.given_back.is_none() && self.facts.iter().any(unseen)
    }
}

/// What an open lease of a [`MutexDeltaFifo`](super::MutexDeltaFifo) holds.
pub struct Held<K, V> {
    pub(super) slot: Slot,
    pub(super) key: Key<K>,
    pub(super) deltas: DeltaList<Object<V>>,
    pub(super) previous: Option<Object<V>>,
    pub(super) initial: bool,
    pub(super) attempts: u32,
    /// Where somebody asks for one.
    pub(super) times: Option<Box<Times>>,
}

#[derive(Default)]
pub(super) struct Times {
    /// In line.
    pub(super) waited: Option<Duration>,
    /// To be held.
    pub(super) began: Option<Instant>,
}

impl<K, V> HeldLease<K, V> for Held<K, V> {
    fn key(&self) -> &K {
        &self.key
    }

    fn deltas(&self) -> Deltas<'_, K, V> {
        Deltas::new(&self.key, &self.deltas)
    }

    fn previous(&self) -> Option<&V> {
        self.previous.as_deref()
    }

    fn is_initial(&self) -> bool {
        self.initial
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn waited(&self) -> Option<Duration> {
        self.times.as_ref()?.waited
    }
}
