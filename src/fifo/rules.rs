//! When a fact is appended, and when it is not.

use std::hash::Hash;

use crate::builder::Known;

use super::DeltaFifo;
use super::chain::Grip;
use super::entry::Entry;
use super::push::Push;
use super::shard::Shard;
use super::word::{Newest, State, Word};

/// When a fact is appended, and when it is not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// In any case.
    Always,
    /// If there is something to delete. Whether there is, without an entry: none if only the user's store can say.
    Deletion(Option<bool>),
    /// An item of the list of a replace: unless a change is newer.
    Item(u64),
    /// The sweep of a replace: if the key exists and was neither listed nor changed. Whether the user's store lists it.
    Swept { number: u64, stored: bool },
    /// If the key is neither pending nor leased.
    Resync,
}

impl Rule {
    /// Whether it asks for the numbers of what has reached the key.
    pub(super) fn is_of_replace(self) -> bool {
        matches!(self, Rule::Item(_) | Rule::Swept { .. })
    }
}

/// What a rule says.
pub(super) enum Allowed {
    Yes,
    No,
    AskStore,
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Whether the rule lets the fact onto an entry.
    pub(super) fn allows(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        word: Word,
        grip: Option<&Grip<'_, V>>,
        push: &Push<'_, K, V>,
    ) -> Allowed {
        let is_idle = word.state() == State::Idle;
        if is_idle && !self.keeps_known() && !push.rule.is_of_replace() {
            // It is there for replaces alone.
            return self.allows_first(push);
        }
        Allowed::of(match push.rule {
            Rule::Always => true,
            Rule::Deletion(_) => word.is_pending() || word.kind() == Newest::Live,
            Rule::Item(number) => shard.settled(entry, grip) <= 2 * number,
            Rule::Swept { number, .. } => {
                let asks = !is_idle || !matches!(self.known, Known::None);
                asks && word.kind() == Newest::Live && shard.settled(entry, grip) < 2 * number
            }
            Rule::Resync => is_idle && word.kind() == Newest::Live,
        })
    }

    /// Whether the rule makes an entry for the fact. No open replace has to ask for anything that has reached the key (E7).
    pub(super) fn allows_first(&self, push: &Push<'_, K, V>) -> Allowed {
        Allowed::of(match push.rule {
            Rule::Always | Rule::Item(_) => true,
            // Nothing is known of it.
            Rule::Deletion(_) | Rule::Swept { .. } | Rule::Resync if self.keeps_known() => false,
            Rule::Deletion(Some(answer)) => answer,
            Rule::Deletion(None) => return Allowed::AskStore,
            Rule::Swept { stored, .. } => stored,
            Rule::Resync => true,
        })
    }
}

impl Allowed {
    fn of(yes: bool) -> Self {
        if yes { Allowed::Yes } else { Allowed::No }
    }
}
