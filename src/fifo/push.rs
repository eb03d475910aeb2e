//! How a fact gets to its key: on top of the entry's chain, or into a new entry. Then the key in line, if it was not.

use std::hash::Hash;

use crate::builder::Known;
use crate::delta::Object;
use crate::object::{Draft, Key};
use crate::slab::Index;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::chain::Grip;
use super::entry::Entry;
use super::fact::{Fact, Merge};
use super::link::ToLink;
use super::records::Record;
use super::shard::Shard;
use super::word::{Newest, State, Word};
use super::{DeltaFifo, FactHead};

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

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Whether it was appended, or the rule said no; and a key to put in line before the call returns.
    Done { appended: bool, link: Option<ToLink> },
    /// Only the user's store can say. The cell is still there.
    AskStore,
}

/// The key of a push: the caller's, taken only if a new entry needs it, or one that is shared already.
pub(super) enum PushKey<'k, K> {
    Callers(&'k mut Option<K>),
    Shared(&'k Key<K>),
}

impl<K> PushKey<'_, K> {
    pub(super) fn get(&self) -> &K {
        match self {
            PushKey::Callers(key) => key.as_ref().expect("the queue has not taken it"),
            PushKey::Shared(key) => key,
        }
    }
}

/// A list's fact that made its entry: see `is_superseded`.
pub(super) struct Fresh<K, V> {
    held: Object<V>,
    key: Key<K>,
    index: Index,
    word: Word,
}

/// One fact on its way.
pub(super) struct Push<'p, K, V> {
    pub(super) shard: usize,
    pub(super) hash: u64,
    pub(super) key: PushKey<'p, K>,
    pub(super) fact: Fact,
    pub(super) rule: Rule,
    /// The newest mark before it (E8).
    pub(super) since: u64,
    /// None once it is published.
    pub(super) cell: Option<Draft<'p, V, FactHead>>,
    /// Where the object goes back to if it is not published, a panic included.
    pub(super) value: &'p mut Option<V>,
    /// Somebody needs it back.
    pub(super) wanted: bool,
    pub(super) fresh: Option<Fresh<K, V>>,
}

impl<K, V> Drop for Push<'_, K, V> {
    fn drop(&mut self) {
        let Some(mut cell) = self.cell.take() else { return };
        loop {
            cell = match cell.into_value() {
                Ok(value) => return *self.value = value,
                // Somebody took it for what its cell was before, and is about to let go.
                Err(_) if !self.wanted => return,
                Err(cell) => cell,
            };
            crate::sync::thread::yield_now();
        }
    }
}

impl<'p, K, V> Push<'p, K, V> {
    fn cell(&mut self) -> &mut Draft<'p, V, FactHead> {
        self.cell.as_mut().expect("the fact is not published")
    }

    fn publish(&mut self) {
        self.cell.take().expect("the fact is not published").publish();
    }
}

/// A key's becoming pending is counted before it shows, so the count is taken back where it does not come to that; a
/// panic of the key's `Eq` included.
pub(super) struct Counted<'s> {
    came: &'s AtomicU64,
    counted: bool,
}

impl<'s> Counted<'s> {
    pub(super) fn new(came: &'s AtomicU64) -> Self {
        Counted { came, counted: false }
    }

    pub(super) fn set(&mut self, counted: bool) {
        if counted && !self.counted {
            // Relaxed: published by the exchange that makes the key pending.
            self.came.fetch_add(1, Ordering::Relaxed);
        } else if !counted && self.counted {
            self.came.fetch_sub(1, Ordering::Relaxed);
        }
        self.counted = counted;
    }

    pub(super) fn stands(mut self) {
        self.counted = false;
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Appends the fact as its rule says. Runs the key's `Eq`; if that panics nothing has happened.
    pub(super) fn push(&self, push: &mut Push<'_, K, V>, guard: &Guard) -> Pushed {
        let shard = &self.shards[push.shard];
        let mut counted = Counted::new(&shard.came.keys);
        // Repeats when another producer has made the entry, or its lease has just ended: those have gone on.
        loop {
            let early = planted("a deletion looks at the record first")
                && matches!(self.allows_first(shard, push, guard), Allowed::No);
            let found = shard.find_entry(push.hash, push.key.get(), guard);
            pause_point("push: looked for the entry");
            let step = match found {
                Some(index) => self.push_on(shard, index, push, &mut counted, guard),
                None if early => Step::Kept(None),
                None => self.push_first(shard, push, &mut counted, guard),
            };
            match step {
                Step::Appended(link) => {
                    counted.stands();
                    push.wanted = false;
                    return Pushed::Done { appended: true, link };
                }
                Step::Kept(link) => {
                    push.wanted = false;
                    self.discharge(push.fact.debt);
                    return Pushed::Done { appended: false, link };
                }
                Step::AskStore => {
                    push.wanted = true;
                    return Pushed::AskStore;
                }
                Step::Retired(index) => {
                    shard.active.remove(&shard.entries, index, guard);
                }
                Step::Again => {}
            }
        }
    }

    /// On top of an entry.
    fn push_on(
        &self,
        shard: &Shard<K, V>,
        index: Index,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        guard: &Guard,
    ) -> Step {
        let entry = shard.entries.get(index);
        // Repeats when the word has changed: another fact has come, a lease has begun or ended, the handle is in line.
        loop {
            let word = entry.word();
            if word.state() == State::Retired {
                return Step::Retired(index);
            }
            let Ok(grip) = self.grip(shard, entry, word, push) else { continue };
            if !self.allows(shard, entry, word, grip.as_ref(), push, guard) {
                return Step::Kept(self.help(push.shard, index, word));
            }
            let plan = self.plan(grip.as_ref(), push);
            let (fact, below) = match plan {
                Merge::Drop => {
                    let grip = grip.as_ref().expect("there is a fact that says as much");
                    if !self.raise(entry, word, grip, push.fact.settled) {
                        continue;
                    }
                    self.discharge(push.fact.debt);
                    // Relaxed: only the count matters.
                    shard.merged.fetch_add(1, Ordering::Relaxed);
                    counted.set(false);
                    return Step::Appended(self.help(push.shard, index, word));
                }
                Merge::Top(fact) => (fact, word.newest()),
                Merge::Replace(fact) => (fact, grip.as_ref().and_then(Grip::previous)),
                Merge::Absorb(fact) => (fact, None),
            };
            let _grip = grip.filter(|_| !planted("a merge lets go before its exchange"));
            let cell = push.cell();
            cell.expose();
            cell.set_previous(below);
            fact.write(cell.head());
            let kind = fact.newest_on(word.kind());
            let (next, then) = word.append(cell.index(), kind, fact.background);
            counted.set(!word.is_pending());
            pause_point("push: before the exchange");
            if !entry.advance(word, next) {
                continue;
            }
            pause_point("push: appended");
            push.publish();
            if !matches!(plan, Merge::Top(_)) {
                let merged = word.newest().expect("merged with something");
                self.let_go(shard, merged, below, &fact, push.fact.debt);
            }
            return Step::Appended(self.follow(push.shard, index, entry, word, next, then));
        }
    }

    /// Into a new entry.
    fn push_first(
        &self,
        shard: &Shard<K, V>,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        guard: &Guard,
    ) -> Step {
        match self.allows_first(shard, push, guard) {
            Allowed::Yes => {}
            Allowed::No => return Step::Kept(None),
            Allowed::AskStore => return Step::AskStore,
        }
        let (key, callers) = match &mut push.key {
            PushKey::Callers(key) => {
                let key = key.take().expect("the queue has not taken it");
                (shard.keys.draft(Some(key)).share(), true)
            }
            PushKey::Shared(key) => (Key::clone(key), false),
        };
        let index = shard.entries.take();
        let entry = shard.entries.get(index);
        let unused = Unused { shard, index, push_key: &mut push.key, callers };
        let old = entry.prepare(key, push.since);
        let (fact, cell) = (push.fact, push.cell.as_mut().expect("the fact is not published"));
        cell.expose();
        cell.set_previous(None);
        fact.write(cell.head());
        let word = old.first(cell.index(), fact.newest_first(), fact.background);
        entry.set_first(word);
        counted.set(true);
        // Before it can be taken.
        let is_listed = push.rule.is_of_replace();
        let listed_key = is_listed.then(|| entry.key(guard).clone());
        let held = is_listed.then(|| cell.hold());
        pause_point("push: entry prepared");
        match shard.insert_entry(push.hash, index, guard) {
            Ok(()) => {
                pause_point("push: entry inserted");
                std::mem::forget(unused);
                push.fresh = held.zip(listed_key).map(|(held, key)| Fresh { held, key, index, word });
                push.publish();
                Step::Appended(Some(ToLink::new(push.shard, index, word)))
            }
            Err(_) => {
                held.into_iter().for_each(|held| shard.objects.release_later(held));
                drop(listed_key);
                Step::Again
            }
        }
    }

    /// A list's fact that made its entry: whether something newer was handed out between the look at the record and the
    /// insertion. Then it is made void, as long as the record is there to tell.
    pub(super) fn is_superseded(&self, push: &mut Push<'_, K, V>, guard: &Guard) -> bool {
        let Some(Fresh { held, key, index, word }) = push.fresh.take() else { return false };
        let shard = &self.shards[push.shard];
        let record = shard.find_record(push.hash, &key, guard);
        let number = record.map_or(0, |record| shard.records.get(record).number());
        let newer = push.fact.is_superseded(number);
        pause_point("push: record looked up");
        let look = newer && !planted("a first push is not looked at again");
        let stands = look && !Fact::make_void(held.head());
        shard.objects.release_later(held);
        // Taken meanwhile, it may have been handed out before what is newer.
        let now = shard.entries.get(index).word();
        newer
            && !stands
            && now.generation() == word.generation()
            && matches!(now.state(), State::Linking | State::Queued)
    }
}

/// What one try came to.
enum Step {
    Appended(Option<ToLink>),
    Kept(Option<ToLink>),
    AskStore,
    Retired(Index),
    Again,
}

enum Allowed {
    Yes,
    No,
    AskStore,
}

/// An entry that was prepared and did not get into the table: its key goes back to the caller.
struct Unused<'u, 'k, K, V> {
    shard: &'u Shard<K, V>,
    index: Index,
    push_key: &'u mut PushKey<'k, K>,
    callers: bool,
}

impl<K, V> Drop for Unused<'_, '_, K, V> {
    fn drop(&mut self) {
        let key = self.shard.entries.get(self.index).unprepare();
        if let (true, PushKey::Callers(back)) = (self.callers, &mut *self.push_key) {
            **back = key.into_inner();
        }
        self.shard.entries.give(self.index);
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Whether the rule lets the fact onto an entry.
    fn allows(
        &self,
        shard: &Shard<K, V>,
        entry: &Entry<K, V>,
        word: Word,
        grip: Option<&Grip<'_, V>>,
        push: &Push<'_, K, V>,
        guard: &Guard,
    ) -> bool {
        let numbers = || {
            let record = shard.find_record(push.hash, push.key.get(), guard);
            let record = record.map_or(0, |record| shard.records.get(record).number());
            let record = if planted("no record is asked for its number") { 0 } else { record };
            (shard.settled(entry, grip), record)
        };
        match push.rule {
            Rule::Always => true,
            Rule::Deletion(_) => word.is_pending() || word.kind() != Newest::Deleted,
            Rule::Item(number) => {
                let (entry, record) = numbers();
                entry.max(record) <= 2 * number
            }
            Rule::Swept { number, .. } => {
                let (entry, record) = numbers();
                let exists = match word.kind() {
                    Newest::Live => true,
                    Newest::Deleted => false,
                    // It is void if a newer change was handed out before it. While a lease has it, who knows.
                    Newest::Tombstone => grip.is_none() || record >= entry,
                };
                exists && entry.max(record) < 2 * number
            }
            Rule::Resync => false,
        }
    }

    fn allows_first(&self, shard: &Shard<K, V>, push: &Push<'_, K, V>, guard: &Guard) -> Allowed {
        let record = || {
            let index = shard.find_record(push.hash, push.key.get(), guard);
            index.map(|index| shard.records.get(index))
        };
        let yes = match push.rule {
            Rule::Always => true,
            Rule::Deletion(_) if self.keeps_known() => record().is_some_and(Record::exists),
            Rule::Deletion(Some(answer)) => answer,
            Rule::Deletion(None) => return Allowed::AskStore,
            Rule::Item(number) => record().is_none_or(|record| record.number() <= 2 * number),
            // Nothing is known of a key without an entry.
            Rule::Swept { .. } if matches!(self.known, Known::None) => false,
            Rule::Swept { number, stored } => match record() {
                Some(record) => record.number() < 2 * number && record.exists(),
                // Nothing has happened to it since the replace began.
                None => stored,
            },
            Rule::Resync => !self.keeps_known() || record().is_some_and(Record::exists),
        };
        if yes { Allowed::Yes } else { Allowed::No }
    }
}
