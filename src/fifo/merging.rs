//! How a new fact meets those that are there: what it merges with, and what is let go of then.

use std::hash::Hash;

use crate::delta::{Compression, RawKind};
use crate::slab::Index;
use crate::sync::atomic::Ordering;
use crate::sync::{pause_point, planted};

use super::DeltaFifo;
use super::chain::{self, Grip, Taken};
use super::entry::Entry;
use super::fact::{Fact, Merge, merge};
use super::push::Push;
use super::rules::Rule;
use super::shard::{Changed, Shard};
use super::word::{Newest, Word};

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Holds the newest fact, if what becomes of this one depends on it.
    pub(super) fn grip<'s>(
        &self,
        shard: &'s Shard<K, V>,
        entry: Entry<'_, V>,
        word: Word,
        push: &Push<'_, K, V>,
    ) -> Result<Option<Grip<'s, V>>, Changed> {
        if self.merges(word, push) || push.rule.is_of_replace() { shard.grip(entry, word) } else { Ok(None) }
    }

    /// Whether the fact may make others superfluous, or others it.
    #[inline(always)]
    fn merges(&self, word: Word, push: &Push<'_, K, V>) -> bool {
        self.compression == Compression::Latest || push.fact.kind.is_deletion() && word.kind() != Newest::Live
    }

    /// Whether the fact goes on top of an entry with this word, whatever else there is.
    #[inline(always)]
    pub(super) fn is_plain(&self, word: Word, push: &Push<'_, K, V>) -> bool {
        matches!(push.rule, Rule::Always) && self.keeps_known() && !self.merges(word, push)
    }

    /// How the fact meets the newest one.
    pub(super) fn plan(&self, grip: Option<&Grip<'_, V>>, push: &Push<'_, K, V>) -> Merge {
        let Some(grip) = grip else { return Merge::Top };
        let (mut last, has_object) = (grip.fact(), grip.has_object());
        // What nobody asks for any more is not owed: so a key owes no more replaces than somebody waits for.
        let is_owed = |debt: u64| debt != 0 && debt != push.fact.debt && self.core.replaces.is_awaited(debt);
        if last.debt != push.fact.debt && !is_owed(last.debt) {
            last.debt = 0;
        }
        let mut plan = merge(&last, has_object, push.fact, self.compression);
        if let Merge::Absorb(absorbing) = &mut plan {
            if absorbing.kind == RawKind::Tombstone {
                absorbing.carrier = has_object.then_some(grip.newest()).or(last.carrier);
            }
            // Under `Compression::Latest` a chain is short, but for facts that owe different replaces.
            let debt = absorbing.debt;
            if grip.facts().any(|fact| fact.debt != debt && is_owed(fact.debt)) {
                plan = Merge::Top;
            }
        }
        plan
    }

    /// Lets go of the facts that were merged into `survivor`, which came owing `debt`: from `old` down to, and not
    /// including, `below`. Their objects are dropped by consumers, if there are any.
    pub(super) fn let_go(
        &self,
        shard: &Shard<K, V>,
        old: Index,
        below: Option<Index>,
        survivor: &Fact,
        debt: u64,
    ) {
        if planted("merged facts stay") {
            return;
        }
        let objects = &shard.objects;
        let mut owed = u64::from(debt != 0);
        let (mut next, mut merged) = (Some(old), 0);
        while let Some(index) = next.filter(|_| next != below) {
            next = objects.previous(index);
            merged += 1;
            let fact = Fact::read(objects.head(index));
            owed += u64::from(fact.debt != 0 && fact.debt == survivor.debt);
            if survivor.carrier == Some(index) && !planted("a carrier is let go of") {
                continue; // its reference is the survivor's now
            }
            pause_point("push: letting go");
            let Taken { object, .. } = chain::take_one(objects, index);
            match object {
                Some(object) if fact.carrier.is_some() && fact.carrier == survivor.carrier => {
                    chain::keep(objects, object);
                }
                Some(object) => objects.release_later(object),
                None => {}
            }
        }
        // The survivor owes the replace once.
        for _ in 1..owed {
            self.discharge(survivor.debt);
        }
        // Relaxed: only the count matters.
        shard.merged.fetch_add(merged, Ordering::Relaxed);
    }

    /// A fact that is gone owes no more.
    pub(super) fn discharge(&self, debt: u64) {
        if debt != 0 && self.core.replaces.release(debt).is_made() {
            self.wake_watchers();
        }
    }
}
