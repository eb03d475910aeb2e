//! The consumers' side of the model.

use super::*;

impl Model {
    /// Section 3: `key` was handed out, and it must have been its turn.
    pub(crate) fn pop(&mut self, key: u8) -> Leased {
        self.check_turn(key);
        let entry = self.key(key);
        assert!(entry.lease.is_none(), "key {key} is in two leases");
        let mut pending = entry.pending.take().expect("the key is pending");
        let known = entry.known;
        if self.config.identity {
            let (shown, facts) =
                (std::mem::take(&mut pending.shown), std::mem::take(&mut pending.since_shown));
            pending.deltas = self.identify(known, shown, facts);
        }
        let entry = self.key(key);
        let newest = pending.deltas.last().unwrap();
        entry.known = newest.1.filter(|_| !newest.0.is_deletion());
        let idle_previous = if self.config.known == Known::None { None } else { known };
        let initial = pending.debts.keys().any(|&replace| self.is_first(replace));
        let lease = Leased {
            previous: pending.previous.unwrap_or(idle_previous),
            deltas: pending.deltas,
            attempts: pending.attempts + 1,
            initial,
            debts: pending.debts,
            background: pending.background,
            since: pending.since,
            at_worst: pending.at_worst,
        };
        self.key(key).lease = Some(lease.clone());
        lease
    }

    /// Keys in line: the latest moments at which they went there, by line.
    fn lines(&self) -> [Vec<(u8, u64, u64)>; 2] {
        let mut lines = [Vec::new(), Vec::new()];
        for (&key, entry) in &self.keys {
            if let Some(pending) = &entry.pending {
                if let Place::Line { earliest, latest } = pending.place {
                    lines[usize::from(pending.background)].push((key, earliest, latest));
                }
            }
        }
        lines
    }

    pub(crate) fn in_line(&self) -> usize {
        self.lines().iter().map(Vec::len).sum()
    }

    /// Section 8.
    fn check_turn(&mut self, key: u8) {
        let at = self.tick();
        let lines = self.lines();
        let line = usize::from(lines[1].iter().any(|&(other, ..)| other == key));
        let own = lines[line].iter().find(|&&(other, ..)| other == key);
        let &(_, earliest, _) = own.unwrap_or_else(|| panic!("key {key} is not in line"));
        let overtaken = lines[line].iter().find(|&&(_, _, latest)| latest < earliest);
        assert!(overtaken.is_none(), "key {key} came before its turn: {overtaken:?} stands before it");
        self.pops += 1;
        let other_waits = !lines[1 - line].is_empty();
        match (line, other_waits) {
            (1, true) => {
                self.out_of_turn += 1;
                assert!(self.out_of_turn <= self.pops / 16 + 1, "the background line comes too often");
                self.waited = 0;
            }
            (0, true) => {
                self.waited += 1;
                assert!(self.waited < 16, "the background line starves");
            }
            _ => self.waited = 0,
        }
        // A delay of nothing is over at the latest when a consumer looks.
        for entry in self.keys.values_mut() {
            if let Some(Pending { place: Place::Line { latest, .. }, .. }) = &mut entry.pending {
                *latest = at.min(*latest);
            }
        }
    }

    /// Whether an ending gives the deltas back, and whether at once: `None` if it does not.
    fn given_back(&self, ending: Ending, attempts: u32) -> Option<Ending> {
        match ending {
            Ending::Done | Ending::GiveUp => None,
            Ending::Requeue | Ending::AfterZero | Ending::AfterLong => Some(ending),
            Ending::Backoff if backoff(attempts).is_zero() => Some(Ending::AfterZero),
            Ending::Backoff => Some(Ending::AfterLong),
            Ending::Drop => match self.config.on_abandon {
                OnAbandon::Backoff => self.given_back(Ending::Backoff, attempts),
                OnAbandon::Requeue => Some(Ending::Requeue),
                OnAbandon::GiveUp => None,
            },
        }
    }

    /// Whether this ending completes the lease of a key.
    pub(crate) fn completes(&self, key: u8, ending: Ending) -> bool {
        let attempts = self.keys[&key].lease.as_ref().unwrap().attempts;
        self.given_back(ending, attempts).is_none()
    }

    pub(crate) fn end(&mut self, key: u8, ending: Ending) {
        let at = self.tick();
        let mut lease = self.key(key).lease.take().expect("the key is leased");
        match self.given_back(ending, lease.attempts) {
            None => {
                let none = self.config.known == Known::None;
                let entry = self.key(key);
                // What it has left comes before what is pending.
                if none && entry.pending.is_none() {
                    entry.known = None;
                }
                if let Some(pending) = &mut entry.pending {
                    pending.place = Place::Line { earliest: at, latest: at };
                    pending.at_worst = pending.at_worst.min(lease.at_worst);
                }
            }
            Some(how) => {
                lease.debts.values_mut().for_each(|delivered| *delivered = true);
                if self.discarded.is_some() {
                    self.discard_one(lease.deltas.len(), &lease.debts, (lease.since, lease.at_worst));
                } else {
                    self.give_back(key, lease, how, at);
                }
            }
        }
        self.settle();
    }

    fn give_back(&mut self, key: u8, lease: Leased, how: Ending, at: u64) {
        let newer = self.key(key).pending.take();
        let place = match how {
            Ending::AfterLong if newer.is_none() => Place::Delayed,
            Ending::AfterZero if newer.is_none() => Place::Line { earliest: at, latest: u64::MAX },
            _ => Place::Line { earliest: at, latest: at },
        };
        let since_shown = newer.as_ref().map(|newer| newer.since_shown.clone()).unwrap_or_default();
        let mut pending = Pending {
            shown: if self.config.identity { lease.deltas.clone() } else { Vec::new() },
            since_shown,
            deltas: lease.deltas,
            unmerged: Vec::new(),
            place,
            attempts: lease.attempts,
            previous: Some(lease.previous),
            debts: lease.debts,
            background: lease.background,
            since: lease.since,
            at_worst: lease.at_worst,
        };
        if let Some(newer) = newer {
            pending.background &= newer.background;
            self.merged -= (newer.unmerged.len() - newer.deltas.len()) as u64;
            for fact in newer.unmerged {
                self.merge(&mut pending.deltas, fact);
            }
            for (replace, delivered) in newer.debts {
                pending.debts.entry(replace).or_insert(delivered);
            }
        }
        self.key(key).pending = Some(pending);
    }

    // ---- section 6

    /// Whether it was the first.
    pub(crate) fn close(&mut self) -> bool {
        if self.closed {
            return false;
        }
        self.closed = true;
        for replace in 0..self.replaces.len() {
            if self.is_open(replace) {
                self.abort(replace);
            }
        }
        let at = self.tick();
        for entry in self.keys.values_mut() {
            if let Some(pending) = &mut entry.pending {
                match &mut pending.place {
                    place @ Place::Delayed => *place = Place::Line { earliest: at, latest: at },
                    Place::Line { latest, .. } => *latest = at.min(*latest),
                    Place::Dirty | Place::Coming | Place::Going => {}
                }
            }
        }
        self.settle();
        true
    }

    pub(crate) fn close_discard(&mut self) -> (u64, u64) {
        self.close();
        self.discarded.get_or_insert((0, 0));
        let keys: Vec<u8> = self.keys.keys().copied().collect();
        for key in keys {
            if let Some(pending) = self.key(key).pending.take() {
                let since = (pending.since, pending.at_worst);
                self.discard_one(pending.deltas.len(), &pending.debts, since);
            }
        }
        self.discarded.unwrap()
    }

    fn discard_one(&mut self, deltas: usize, debts: &BTreeMap<usize, bool>, since: (u64, u64)) {
        let discarded = self.discarded.as_mut().unwrap();
        discarded.0 += 1;
        discarded.1 += deltas as u64;
        self.lost = (self.lost.0.min(since.0), self.lost.1.min(since.1));
        for (&replace, &delivered) in debts {
            let lost = &mut self.replaces[replace].lost;
            *lost = (true, lost.1 || !delivered);
        }
    }

    // ---- what there is

    pub(crate) fn pending_len(&self) -> usize {
        self.keys.values().filter(|key| key.pending.is_some()).count()
    }

    pub(crate) fn leased_len(&self) -> usize {
        self.keys.values().filter(|key| key.lease.is_some()).count()
    }

    /// Whether something that was given back may still have to be merged with what came after it.
    pub(crate) fn has_given_back(&self) -> bool {
        self.keys.values().any(|key| key.pending.as_ref().is_some_and(|pending| pending.previous.is_some()))
    }

    /// Whether a pop says that nothing more can come.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed && self.pending_len() == 0
    }

    pub(crate) fn known(&self) -> BTreeMap<u8, u32> {
        match self.config.known {
            Known::None => BTreeMap::new(),
            _ => self.keys.iter().filter_map(|(&key, entry)| Some((key, entry.known?))).collect(),
        }
    }

    pub(crate) fn known_of(&self, key: u8) -> Option<u32> {
        self.keys[&key].known
    }

    /// The newest processed mark: at worst, and exactly.
    pub(crate) fn processed(&self) -> (u64, u64) {
        let (mut exact, mut at_worst) = self.lost;
        for key in self.keys.values() {
            let pending = key.pending.as_ref().map(|pending| (pending.since, pending.at_worst));
            let lease = key.lease.as_ref().map(|lease| (lease.since, lease.at_worst));
            for since in pending.into_iter().chain(lease) {
                exact = exact.min(since.0);
                at_worst = at_worst.min(since.1);
            }
        }
        (at_worst.min(self.marks), exact.min(self.marks))
    }
}
