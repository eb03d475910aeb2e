//! Producers: single changes and lists of them.

use std::hash::{BuildHasher, Hash};
use std::sync::RwLock;

use crate::builder::Known;
use crate::delta::{Change, Object, RawDelta, RawKind};
use crate::error::{BoxError, ChangeAllError, ChangeError, ChangeErrorKind};
use crate::queue::DeltaQueue;
use crate::raw::RawQueue;
use crate::resolve::Before;

use super::MutexDeltaFifo;
use super::entry::{Entry, Origins};
use super::lock::read;
use super::records::Records;
use super::state::{Append, State};

/// A change on its way into the queue. What the queue does not take stays here, and drops outside the lock.
struct Offer<K, V> {
    kind: RawKind,
    hash: u64,
    key: Option<K>,
    object: Option<Object<V>>,
    /// Whether the user's store knows the key, once it was asked.
    stored: Option<bool>,
}

impl<K, V> Offer<K, V> {
    fn into_change(self) -> Change<K, V> {
        let object = self.object.and_then(Object::into_inner);
        Change::from_parts(self.kind, self.key.expect("the queue did not take it"), object)
    }
}

enum Offered {
    /// Appended, or a deletion of nothing.
    Taken,
    /// Only the user's store can say whether there is something to delete.
    AskStore,
    Closed,
}

impl<K, V, S> MutexDeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn change_one(&self, mut change: Change<K, V>) -> Result<(), ChangeError<K, V>> {
        if self.is_closed() {
            // Before the transform: the value comes back as it was.
            return Err(ChangeError { kind: ChangeErrorKind::Closed, change });
        }
        if let Err(source) = self.transform_change(&mut change) {
            return Err(ChangeError { kind: ChangeErrorKind::Transform(source), change });
        }
        self.offer_one(change).map_err(|change| ChangeError { kind: ChangeErrorKind::Closed, change })
    }

    /// A change whose object is transformed.
    pub(super) fn offer_one(&self, change: Change<K, V>) -> Result<(), Change<K, V>> {
        self.offer(self.prepare(change)).map_err(Offer::into_change)
    }

    pub(super) fn change_many(
        &self,
        changes: impl IntoIterator<Item = Change<K, V>>,
    ) -> Result<(), ChangeAllError<K, V>> {
        let mut changes: Vec<Change<K, V>> = changes.into_iter().collect();
        if self.is_closed() && !changes.is_empty() {
            let kind = ChangeErrorKind::Closed;
            return Err(ChangeAllError { kind, index: 0, rest: changes, at: 0 });
        }
        for index in 0..changes.len() {
            if let Err(source) = self.transform_change(&mut changes[index]) {
                return Err(ChangeAllError {
                    kind: ChangeErrorKind::Transform(source),
                    index,
                    rest: changes,
                    at: index,
                });
            }
        }
        self.offer_many(changes)
    }

    /// Changes whose objects are transformed.
    pub(super) fn offer_many(&self, changes: Vec<Change<K, V>>) -> Result<(), ChangeAllError<K, V>> {
        let mut offers: Vec<Offer<K, V>> = changes.into_iter().map(|change| self.prepare(change)).collect();
        let taken = self.offer_all(&mut offers);
        if taken == offers.len() {
            return Ok(());
        }
        let rest = offers.into_iter().skip(taken).map(Offer::into_change).collect();
        Err(ChangeAllError { kind: ChangeErrorKind::Closed, index: taken, rest, at: 0 })
    }

    fn transform_change(&self, change: &mut Change<K, V>) -> Result<(), BoxError> {
        change.value_mut().map_or(Ok(()), |value| self.transform_raw(value))
    }

    /// All that can be done before the lock.
    fn prepare(&self, change: Change<K, V>) -> Offer<K, V> {
        let (kind, key, value) = change.into_parts();
        let hash = self.hasher.hash_one(&key);
        Offer { kind, hash, key: Some(key), object: value.map(Object::alone), stored: None }
    }

    fn offer(&self, mut offer: Offer<K, V>) -> Result<(), Offer<K, V>> {
        loop {
            let offered = self.lock().offer(&mut offer, &self.known, &self.records);
            match offered {
                Offered::Taken => return Ok(()),
                Offered::Closed => return Err(offer),
                Offered::AskStore => self.ask_for(&mut offer),
            }
        }
    }

    /// Offers all under one lock, but for the user's store, which is asked without it. How many were taken.
    fn offer_all(&self, offers: &mut [Offer<K, V>]) -> usize {
        let mut state = self.lock();
        for (index, offer) in offers.iter_mut().enumerate() {
            loop {
                match state.offer(offer, &self.known, &self.records) {
                    Offered::Taken => break,
                    Offered::Closed => return index,
                    Offered::AskStore => state.unlocked(|| self.ask_for(offer)),
                }
            }
        }
        offers.len()
    }

    fn ask_for(&self, offer: &mut Offer<K, V>) {
        let key = offer.key.as_ref().expect("the queue did not take it");
        // A store that cannot tell may have it.
        offer.stored = Some(!matches!(self.ask_store(key), Before::Absent));
    }
}

impl<K: Eq, V> State<K, V> {
    fn offer(
        &mut self,
        offer: &mut Offer<K, V>,
        known: &Known<K, V>,
        records: &RwLock<Records<K, V>>,
    ) -> Offered {
        if self.closed {
            return Offered::Closed;
        }
        if offer.kind.is_deletion() {
            match self.can_delete(offer, known, records) {
                Some(true) => {}
                Some(false) => {
                    self.replaces.change();
                    return Offered::Taken;
                }
                None => return Offered::AskStore,
            }
        }
        let slot = self.entry(offer.hash, &mut offer.key, records);
        self.replaces.change();
        let settled = self.replaces.change_number();
        let fact = RawDelta::new(offer.kind, offer.object.take());
        self.append(slot, fact, Append { origin: Origins::CHANGE, settled, replace: None });
        Offered::Taken
    }

    /// Whether a key is pending or known; none if only the user's store can say.
    fn can_delete(
        &self,
        offer: &Offer<K, V>,
        known: &Known<K, V>,
        records: &RwLock<Records<K, V>>,
    ) -> Option<bool> {
        let key = offer.key.as_ref().expect("the queue did not take it");
        if let Some(slot) = self.entries.find(offer.hash, key) {
            let entry: &Entry<V> = self.entries.get(slot);
            return Some(entry.is_pending() || entry.exists());
        }
        match known {
            Known::Inside => Some(read(records).knows(offer.hash, key)),
            Known::None => Some(false),
            Known::Store(_) => offer.stored,
        }
    }
}
