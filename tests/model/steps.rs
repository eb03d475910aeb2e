//! The model in smaller steps, for histories of several threads: a call that is promised to be several moments takes them
//! one by one. Nothing panics here: a step says whether it was possible.
//!
//! A key that becomes pending is `Coming` until it enters the line, and one that a pop takes out is `Going` until its
//! lease begins: a change may come in between, and find the key pending.

use super::*;

impl Model {
    /// As [`change`](Self::change), of a call that began to count for replaces at the moment `stamp`.
    pub(crate) fn change_since(&mut self, change: &Change<u8, u32>, stamp: u64) {
        let key = *change.key();
        let (before, now) = (self.key(key).changed, self.now + 1);
        self.change(change);
        let entry = self.key(key);
        if entry.changed == now {
            entry.changed = before.max(stamp);
        }
    }

    /// If the key went in line at that moment or later, it is on its way there instead.
    pub(crate) fn leave_line_since(&mut self, key: u8, moment: u64) {
        match self.place(key) {
            Some(place @ &mut Place::Line { earliest, .. }) if earliest >= moment => *place = Place::Coming,
            _ => {}
        }
    }

    /// The moment of the next call.
    pub(crate) fn next(&self) -> u64 {
        self.now + 1
    }

    /// A moment of its own.
    pub(crate) fn stamp(&mut self) -> u64 {
        self.tick()
    }

    fn place(&mut self, key: u8) -> Option<&mut Place> {
        self.keys.get_mut(&key)?.pending.as_mut().map(|pending| &mut pending.place)
    }

    /// The key goes to the tail of the line, if it is on its way there.
    pub(crate) fn enter(&mut self, key: u8) {
        let at = self.tick();
        if let Some(place @ Place::Coming) = self.place(key) {
            *place = Place::Line { earliest: at, latest: at };
        }
    }

    pub(crate) fn is_coming(&self, key: u8) -> bool {
        let pending = self.keys.get(&key).and_then(|entry| entry.pending.as_ref());
        pending.is_some_and(|pending| pending.place == Place::Coming)
    }

    /// The keys in line, the first one first.
    pub(crate) fn line(&self) -> Vec<u8> {
        let in_line = self.keys.iter().filter_map(|(&key, entry)| match entry.pending.as_ref()?.place {
            Place::Line { earliest, .. } => Some((earliest, key)),
            _ => None,
        });
        let mut line: Vec<_> = in_line.collect();
        line.sort_unstable();
        line.into_iter().map(|(_, key)| key).collect()
    }

    /// What is pending for a key, and what its lease shows, if it is leased.
    pub(crate) fn deltas(&self) -> impl Iterator<Item = (u8, &[Fact], Option<&[Fact]>)> {
        self.keys.iter().filter_map(|(&key, entry)| {
            let leased = entry.lease.as_ref().map(|lease| &lease.deltas[..]);
            Some((key, &entry.pending.as_ref()?.deltas[..], leased))
        })
    }

    /// The first key in line.
    pub(crate) fn head(&self) -> Option<u8> {
        self.line().first().copied()
    }

    /// The first key leaves the line, its deltas not yet taken.
    pub(crate) fn take_head(&mut self, key: u8) -> bool {
        let is_head = self.head() == Some(key);
        if is_head {
            *self.place(key).expect("it is in line") = Place::Going;
        }
        is_head
    }

    /// The keys that have left the line and are not yet leased.
    pub(crate) fn going(&self) -> Vec<u8> {
        let is_going = |key: &Key| key.pending.as_ref().is_some_and(|pending| pending.place == Place::Going);
        self.keys.iter().filter(|(_, key)| is_going(key)).map(|(&key, _)| key).collect()
    }

    /// A key that has left the line is leased.
    pub(crate) fn lease_going(&mut self, key: u8) -> Option<Leased> {
        let place = self.place(key).filter(|place| **place == Place::Going)?;
        *place = Place::Line { earliest: 0, latest: 0 };
        Some(self.pop(key))
    }

    /// A pop, if it is this key's turn.
    pub(crate) fn pop_if_turn(&mut self, key: u8) -> Option<Leased> {
        (self.head() == Some(key)).then(|| self.pop(key))
    }

    /// The end of a lease, if there is one.
    pub(crate) fn end_if_leased(&mut self, key: u8, ending: Ending) -> bool {
        let is_leased = self.keys.get(&key).is_some_and(|entry| entry.lease.is_some());
        if is_leased {
            self.end(key, ending);
        }
        is_leased
    }

    /// The sweep of one key, as in [`commit`](Self::commit).
    pub(crate) fn sweep_key(&mut self, replace: usize, key: u8) {
        let at = self.tick();
        let began = self.replaces[replace].began;
        if !self.replaces[replace].seen.contains(&key) && self.exists(key) && self.key(key).changed < began {
            let tombstone = (DeltaKind::DeletedFinalStateUnknown, self.newest_object(key));
            self.append(key, tombstone, Origin::Replace, Some(replace), at);
        }
    }

    /// The end of a replace whose keys were swept.
    pub(crate) fn commit_swept(&mut self, replace: usize) {
        self.replaces[replace].open = false;
        self.replaces[replace].committed = true;
    }

    /// Forgets what no answer of a history depends on, replaces that have ended included, and numbers the moments anew, those in `stamps` included: two
    /// models that will answer alike are equal then, so that a search meets fewer of them.
    pub(crate) fn normalize<'s>(&mut self, stamps: impl Iterator<Item = &'s mut u64>) {
        if self.replaces.iter().all(|replace| !replace.open) {
            self.keys.values_mut().for_each(|key| key.changed = 0);
        }
        while self.replaces.last().is_some_and(|replace| !replace.open) {
            self.replaces.pop();
        }
        self.keys.retain(|_, key| *key != Key::default());
        let mut moments: Vec<&mut u64> = stamps.collect();
        for key in self.keys.values_mut() {
            moments.push(&mut key.changed);
            if let Some(lease) = &mut key.lease {
                lease.debts.clear();
                lease.initial = false;
            }
            let is_leased = key.lease.is_some();
            if let Some(pending) = &mut key.pending {
                pending.debts.clear();
                if !is_leased {
                    // Only what comes during a lease can come after something that is given back.
                    pending.unmerged.clear();
                }
                if let Place::Line { earliest, latest } = &mut pending.place {
                    moments.push(earliest);
                    moments.push(latest);
                }
            }
        }
        for replace in &mut self.replaces {
            if replace.open {
                moments.push(&mut replace.began);
            } else {
                *replace = Replace { began: 0, seen: BTreeSet::new(), committed: false, ..replace.clone() };
            }
        }
        self.now = renumber(moments);
        // Some merges may be taken back.
        (self.merged, self.pops, self.waited, self.out_of_turn) = (1 << 32, 0, 0, 0);
        // First syncs are no matter of histories.
        (self.changed, self.synced, self.delivered) = (false, false, false);
        self.first.iter_mut().for_each(|first| *first = First::Synced);
    }
}

/// Gives the moments their ranks, from 0; returns the highest.
fn renumber(mut moments: Vec<&mut u64>) -> u64 {
    moments.sort();
    let (mut last, mut rank) = (0, 0);
    for moment in moments {
        if *moment > last {
            last = *moment;
            rank += 1;
        }
        *moment = rank;
    }
    rank
}
