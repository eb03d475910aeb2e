//! How a lease ends: its deltas are processed, or come back, or are discarded.

use std::sync::RwLock;
use std::time::Instant;

use crate::resolve::{Before, known_after};

use super::entry::{GivenBack, Held, Origins};
use super::lines::Lines;
use super::lock::{read, write};
use super::records::Records;
use super::replaces::join;
use super::state::State;
use super::table::Slot;

/// Where a key's settled number outlives its entry.
pub(super) struct Memory<'r, K, V> {
    records: &'r RwLock<Records<K, V>>,
    record: Option<Slot>,
}

impl<K: Eq, V> State<K, V> {
    /// Where the key's settled number must be kept when its entry goes: an open replace will ask for it.
    pub(super) fn memory<'r>(
        &self,
        held: &Held<K, V>,
        records: &'r RwLock<Records<K, V>>,
    ) -> Option<Memory<'r, K, V>> {
        if self.replaces.none_open() {
            return None;
        }
        let record = read(records).table.find(self.entries.hash(held.slot), &*held.key);
        Some(Memory { records, record })
    }

    pub(super) fn finish_void(&mut self, held: Held<K, V>) {
        self.finish(&held, None);
        self.garbage.leases.push(held);
    }

    /// Ends a lease whose deltas are processed, or came to nothing. The caller drops `held` outside the lock.
    pub(super) fn finish(&mut self, held: &Held<K, V>, memory: Option<Memory<'_, K, V>>) {
        let hash = self.entries.hash(held.slot);
        self.leased -= 1;
        let entry = self.entries.get_mut(held.slot);
        let lease = entry.lease.take().expect("the key is leased");
        self.marks.leave(lease.since);
        self.replaces.complete(&lease.debts);
        let left = known_after(&held.deltas).cloned();
        if entry.is_pending() {
            let known = !held.deltas.is_empty();
            entry.left = known.then(|| left.map_or(Before::Absent, Before::Known));
            self.line_up(held.slot);
        } else {
            let settled = entry.settled;
            // `held` keeps the key alive.
            self.entries.remove(held.slot);
            if let Some(Memory { records, record }) = memory {
                let mut records = write(records);
                let (record, old) = records.set(record, hash, &held.key, left);
                records.settle(record, settled);
                self.garbage.objects.extend(old);
            }
        }
        self.ended();
    }

    /// Ends a lease whose deltas come back: at `until`, or at once. The caller drops what is left of `held` outside
    /// the lock.
    pub(super) fn give_back(&mut self, held: &mut Held<K, V>, until: Option<Instant>) {
        self.leased -= 1;
        let entry = self.entries.get_mut(held.slot);
        let mut lease = entry.lease.take().expect("the key is leased");
        self.replaces.deliver(&mut lease.debts);
        if let Some(discarded) = &mut self.discarded {
            discarded.keys += 1;
            discarded.deltas += held.deltas.len() as u64;
            self.replaces.fail(&lease.debts);
            self.marks.lose(lease.since);
            self.entries.remove(held.slot);
            self.ended();
            return;
        }
        let was_dirty = entry.is_pending();
        entry.origins.join(lease.origins);
        entry.given_back = Some(Box::new(GivenBack {
            deltas: std::mem::take(&mut held.deltas),
            previous: held.previous.take(),
            attempts: held.attempts,
        }));
        let newer = std::mem::replace(&mut entry.debts, lease.debts);
        let twice = join(&mut entry.debts, newer);
        match was_dirty {
            true => self.marks.leave(entry.since),
            false => self.pending += 1,
        }
        entry.since = lease.since;
        match until {
            Some(until) if !was_dirty => {
                let earliest = self.lines.earliest();
                entry.place = self.lines.delay(held.slot, until);
                if earliest.is_none_or(|earliest| until < earliest) {
                    self.wakes.earliest = Some(until);
                }
            }
            // A new delta puts a delayed key in line at once, and here it came even before the delay.
            _ => self.line_up(held.slot),
        }
        self.replaces.complete(&twice);
        self.ended();
    }

    /// Somebody may have waited for the lease that has just ended.
    fn ended(&mut self) {
        self.wakes.progress = true;
        if self.is_finished() {
            self.wakes.all = true;
        }
    }

    /// Drops everything that is pending.
    pub(super) fn discard(&mut self) {
        let mut discarded = self.discarded.unwrap_or_default();
        let pending: Vec<Slot> =
            self.entries.iter().filter(|(_, _, entry)| entry.is_pending()).map(|(slot, _, _)| slot).collect();
        for slot in pending {
            let entry = self.entries.get_mut(slot);
            discarded.keys += 1;
            discarded.deltas += entry.depth() as u64;
            self.garbage.deltas.extend(entry.facts.drain(..));
            self.garbage.given_back.extend(entry.given_back.take().map(|given_back| *given_back));
            self.replaces.fail(&std::mem::take(&mut entry.debts));
            self.marks.lose(entry.since);
            entry.origins = Origins::default();
            if entry.lease.is_none() {
                self.garbage.keys.push(self.entries.remove(slot).0);
            }
        }
        self.pending = 0;
        self.lines = Lines::default();
        self.discarded = Some(discarded);
        self.wakes.progress = true;
        self.wakes.all = true;
    }
}
