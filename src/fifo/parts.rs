//! The parts of an entry that most calls do not touch: beside its cell, under the same index, or made when they are needed.

#![expect(unsafe_code, reason = "the holder's part is plain data (E2)")]

use crate::delta::{DeltaList, Object};
use crate::resolve::{Before, known_after};
use crate::slab::{Index, Rows, Slab, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::cells::Own;
use super::chain::Facts;
use super::debts::Debts;
use super::measure::Date;
use super::word::Newest;

/// What a lease gave back, or a pop that came to nothing.
pub(super) struct GivenBack<V> {
    /// Empty if no lease has shown any.
    pub(super) deltas: DeltaList<Object<V>>,
    /// Taken by a pop that panicked before it resolved them.
    pub(super) facts: Facts<V>,
    pub(super) previous: Option<Object<V>>,
    pub(super) attempts: u32,
    pub(super) debts: Debts,
    pub(super) background: bool,
}

impl<V> GivenBack<V> {
    /// What the key is after its deltas, which have been resolved.
    pub(super) fn newest(&self) -> Newest {
        if known_after(&self.deltas).is_some() { Newest::Live } else { Newest::Deleted }
    }
}

/// What one holder leaves to the next.
pub(super) struct Legacy<V> {
    /// Comes before the facts.
    pub(super) given_back: Option<Box<GivenBack<V>>>,
    /// What the last lease left, if the known objects are elsewhere: newer than a user's store may be.
    pub(super) left: Option<Box<Before<Object<V>>>>,
}

impl<V> Default for Legacy<V> {
    fn default() -> Self {
        Legacy { given_back: None, left: None }
    }
}

/// All that most calls do not touch.
#[derive(Default)]
pub(super) struct Cold {
    /// E7.
    pub(super) settled: AtomicU64,
    /// While it is delayed: when that ends, in the delays' own count. While it is leased and [`OWES`](super::head::OWES): the
    /// replace that the lease owes, or [`MANY`](super::head::MANY).
    pub(super) note: AtomicU64,
    /// E8.
    pub(super) since: AtomicU64,
}

struct Parcel<V> {
    link: AtomicU32,
    legacy: Own<Legacy<V>>,
}

impl<V> Default for Parcel<V> {
    fn default() -> Self {
        Parcel { link: AtomicU32::new(0), legacy: Own::default() }
    }
}

impl<V> Slot for Parcel<V> {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

/// The parts of all entries of a shard.
pub(super) struct Parts<V> {
    cold: Rows<Cold>,
    /// Where it is measured how long keys wait.
    dates: Option<Box<Rows<Date>>>,
    parcels: Slab<Parcel<V>>,
}

impl<V> Parts<V> {
    pub(super) fn new(dated: bool) -> Self {
        let dates = dated.then(|| Box::new(Rows::new()));
        Parts { cold: Rows::new(), dates, parcels: Slab::new() }
    }

    /// Sees to it that an entry has its part. Ends the process if there is no memory for it.
    pub(super) fn provide(&self, entry: Index) {
        self.cold.provide(entry);
        if let Some(dates) = &self.dates {
            dates.provide(entry);
        }
    }

    /// None where it is not measured, or the entry has never been used.
    pub(super) fn date(&self, entry: Index) -> Option<&Date> {
        self.dates.as_ref()?.try_get(entry)
    }

    pub(super) fn cold(&self, entry: Index) -> &Cold {
        self.cold.get(entry)
    }

    /// What the last holder has left in `parcel`, an index or 0, for the holder to change. A parcel is there only as long as there is
    /// something in it.
    ///
    /// # Safety
    ///
    /// The caller is the holder (E2).
    pub(super) unsafe fn legacy<R>(&self, parcel: &AtomicU32, f: impl FnOnce(&mut Legacy<V>) -> R) -> R {
        // Relaxed: only holders change it, who are ordered by the word.
        let before = Index::new(parcel.load(Ordering::Relaxed));
        let mut legacy = match before {
            // SAFETY: the parcel is the entry's, and so the holder's.
            Some(before) => unsafe { self.parcels.get(before).legacy.with_mut(std::mem::take) },
            None => Legacy::default(),
        };
        let result = f(&mut legacy);
        let is_empty = legacy.given_back.is_none() && legacy.left.is_none();
        let after = match (before, is_empty) {
            (None, true) => None,
            (Some(before), true) => {
                self.parcels.give(before);
                None
            }
            (before, false) => {
                let parcel = before.unwrap_or_else(|| self.parcels.take());
                // SAFETY: as above, or it was taken just now and is the caller's alone.
                unsafe { self.parcels.get(parcel).legacy.with_mut(|empty| *empty = legacy) };
                Some(parcel)
            }
        };
        // Relaxed: as above.
        parcel.store(after.map_or(0, Index::get), Ordering::Relaxed);
        result
    }
}
