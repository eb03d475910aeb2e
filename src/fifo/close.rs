//! The end: closing, sealing, discarding.
//!
//! `close` sets a flag, which every producer reads under its guard. When all guards from before have ended, which the epoch
//! collector says, no producer is left that has not seen the flag: the queue is *sealed*, and what is pending now is all
//! there will be. So producers pay one load, and a producer that is stopped inside its call delays the word `Closed` and
//! nothing else. (A bit in every word and every link would seal without that delay, at the price of a pass over all
//! entries and of a rule in every step.)

use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::delta::{DeltaList, Object, RawDelta, append};
use crate::queue::Discarded;
use crate::resolve::Before;
use crate::slab::Index;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::epoch::{self, Guard};
use crate::sync::{Arc, CHECKED, pause_point, planted, weaken};

use super::DeltaFifo;
use super::chain::{self, Facts};
use super::debts::Debts;
use super::end::{LazyPin, Rest};
use super::entry::{Slot, Tenure};
use super::panics::Panics;
use super::parts::{GivenBack, Legacy};
use super::pop::Held;
use super::replaces::Progress;
use super::word::{Newest, State, Word};

#[cfg(all(test, delta_fifo_loom))]
mod models;

/// Whoever waits for the seal looks again after so long.
pub(super) const SEAL_POLL: Duration = Duration::from_micros(200);

/// How often a close looks whether its seal is there already.
const HASTE: usize = if CHECKED { 1 } else { 64 };

#[derive(Debug)]
pub(super) struct Closing {
    closed: AtomicBool,
    sealed: Arc<AtomicBool>,
    discarding: AtomicBool,
    keys: AtomicU64,
    deltas: AtomicU64,
}

impl Closing {
    pub(super) fn new() -> Self {
        Closing {
            closed: AtomicBool::new(false),
            sealed: Arc::new(AtomicBool::new(false)),
            discarding: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            deltas: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with `close` (Release); what came before the close is visible.
        self.closed.load(weaken("a close is read relaxed", Ordering::Acquire))
    }

    /// Whether it was open.
    fn close(&self) -> bool {
        // Release: pairs with `is_closed` (Acquire). Whoever comes second learns nothing here but that.
        !self.closed.swap(true, weaken("a close is shown relaxed", Ordering::Release))
    }

    /// No producer is left that has not seen the close.
    pub(super) fn is_sealed(&self) -> bool {
        // Acquire: pairs with the collector's callback (Release): all that those producers did is visible.
        self.sealed.load(weaken("the seal is read relaxed", Ordering::Acquire))
    }

    /// Closed, but calls from before may be on their way still.
    #[inline(always)]
    pub(super) fn is_sealing(&self) -> bool {
        self.is_closed() && !self.is_sealed()
    }

    pub(super) fn is_discarding(&self) -> bool {
        // Acquire: pairs with `begin_discard` (Release): who throws something away has seen the close.
        self.discarding.load(weaken("a discard is read relaxed", Ordering::Acquire))
    }

    /// From here on nobody gives anything back who has not seen that it is to be thrown away. Waits for calls of others: see the
    /// progress table.
    fn begin_discard(&self) {
        // Release: pairs with `is_discarding` (Acquire).
        self.discarding.store(true, weaken("a discard is shown relaxed", Ordering::Release));
        pause_point("discard: flagged");
        let seen = Arc::new(AtomicBool::new(false));
        after_grace(&seen);
        // Acquire: pairs with the callback (Release): what was given back before is visible.
        let acquire = weaken("the end of a grace period is read relaxed", Ordering::Acquire);
        while !(seen.load(acquire) && self.is_sealed()) {
            epoch::pin().flush();
            crate::sync::thread::yield_now();
        }
    }

    /// Whether it is sealed, after a moment's patience: who is in the middle of a call mostly is so for a moment only.
    pub(super) fn hasten(&self) -> bool {
        for look in 0..HASTE {
            if self.is_sealed() {
                return true;
            }
            epoch::pin().flush();
            if 2 * look < HASTE {
                crate::sync::thread::yield_now();
            } else {
                crate::sync::thread::sleep(SEAL_POLL);
            }
        }
        self.is_sealed()
    }

    /// A key, and what was pending of it.
    fn count(&self, deltas: usize) {
        let early = planted("a key is counted before its deltas");
        if early {
            self.keys.fetch_add(1, Ordering::Relaxed);
        }
        // Relaxed: published by what follows.
        self.deltas.fetch_add(deltas as u64, Ordering::Relaxed);
        if !early {
            // Release: pairs with `discarded` (Acquire): no key is counted without its deltas.
            self.keys.fetch_add(1, weaken("a discarded key is counted relaxed", Ordering::Release));
        }
    }

    fn discarded(&self) -> Discarded {
        // Acquire: pairs with `count` (Release).
        let keys = self.keys.load(weaken("discarded keys are read relaxed", Ordering::Acquire));
        // Relaxed: as far as it got.
        Discarded { keys, deltas: self.deltas.load(Ordering::Relaxed) }
    }
}

/// Sets `flag` once nobody is left who has not seen what was done before.
fn after_grace(flag: &Arc<AtomicBool>) {
    if planted("sealed without a grace period") {
        return flag.store(true, Ordering::Release);
    }
    let flag = Arc::clone(flag);
    let guard = epoch::pin();
    // Release: pairs with who reads the flag (Acquire); publishes what was done under the guards that have ended.
    let release = weaken("a grace period ends relaxed", Ordering::Release);
    guard.defer(move || flag.store(true, release));
    guard.flush();
}

impl<K, V, S> DeltaFifo<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Send + Sync,
{
    pub(super) fn close_now(&self) -> bool {
        if !self.core.closing.close() {
            return false;
        }
        pause_point("close: flagged");
        let progress = self.core.replaces.close();
        after_grace(&self.core.closing.sealed);
        pause_point("close: seal ordered");
        let _ = self.core.closing.hasten();
        // Entries that are asked for stay, as an `upsert` that has not seen the cut yet may ask.
        self.promote_all(&epoch::pin());
        self.wake_consumers(usize::MAX);
        self.tell(progress);
        true
    }

    pub(super) fn close_and_discard(&self) -> Discarded {
        self.close_now();
        self.core.closing.begin_discard();
        self.discard();
        self.core.closing.discarded()
    }

    /// Throws away everything that is pending.
    pub(super) fn discard(&self) {
        let mut panics = Panics::default();
        for number in 0..self.core.shards.len() {
            let all = |index, _: &Slot<K>, _: &Guard| Some(index);
            self.core.shards[number].stretches(all, |met, guard| {
                let thrown: Vec<Thrown<V>> =
                    met.into_iter().filter_map(|index| self.discard_entry(number, index, &guard)).collect();
                drop(guard);
                panics.contain(|| drop(thrown));
            });
            panics.contain(|| self.core.shards[number].tidy());
        }
        self.wake_consumers(usize::MAX);
        self.tell(Progress::MADE);
        panics.go_on();
    }
}

impl<K: Hash + Eq, V, S> DeltaFifo<K, V, S> {
    /// Throws away what is pending of one entry, which was met under this guard.
    fn discard_entry(&self, number: usize, index: Index, _guard: &Guard) -> Option<Thrown<V>> {
        let shard = &self.core.shards[number];
        let entry = shard.entries.get(index);
        // Repeats when the entry has moved on.
        loop {
            let word = entry.word();
            if let Some(seized) = word.seize() {
                let Some(mut tenure) = entry.begin(index, word, seized) else { continue };
                pause_point("discard: seized");
                self.moved(word, seized);
                // Relaxed: what was counted before the discard is published by the fence of its guard (see `agree`).
                shard.gone.taken.fetch_add(1, Ordering::Relaxed);
                let Legacy { given_back, left } = entry.legacy(&mut tenure, std::mem::take);
                // Relaxed, here and below: published by the exchange that made the key pending.
                self.marks.lose(entry.cold().since.load(Ordering::Relaxed));
                let thrown = self.throw(number, word, given_back);
                let dirty = self.retire_thrown(number, tenure).map(Box::new);
                return Some(Thrown { _left: left, _dirty: dirty, ..thrown });
            }
            if word.state() != State::Leased || word.newest().is_none() {
                return None;
            }
            // Dirty: the lease goes on. Lost before it can end: no mark is told that this was processed. When the facts came is
            // not known; what the lease has is no newer.
            // Relaxed: published by the exchange that made the key dirty.
            self.marks.lose(entry.cold().since.load(Ordering::Relaxed));
            if entry.drain(word, word.drained()) {
                pause_point("discard: drained");
                return Some(self.throw_dirty(number, word));
            }
        }
    }

    /// Counts what was taken off an entry whose word was `word`.
    fn throw(&self, number: usize, word: Word, given_back: Option<Box<GivenBack<V>>>) -> Thrown<V> {
        let facts = chain::take(&self.core.shards[number].objects, word.newest());
        let mut debts = Debts::default();
        facts.iter().filter(|taken| taken.fact.debt != 0).for_each(|taken| debts.add(taken.fact.debt, 1));
        // As a lease would have counted them.
        let (mut deltas, mut merged) = (DeltaList::new(), Vec::new());
        let untaken = given_back.as_ref().map_or(&[][..], |given_back| &given_back.facts);
        for taken in untaken.iter().chain(&facts) {
            append(&mut deltas, taken.delta(), self.compression, &mut merged);
        }
        // Relaxed: only the count matters.
        self.core.shards[number].merged.fetch_add(merged.len() as u64, Ordering::Relaxed);
        let kept = deltas;
        let mut deltas = kept.len();
        merged.extend(kept);
        if let Some(given_back) = &given_back {
            deltas += given_back.deltas.len();
            self.tell(self.core.replaces.fail(&given_back.debts));
        }
        self.tell(self.core.replaces.fail(&debts));
        self.core.closing.count(deltas);
        Thrown { _merged: merged, _facts: facts, _given_back: given_back, _left: None, _dirty: None }
    }

    /// A lease gives its deltas back to a queue that throws everything away.
    pub(super) fn throw_away(&self, held: Held<K, V>) -> Rest<V> {
        let mut held = held;
        self.tell(self.core.replaces.deliver(&mut held.debts));
        self.tell(self.core.replaces.fail(&held.debts));
        let entry = self.entry_of_lease(&held);
        // Relaxed: only this thread writes it while the key is leased.
        self.marks.lose(entry.cold().since.load(Ordering::Relaxed));
        self.core.closing.count(held.deltas.len());
        let Held { shard, tenure, deltas, previous, .. } = held;
        let dirty = self.retire_thrown(shard as usize, tenure);
        self.tell(Progress::MADE);
        Rest::of(deltas, previous, dirty.map(Box::new))
    }

    /// The same for a pop that came to nothing because user code panicked: no second panic gets out.
    pub(super) fn discard_untaken(&self, number: usize, mut tenure: Tenure) {
        let entry = self.core.shards[number].entries.get(tenure.index());
        // Relaxed: only this thread writes it while the key is leased.
        self.marks.lose(entry.cold().since.load(Ordering::Relaxed));
        let Legacy { given_back, left } = entry.legacy(&mut tenure, std::mem::take);
        let thrown = self.throw(number, entry.word().drained(), given_back);
        let dirty = self.retire_thrown(number, tenure);
        self.tell(Progress::MADE);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(thrown)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(dirty)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(left)));
    }

    /// Ends a lease whose deltas were thrown away. What arrived meanwhile goes the same way.
    fn retire_thrown(&self, number: usize, mut tenure: Tenure) -> Option<Thrown<V>> {
        let index = tenure.index();
        let mut pin = LazyPin::default();
        let entry = self.core.shards[number].entries.get(index);
        // Repeats when another thread has thrown away what was dirty.
        loop {
            let word = entry.word();
            match self.rest((number, entry), tenure, word, word.drained(), Newest::Deleted, &mut pin) {
                // What was dirty is this thread's now.
                Ok(_) => return word.newest().map(|_| self.throw_dirty(number, word)),
                Err(back) => tenure = back,
            }
        }
    }

    /// Counts facts that were taken away from under a lease.
    fn throw_dirty(&self, number: usize, word: Word) -> Thrown<V> {
        // Relaxed: published by the exchange that made the key dirty; it was pending once more while it was leased.
        self.core.shards[number].came.keys.fetch_sub(1, Ordering::Relaxed);
        self.throw(number, word, None)
    }
}

/// What was thrown away: the user's, to be dropped under no guard.
pub(super) struct Thrown<V> {
    _merged: Vec<RawDelta<Object<V>>>,
    _facts: Facts<V>,
    _given_back: Option<Box<GivenBack<V>>>,
    _left: Option<Box<Before<Object<V>>>>,
    _dirty: Option<Box<Thrown<V>>>,
}
