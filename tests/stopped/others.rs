//! What the others do while a thread is stopped: all that it must not keep them from.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use delta_fifo::{Change, Closed, DeltaQueue, KnownView, Lease};

use super::calls::{Call, drain};
use super::ledger::{KEYS, Key, Maker, Object, Queue, accepted, handed_out, keys_behind};
use super::watchdog::Watchdog;
use crate::common::Random;

type Pop<'q> = Pin<Box<dyn Future<Output = Result<Lease<'q, Queue>, Closed>> + Send + 'q>>;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A task that waits for a key: from before the stop, so that the one that is stopped may have been about to wake it.
#[derive(Default)]
pub(crate) struct Sleeper<'q> {
    pop: Option<Pop<'q>>,
    woken: Arc<Woken>,
}

impl<'q> Sleeper<'q> {
    fn poll(&mut self) -> Poll<Result<Lease<'q, Queue>, Closed>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let answer = match &mut self.pop {
            Some(pop) => pop.as_mut().poll(&mut Context::from_waker(&waker)),
            None => return Poll::Pending,
        };
        if answer.is_ready() {
            self.pop = None;
        }
        answer
    }

    /// Until it waits. Whatever it finds is done.
    pub(crate) fn lie_down(&mut self, queue: &'q Queue) {
        loop {
            self.woken = Arc::default();
            self.pop.get_or_insert_with(|| Box::pin(queue.pop_async()));
            match self.poll() {
                Poll::Pending => return,
                Poll::Ready(Ok(lease)) => {
                    handed_out(&lease);
                    lease.done();
                }
                Poll::Ready(Err(Closed)) => return,
            }
        }
    }

    /// More was added than the one that is stopped can keep to itself.
    fn must_be_awake(&mut self) {
        assert!(self.woken.0.load(SeqCst), "the sleeper was not woken");
        match self.poll() {
            Poll::Ready(Ok(lease)) => {
                handed_out(&lease);
                lease.done();
            }
            Poll::Ready(Err(Closed)) => panic!("the queue is not closed"),
            Poll::Pending => panic!("the sleeper finds nothing in line"),
        }
    }
}

/// They go on, though a thread is stopped somewhere in `call`.
pub(crate) fn go_on<'q>(
    call: Call,
    queue: &'q Queue,
    sleeper: &mut Sleeper<'q>,
    random: &mut Random,
    watchdog: &Watchdog,
) {
    let may_be_closed = call == Call::Close;
    produce(queue, random, may_be_closed, watchdog);
    if !may_be_closed {
        watchdog.doing("a sleeping pop");
        sleeper.must_be_awake();
    }
    look(queue, random, watchdog);
    watchdog.doing("resync");
    assert!(queue.resync().is_ok() || may_be_closed, "there is no store to fail");
    if !call.keeps_replaces() {
        watchdog.doing("replace");
        let list = (0..KEYS).filter(|_| !random.one_in(4));
        let list = list.map(|name| (Key::new(name), Object::new(name, Maker::Others)));
        assert!(queue.replace(list).is_ok(), "no other is open");
    }
    if !call.keeps_marks() {
        watchdog.doing("mark");
        let mark = queue.mark(random.below(u64::MAX)).map(|mark| mark.is_complete());
        assert!(mark.is_ok() || may_be_closed, "the queue is open");
        watchdog.doing("processed_through");
        queue.processed_through();
    }
    consume(queue, random, watchdog);
    // What was accepted is handed out, whoever accepted it, but for what the one that is stopped has.
    let behind = keys_behind();
    assert!(behind <= call.keeps_keys(), "{behind} keys are not handed out");
    watchdog.doing("pending_len and leased_len");
    let lens = (queue.pending_len(), queue.leased_len());
    assert!(lens.0 <= KEYS.into() && lens.1 <= call.keeps_keys(), "{lens:?} keys are pending, and leased");
    if !may_be_closed {
        watchdog.doing("a pop that sleeps");
        sleeper.lie_down(queue);
    }
}

/// Every key changes.
fn produce(queue: &Queue, random: &mut Random, may_be_closed: bool, watchdog: &Watchdog) {
    for name in 0..KEYS {
        let object = Object::new(name, Maker::Others);
        let (key, number) = (Key::new(name), object.number());
        let answer = match random.below(4) {
            0 => {
                watchdog.doing("update");
                queue.update(key, object)
            }
            1 => {
                watchdog.doing("apply");
                queue.apply(key, object)
            }
            2 => {
                watchdog.doing("delete and change");
                let gone = Object::new(name, Maker::Others);
                // In this order, since the numbers must rise.
                queue.add(key, object).and_then(|()| {
                    accepted(number);
                    queue.delete(Key::new(name), gone)
                })
            }
            _ => {
                watchdog.doing("add");
                queue.add(key, object)
            }
        };
        match answer {
            Ok(()) => accepted(number),
            Err(_) => assert!(may_be_closed, "the queue is open"),
        }
    }
    watchdog.doing("change_all");
    let objects: Vec<_> = (0..KEYS).map(|name| (name, Object::new(name, Maker::Others))).collect();
    let numbers: Vec<u32> = objects.iter().map(|(_, object)| object.number()).collect();
    let changes = objects.into_iter().map(|(name, object)| Change::Update(Key::new(name), object));
    match queue.change_all(changes) {
        Ok(()) => numbers.into_iter().for_each(accepted),
        // Those before the first that was refused were accepted.
        Err(error) => {
            assert!(may_be_closed, "the queue is open");
            numbers.into_iter().take(error.index).for_each(accepted);
        }
    }
}

fn look(queue: &Queue, random: &mut Random, watchdog: &Watchdog) {
    let key = Key::new(random.below(KEYS.into()) as u8);
    watchdog.doing("get");
    let known = queue.known();
    assert_eq!(known.find(&key).is_some(), known.contains(&key), "nobody else changes it");
    watchdog.doing("known().iter()");
    assert!(known.iter().count() <= KEYS.into());
    watchdog.doing("snapshot");
    let snapshot = queue.snapshot();
    watchdog.doing("a snapshot's get and iter");
    assert_eq!(snapshot.iter().count(), snapshot.len());
    assert_eq!(snapshot.find(&key).is_some(), snapshot.contains(&key));
    watchdog.doing("the drop of a snapshot");
    drop(snapshot);
    watchdog.doing("has_synced and has_delivered");
    _ = (queue.has_synced(), queue.has_delivered(), queue.merged());
}

fn consume(queue: &Queue, random: &mut Random, watchdog: &Watchdog) {
    watchdog.doing("try_pop and requeue");
    if let Ok(lease) = queue.try_pop() {
        lease.requeue();
    }
    watchdog.doing("try_pop_batch and done");
    if let Ok(batch) = queue.try_pop_batch(1 + random.below(3) as usize) {
        batch.iter().for_each(handed_out);
        batch.done();
    }
    watchdog.doing("try_pop and done");
    drain(queue);
}
