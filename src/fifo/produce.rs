//! Producers: one change, or many in one call.

use std::hash::{BuildHasher, Hash};

use smallvec::SmallVec;

use crate::builder::Known;
use crate::delta::{Change, RawKind};
use crate::error::{BoxError, ChangeAllError, ChangeError, ChangeErrorKind};
use crate::raw::RawQueue;
use crate::resolve::Before;
use crate::sync::epoch::{self, Guard};
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::fact::Fact;
use super::link::ToLink;
use super::push::{Push, PushKey, Pushed};
use super::rules::Rule;
use super::shard::Shard;

/// A change on its way into the queue. What the queue does not take stays here, and drops under no guard.
struct Offer<K, V> {
    kind: RawKind,
    hash: u64,
    shard: usize,
    key: Option<K>,
    value: Option<V>,
    /// Whether the user's store knows the key, once it was asked.
    stored: Option<bool>,
}

impl<K, V> Offer<K, V> {
    fn into_change(self) -> Change<K, V> {
        Change::from_parts(self.kind, self.key.expect("the queue has not taken it"), self.value)
    }
}

enum Offered {
    /// Appended, or a deletion of nothing. A key to put in line, if there is one.
    Taken(Option<ToLink>),
    AskStore,
    Closed,
}

/// So many changes are made under one guard, and so many keys go in line together.
pub(super) const STRETCH: usize = 32;

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    #[inline(always)]
    pub(super) fn change_one(&self, change: Change<K, V>) -> Result<(), ChangeError<K, V>> {
        if self.core.closing.is_closed() || self.transform.is_some() {
            return self.change_warily(change);
        }
        self.offer_one(change).map_err(|change| ChangeError { kind: ChangeErrorKind::Closed, change })
    }

    #[cold]
    #[inline(never)]
    fn change_warily(&self, mut change: Change<K, V>) -> Result<(), ChangeError<K, V>> {
        if self.core.closing.is_closed() {
            // Before the transform: the value comes back as it was.
            return Err(ChangeError { kind: ChangeErrorKind::Closed, change });
        }
        if let Err(source) = self.transform_change(&mut change) {
            return Err(ChangeError { kind: ChangeErrorKind::Transform(source), change });
        }
        self.offer_one(change).map_err(|change| ChangeError { kind: ChangeErrorKind::Closed, change })
    }

    /// A change whose object is transformed.
    #[inline(always)]
    pub(super) fn offer_one(&self, change: Change<K, V>) -> Result<(), Change<K, V>> {
        self.make(self.prepare(change)).map_err(Offer::into_change)
    }

    /// Makes a change; it comes back if the queue is closed.
    #[inline(never)]
    fn make(&self, mut offer: Offer<K, V>) -> Result<(), Offer<K, V>> {
        let shard = &self.core.shards[offer.shard];
        loop {
            let guard = epoch::pin();
            shard.prefetch_entry(offer.hash, &guard);
            match self.offer(shard, &mut offer, &guard) {
                Offered::Taken(link) => {
                    if let Some(link) = link {
                        self.link(link, &guard);
                    }
                    drop(guard);
                    shard.tidy_if_left_alone();
                    return Ok(());
                }
                Offered::Closed => return Err(offer),
                Offered::AskStore => {
                    drop(guard);
                    self.ask_for(&mut offer);
                }
            }
        }
    }

    pub(super) fn change_many(
        &self,
        changes: impl IntoIterator<Item = Change<K, V>>,
    ) -> Result<(), ChangeAllError<K, V>> {
        let mut changes: Vec<Change<K, V>> = changes.into_iter().collect();
        if self.core.closing.is_closed() && !changes.is_empty() {
            let kind = ChangeErrorKind::Closed;
            return Err(ChangeAllError { kind, index: 0, rest: changes, at: 0 });
        }
        if self.transform.is_some() {
            for index in 0..changes.len() {
                if let Err(source) = self.transform_change(&mut changes[index]) {
                    let kind = ChangeErrorKind::Transform(source);
                    return Err(ChangeAllError { kind, index, rest: changes, at: index });
                }
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

    #[cold]
    fn transform_change(&self, change: &mut Change<K, V>) -> Result<(), BoxError> {
        change.value_mut().map_or(Ok(()), |value| self.transform_raw(value))
    }

    /// All that can be done before the guard.
    #[inline(always)]
    fn prepare(&self, change: Change<K, V>) -> Offer<K, V> {
        let (kind, key, value) = change.into_parts();
        let hash = self.hash(&key);
        let shard = self.shard_of(hash);
        self.core.shards[shard].prefetch_bucket(hash);
        let stored = match self.known {
            Known::None => Some(false),
            Known::Inside | Known::Store(_) => None,
        };
        Offer { kind, hash, shard, key: Some(key), value, stored }
    }

    /// How many were taken.
    fn offer_all(&self, offers: &mut [Offer<K, V>]) -> usize {
        let mut at = 0;
        while at < offers.len() {
            let mut stretch = Stretch::begin(self);
            let (begin, end) = (at, offers.len().min(at + STRETCH));
            for offer in &offers[begin..end] {
                self.core.shards[offer.shard].prefetch_entry(offer.hash, &stretch.guard);
            }
            let mut ask = false;
            while at < end && !ask {
                let offer = &mut offers[at];
                match self.offer(&self.core.shards[offer.shard], offer, &stretch.guard) {
                    Offered::Taken(link) => {
                        stretch.links.extend(link);
                        at += 1;
                    }
                    Offered::Closed => return at,
                    Offered::AskStore => ask = true,
                }
            }
            drop(stretch);
            if ask {
                self.ask_for(&mut offers[at]);
            }
            for offer in &offers[begin..at] {
                self.core.shards[offer.shard].tidy_if_left_alone();
            }
        }
        at
    }

    #[inline(always)]
    fn offer(&self, shard: &Shard<K, V>, offer: &mut Offer<K, V>, guard: &Guard) -> Offered {
        // Under the guard: see `close`.
        if self.core.closing.is_closed() && !planted("nobody looks under the guard") {
            return Offered::Closed;
        }
        pause_point("offer: not closed");
        let mut push = Push {
            shard: offer.shard,
            hash: offer.hash,
            key: PushKey::Callers(&mut offer.key),
            fact: Fact::change(offer.kind, self.core.replaces.newest()),
            rule: if offer.kind.is_deletion() { Rule::Deletion(offer.stored) } else { Rule::Always },
            since: self.marks.newest(),
            cell: Some(shard.objects.draft_from(&mut offer.value)),
            // The caller drops it under no guard.
            value: &mut offer.value,
            wanted: true,
        };
        match self.push_to(shard, &mut push, guard) {
            Pushed::Done { link, .. } => {
                if self.core.replaces.change() {
                    self.wake_watchers();
                }
                Offered::Taken(link)
            }
            Pushed::AskStore => Offered::AskStore,
        }
    }

    fn ask_for(&self, offer: &mut Offer<K, V>) {
        let key = offer.key.as_ref().expect("the queue has not taken it");
        // A store that cannot tell may have it.
        offer.stored = Some(!matches!(self.ask_store(key), Before::Absent));
    }
}

/// What is pushed under one guard. The keys go in line together, a panic included.
pub(super) struct Stretch<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    pub(super) guard: Guard,
    pub(super) links: SmallVec<[ToLink; STRETCH]>,
}

impl<'q, K: Hash + Eq, V, S> Stretch<'q, K, V, S> {
    pub(super) fn begin(queue: &'q DeltaFifo<K, V, S>) -> Self {
        Stretch { queue, guard: epoch::pin(), links: SmallVec::new() }
    }
}

impl<K: Hash + Eq, V, S> Drop for Stretch<'_, K, V, S> {
    fn drop(&mut self) {
        if planted("a batch that panics is not linked") && std::thread::panicking() {
            return;
        }
        self.queue.link_all(&self.links, &self.guard);
    }
}
