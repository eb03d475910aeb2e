//! Handlers, hooks and wakers that panic.

use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use delta_fifo::{ErrorEvent, KeyOfError, Keyed, OnAbandon, Outcome, Timer, TryPopError};

use super::*;
use crate::common::{LONG, finishes};
use crate::model::tasks::{Panics, Woken, poll};

type Plain<F> = <F as Family>::Queue<u32, u32>;

fn boom() -> ! {
    std::panic::resume_unwind(Box::new(Boom))
}

fn catch<T>(f: impl FnOnce() -> T) -> Result<T, ()> {
    catch_unwind(AssertUnwindSafe(f)).map_err(drop)
}

pub(crate) fn key_function<F: Family>() {
    let queue: Keyed<Plain<F>> = Builder::new()
        .key_fn(|object: &u32| match *object {
            13 => boom(),
            14 => Err("no key".into()),
            object => Ok(object % 10),
        })
        .build();
    queue.replace([1, 2]).unwrap();
    assert!(catch(|| queue.add(13)).is_err());
    assert!(catch(|| queue.replace([5, 13, 6]).map(drop)).is_err());
    let replace = queue.begin_replace().expect("the failed one has ended");
    assert!(catch(|| replace.upsert(13).map(drop)).is_err());
    replace.upsert(21).unwrap();
    replace.commit().unwrap();
    assert!(catch(|| queue.key_of(&13).map(drop)).is_err());
    assert!(matches!(queue.key_of(&14), Err(KeyOfError::Key(_))));
    assert!(!queue.has_synced());
    let batch = queue.pop_batch(9).unwrap();
    let seen: Vec<_> = batch.iter().map(|lease| (*lease.key(), lease.deltas().len())).collect();
    assert_eq!(seen, [(1, 2), (2, 2)]);
    batch.done();
    assert!(queue.has_synced());
}

fn builder_counting(gave_up: &Arc<AtomicUsize>) -> Builder<u32, u32> {
    let gave_up = Arc::clone(gave_up);
    Builder::new().on_error(move |event| {
        if matches!(event, ErrorEvent::GaveUp { key: 1, attempts: 1 }) {
            gave_up.fetch_add(1, Ordering::SeqCst);
        }
    })
}

pub(crate) fn handler<F: Family>() {
    for on_abandon in [OnAbandon::Backoff, OnAbandon::Requeue, OnAbandon::GiveUp] {
        for process in [false, true] {
            let gave_up = Arc::new(AtomicUsize::new(0));
            let queue: Plain<F> = builder_counting(&gave_up).on_abandon(on_abandon).build();
            let completion = queue.replace([(1, 10), (2, 20)]).unwrap();
            let result = catch(|| match process {
                true => drop(queue.process(|lease| -> Outcome {
                    assert_eq!(*lease.key(), 1);
                    boom()
                })),
                false => {
                    let _lease = queue.pop().unwrap();
                    boom()
                }
            });
            assert!(result.is_err());
            let given_up = on_abandon == OnAbandon::GiveUp;
            assert_eq!(gave_up.load(Ordering::SeqCst), usize::from(given_up));
            assert_eq!((queue.leased_len(), queue.pending_len()), (0, if given_up { 1 } else { 2 }));
            let second = queue.pop().unwrap();
            assert_eq!(*second.key(), 2);
            second.done();
            assert_eq!(completion.is_complete(), given_up);
            if !given_up {
                let again = queue.pop_timeout(LONG).unwrap();
                assert_eq!((*again.key(), again.attempts(), again.is_initial()), (1, 2, true));
                again.done();
            }
            assert!(completion.is_complete() && queue.has_synced());
            assert_eq!(queue.known().get(&1), Some(10));
        }
    }
}

/// A queue that runs `process` under its lock says so instead of deadlocking.
pub(crate) fn calls_inside_process<F: Family>() {
    type Call<F> = fn(&Plain<F>);
    let calls: [(&str, Call<F>); 12] = [
        ("add", |queue| queue.add(1, 2).unwrap()),
        ("delete_key", |queue| queue.delete_key(1).unwrap()),
        ("change_all", |queue| queue.change_all([Change::Add(3, 3)]).unwrap()),
        ("replace", |queue| drop(queue.replace([(1, 1)]).unwrap())),
        ("begin_replace", |queue| drop(queue.begin_replace().unwrap())),
        ("resync", |queue| assert!(queue.resync().is_ok())),
        ("try_pop", |queue| drop(queue.try_pop())),
        ("pop_batch", |queue| drop(queue.try_pop_batch(2))),
        ("pending_len", |queue| assert_eq!(queue.pending_len(), 1)),
        ("mark", |queue| drop(queue.mark(1_u64).unwrap())),
        ("close", |queue| assert!(queue.close())),
        ("wait_synced_timeout", |queue| assert!(queue.wait_synced_timeout(Duration::ZERO).is_ok())),
    ];
    for (name, call) in calls {
        let finished = finishes("the call", move || {
            let queue: Plain<F> = Builder::new().on_abandon(OnAbandon::Requeue).build();
            queue.add(1, 1).unwrap();
            queue.add(2, 2).unwrap();
            let result = catch_unwind(AssertUnwindSafe(|| {
                queue.process(|lease| {
                    assert_eq!(*lease.key(), 1);
                    assert_eq!(queue.known().get(&1), Some(1));
                    call(&queue);
                    Outcome::Done
                })
            }));
            if let Err(panic) = &result {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
                let message = message.unwrap_or_default();
                assert!(message.contains("process") && message.contains("lease"), "{name}: {message:?}");
                // The key comes back, and everything goes on.
                let keys: Vec<u32> = queue.pop_batch(9).unwrap().iter().map(|lease| *lease.key()).collect();
                assert_eq!(keys, [2, 1], "{name}");
                queue.process(|_| Outcome::Done).unwrap();
            }
            queue.add(9, 9).is_ok() || queue.is_closed()
        });
        assert!(finished);
    }
}

/// A future that is not dropped while a test fails, which could hide why.
fn waiting<'a, T>(
    future: impl Future<Output = T> + 'a,
) -> ManuallyDrop<Pin<Box<dyn Future<Output = T> + 'a>>> {
    ManuallyDrop::new(Box::pin(future))
}

/// A panicking waker stops nobody else from being woken, and not the caller.
pub(crate) fn wakers<F: Family>() {
    let reports = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&reports);
    let queue: Plain<F> = Builder::new()
        .on_error(move |event| {
            assert!(matches!(event, ErrorEvent::WakerPanicked));
            told.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    let (bad, good) = (Arc::new(Panics::default()), [(); 3].map(|()| Arc::new(Woken::default())));
    let bad_waker = Waker::from(Arc::clone(&bad));
    let wakers = good.clone().map(Waker::from);
    let mut first = waiting(queue.pop_async());
    assert!(poll(first.as_mut(), &bad_waker).is_pending());
    let mut second = waiting(queue.pop_async());
    assert!(poll(second.as_mut(), &wakers[0]).is_pending());
    queue.add(1, 1).unwrap();
    assert_eq!(bad.count(), 1);
    assert!(good[0].count() > 0, "the wake-up went to a waker that panicked");
    assert_eq!(reports.load(Ordering::SeqCst), 1);
    match poll(second.as_mut(), Waker::noop()) {
        Poll::Ready(lease) => lease.unwrap().done(),
        Poll::Pending => panic!("there is a key"),
    }
    // The end of a lease wakes all, a panicking one among them.
    let list = queue.replace([(1, 2)]).unwrap();
    let lease = queue.try_pop().unwrap();
    let mut waits = [waiting(list.wait_async()), waiting(list.wait_async())];
    assert!(poll(waits[0].as_mut(), &bad_waker).is_pending());
    assert!(poll(waits[1].as_mut(), &wakers[1]).is_pending());
    lease.done();
    assert!(good[1].count() > 0);
    assert!(poll(waits[1].as_mut(), Waker::noop()).is_ready());
    // And so does a close.
    let mut third = waiting(queue.pop_async());
    let mut fourth = waiting(queue.pop_batch_async(2));
    assert!(poll(third.as_mut(), &bad_waker).is_pending());
    assert!(poll(fourth.as_mut(), &wakers[2]).is_pending());
    assert!(queue.close());
    assert!(good[2].count() > 0);
    assert!(matches!(poll(fourth.as_mut(), Waker::noop()), Poll::Ready(Err(_))));
    assert!(matches!(poll(third.as_mut(), Waker::noop()), Poll::Ready(Err(_))));
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
}

/// What waits with a waker that has panicked can be dropped, and the queue goes on waking.
pub(crate) fn futures_of_panicking_wakers<F: Family>() {
    let queue: Plain<F> = Builder::new().build();
    let bad_waker = Waker::from(Arc::new(Panics::default()));
    for round in 0..3 {
        let mut bad = [waiting(queue.pop_async()), waiting(queue.pop_async())];
        for future in &mut bad {
            assert!(poll(future.as_mut(), &bad_waker).is_pending());
        }
        queue.add(1, round).unwrap();
        for future in bad {
            assert!(catch(|| drop(ManuallyDrop::into_inner(future))).is_ok(), "dropping a future panics");
        }
        queue.pop().unwrap().done();
        let woken = Arc::new(Woken::default());
        let mut good = waiting(queue.pop_async());
        assert!(poll(good.as_mut(), &Waker::from(Arc::clone(&woken))).is_pending());
        queue.update(1, round).unwrap();
        assert!(woken.count() > 0, "nobody is woken any more");
        match poll(good.as_mut(), Waker::noop()) {
            Poll::Ready(lease) => lease.unwrap().done(),
            Poll::Pending => panic!("there is a key"),
        }
    }
}

/// Panics the first time; afterwards it rings at once.
struct BadTimer(Arc<AtomicUsize>);

impl Timer for BadTimer {
    fn wake_at(&self, _: Instant, wake: Box<dyn FnOnce() + Send>) {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            boom();
        }
        wake();
    }
}

pub(crate) fn timer<F: Family>() {
    let (calls, reports) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let told = Arc::clone(&reports);
    let queue: Plain<F> = Builder::new()
        .timer(BadTimer(Arc::clone(&calls)))
        .on_error(move |_| {
            told.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    queue.add(1, 1).unwrap();
    queue.add(2, 2).unwrap();
    let (first, second) = (queue.pop().unwrap(), queue.pop().unwrap());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut waits = waiting(queue.pop_async());
    assert!(poll(waits.as_mut(), &waker).is_pending());
    first.requeue_after(Duration::from_secs(3600));
    // Who sleeps asks the timer, or the call does so for it.
    if woken.count() > 0 {
        assert!(poll(waits.as_mut(), &waker).is_pending());
    }
    let armed = calls.load(Ordering::SeqCst);
    assert!(armed > 0 && reports.load(Ordering::SeqCst) == 1);
    // Whoever waits anew arms it again: what panicked once must not keep keys asleep.
    let mut anew = waiting(queue.pop_async());
    assert!(poll(anew.as_mut(), &waker).is_pending());
    assert!(calls.load(Ordering::SeqCst) > armed, "the timer was not asked again");
    assert!(woken.count() > 0);
    second.requeue();
    assert!(poll(anew.as_mut(), &waker).is_ready());
    assert_eq!((queue.pending_len(), queue.leased_len()), (2, 0));
}

/// A store that closes the queue and then panics: the key whose lease was never seen is discarded like all others.
pub(crate) fn discarded_while_the_store_panics<F: Family>() {
    let hook = Hook::default();
    let called = Arc::clone(&hook);
    let get = move |_: &u32| {
        ring(&called);
        Ok(None)
    };
    let queue: Arc<Plain<F>> = Arc::new(Builder::new().known_objects((|| Ok(Vec::new()), get)).build());
    queue.add(1, 1).unwrap();
    queue.add(2, 2).unwrap();
    let closing = Arc::downgrade(&queue);
    *hook.lock().unwrap() = Some(Arc::new(move || {
        closing.upgrade().unwrap().close_discard();
        boom()
    }));
    assert!(catch(|| queue.try_pop().map(drop)).is_err());
    *hook.lock().unwrap() = None;
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
    let discarded = queue.close_discard();
    assert_eq!((discarded.keys, discarded.deltas), (2, 2));
}
