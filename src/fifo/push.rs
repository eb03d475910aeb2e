//! How a fact gets to its key: on top of the entry's chain, or into a new entry. Then the key in line, if it was not.

use std::hash::Hash;

use crate::builder::Known;
use crate::delta::{Compression, Object, RawKind};
use crate::key_queue::Handle;
use crate::object::{Draft, Key};
use crate::slab::Index;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::chain::{self, Grip, Taken};
use super::entry::Entry;
use super::fact::{Fact, Merge, merge};
use super::lines::At;
use super::records::Record;
use super::shard::{Changed, Shard};
use super::word::{Newest, State, Then, Word};
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

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Whether it was appended, or the rule said no; and a key to put in line before the call returns.
    Done { appended: bool, link: Option<ToLink> },
    /// Only the user's store can say. The cell is still there.
    AskStore,
}

/// A key that is Linking: whoever has this owes its line a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the key is not in line yet"]
pub(super) struct ToLink {
    pub(super) at: At,
    pub(super) background: bool,
}

impl ToLink {
    pub(super) fn new(shard: usize, index: Index, word: Word) -> Self {
        let at = At { shard, index, generation: word.generation() };
        ToLink { at, background: word.is_background() }
    }
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
        let is_listed = matches!(push.rule, Rule::Item(_) | Rule::Swept { .. });
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
        if newer && !planted("a first push is not looked at again") {
            Fact::make_void(held.head());
        }
        shard.objects.release_later(held);
        // Taken meanwhile, it may have been handed out before what is newer.
        let now = shard.entries.get(index).word();
        newer
            && now.generation() == word.generation()
            && matches!(now.state(), State::Linking | State::Queued)
    }

    /// What an append asks for.
    fn follow(
        &self,
        shard: usize,
        index: Index,
        entry: &Entry<K, V>,
        before: Word,
        after: Word,
        then: Then,
    ) -> Option<ToLink> {
        match then {
            Then::Nothing => return None,
            Then::Link if before.state() == State::Linking => return self.help(shard, index, after),
            Then::Link => {}
            Then::Undelay => {
                // Relaxed: written before the word came to Delayed.
                let due = entry.due.load(Ordering::Relaxed);
                self.delays.remove(due, ToLink::new(shard, index, before).at.handle());
            }
        }
        Some(ToLink::new(shard, index, after))
    }

    /// Whoever meets a key that is not in line yet helps (E4): no call returns on the strength of it before it is there.
    fn help(&self, shard: usize, index: Index, word: Word) -> Option<ToLink> {
        let owed = word.state() == State::Linking && !planted("no help for a half-linked key");
        owed.then(|| ToLink::new(shard, index, word))
    }

    /// Holds the newest fact, if what becomes of this one depends on it.
    fn grip<'s>(
        &self,
        shard: &'s Shard<K, V>,
        entry: &Entry<K, V>,
        word: Word,
        push: &Push<'_, K, V>,
    ) -> Result<Option<Grip<'s, V>>, Changed> {
        let merges = self.compression == Compression::Latest
            || push.fact.kind.is_deletion() && word.kind() != Newest::Live;
        let asks = matches!(push.rule, Rule::Item(_) | Rule::Swept { .. });
        if merges || asks { shard.grip(entry, word) } else { Ok(None) }
    }

    /// How the fact meets the newest one.
    fn plan(&self, grip: Option<&Grip<'_, V>>, push: &Push<'_, K, V>) -> Merge {
        let Some(grip) = grip else { return Merge::Top(push.fact) };
        let (mut last, has_object) = (grip.fact(), grip.has_object());
        // What nobody asks for any more is not owed: so a key owes no more replaces than somebody waits for.
        let is_owed = |debt: u64| debt != 0 && debt != push.fact.debt && self.replaces.is_awaited(debt);
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
                plan = Merge::Top(push.fact);
            }
        }
        plan
    }

    /// Gives the newest fact the number of one that is dropped in its favour. Whether it is still the newest.
    fn raise(&self, entry: &Entry<K, V>, word: Word, grip: &Grip<'_, V>, number: u64) -> bool {
        if grip.fact().settled < number {
            // Release: whoever reads the number has seen what led to it. If the fact is taken meanwhile, this change is one
            // that came just before that.
            grip.head().settled.fetch_max(number, Ordering::Release);
            pause_point("push: number raised");
            // SeqCst fence: pairs with that in `lease`: either it reads the raised number, or this sees that it has the fact.
            if !planted("no fence after a raise") {
                fence(Ordering::SeqCst);
            }
        }
        entry.word() == word
    }

    /// Lets go of the facts that were merged into `survivor`, which came owing `debt`: from `old` down to, and not
    /// including, `below`. Their objects are dropped by consumers, if there are any.
    fn let_go(&self, shard: &Shard<K, V>, old: Index, below: Option<Index>, survivor: &Fact, debt: u64) {
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
        if debt != 0 && self.replaces.release(debt).is_made() {
            self.wake_watchers();
        }
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

impl<K, V, S> DeltaFifo<K, V, S> {
    /// Puts a key in line that is Linking (E4): push, wake, then mark.
    pub(super) fn link(&self, link: ToLink, guard: &Guard) {
        self.promote(guard);
        self.put_in_line(link, guard);
    }

    pub(super) fn put_in_line(&self, link: ToLink, guard: &Guard) {
        pause_point("link: owed");
        self.lines.push(link.at, link.background, guard);
        if planted("marked before the wake") {
            self.mark_queued(link);
        }
        pause_point("link: in line");
        self.wake_consumers(1);
        pause_point("link: woken");
        self.mark_queued(link);
    }

    /// The same for several keys, with one decision about whom to wake.
    pub(super) fn link_all(&self, links: &[ToLink], guard: &Guard) {
        if links.is_empty() {
            return;
        }
        self.promote(guard);
        let first = links.iter().filter(|link| !link.background);
        let mut handles: Vec<Handle> = first.map(|link| link.at.handle()).collect();
        if planted("a batch goes in line from its end") {
            handles.reverse();
        }
        self.lines.push_all(&handles, guard);
        for link in links.iter().filter(|link| link.background) {
            self.lines.push(link.at, true, guard);
        }
        self.wake_consumers(links.len());
        for link in links {
            self.mark_queued(*link);
        }
    }

    pub(super) fn mark_queued(&self, link: ToLink) {
        let entry = self.shards[link.at.shard].entries.get(link.at.index);
        // Repeats when a fact has come. Ends when the key is leased, or has moved on to the first line, which is for who
        // moved it to see to.
        loop {
            let word = entry.word();
            let same = word.generation() == link.at.generation || planted("no generation in the word");
            if !same || word.state() != State::Linking || word.is_background() != link.background {
                return;
            }
            pause_point("link: before the mark");
            if entry.advance(word, word.linked()) {
                return;
            }
        }
    }
}
