//! Consumers: each waits in its own way, and ends leases in every way.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use delta_fifo::{Outcome, PopTimeoutError};

use super::*;

/// What a handler panics with on purpose.
struct OnPurpose;

impl<F: Family> Round<F> {
    pub(crate) fn consume(&self, consumer: usize) {
        let maker = PRODUCERS + consumer;
        let mut random = Random::new(self.seed + 500 + consumer as u64);
        loop {
            match consumer % 5 {
                0 => match self.queue.pop() {
                    Ok(lease) => self.handle(lease, maker, &mut random),
                    Err(_) => return,
                },
                1 => match self.queue.pop_batch(3) {
                    Ok(batch) if random.one_in(2) => {
                        batch.iter().for_each(|lease| self.complete(self.enter(lease), lease));
                        batch.done();
                    }
                    Ok(batch) => batch.into_iter().for_each(|lease| self.handle(lease, maker, &mut random)),
                    Err(_) => return,
                },
                2 => match self.queue.pop_timeout(Duration::from_millis(1)) {
                    Ok(lease) => self.handle(lease, maker, &mut random),
                    Err(PopTimeoutError::Timeout) => {}
                    Err(PopTimeoutError::Closed) => return,
                },
                3 => match block_on(self.queue.pop_async()) {
                    Ok(lease) => self.handle(lease, maker, &mut random),
                    Err(_) => return,
                },
                _ => {
                    let result = catch_unwind(AssertUnwindSafe(|| {
                        self.queue.process(|lease| {
                            let state = self.enter(lease);
                            match random.below(8) {
                                0 if lease.attempts() < 4 => self.leave(lease, Outcome::Requeue),
                                1 if lease.attempts() < 3 => {
                                    self.leave(lease, ());
                                    resume_unwind(Box::new(OnPurpose))
                                }
                                _ => {
                                    self.complete(state, lease);
                                    Outcome::Done
                                }
                            }
                        })
                    }));
                    match result {
                        Ok(Ok(_)) => {}
                        Ok(Err(_)) => return,
                        Err(panic) if panic.is::<OnPurpose>() => {}
                        Err(panic) => resume_unwind(panic),
                    }
                }
            }
        }
    }

    fn per_key<Q: DeltaQueue<Key = u32, Value = Object>>(&self, lease: &Lease<'_, Q>) -> &PerKey {
        &self.keys[*lease.key() as usize]
    }

    /// Checks what a lease shows; what will be known of the key when it is completed.
    fn enter(&self, lease: &Lease<'_, Queue<F>>) -> Seen {
        let per_key = self.per_key(lease);
        assert!(!per_key.leased.swap(true, Ordering::SeqCst), "two leases of one key");
        assert!(
            !lease.is_initial() || !self.queue.has_synced(),
            "synced before the last initial key is done"
        );
        let seen = per_key.seen.lock().unwrap();
        assert_eq!(lease.previous(), seen.known.as_ref(), "the object before");
        let (mut live, mut newest, mut changed) = (seen.known.is_some(), seen.newest, seen.changed);
        for delta in lease.deltas().iter() {
            let counts = !matches!(delta, Delta::Sync(_) | Delta::DeletedFinalStateUnknown(_));
            if let Some(object) = delta.object().filter(|_| counts) {
                assert!(newest[object.maker] < object.number, "{object:?} is out of order");
                newest[object.maker] = object.number;
                match object.made_by {
                    Made::Change | Made::Apply => changed = changed.max(object.at),
                    Made::Item => assert!(changed < object.at, "{object:?} stands after a newer change"),
                    Made::Listed => {}
                }
                if object.maker == FIRST {
                    assert!(
                        lease.is_initial() && !self.queue.has_synced(),
                        "synced before {object:?} is done"
                    );
                }
                if object.made_by == Made::Apply && self.mode == Mode::Deletions {
                    let added = matches!(delta, Delta::Added(_));
                    assert!(added != live || delta.is_deletion(), "{delta:?}, but exists: {live}");
                }
            }
            live = !delta.is_deletion();
        }
        let known = lease.deltas().newest();
        assert!(known.object().is_some());
        let known = known.object().copied().filter(|_| !known.is_deletion());
        Seen { known, newest, changed }
    }

    /// The lease will be completed.
    fn complete(&self, state: Seen, lease: &Lease<'_, Queue<F>>) {
        for delta in lease.deltas().iter() {
            let counter = match delta {
                Delta::Sync(_) => &self.delivered_syncs,
                Delta::Replaced(object) if object.made_by == Made::Listed => &self.delivered_listed,
                _ if delta.is_deletion() => &self.delivered_deletions,
                _ => &self.delivered,
            };
            count(counter, 1);
        }
        *self.per_key(lease).seen.lock().unwrap() = state;
        self.leave(lease, ());
    }

    fn leave<T>(&self, lease: &Lease<'_, Queue<F>>, outcome: T) -> T {
        self.per_key(lease).leased.store(false, Ordering::SeqCst);
        outcome
    }

    fn handle(&self, lease: Lease<'_, Queue<F>>, maker: usize, random: &mut Random) {
        let state = self.enter(&lease);
        if lease.attempts() == 1 && random.one_in(20) {
            self.change(maker, random);
        }
        if random.one_in(10) {
            std::thread::yield_now();
        }
        match random.below(24) {
            0..3 if lease.attempts() < 5 => {
                self.leave(&lease, ());
                lease.requeue();
            }
            3 if lease.attempts() < 5 => {
                self.leave(&lease, ());
                lease.requeue_after(Duration::from_micros(random.below(300)));
            }
            4 if lease.attempts() < 3 => {
                self.leave(&lease, ());
                drop(lease);
            }
            5 if lease.attempts() < 3 => {
                let panic = catch_unwind(AssertUnwindSafe(move || {
                    self.leave(&lease, ());
                    resume_unwind(Box::new(OnPurpose))
                }));
                assert!(panic.unwrap_err().is::<OnPurpose>());
            }
            6 => {
                self.complete(state, &lease);
                lease.give_up();
            }
            _ => {
                self.complete(state, &lease);
                lease.done();
            }
        }
    }
}
