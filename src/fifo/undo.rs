//! Undoing a pop that came to nothing: what it has taken goes back to where it stood, as if nobody had seen it.

use std::hash::Hash;

use crate::delta::DeltaList;
use crate::sync::epoch::Guard;

use super::DeltaFifo;
use super::chain::Facts;
use super::debts::Debts;
use super::entry::Tenure;
use super::parts::GivenBack;
use super::pop::{Held, Taken};
use super::word::Newest;

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Puts back what a pop has taken, as if nobody had seen it, but for its place in line: that is the tail.
    pub(super) fn untake(&self, mut taken: Taken<K>, guard: &Guard) {
        let entry = self.core.shards[taken.at.shard].entries.get(taken.at.index);
        let facts = taken.facts.into_facts(&self.core.shards[taken.at.shard].objects);
        let (newest, background) = (taken.newest, taken.background);
        entry.legacy(&mut taken.tenure, |legacy| match &mut legacy.given_back {
            Some(given_back) => given_back.facts.extend(facts),
            none => {
                *none = Some(Box::new(GivenBack {
                    deltas: DeltaList::new(),
                    facts,
                    previous: None,
                    attempts: 0,
                    debts: Debts::default(),
                    background,
                }));
            }
        });
        self.bring_back(taken.at.shard, taken.tenure, newest, background, false, guard);
    }

    /// Undoes a lease that nobody has seen.
    pub(super) fn unlease(&self, mut held: Held<K, V>, guard: &Guard) {
        let given_back = GivenBack {
            deltas: held.deltas.into_owned(),
            facts: Facts::new(),
            previous: held.previous,
            attempts: held.attempts - 1,
            debts: held.debts,
            background: held.background,
        };
        let (newest, background) = (given_back.newest(), given_back.background);
        let shard = held.shard as usize;
        let entry = self.core.shards[shard].entries.get(held.tenure.index());
        entry.legacy(&mut held.tenure, |legacy| legacy.given_back = Some(Box::new(given_back)));
        self.bring_back(shard, held.tenure, newest, background, true, guard);
    }

    fn bring_back(
        &self,
        shard: usize,
        tenure: Tenure,
        newest: Newest,
        background: bool,
        in_front: bool,
        guard: &Guard,
    ) {
        if self.core.closing.is_discarding() {
            return self.discard_untaken(shard, tenure);
        }
        let Some(link) = self.end_given_back(shard, tenure, newest, background, None) else { return };
        if in_front {
            self.lines.push_front(link.at);
            self.wake_consumers(1);
        } else {
            self.link(link, guard);
        }
    }
}
