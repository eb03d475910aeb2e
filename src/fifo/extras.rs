//! Leases of a queue that compares objects, or numbers deltas.
//!
//! The user's comparisons see copies, while the key has left its line and everything still is where it was: a panic undoes the
//! pop as that of a store does. They run under no guard.

use std::hash::{BuildHasher, Hash};
use std::mem::ManuallyDrop;

use crate::builder::Known;
use crate::delta::{DeltaList, Object};
use crate::extras::{number, unnumbered};
use crate::resolve::{Before, Resolved, resolve_comparing};
use crate::sync::atomic::Ordering;

use super::DeltaFifo;
use super::chain;
use super::end::LazyPin;
use super::entry::Entry;
use super::pop::{Held, Popping, Taken};
use super::shard::Shard;

/// What a key's deltas come to.
struct Found<V> {
    /// What is known of it, as the queue or the user's store says.
    said: Before<Object<V>>,
    /// The same if the last lease has left nothing newer.
    before: Before<Object<V>>,
    resolved: Resolved<Object<V>>,
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    /// As [`open_inside`](Self::open_inside) or [`open_elsewhere`](Self::open_elsewhere).
    #[cold]
    #[inline(never)]
    pub(super) fn open_with_extras(
        &self,
        taken: Taken<K>,
        popping: &mut Popping<'_, K, V, S>,
        pin: &mut LazyPin,
    ) -> Held<K, V> {
        pin.release();
        let found = self.find(popping.taken.insert(taken));
        let taken = popping.taken.take().expect("just put there");
        let garbage = &mut popping.garbage;
        let at = taken.at;
        let shard = &self.core.shards[at.shard];
        let Found { said, before, mut resolved } = found;
        self.number(at.shard, &mut resolved.deltas);
        let (facts, newest, mut held) = self.held(taken);
        let entry = shard.entries.of_lease(&held.key, &held.tenure);
        let left = entry.legacy(&mut held.tenure, |legacy| legacy.left.take());
        let (shown, facts, is_fresh) = self.take_all(&mut held, facts);
        garbage.deltas.extend(shown);
        garbage.objects.extend(facts.into_iter().filter_map(|taken| taken.object));
        garbage.objects.extend(left.and_then(|left| left.into_object()));
        self.settle(&mut held, resolved, newest, &before, garbage);
        let mut previous = said.into_object();
        if self.keeps_known() && !held.deltas.is_empty() {
            let replaced = self.install((shard, at), entry, before.object(), &mut held.deltas, None, garbage);
            garbage.objects.extend(replaced);
        }
        if is_fresh && !held.deltas.is_empty() {
            held.previous = previous.take();
        }
        garbage.objects.extend(previous.into_iter().chain(before.into_object()));
        held
    }

    /// Runs user code, and changes nothing.
    fn find(&self, taken: &mut Taken<K>) -> Found<V> {
        let shard = &self.core.shards[taken.at.shard];
        let entry = shard.entries.of_lease(&taken.key, &taken.tenure);
        let said = match self.known {
            Known::Inside => known_inside(shard, entry),
            Known::None => Before::Absent,
            Known::Store(_) => self.ask_store(&taken.key),
        };
        let (left, is_given_back, shown, mut facts) = entry.legacy(&mut taken.tenure, |legacy| {
            let given_back = legacy.given_back.as_deref();
            let facts =
                given_back.map(|given_back| given_back.facts.iter().map(chain::Taken::delta).collect());
            (
                legacy.left.as_deref().cloned(),
                given_back.is_some(),
                given_back.map(|given_back| given_back.deltas.clone()).unwrap_or_default(),
                facts.unwrap_or_else(DeltaList::new),
            )
        });
        let before = self.known_before(said.clone(), left, is_given_back, shard, &taken.facts);
        facts.extend(taken.facts.copies(&shard.objects));
        let resolved = resolve_comparing(&before, shown, facts, self.compression, &self.extras);
        Found { said, before, resolved }
    }

    fn number(&self, shard: usize, deltas: &mut DeltaList<Object<V>>) {
        if !self.extras.numbered {
            return;
        }
        let (shards, new) = (self.core.shards.len() as u64, unnumbered(deltas) as u64);
        // Relaxed: it is one place, and the leases of a key follow each other.
        let first = self.core.shards[shard].numbered.fetch_add(new, Ordering::Relaxed);
        number(deltas, (first..).map(|number| number * shards + shard as u64 + 1));
    }
}

/// What the queue knows of a key, for its holder.
fn known_inside<K, V>(shard: &Shard<K, V>, entry: Entry<'_, V>) -> Before<Object<V>> {
    // Lent by the version, which owns it until `install`.
    let known =
        entry.version.index().map(|index| ManuallyDrop::new(chain::lend_version(&shard.objects, index)));
    known.map_or(Before::Absent, |known| Before::Known(Object::clone(&known)))
}
