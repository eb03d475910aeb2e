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
use super::push::{Push, PushKey, Pushed, Rule};

/// A change on its way into the queue. What the queue does not take stays here, and drops under no guard.
struct Offer<K, V> {
    kind: RawKind,
    hash: u64,
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
const STRETCH: usize = 32;

/// So many objects of a shard that were merged away wait for a consumer to drop them.
const BACKLOG: u32 = 64;

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    #[inline]
    pub(super) fn change_one(&self, mut change: Change<K, V>) -> Result<(), ChangeError<K, V>> {
        if self.core.closing.is_closed() {
            // Before the transform: the value comes back as it was.
            return Err(ChangeError { kind: ChangeErrorKind::Closed, change });
        }
        if self.transform.is_none() {
            return self
                .offer_one(change)
                .map_err(|change| ChangeError { kind: ChangeErrorKind::Closed, change });
        }
        if let Err(source) = self.transform_change(&mut change) {
            return Err(ChangeError { kind: ChangeErrorKind::Transform(source), change });
        }
        self.offer_one(change).map_err(|change| ChangeError { kind: ChangeErrorKind::Closed, change })
    }

    /// A change whose object is transformed.
    #[inline(always)]
    pub(super) fn offer_one(&self, change: Change<K, V>) -> Result<(), Change<K, V>> {
        let mut offer = self.prepare(change);
        loop {
            let guard = epoch::pin();
            self.core.shards[self.shard_of(offer.hash)].prefetch_entry(offer.hash, &guard);
            match self.offer(&mut offer, &guard) {
                Offered::Taken(link) => {
                    if let Some(link) = link {
                        self.link(link, &guard);
                    }
                    drop(guard);
                    self.tidy_if_left_alone(offer.hash);
                    return Ok(());
                }
                Offered::Closed => return Err(offer.into_change()),
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
        self.core.shards[self.shard_of(hash)].prefetch_bucket(hash);
        let stored = match self.known {
            Known::None => Some(false),
            Known::Inside | Known::Store(_) => None,
        };
        Offer { kind, hash, key: Some(key), value, stored }
    }

    /// How many were taken.
    fn offer_all(&self, offers: &mut [Offer<K, V>]) -> usize {
        let mut at = 0;
        while at < offers.len() {
            let mut stretch = Stretch { queue: self, guard: epoch::pin(), links: SmallVec::new() };
            let (begin, end) = (at, offers.len().min(at + STRETCH));
            for offer in &offers[begin..end] {
                self.core.shards[self.shard_of(offer.hash)].prefetch_entry(offer.hash, &stretch.guard);
            }
            let mut ask = false;
            while at < end && !ask {
                match self.offer(&mut offers[at], &stretch.guard) {
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
                self.tidy_if_left_alone(offer.hash);
            }
        }
        at
    }

    #[inline(always)]
    fn offer(&self, offer: &mut Offer<K, V>, guard: &Guard) -> Offered {
        // Under the guard: see `close`.
        if self.core.closing.is_closed() && !planted("nobody looks under the guard") {
            return Offered::Closed;
        }
        pause_point("offer: not closed");
        let shard = self.shard_of(offer.hash);
        let mut push = Push {
            shard,
            hash: offer.hash,
            key: PushKey::Callers(&mut offer.key),
            fact: Fact::change(offer.kind, self.core.replaces.newest()),
            rule: if offer.kind.is_deletion() { Rule::Deletion(offer.stored) } else { Rule::Always },
            since: self.marks.newest(),
            cell: Some(self.core.shards[shard].objects.draft(offer.value.take())),
            // The caller drops it under no guard.
            value: &mut offer.value,
            wanted: true,
        };
        match self.push(&mut push, guard) {
            Pushed::Done { link, .. } => {
                if self.core.replaces.change() {
                    self.wake_watchers();
                }
                Offered::Taken(link)
            }
            Pushed::AskStore => Offered::AskStore,
        }
    }

    /// What was merged away is dropped by consumers. Where none come, whoever merges drops it: so what waits is bounded.
    pub(super) fn tidy_if_left_alone(&self, hash: u64) {
        let shard = &self.core.shards[self.shard_of(hash)];
        if shard.objects.dead_backlog() > BACKLOG {
            shard.objects.bury_dead();
        }
    }

    fn ask_for(&self, offer: &mut Offer<K, V>) {
        let key = offer.key.as_ref().expect("the queue has not taken it");
        // A store that cannot tell may have it.
        offer.stored = Some(!matches!(self.ask_store(key), Before::Absent));
    }
}

/// Changes that are made under one guard. Their keys go in line together, a panic included.
struct Stretch<'q, K: Hash + Eq, V, S> {
    queue: &'q DeltaFifo<K, V, S>,
    guard: Guard,
    links: SmallVec<[ToLink; STRETCH]>,
}

impl<K: Hash + Eq, V, S> Drop for Stretch<'_, K, V, S> {
    fn drop(&mut self) {
        if planted("a batch that panics is not linked") && std::thread::panicking() {
            return;
        }
        self.queue.link_all(&self.links, &self.guard);
    }
}
