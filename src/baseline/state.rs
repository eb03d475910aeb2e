//! What the one mutex protects, and every step of an entry's life: append, take, open, finish, give back.
//!
//! Nothing here waits, and no user code runs but a key's `Eq`, always before anything has changed.

use std::sync::RwLock;
use std::time::Instant;

use crate::builder::Known;
use crate::clock::Clock;
use crate::delta::{Compression, DeltaList, Object, RawDelta, append};
use crate::extras::{Extras, number, unnumbered};
use crate::object::Key;
use crate::owner::{note_ended, note_popped};
use crate::queue::Discarded;
use crate::resolve::{Before, Resolved, known_after, resolve};

use super::entry::{Entry, GivenBack, Held, OpenLease, Origins, Taken};
use super::lines::{Lines, Place};
use super::lock::{Garbage, Wakes, read, write};
use super::marks::Marks;
use super::measure::Measure;
use super::records::Records;
use super::replaces::{Replaces, join};
use super::table::{Slot, Table};

/// How a fact is appended.
#[derive(Clone, Copy)]
pub(super) struct Append {
    pub(super) origin: Origins,
    pub(super) settled: u64,
    /// The replace whose list it stands in, or whose sweep it is of.
    pub(super) replace: Option<u64>,
}

impl Append {
    pub(super) fn of_resync() -> Self {
        Append { origin: Origins::RESYNC, settled: 0, replace: None }
    }
}

/// What a lease gave back, and the facts that came after it.
pub(super) type Lists<V> = (DeltaList<Object<V>>, DeltaList<Object<V>>);

/// The first key in line, leased.
pub(super) enum Next<K, V> {
    Held(Held<K, V>),
    /// The user's store must be asked what it knows of the key, or objects be compared, outside the lock. With what the queue
    /// knows of it itself.
    Ask(Taken<K, V>, Option<Object<V>>),
}

pub(super) struct State<K, V> {
    pub(super) entries: Table<K, Entry<V>>,
    pub(super) lines: Lines,
    pub(super) replaces: Replaces,
    pub(super) marks: Marks,
    /// Keys in line, dirty or delayed.
    pub(super) pending: usize,
    pub(super) leased: usize,
    pub(super) merged: u64,
    pub(super) measure: Measure,
    /// Threads that sleep until a lease or a replace ends.
    pub(super) progress_sleepers: usize,
    pub(super) closed: bool,
    /// What was discarded, if that is what becomes of pending keys.
    pub(super) discarded: Option<Discarded>,
    pub(super) clock: Clock,
    pub(super) compression: Compression,
    /// Whether leases are opened outside the lock, see `extras.rs`.
    with_extras: bool,
    /// How many deltas have a number, if they get any.
    numbered: Option<u64>,
    /// Keys with no other origins stand in the background line.
    background: Origins,
    /// Whom to wake, and what to drop, once the lock is released.
    pub(super) wakes: Wakes,
    pub(super) garbage: Garbage<K, V>,
}

impl<K: Eq, V> State<K, V> {
    pub(super) fn new(
        clock: Clock,
        replaces: Replaces,
        compression: Compression,
        background: Origins,
        measured: bool,
        extras: &Extras<V>,
    ) -> Self {
        State {
            entries: Table::new(),
            lines: Lines::default(),
            replaces,
            marks: Marks::new(),
            pending: 0,
            leased: 0,
            merged: 0,
            measure: Measure::new(measured),
            progress_sleepers: 0,
            closed: false,
            discarded: None,
            clock,
            compression,
            with_extras: extras.any(),
            numbered: extras.numbered.then_some(0),
            background,
            wakes: Wakes::default(),
            garbage: Garbage::default(),
        }
    }

    /// Whether a pop has nothing more to wait for.
    pub(super) fn is_finished(&self) -> bool {
        self.closed && self.pending == 0 && !self.replaces.running()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.pending == 0 && self.leased == 0 && !self.replaces.running()
    }

    /// The entry of a key, made if there is none. A key that is not stored yet is taken. All `Eq` runs before anything
    /// changes.
    pub(super) fn entry(&mut self, hash: u64, key: &mut Option<K>, records: &RwLock<Records<K, V>>) -> Slot {
        let wanted = key.as_ref().expect("the key is here");
        if let Some(slot) = self.entries.find(hash, wanted) {
            return slot;
        }
        let known = read(records);
        let (key, settled) = match known.table.find(hash, wanted) {
            Some(record) => (Key::clone(known.table.key(record)), known.table.get(record).settled),
            None => (Key::alone(key.take().expect("the key is here")), 0),
        };
        self.entries.insert(hash, key, Entry::new(settled))
    }

    /// The settled number of a key without an entry.
    pub(super) fn settled(&self, hash: u64, key: &K, records: &RwLock<Records<K, V>>) -> u64 {
        if self.replaces.none_open() {
            return 0;
        }
        let known = read(records);
        known.table.find(hash, key).map_or(0, |record| known.table.get(record).settled)
    }

    /// Appends a fact to an entry and puts it in line if it was not pending.
    pub(super) fn append(&mut self, slot: Slot, fact: RawDelta<Object<V>>, how: Append) {
        let entry = self.entries.get_mut(slot);
        let was_pending = entry.is_pending();
        if self.measure.is_on() && (!was_pending || matches!(entry.place, Place::Delayed(..))) {
            entry.waits = self.measure.now(&self.clock);
        }
        let before = self.garbage.deltas.len();
        append(&mut entry.facts, fact, self.compression, &mut self.garbage.deltas);
        self.merged += (self.garbage.deltas.len() - before) as u64;
        entry.origins.join(how.origin);
        entry.settled = entry.settled.max(how.settled);
        if let Some(replace) = how.replace {
            self.replaces.owe(&mut entry.debts, replace);
        }
        if !was_pending {
            self.pending += 1;
            entry.since = self.marks.enter();
        }
        match entry.place {
            Place::Nowhere if entry.lease.is_none() => self.line_up(slot),
            Place::Delayed(until, ticket) => {
                self.lines.undelay(until, ticket);
                self.line_up(slot);
            }
            Place::Background(_) if !entry.origins.within(self.background) => self.line_up(slot),
            Place::Nowhere | Place::First(_) | Place::Background(_) => {}
        }
    }

    /// Puts an entry at the tail of the line that its deltas belong in, behind delayed keys whose time has come.
    pub(super) fn line_up(&mut self, slot: Slot) {
        if self.lines.earliest().is_some() {
            self.promote(Some(self.clock.now()));
        }
        self.put_in_line(slot);
    }

    fn put_in_line(&mut self, slot: Slot) {
        let entry = self.entries.get_mut(slot);
        self.measure.enter(entry, &self.clock);
        entry.place = if entry.origins.within(self.background) {
            self.lines.push_background(slot)
        } else {
            self.lines.push_first(slot)
        };
        self.wakes.items += 1;
    }

    /// Puts delayed keys in line whose time has come; all of them if `now` is none.
    pub(super) fn promote(&mut self, now: Option<Instant>) {
        while let Some(slot) = self.lines.pop_due(now) {
            self.put_in_line(slot);
        }
    }

    /// Leases the first key in line. Leases whose facts come to nothing end here, and the next is taken.
    pub(super) fn next(
        &mut self,
        known: &Known<K, V>,
        records: &RwLock<Records<K, V>>,
        thread: u32,
    ) -> Option<Next<K, V>> {
        loop {
            let slot = self.first_in_line()?;
            match known {
                Known::Inside if self.with_extras => {
                    let object = self.known_of(slot, &read(records)).1;
                    return Some(Next::Ask(self.take(slot, thread), object));
                }
                Known::None if self.with_extras => return Some(Next::Ask(self.take(slot, thread), None)),
                Known::Store(_) => return Some(Next::Ask(self.take(slot, thread), None)),
                Known::None => {
                    let mut taken = self.take(slot, thread);
                    let before = taken.left.take().unwrap_or(Before::Absent);
                    if let Some(held) = self.open(taken, before, None, Self::settle) {
                        return Some(Next::Held(held));
                    }
                }
                Known::Inside => {
                    if let Some(held) = self.next_inside(slot, records, thread) {
                        return Some(Next::Held(held));
                    }
                }
            }
        }
    }

    pub(super) fn has_key_in_line(&mut self) -> bool {
        self.first_in_line().is_some()
    }

    fn first_in_line(&mut self) -> Option<Slot> {
        let entries = &self.entries;
        self.lines.peek(|slot| entries.try_get(slot).map_or(Place::Nowhere, |entry| entry.place))
    }

    fn next_inside(
        &mut self,
        slot: Slot,
        records: &RwLock<Records<K, V>>,
        thread: u32,
    ) -> Option<Held<K, V>> {
        let mut known = write(records);
        let (record, object) = self.known_of(slot, &known);
        let taken = self.take(slot, thread);
        let before = object.clone().map_or(Before::Absent, Before::Known);
        self.open_inside(taken, before, object, Self::settle, (record, &mut known))
    }

    /// Where the record of a key is, if it has one, and what is known of it. Runs its `Eq`. Good as long as the lock is held.
    #[inline(always)]
    pub(super) fn known_of(&self, slot: Slot, known: &Records<K, V>) -> (Option<Slot>, Option<Object<V>>) {
        let record = known.table.find(self.entries.hash(slot), &**self.entries.key(slot));
        (record, record.and_then(|record| known.table.get(record).object.clone()))
    }

    /// Opens the lease of a key that was taken, and makes what its facts came to known; none if that is nothing, and then it is over.
    /// `settle` says what its deltas come to.
    pub(super) fn open_inside(
        &mut self,
        taken: Taken<K, V>,
        before: Before<Object<V>>,
        previous: Option<Object<V>>,
        settle: impl FnOnce(&mut Self, &Before<Object<V>>, Lists<V>) -> Resolved<Object<V>>,
        (record, known): (Option<Slot>, &mut Records<K, V>),
    ) -> Option<Held<K, V>> {
        let hash = self.entries.hash(taken.slot);
        let held = self.resolve(taken, before, previous, settle);
        if held.deltas.is_empty() {
            self.finish_void(held);
            return None;
        }
        let newest = known_after(&held.deltas).cloned();
        if newest.is_some() || record.is_some() {
            let gone = newest.is_none();
            let (record, old) = known.set(record, hash, &held.key, newest);
            self.garbage.objects.extend(old);
            if gone && self.replaces.none_open() {
                self.garbage.keys.push(known.remove_absent(record));
            }
        }
        Some(held)
    }

    /// Takes a key out of its line and everything out of its entry: from here on it is leased.
    fn take(&mut self, slot: Slot, thread: u32) -> Taken<K, V> {
        self.lines.pop();
        self.pending -= 1;
        self.leased += 1;
        if self.is_finished() {
            // The last one: nobody else has anything to wait for.
            self.wakes.all = true;
        }
        let key = Key::clone(self.entries.key(slot));
        let entry = self.entries.get_mut(slot);
        let times = self.measure.leave(entry, &self.clock);
        entry.place = Place::Nowhere;
        let initial = self.replaces.owes_first(&entry.debts);
        note_popped(usize::from(thread != 0));
        entry.lease = Some(OpenLease {
            thread,
            live: entry.exists(),
            since: entry.since,
            origins: std::mem::take(&mut entry.origins),
            debts: std::mem::take(&mut entry.debts),
        });
        Taken {
            slot,
            key,
            facts: std::mem::take(&mut entry.facts),
            given_back: entry.given_back.take(),
            left: entry.left.take(),
            initial,
            times,
        }
    }

    /// Puts back what was taken, as if nobody had seen it: where it stood, or at the tail.
    pub(super) fn untake(&mut self, taken: Taken<K, V>, where_it_stood: bool) {
        self.pending += 1;
        self.leased -= 1;
        let entry = self.entries.get_mut(taken.slot);
        let lease = entry.lease.take().expect("the key is leased");
        note_ended(lease.thread);
        let newer = std::mem::replace(&mut entry.facts, taken.facts);
        let newer_debts = std::mem::replace(&mut entry.debts, lease.debts);
        entry.given_back = taken.given_back;
        entry.left = taken.left;
        entry.origins.join(lease.origins);
        let twice = join(&mut entry.debts, newer_debts);
        if !newer.is_empty() {
            self.pending -= 1;
            self.marks.leave(entry.since);
        }
        entry.since = lease.since;
        let before = self.garbage.deltas.len();
        for fact in newer {
            append(&mut entry.facts, fact, self.compression, &mut self.garbage.deltas);
        }
        self.merged += (self.garbage.deltas.len() - before) as u64;
        if entry.waits.is_none() {
            entry.waits = self.measure.now(&self.clock);
        }
        if where_it_stood {
            self.measure.enter(entry, &self.clock);
            entry.place = self.lines.push_front(taken.slot);
            self.wakes.items += 1;
        } else {
            self.line_up(taken.slot);
        }
        self.replaces.complete(&twice);
        if self.discarded.is_some() {
            self.discard();
        }
    }

    /// The lease no longer counts as one of the thread that popped it.
    pub(super) fn disown(&mut self, held: &Held<K, V>) {
        if let Some(lease) = &mut self.entries.get_mut(held.slot).lease {
            note_ended(std::mem::take(&mut lease.thread));
        }
    }

    /// Undoes a lease that nobody has seen.
    pub(super) fn unlease(&mut self, held: Held<K, V>) {
        let given_back =
            GivenBack { deltas: held.deltas, previous: held.previous, attempts: held.attempts - 1 };
        self.untake(
            Taken {
                slot: held.slot,
                key: held.key,
                facts: Default::default(),
                given_back: Some(Box::new(given_back)),
                left: None,
                initial: held.initial,
                times: held.times,
            },
            true,
        );
    }

    /// Opens the lease of a key that was taken; none if its facts came to nothing, and then it is over.
    pub(super) fn open(
        &mut self,
        taken: Taken<K, V>,
        before: Before<Object<V>>,
        previous: Option<Object<V>>,
        settle: impl FnOnce(&mut Self, &Before<Object<V>>, Lists<V>) -> Resolved<Object<V>>,
    ) -> Option<Held<K, V>> {
        let held = self.resolve(taken, before, previous, settle);
        if held.deltas.is_empty() {
            self.finish_void(held);
            return None;
        }
        Some(held)
    }

    /// What deltas come to that are not compared.
    pub(super) fn settle(
        &mut self,
        before: &Before<Object<V>>,
        (given_back, facts): Lists<V>,
    ) -> Resolved<Object<V>> {
        resolve(before, given_back, facts, self.compression)
    }

    #[cold]
    fn number(&mut self, deltas: &mut DeltaList<Object<V>>) {
        if let Some(numbered) = &mut self.numbered {
            let new = unnumbered(deltas) as u64;
            number(deltas, *numbered + 1..);
            *numbered += new;
        }
    }

    fn resolve(
        &mut self,
        taken: Taken<K, V>,
        before: Before<Object<V>>,
        previous: Option<Object<V>>,
        settle: impl FnOnce(&mut Self, &Before<Object<V>>, Lists<V>) -> Resolved<Object<V>>,
    ) -> Held<K, V> {
        let (given_back, previous, attempts) = match taken.given_back {
            Some(given_back) => {
                self.garbage.objects.extend(previous);
                (given_back.deltas, given_back.previous, given_back.attempts.saturating_add(1))
            }
            None => (Default::default(), previous, 1),
        };
        let mut resolved = settle(self, &before, (given_back, taken.facts));
        if self.numbered.is_some() {
            self.number(&mut resolved.deltas);
        }
        self.merged += resolved.merged.len() as u64;
        self.garbage.deltas.extend(resolved.merged);
        // These may be the last handles of their objects.
        self.garbage.objects.extend(before.into_object());
        self.garbage.objects.extend(taken.left.and_then(Before::into_object));
        let entry = self.entries.get_mut(taken.slot);
        entry.lease.as_mut().expect("the key is leased").live = known_after(&resolved.deltas).is_some();
        Held {
            slot: taken.slot,
            key: taken.key,
            deltas: resolved.deltas,
            previous,
            initial: taken.initial,
            attempts,
            times: taken.times,
        }
    }
}
