//! Whether a history of pops, snapshots and reads has an order in which each takes place at one moment of its own call.
//!
//! A pop changes what its key shows, at a moment between two ticks of the clock. The pops of a key are one after the other, as the
//! lease of one has ended before the next begins; so their intervals do not overlap, and what is to be decided is only where in them
//! the changes are. A read of one key narrows the interval of the change that it shows, and of the next. Snapshots
//! are in the order of their epochs, and each is given the earliest moment that is left: who comes later has the more room then.

use std::collections::BTreeMap;

/// A moment is after one tick and before the next, and there is room for any number of them.
pub(crate) type Tick = u64;

/// A version of a key; `None`: it is not known.
pub(crate) type Shown = Option<u64>;

#[derive(Clone, Debug)]
pub(crate) struct Pop {
    pub(crate) key: usize,
    pub(crate) shown: Shown,
    pub(crate) call: Tick,
    pub(crate) returned: Tick,
    /// Before its lease ended.
    pub(crate) ended: Tick,
}

#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Of each key.
    pub(crate) shown: Vec<Shown>,
    pub(crate) call: Tick,
    pub(crate) returned: Tick,
    pub(crate) epoch: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) key: usize,
    pub(crate) shown: Shown,
    pub(crate) call: Tick,
    pub(crate) returned: Tick,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) keys: usize,
    pub(crate) pops: Vec<Pop>,
    /// Two of one epoch are one.
    pub(crate) cuts: Vec<Cut>,
    pub(crate) reads: Vec<Read>,
}

/// A key has shown this since a moment in the interval.
#[derive(Clone, Copy, Debug)]
struct Change {
    shown: Shown,
    after: Tick,
    before: Tick,
}

/// All changes of a key, the first from the beginning on. Their intervals are in order and do not overlap.
struct Changes(Vec<Change>);

impl History {
    /// Exact, but for reads of keys that were not known: one that may be of several moments narrows nothing.
    pub(crate) fn check(&self) -> Result<(), String> {
        let changes = (0..self.keys).map(|key| self.changes(key)).collect::<Result<Vec<_>, _>>()?;
        let mut by_epoch = BTreeMap::<u64, Cut>::new();
        for cut in &self.cuts {
            let Some(epoch) = cut.epoch else {
                // Nobody knows the order.
                place(cut, 0, &mut vec![0; self.keys], &changes)?;
                continue;
            };
            let one = by_epoch.entry(epoch).or_insert_with(|| cut.clone());
            if one.shown != cut.shown {
                return Err(format!("one epoch, and two moments: {one:?}, {cut:?}"));
            }
            (one.call, one.returned) = (one.call.max(cut.call), one.returned.min(cut.returned));
        }
        let (mut moment, mut places) = (0, vec![0; self.keys]);
        for cut in by_epoch.values() {
            moment = place(cut, moment, &mut places, &changes)?;
        }
        Ok(())
    }

    fn changes(&self, key: usize) -> Result<Changes, String> {
        let mut pops: Vec<&Pop> = self.pops.iter().filter(|pop| pop.key == key).collect();
        pops.sort_by_key(|pop| pop.returned);
        let (mut changes, mut ended) = (vec![Change { shown: None, after: 0, before: 0 }], 0);
        for pop in pops {
            if pop.returned <= ended {
                return Err(format!("leased twice: {pop:?}"));
            }
            // The same again changes nothing.
            if changes[changes.len() - 1].shown != pop.shown {
                let after = pop.call.max(ended);
                changes.push(Change { shown: pop.shown, after, before: pop.returned });
            }
            ended = pop.ended;
        }
        let mut changes = Changes(changes);
        let reads: Vec<&Read> = self.reads.iter().filter(|read| read.key == key).collect();
        // One that has narrowed something may leave another one only one place.
        while changes.narrow(&reads)? {}
        Ok(changes)
    }
}

impl Changes {
    /// What shows this at some moment before `returned`, not before `call`, from a place on.
    fn showing(
        &self,
        from: usize,
        shown: Shown,
        (call, returned): (Tick, Tick),
    ) -> impl Iterator<Item = usize> {
        let is_it = move |&at: &usize| {
            let change = self.0[at];
            change.shown == shown && change.after < returned && call < self.until(at)
        };
        (from..self.0.len()).filter(is_it)
    }

    /// By when the next change has been made.
    fn until(&self, at: usize) -> Tick {
        self.0.get(at + 1).map_or(Tick::MAX, |next| next.before)
    }

    /// Whether the reads have narrowed any interval.
    fn narrow(&mut self, reads: &[&Read]) -> Result<bool, String> {
        let mut is_narrower = false;
        for read in reads {
            let (call, returned) = (read.call, read.returned);
            let mut places = self.showing(0, read.shown, (call, returned));
            let Some(at) = places.next() else { return Err(format!("nothing showed it then: {read:?}")) };
            if places.next().is_some() {
                continue;
            }
            drop(places);
            for (number, change) in self.0.iter_mut().enumerate().skip(1) {
                let was = (change.after, change.before);
                if number <= at {
                    change.before = change.before.min(returned);
                } else {
                    change.after = change.after.max(call);
                }
                if change.after >= change.before {
                    return Err(format!("no moment is left for {change:?}: {read:?}"));
                }
                is_narrower |= was != (change.after, change.before);
            }
        }
        Ok(is_narrower)
    }
}

/// The earliest moment for a cut, not before `moment`: the tick before it. `places` says which change of each key the cut before
/// showed, and then which one this does.
fn place(cut: &Cut, moment: Tick, places: &mut [usize], keys: &[Changes]) -> Result<Tick, String> {
    let earliest = moment.max(cut.call);
    let mut now = earliest;
    loop {
        let before = now;
        for ((changes, place), &shown) in keys.iter().zip(&mut *places).zip(&cut.shown) {
            let found = changes.showing(*place, shown, (now, cut.returned)).next();
            let found = found.filter(|_| now < cut.returned);
            *place = found.ok_or_else(|| {
                format!("no moment in {moment}, {earliest} to {now} shows {shown:?} as well: {cut:?}")
            })?;
            now = now.max(changes.0[*place].after);
        }
        if now == before {
            return Ok(now);
        }
    }
}
