//! Threads that take leases and end them in every way.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use delta_fifo::{Closed, DeltaKind, DeltaQueue, KnownView, Lease, OnAbandon, PopTimeoutError, TryPopError};
use rand::RngExt;

use super::changers::Worker;
use super::plan::{Known, Queue, locked};
use super::things::Object;
use super::world::lock;

/// What a handler panics with on purpose.
pub(super) struct OnPurpose;

/// What a lease has shown.
pub(super) struct Taken {
    key: u32,
    attempts: u32,
    deltas: u64,
    /// Of them, live changes.
    live: u64,
    seen: u64,
    changed: u64,
    /// What is known when it is completed.
    newest: Option<Object>,
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Worker<'_> {
    /// Until nothing is left that could come; or, if the queue is being closed, until it says so.
    pub(super) fn consume(&mut self) {
        loop {
            if self.random.random_range(0..8) == 0 {
                self.end_from_shelf();
            }
            let popped = if self.beat.closes { self.pop_sleeping() } else { self.pop_awake() };
            let over = if self.beat.leaves { self.world.stops() } else { self.world.is_quiet() };
            match popped {
                Ok(()) if self.beat.closes || !over => {}
                Err(Closed) if !self.beat.closes => panic!("closed, and nobody has closed it"),
                _ => break,
            }
        }
        while self.end_from_shelf() {}
    }

    fn pop_sleeping(&mut self) -> Result<(), Closed> {
        // What lies on the shelf is waited for by all others.
        while self.end_from_shelf() {}
        match self.random.random_range(0..4) {
            0 => self.queue.pop_batch(3)?.into_iter().for_each(|lease| self.handle(lease)),
            1 => {
                let lease = block_on(self.queue.pop_async())?;
                self.handle(lease);
            }
            2 if self.beat.cancels => self.pop_cancelled()?,
            _ => {
                let lease = self.queue.pop()?;
                self.handle(lease);
            }
        }
        Ok(())
    }

    fn pop_awake(&mut self) -> Result<(), Closed> {
        let little = Duration::from_micros(self.random.random_range(0..1_000));
        match self.random.random_range(0..6) {
            0 => match self.queue.pop_timeout(little) {
                Ok(lease) => self.handle(lease),
                Err(PopTimeoutError::Timeout) => {}
                Err(PopTimeoutError::Closed) => return Err(Closed),
            },
            1 => match self.queue.pop_batch_timeout(32, little) {
                Ok(batch) => batch.into_iter().for_each(|lease| self.handle(lease)),
                Err(PopTimeoutError::Timeout) => {}
                Err(PopTimeoutError::Closed) => return Err(Closed),
            },
            2 if self.beat.cancels => self.pop_cancelled()?,
            _ => match self.queue.try_pop() {
                Ok(lease) => self.handle(lease),
                Err(TryPopError::Empty) => thread::sleep(little / 10),
                Err(TryPopError::Closed) => return Err(Closed),
            },
        }
        Ok(())
    }

    /// A task that is cancelled after a poll or two.
    fn pop_cancelled(&mut self) -> Result<(), Closed> {
        let mut pop = pin!(self.queue.pop_async());
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        for _ in 0..2 {
            if let Poll::Ready(popped) = pop.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.handle(popped?);
                return Ok(());
            }
            thread::park_timeout(Duration::from_micros(50));
        }
        self.world.counters.cancelled.fetch_add(1, SeqCst);
        Ok(())
    }

    fn handle(&mut self, lease: Lease<'_, Queue>) {
        let taken = self.take(&lease);
        self.rest();
        let counters = &self.world.counters;
        // Whoever has been given back often is completed: a beat has to end.
        let again = taken.attempts < 5;
        match self.random.random_range(0..40) {
            0 if again => {
                self.give_back(&taken);
                counters.requeued.fetch_add(1, SeqCst);
                lease.requeue();
            }
            1 if again => {
                self.give_back(&taken);
                counters.requeued.fetch_add(1, SeqCst);
                lease.requeue_after(Duration::from_micros(self.random.random_range(0..2_000)));
            }
            2 if again => {
                self.give_back(&taken);
                counters.requeued.fetch_add(1, SeqCst);
                lease.requeue_with_backoff();
            }
            3 if again => {
                self.abandon(taken);
                drop(lease);
            }
            4 if again => {
                self.abandon(taken);
                counters.panics.fetch_add(1, SeqCst);
                let panic = catch_unwind(AssertUnwindSafe(move || {
                    let _lease = lease;
                    resume_unwind(Box::new(OnPurpose))
                }));
                assert!(panic.is_err_and(|panic| panic.is::<OnPurpose>()), "another panic");
            }
            5 => {
                self.complete(taken);
                lease.give_up();
            }
            6 => {
                let lease = lease.into_owned(&self.world.queue);
                lock(&self.world.shelf).push((taken, lease));
            }
            _ => {
                self.complete(taken);
                lease.done();
            }
        }
    }

    /// Ends a lease that another thread may have taken.
    pub(super) fn end_from_shelf(&mut self) -> bool {
        let shelved = lock(&self.world.shelf).pop();
        let Some((taken, lease)) = shelved else { return false };
        self.complete(taken);
        lease.done();
        true
    }

    fn take(&mut self, lease: &Lease<'_, Queue>) -> Taken {
        let (world, key) = (self.world, lease.key().number);
        let subject = world.subject(key);
        assert!(!subject.leased.swap(true, SeqCst), "two leases of key {key}");
        let mut taken = Taken {
            key,
            attempts: lease.attempts(),
            deltas: 0,
            live: 0,
            seen: subject.seen.load(SeqCst),
            changed: subject.changed.load(SeqCst),
            newest: None,
        };
        for delta in lease.deltas().iter() {
            self.follow(&mut taken, delta.kind(), delta.object(), lease);
        }
        self.compare(lease, &taken);
        assert!(!lease.is_initial() || !self.queue.has_synced(), "synced while key {key} is initial");
        world.counters.leases.fetch_add(1, SeqCst);
        taken
    }

    /// Each change once and in its order, and no list puts an older object after it. A list may run ahead of its
    /// changes: the truth comes first.
    fn follow(&self, taken: &mut Taken, kind: DeltaKind, object: Option<&Object>, lease: &Lease<'_, Queue>) {
        let key = taken.key;
        let change = matches!(kind, DeltaKind::Added | DeltaKind::Updated | DeltaKind::Deleted);
        if let Some(object) = object {
            object.check(key);
            let (state, before) = (object.state, taken.changed);
            // Merged deltas have one's kind and another's object.
            if !self.world.plan.latest {
                let follows = if change { state > before } else { state >= before };
                assert!(follows, "key {key}: {kind:?}({state}) after {before} in {:?}", lease.deltas());
                taken.changed = if change { state } else { before };
            }
            taken.seen = taken.seen.max(state);
        }
        taken.deltas += 1;
        taken.live += u64::from(change && kind != DeltaKind::Deleted);
        taken.newest = object.filter(|_| !kind.is_deletion()).cloned();
    }

    /// What is known beside the lease: before it, and now.
    fn compare(&self, lease: &Lease<'_, Queue>, taken: &Taken) {
        let world = self.world;
        let before = world.subject(taken.key).known.load(SeqCst).checked_sub(1);
        let before = before.filter(|_| world.plan.known != Known::None);
        assert_eq!(
            lease.previous().map(|object| object.state),
            before,
            "before the lease of key {}",
            taken.key
        );
        if world.plan.known == Known::Inside {
            let now = self.queue.known().get_with(&taken.key, |object| object.state);
            let newest = taken.newest.as_ref().map(|object| object.state);
            assert_eq!(now, newest, "known while key {} is leased", taken.key);
        }
    }

    /// Nothing has happened; the same comes again.
    fn give_back(&self, taken: &Taken) {
        self.world.subject(taken.key).leased.store(false, SeqCst);
    }

    fn abandon(&self, taken: Taken) {
        self.world.counters.abandoned.fetch_add(1, SeqCst);
        match self.world.plan.on_abandon {
            OnAbandon::GiveUp => self.complete(taken),
            OnAbandon::Backoff | OnAbandon::Requeue => self.give_back(&taken),
        }
    }

    /// Written down before the lease ends.
    fn complete(&self, taken: Taken) {
        let world = self.world;
        let subject = world.subject(taken.key);
        subject.seen.store(taken.seen, SeqCst);
        subject.changed.store(taken.changed, SeqCst);
        subject.known.store(taken.newest.as_ref().map_or(0, |object| object.state + 1), SeqCst);
        subject.delivered.fetch_add(taken.live, SeqCst);
        world.counters.completed.fetch_add(taken.deltas, SeqCst);
        if world.plan.known == Known::Store {
            match taken.newest {
                Some(object) => locked(&world.store).insert(taken.key, object),
                None => locked(&world.store).remove(&taken.key),
            };
        }
        subject.leased.store(false, SeqCst);
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
