//! Threads that only look.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use delta_fifo::{DeltaQueue, KnownChange, KnownView};
use rand::RngExt;

use super::changers::Worker;
use super::things::{Key, Object};
use super::world::{Held, Snapshot, lock};

/// So many snapshots are held at once, over several beats.
const MOST: usize = 4;

impl Worker<'_> {
    pub(super) fn read(&mut self) {
        while !self.world.stops() {
            match self.random.random_range(0..8) {
                0 => self.hold(self.queue.snapshot()),
                1 => self.let_go(),
                2 => self.compare_snapshots(),
                3 => {
                    let published = (*self.queue.published()).clone();
                    let again = (*self.queue.published()).epoch();
                    assert!(published.epoch() <= again, "what is published goes back");
                    self.hold(published);
                }
                4 => {
                    sum(&self.queue.known());
                    assert!(self.queue.known().len() < 1 << 32, "a negative count");
                }
                5 => {
                    let counts = [self.queue.pending_len(), self.queue.leased_len()];
                    assert!(counts.iter().all(|&count| count < 1 << 32), "a negative count: {counts:?}");
                }
                _ => {
                    let key = self.random.random_range(0..self.world.plan.keys);
                    self.queue.known().get_with(&key, |object| object.check(key));
                }
            }
            self.world.counters.looks.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_micros(self.random.random_range(1..500)));
        }
    }

    fn hold(&mut self, snapshot: Snapshot) {
        self.world.counters.snapshots.fetch_add(1, SeqCst);
        let (sum, len) = sum(&snapshot);
        assert_eq!(snapshot.len(), len, "a snapshot's length");
        let mut held = lock(&self.world.held);
        if held.len() < MOST {
            held.push(Held { snapshot, sum, len });
        }
    }

    /// It shows what it showed.
    fn let_go(&mut self) {
        let held = {
            let mut held = lock(&self.world.held);
            if held.is_empty() {
                return;
            }
            let which = self.random.random_range(0..held.len());
            held.swap_remove(which)
        };
        held.check();
    }

    /// The later one of two shows no older object, and what has changed adds up.
    fn compare_snapshots(&mut self) {
        let older = lock(&self.world.held).last().map(|held| held.snapshot.clone());
        let Some(older) = older else { return };
        let newer = self.queue.snapshot();
        assert!(older.epoch() <= newer.epoch(), "a later snapshot has an earlier epoch");
        let (mut added, mut removed) = (0, 0);
        for change in newer.changes_since(&older).expect("they are of one queue") {
            match change {
                KnownChange::Added(_) => added += 1,
                KnownChange::Removed(_) => removed += 1,
                KnownChange::Changed { before, after } => {
                    let [before, after] = [before.object().state, after.object().state];
                    // A list may have run ahead of its changes.
                    let older = before > after && !self.world.plan.replaces;
                    assert!(!older, "a later snapshot shows an older object: {before}, then {after}");
                }
            }
        }
        assert_eq!(newer.len() + removed, older.len() + added, "snapshots and what has changed between");
    }
}

impl Held {
    pub(super) fn check(&self) {
        assert_eq!(sum(&self.snapshot), (self.sum, self.len), "a held snapshot has changed");
    }
}

/// Of all states, and how many there are.
fn sum(view: &impl KnownView<Key, Object>) -> (u64, usize) {
    let (mut sum, mut len) = (0_u64, 0);
    view.for_each(|key, object| {
        object.check(key.number);
        sum = sum.wrapping_add(object.state);
        len += 1;
    });
    (sum, len)
}
