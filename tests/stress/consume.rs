//! Threads that take leases and end them in every way, and threads that only look.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use delta_fifo::{Closed, DeltaQueue, KnownView, Lease, Outcome, OwnedLease, PopTimeoutError, TryPopError};

use crate::common::{Family, Woken, block_on, poll_once};

use super::record::{Seen, Turn};
use super::round::Queue;
use super::shape::Variant;
use super::watchdog::Doing;
use super::worker::Worker;

/// What a handler panics with on purpose.
struct OnPurpose;

impl<F: Family> Worker<'_, F> {
    /// Pops until the queue is closed, and sleeps meanwhile.
    pub(crate) fn consume_all(&mut self) {
        let queue = &*self.round.queue;
        loop {
            self.doing(Doing::Pop);
            let asked = self.now();
            let popped = match self.random.below(5) {
                0 => queue.pop_batch(3).map(|batch| {
                    let taken = self.now();
                    self.batch(asked, taken, batch);
                }),
                1 => block_on(queue.pop_async()).map(|lease| self.handle(asked, lease)),
                2 => self.process(asked),
                3 if self.round.plan.cancels => self.pop_and_cancel(asked),
                _ => queue.pop().map(|lease| self.handle(asked, lease)),
            };
            if popped.is_err() {
                return self.closed();
            }
        }
    }

    /// One pop that waits for little or nothing.
    pub(crate) fn consume(&mut self) {
        self.doing(Doing::Pop);
        let queue = &*self.round.queue;
        let asked = self.now();
        let little = Duration::from_micros(self.random.below(200));
        match self.random.below(6) {
            0 => match queue.pop_timeout(little) {
                Ok(lease) => self.handle(asked, lease),
                Err(PopTimeoutError::Timeout) => {}
                Err(PopTimeoutError::Closed) => self.closed(),
            },
            1 => match queue.pop_batch_timeout(4, little) {
                Ok(batch) => {
                    let taken = self.now();
                    self.batch(asked, taken, batch);
                }
                Err(PopTimeoutError::Timeout) => {}
                Err(PopTimeoutError::Closed) => self.closed(),
            },
            2 if self.round.plan.cancels => {
                if self.pop_and_cancel(asked).is_err() {
                    self.closed();
                }
            }
            _ => match queue.try_pop() {
                Ok(lease) => self.handle(asked, lease),
                Err(TryPopError::Empty) => self.pause(2),
                Err(TryPopError::Closed) => self.closed(),
            },
        }
    }

    fn closed(&mut self) {
        let now = self.now();
        self.log.seen.push(Seen::Closed(now));
    }

    /// A task that is cancelled after a poll or two.
    fn pop_and_cancel(&mut self, asked: u64) -> Result<(), Closed> {
        let queue = &*self.round.queue;
        let (woken, mut pop) = (Woken::new(), Box::pin(queue.pop_async()));
        for _ in 0..2 {
            if let Poll::Ready(popped) = poll_once(&mut pop, &woken) {
                return popped.map(|lease| self.handle(asked, lease));
            }
            self.pause(2);
        }
        Ok(())
    }

    fn process(&mut self, asked: u64) -> Result<(), Closed> {
        let queue = &*self.round.queue;
        let result = catch_unwind(AssertUnwindSafe(|| {
            queue.process(|lease| {
                let turn = self.enter(asked, self.now(), lease);
                match self.random.below(8) {
                    0 if turn.attempts < 4 => self.leave(turn, false, Outcome::Requeue),
                    1 if turn.attempts < 4 && self.round.plan.panics => {
                        self.leave(turn, false, ());
                        resume_unwind(Box::new(OnPurpose))
                    }
                    _ => self.leave(turn, true, Outcome::Done),
                }
            })
        }));
        match result {
            Ok(popped) => popped.map(|_| ()),
            Err(panic) if panic.is::<OnPurpose>() => Ok(()),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn batch(&mut self, asked: u64, taken: u64, batch: delta_fifo::LeaseBatch<'_, Queue<F>>) {
        if self.random.one_in(2) {
            let turns: Vec<Turn> = batch.iter().map(|lease| self.enter(asked, taken, lease)).collect();
            turns.into_iter().for_each(|turn| self.leave(turn, true, ()));
            batch.done();
        } else {
            for lease in batch {
                let turn = self.enter(asked, taken, &lease);
                self.end(turn, lease);
            }
        }
    }

    fn handle(&mut self, asked: u64, lease: Lease<'_, Queue<F>>) {
        let turn = self.enter(asked, self.now(), &lease);
        self.end(turn, lease);
    }

    pub(crate) fn enter(&self, asked: u64, taken: u64, lease: &Lease<'_, Queue<F>>) -> Turn {
        let key = lease.key().name;
        let deltas = lease.deltas().iter().map(|delta| {
            if let Some(object) = delta.object() {
                assert_eq!(object.key, key, "the object of another key");
            }
            (delta.kind(), delta.object().map(|object| object.id))
        });
        // Without a first list the replace that it is initial by may have been dropped meanwhile.
        let initial = self.round.plan.first_list && lease.is_initial();
        assert!(!initial || !self.round.queue.has_synced(), "synced while key {key} is initial");
        Turn {
            key,
            asked,
            taken,
            left: 0,
            deltas: deltas.collect(),
            previous: lease.previous().map(|object| object.id),
            initial: lease.is_initial(),
            attempts: lease.attempts(),
            completed: false,
        }
    }

    /// Written down before the lease ends.
    pub(crate) fn leave<T>(&mut self, mut turn: Turn, completed: bool, outcome: T) -> T {
        if completed && self.round.shape.variant == Variant::OwnStore {
            // The store holds a clone of what the call log knows by its number.
            let mut store = self.round.store.lock().unwrap();
            match turn.known() {
                Some(id) => {
                    store.insert(turn.key, super::shape::Object::new(&self.round.tally, id, turn.key));
                }
                None => drop(store.remove(&turn.key)),
            }
        }
        turn.completed = completed;
        turn.left = self.now();
        self.log.turns.push(turn);
        outcome
    }

    fn end(&mut self, turn: Turn, lease: Lease<'_, Queue<F>>) {
        self.doing(Doing::Lease);
        if turn.attempts == 1 && self.random.one_in(10) {
            self.change();
        }
        self.pause(8);
        let again = turn.attempts < 5;
        match self.random.below(24) {
            0 | 1 if again => self.leave(turn, false, lease).requeue(),
            2 if again => {
                let delay = Duration::from_micros(self.random.below(1_000));
                self.leave(turn, false, lease).requeue_after(delay);
            }
            3 if again => drop(self.leave(turn, false, lease)),
            4 if again && self.round.plan.panics => {
                let lease = self.leave(turn, false, lease);
                let panic = catch_unwind(AssertUnwindSafe(move || {
                    let _lease = lease;
                    resume_unwind(Box::new(OnPurpose))
                }));
                assert!(panic.unwrap_err().is::<OnPurpose>());
            }
            5 => self.leave(turn, true, lease).give_up(),
            6 | 7 => {
                let lease = lease.into_owned(&self.round.queue);
                self.round.shelf.lock().unwrap().push((turn, lease));
            }
            _ => self.leave(turn, true, lease).done(),
        }
    }

    /// Ends a lease that another thread has left on the shelf.
    pub(crate) fn end_from_shelf(&mut self) -> bool {
        let shelved: Option<(Turn, OwnedLease<Queue<F>>)> = self.round.shelf.lock().unwrap().pop();
        let Some((turn, lease)) = shelved else { return false };
        match self.random.below(4) {
            0 if turn.attempts < 5 => self.leave(turn, false, lease).requeue(),
            _ => self.leave(turn, true, lease).done(),
        }
        true
    }

    pub(crate) fn look(&mut self) {
        self.doing(Doing::Look);
        let queue = Arc::clone(&self.round.queue);
        let begin = self.now();
        match self.random.below(8) {
            0 if queue.has_synced() => {
                let end = self.now();
                self.log.seen.push(Seen::Synced(end));
            }
            1 if queue.has_delivered() => {
                let end = self.now();
                self.log.seen.push(Seen::Delivered(end));
            }
            2 => assert!(queue.pending_len() < 1 << 32, "a negative count"),
            3 => assert!(queue.leased_len() < 1 << 32, "a negative count"),
            4 => {
                if let Some(version) = queue.processed_through() {
                    let (end, version) = (self.now(), version.to_string().parse().unwrap());
                    self.log.seen.push(Seen::Through(version, end));
                }
            }
            5 => self.look_at_all(begin, &queue.known()),
            6 => self.look_at_all(begin, &queue.snapshot()),
            _ => {
                let name = self.random.below(self.round.shape.keys.into()) as u32;
                let object = queue.known().get_with(&self.key(name), |object| object.id);
                let end = self.now();
                self.log.seen.push(Seen::Known { key: name, object, begin, end });
            }
        }
    }

    fn look_at_all(&mut self, begin: u64, view: &impl KnownView<super::shape::Key, super::shape::Object>) {
        if self.round.shape.variant == Variant::OwnStore {
            return;
        }
        let mut names = BTreeSet::new();
        assert!(view.len() < 1 << 32, "a negative count");
        let all: Vec<_> = view.iter().map(|known| (known.key().name, known.object().id)).collect();
        let end = self.now();
        for (key, id) in all {
            assert!(names.insert(key), "key {key} twice");
            self.log.seen.push(Seen::Known { key, object: Some(id), begin, end });
        }
    }
}
