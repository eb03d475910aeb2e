//! Threads that change: producers with keys of their own, replacers that list what is true, resyncs, marks, the close.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use delta_fifo::{Change, ChangeErrorKind, Completion, DeltaQueue};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::plan::{Beat, End, Queue, SCOPES};
use super::things::{Key, Object, Truth};
use super::world::World;

/// A thread of a beat.
pub(super) struct Worker<'w> {
    pub(super) world: &'w World,
    pub(super) queue: &'w Queue,
    pub(super) beat: Beat,
    pub(super) random: SmallRng,
}

impl<'w> Worker<'w> {
    pub(super) fn rest(&mut self) {
        if self.random.random_range(0..100) < self.beat.rest {
            if self.random.random_bool(0.1) {
                thread::sleep(Duration::from_micros(self.random.random_range(1..300)));
            } else {
                thread::yield_now();
            }
        }
    }

    /// Changes the keys of which `number` is its own, until it is stopped or refused.
    pub(super) fn produce(&mut self, number: u32) {
        let own = self.world.plan.keys.saturating_sub(number).div_ceil(self.beat.producers);
        while own > 0 && !self.world.stops() {
            while self.world.is_behind() && !self.world.stops() {
                thread::sleep(Duration::from_micros(200));
            }
            let scoped = self.world.plan.scopes && self.random.random_range(0..2_000) == 0;
            if scoped && !self.beat.closes {
                self.replace_scope(number);
            }
            let many = if self.random.random_range(0..8) == 0 { self.random.random_range(0..8) } else { 1 };
            let keys: Vec<u32> =
                (0..many).map(|_| number + self.beat.producers * self.random.random_range(0..own)).collect();
            if !self.change(&keys) {
                return;
            }
            self.rest();
        }
    }

    /// Whether the queue is open.
    fn change(&mut self, keys: &[u32]) -> bool {
        let world = self.world;
        let _told = world.listing.read().unwrap_or_else(PoisonError::into_inner);
        let (before, changes): (Vec<Truth>, Vec<Change<Key, Object>>) =
            keys.iter().map(|&key| (world.subject(key).truth(), self.change_of(key))).unzip();
        let live: Vec<Option<u64>> = changes.iter().map(live_state).collect();
        let refused = if let [_] = keys {
            let change = changes.into_iter().next().expect("one");
            match self.queue.change(change) {
                Ok(()) => 0,
                Err(error) => {
                    assert!(matches!(error.kind, ChangeErrorKind::Closed), "{error}");
                    assert_eq!(error.change.key().number, keys[0], "another change came back");
                    1
                }
            }
        } else {
            match self.queue.change_all(changes) {
                Ok(()) => 0,
                Err(error) => {
                    assert!(matches!(error.kind, ChangeErrorKind::Closed), "{error}");
                    error.rest.len()
                }
            }
        };
        let accepted = keys.len() - refused;
        for (&key, state) in keys[..accepted].iter().zip(&live) {
            if let Some(state) = *state {
                world.subject(key).accepted.store(state, SeqCst);
                world.subject(key).offered.fetch_add(1, SeqCst);
            }
        }
        // In the reverse order, as a key may be there twice.
        for (&key, &truth) in keys[accepted..].iter().zip(&before[accepted..]).rev() {
            world.subject(key).set(truth);
        }
        world.counters.changes.fetch_add(accepted as u64, SeqCst);
        world.counters.refused.fetch_add(refused as u64, SeqCst);
        refused == 0
    }

    /// Makes it true, and says how the queue is told.
    fn change_of(&mut self, key: u32) -> Change<Key, Object> {
        let subject = self.world.subject(key);
        let state = subject.truth().state + 1;
        let kind = self.random.random_range(0..10);
        let deletes = self.world.plan.deletes && kind < 3;
        subject.set(Truth { state, exists: !deletes });
        let (name, object) = (Key::new(key), Object::new(key, state));
        match kind {
            0 if deletes => Change::DeleteKey(name),
            _ if deletes => Change::Delete(name, object),
            0..5 => Change::Update(name, object),
            5..8 => Change::Apply(name, object),
            _ => Change::Add(name, object),
        }
    }

    /// The owner of the scope's keys lists them.
    fn replace_scope(&mut self, number: u32) {
        let scopes: Vec<u32> = (0..4).filter(|scope| scope % self.beat.producers == number).collect();
        let scope = scopes[self.random.random_range(0..scopes.len())];
        let keys: Vec<u32> = (0..self.world.plan.keys).filter(|key| key % 4 == scope).collect();
        let name = SCOPES[scope as usize];
        if self.random.random_bool(0.5) {
            let items: Vec<_> = keys.into_iter().filter_map(|key| self.new_item(key)).collect();
            self.count_replace(items.len());
            let completion = self.queue.replace_scope(name, items).expect("the only one of its scope");
            self.wait(&completion);
        } else if let Ok(replace) = self.queue.begin_replace_scope(name) {
            for key in keys {
                if self.random.random_range(0..50) == 0 {
                    self.change(&[key]);
                }
                if let Some((key, object)) = self.item(key) {
                    replace.upsert(key, object).expect("it is open");
                    self.count_items(1);
                }
            }
            self.end(replace);
        }
    }

    /// Its truth changes with the list, which alone tells of it.
    fn new_item(&mut self, key: u32) -> Option<(Key, Object)> {
        let subject = self.world.subject(key);
        let truth = Truth { state: subject.truth().state + 1, exists: self.random.random_bool(0.8) };
        subject.set(truth);
        truth.exists.then(|| (Key::new(key), Object::new(key, truth.state)))
    }

    fn item(&self, key: u32) -> Option<(Key, Object)> {
        let truth = self.world.subject(key).truth();
        truth.exists.then(|| (Key::new(key), Object::new(key, truth.state)))
    }

    fn count_items(&self, items: usize) {
        self.world.counters.items.fetch_add(items as u64, SeqCst);
    }

    fn count_replace(&self, items: usize) {
        self.count_items(items);
        self.world.counters.replaces.fetch_add(1, SeqCst);
    }

    /// Lists all keys beside producers, until it is stopped.
    pub(super) fn replace(&mut self) {
        while !self.world.stops() {
            if self.random.random_range(0..4) == 0 {
                self.replace_all();
            } else {
                self.stream();
            }
            thread::sleep(Duration::from_micros(self.random.random_range(100..20_000)));
        }
    }

    /// One moment, since the queue is told of nothing meanwhile.
    pub(super) fn replace_all(&mut self) {
        let still = self.world.listing.write().unwrap_or_else(PoisonError::into_inner);
        let items: Vec<_> = (0..self.world.plan.keys).filter_map(|key| self.item(key)).collect();
        let count = items.len();
        let completion = self.queue.replace(items);
        drop(still);
        // Another one may be running.
        if let Ok(completion) = completion {
            self.count_replace(count);
            self.wait(&completion);
        }
    }

    /// Key by key, after the beginning: what is told meanwhile is newer.
    fn stream(&mut self) {
        let Ok(replace) = self.queue.begin_replace() else { return };
        for key in 0..self.world.plan.keys {
            if let Some((key, object)) = self.item(key) {
                replace.upsert(key, object).expect("it is open");
                self.count_items(1);
            }
            self.rest();
        }
        self.end(replace);
    }

    fn end(&mut self, replace: delta_fifo::Replace<'_, Queue>) {
        // One that is dropped deletes nothing. Whoever has deleted something tells the queue too.
        if self.random.random_range(0..5) > 0 {
            let completion = replace.commit().expect("it is open");
            self.count_replace(0);
            self.wait(&completion);
        }
    }

    fn wait(&mut self, completion: &Completion<'_, Queue>) {
        if self.random.random_bool(0.5) {
            // In time or not.
            let _ = completion.wait_timeout(Duration::from_millis(1));
        }
    }

    pub(super) fn resync(&mut self) {
        while !self.world.stops() {
            let synced = if self.random.random_bool(0.1) {
                self.queue.resync().unwrap_or(0)
            } else {
                let key = self.random.random_range(0..self.world.plan.keys);
                usize::from(self.queue.resync_key(Key::new(key)).unwrap_or(false))
            };
            self.world.counters.syncs.fetch_add(synced as u64, SeqCst);
            self.world.counters.resyncs.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_micros(self.random.random_range(1..2_000)));
        }
    }

    /// A mark is complete only when what had returned before is.
    pub(super) fn mark(&mut self) {
        while !self.world.stops() {
            let key = self.random.random_range(0..self.world.plan.keys);
            let accepted = self.world.subject(key).accepted.load(SeqCst);
            let version = self.world.marks.load(SeqCst) + 1;
            // It may be closed.
            let Ok(mark) = self.queue.mark(version) else { return };
            self.world.marks.store(version, SeqCst);
            self.world.counters.marks.fetch_add(1, SeqCst);
            if self.random.random_bool(0.5) {
                let _ = mark.wait_timeout(Duration::from_micros(500));
            }
            if mark.is_complete() {
                let seen = self.world.subject(key).seen.load(SeqCst);
                assert!(
                    seen >= accepted,
                    "mark {version} ran ahead: key {key} is at {seen} and not at {accepted}"
                );
            }
            thread::sleep(Duration::from_micros(self.random.random_range(1..1_000)));
        }
    }

    pub(super) fn close(&mut self) {
        thread::sleep(self.beat.time / 2);
        match self.world.plan.end {
            End::Discarded => {
                let discarded = self.queue.close_discard();
                assert!(discarded.deltas >= discarded.keys, "{discarded:?}");
            }
            _ if self.random.random_bool(0.5) => {
                assert!(self.queue.close(), "the first");
            }
            _ => self.queue.close_and_wait().expect("it has no lease"),
        }
        assert!(self.queue.is_closed() && !self.queue.close(), "it is closed");
    }
}

fn live_state(change: &Change<Key, Object>) -> Option<u64> {
    match change {
        Change::Delete(..) | Change::DeleteKey(_) => None,
        Change::Add(_, object) | Change::Update(_, object) | Change::Apply(_, object) => Some(object.state),
    }
}
