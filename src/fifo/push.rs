//! How a fact gets to its key: on top of the entry's chain, or into a new entry. Then the key in line, if it was not.

use std::hash::Hash;

use crate::object::Draft;
use crate::slab::Index;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::{pause_point, planted};

use super::chain::Grip;
use super::entry::{Entry, EntryHead};
use super::fact::{Fact, Merge};
use super::link::ToLink;
use super::rules::{Allowed, Rule};
use super::shard::Shard;
use super::word::{State, Then, Word};
use super::{DeltaFifo, FactHead};

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Whether it was appended, or the rule said no; and a key to put in line before the call returns.
    Done { appended: bool, link: Option<ToLink> },
    /// Only the user's store can say. The cell is still there.
    AskStore,
}

/// The key of a push: the caller's, taken only if a new entry needs it; or lent, for a rule that makes no entry.
pub(super) enum PushKey<'k, K> {
    Callers(&'k mut Option<K>),
    Lent(&'k K),
}

impl<K> PushKey<'_, K> {
    pub(super) fn get(&self) -> &K {
        match self {
            PushKey::Callers(key) => key.as_ref().expect("the queue has not taken it"),
            PushKey::Lent(key) => key,
        }
    }
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
}

impl<K, V> Drop for Push<'_, K, V> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            self.take_back(cell);
        }
    }
}

impl<'p, K, V> Push<'p, K, V> {
    #[cold]
    fn take_back(&mut self, mut cell: Draft<'p, V, FactHead>) {
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

    #[inline(always)]
    fn cell(&mut self) -> &mut Draft<'p, V, FactHead> {
        self.cell.as_mut().expect("the fact is not published")
    }

    #[inline(always)]
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
    #[inline(always)]
    pub(super) fn new(came: &'s AtomicU64) -> Self {
        Counted { came, counted: false }
    }

    #[inline(always)]
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
        if !planted("a change that panics stays counted") {
            self.set(false);
        }
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Appends the fact as its rule says. Runs the key's `Eq`; if that panics nothing has happened.
    pub(super) fn push(&self, push: &mut Push<'_, K, V>, guard: &Guard) -> Pushed {
        self.push_to(&self.core.shards[push.shard], push, guard)
    }

    /// The same with its shard.
    #[inline(always)]
    pub(super) fn push_to(&self, shard: &Shard<K, V>, push: &mut Push<'_, K, V>, guard: &Guard) -> Pushed {
        let mut counted = Counted::new(&shard.came.keys);
        // Repeats when another producer has made the entry, or its lease has just ended: those have gone on.
        loop {
            let found = shard.find_entry(push.hash, push.key.get(), guard);
            pause_point("push: looked for the entry");
            let step = match found {
                Some(entry) => self.push_on(shard, entry, push, &mut counted),
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
                    shard.table.remove(shard.entries.slots(), index, guard);
                }
                Step::Again => {}
            }
        }
    }

    /// On top of an entry.
    #[inline(always)]
    fn push_on(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
    ) -> Step {
        let word = entry.word();
        if word.state() != State::Retired && self.is_plain(word, push) {
            let (fact, below) = (push.fact, word.newest());
            if let Some(step) = self.put(shard, entry, word, push, counted, (&fact, below)) {
                return step;
            }
        }
        self.push_by_rule(shard, entry, push, counted)
    }

    /// The same as the rule and the facts that are there say.
    #[inline(never)]
    fn push_by_rule(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
    ) -> Step {
        let index = entry.index();
        // Repeats when the word has changed: another fact has come, a lease has begun or ended, the handle is in line.
        loop {
            let word = entry.word();
            if word.state() == State::Retired {
                return Step::Retired(index);
            }
            let Ok(grip) = self.grip(shard, entry, word, push) else { continue };
            if grip.is_some() {
                pause_point("push: chain held");
            }
            match self.allows(shard, entry, word, grip.as_ref(), push) {
                Allowed::Yes => {}
                // What was read of the chain may have been taken and recycled meanwhile.
                Allowed::No if grip.is_some() && !entry.is_still(word) => continue,
                Allowed::No => return Step::Kept(self.help(push.shard, index, word)),
                Allowed::AskStore => return Step::AskStore,
            }
            let plan = self.plan(grip.as_ref(), push);
            let (fact, below) = match plan {
                // What says as much may have been taken meanwhile.
                Merge::Drop if !entry.is_still(word) => continue,
                Merge::Drop => {
                    self.discharge(push.fact.debt);
                    // Relaxed: only the count matters.
                    shard.merged.fetch_add(1, Ordering::Relaxed);
                    counted.set(false);
                    return Step::Appended(self.help(push.shard, index, word));
                }
                Merge::Top => (push.fact, word.newest()),
                Merge::Replace(fact) => (fact, grip.as_ref().and_then(Grip::previous)),
                Merge::Absorb(fact) => (fact, None),
            };
            let _grip = grip.filter(|_| !planted("a merge lets go before its exchange"));
            let Some(step) = self.put(shard, entry, word, push, counted, (&fact, below)) else { continue };
            if plan != Merge::Top {
                let merged = word.newest().expect("merged with something");
                self.let_go(shard, merged, below, &fact, push.fact.debt);
            }
            return step;
        }
    }

    /// Puts the fact before those from `below` on, if the word is still this one.
    #[inline(always)]
    fn put(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        word: Word,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        what: (&Fact, Option<Index>),
    ) -> Option<Step> {
        if self.is_measured() {
            return self.put_measured(shard, entry, word, push, counted, what);
        }
        self.put_fact::<false>(shard, entry, word, push, counted, what)
    }

    #[cold]
    #[inline(never)]
    fn put_measured(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        word: Word,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        what: (&Fact, Option<Index>),
    ) -> Option<Step> {
        self.put_fact::<true>(shard, entry, word, push, counted, what)
    }

    /// `MEASURED`: the key is dated and counted. It is asked once.
    #[inline(always)]
    fn put_fact<const MEASURED: bool>(
        &self,
        shard: &Shard<K, V>,
        entry: Entry<'_, V>,
        word: Word,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        (fact, below): (&Fact, Option<Index>),
    ) -> Option<Step> {
        let cell = push.cell();
        cell.expose();
        let late = planted("a fact is published before it is linked");
        cell.set_previous(if late { None } else { below });
        fact.write(cell.head());
        let (next, then) = word.append(cell.index(), fact.newest(), fact.background);
        let missed = word.state() == State::Leased && planted("a dirty key is not counted");
        let early = !planted("a change is counted late");
        counted.set(early && !word.is_pending() && !missed);
        // Relaxed: written before the word came to Delayed, and not changed as long as it is. Otherwise its line is left alone.
        let due = (then == Then::Undelay).then(|| entry.cold().note.load(Ordering::Relaxed));
        let undated = planted("a key is dated late");
        if MEASURED && !undated {
            self.date(entry, word, next);
        }
        pause_point("push: before the exchange");
        if !entry.advance(word, next) {
            return None;
        }
        pause_point("push: appended");
        if MEASURED {
            self.moved(word, next);
        }
        if MEASURED && undated {
            self.date(entry, word, next);
        }
        if late {
            push.cell().set_previous(below);
        }
        push.publish();
        if !early {
            counted.set(!word.is_pending() && !missed);
        }
        if word.state() == State::Idle {
            let late = planted("a mark is read after the change");
            entry.begin_since(if late { self.marks.newest() } else { push.since });
            if self.core.is_only_asked_for(word) {
                // Relaxed: only the count matters.
                shard.asked.fetch_sub(1, Ordering::Relaxed);
            }
        }
        Some(Step::Appended(self.follow(push.shard, entry.index(), word, next, then, due)))
    }

    /// Into a new entry.
    #[inline(never)]
    fn push_first(
        &self,
        shard: &Shard<K, V>,
        push: &mut Push<'_, K, V>,
        counted: &mut Counted<'_>,
        guard: &Guard,
    ) -> Step {
        match self.allows_first(push) {
            Allowed::Yes => {}
            Allowed::No => return Step::Kept(None),
            Allowed::AskStore => return Step::AskStore,
        }
        let PushKey::Callers(key) = &mut push.key else { unreachable!("a key that is lent has an entry") };
        let draft = shard.entries.draft(key.take().expect("the queue has not taken it"));
        let mut new = NewEntry { entry: Some(draft), key };
        let index = new.expose();
        let entry = shard.entries.get(index);
        let old = entry.prepare(push.since);
        let (fact, cell) = (push.fact, push.cell.as_mut().expect("the fact is not published"));
        cell.expose();
        cell.set_previous(None);
        fact.write(cell.head());
        let word = old.first(cell.index(), fact.newest(), fact.background);
        entry.set_first(word);
        counted.set(true);
        self.date(entry, old, word);
        pause_point("push: entry prepared");
        if shard.insert_entry(push.hash, index, guard).is_err() {
            return Step::Again;
        }
        pause_point("push: entry inserted");
        self.moved(old, word);
        new.stands();
        push.publish();
        Step::Appended(Some(ToLink::new(push.shard, index, word)))
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

/// An entry that is to be inserted. If that comes to nothing, its key goes back to the caller.
struct NewEntry<'n, K> {
    /// None once it is in the table.
    entry: Option<Draft<'n, K, EntryHead>>,
    key: &'n mut Option<K>,
}

impl<K> NewEntry<'_, K> {
    /// Makes the table's reference.
    fn expose(&mut self) -> Index {
        let draft = self.entry.as_mut().expect("it is new");
        draft.expose();
        draft.index()
    }

    /// It is in the table.
    fn stands(mut self) {
        self.entry.take().expect("it is new").publish();
    }
}

impl<K> Drop for NewEntry<'_, K> {
    fn drop(&mut self) {
        let Some(draft) = self.entry.take() else { return };
        draft.head().unprepare();
        if planted("who loses an insert keeps the key") {
            return std::mem::forget(draft);
        }
        let value = draft.into_value();
        *self.key = value.ok().expect("nobody holds what is in no table");
    }
}
