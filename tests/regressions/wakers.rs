//! Wakers are user code: they call the queue, drop what waits, and panic.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{DeltaQueue, ErrorEvent};

use crate::common::{
    Family, LONG, Queue, Woken, block_on, builder, finishes, for_each_queue, key, lease_text, play,
    poll_once, queue,
};

for_each_queue!(waker_calls_the_queue, waker_drops_another_waiting_future,);

/// This one drops a waker in the call that wakes; the sharded queue does when its task comes or goes.
mod mutex_alone {
    use crate::common::MutexQueues;

    #[test]
    fn waker_with_a_panicking_drop() {
        super::waker_with_a_panicking_drop::<MutexQueues>();
    }

    #[test]
    fn alarm_survives_a_waker_with_a_panicking_drop() {
        super::alarm_survives_a_waker_with_a_panicking_drop::<MutexQueues>();
    }
}

/// Runs this once, when it is woken first.
struct Runs(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Runs {
    fn waker(act: impl FnOnce() + Send + 'static) -> Waker {
        Waker::from(Arc::new(Runs(Mutex::new(Some(Box::new(act))))))
    }
}

impl Wake for Runs {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

fn poll<T: Future + ?Sized>(future: &mut Pin<Box<T>>, waker: &Waker) -> Poll<T::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Every kind of wait, and what wakes it.
fn waker_calls_the_queue<F: Family>() {
    finishes("the call", || {
        let queue = Arc::new(queue::<F>());
        let mut pop = Box::pin(queue.pop_async());
        let inside = Arc::clone(&queue);
        let waker = Runs::waker(move || {
            inside.add(key("z"), 1).unwrap();
            let _ = (inside.pending_len(), inside.leased_len(), inside.has_synced());
        });
        assert!(poll(&mut pop, &waker).is_pending());
        play(&*queue, "add a1; pending 2");
        let Poll::Ready(Ok(lease)) = poll(&mut pop, &waker) else { panic!("two keys are in line") };
        assert_eq!(lease_text(&lease), "a:[A1]");
        // The end of a lease wakes who waits for it.
        let mark = queue.mark(1).unwrap();
        let inside = Arc::clone(&queue);
        let waker = Runs::waker(move || inside.pop().unwrap().done());
        let mut wait = Box::pin(mark.wait_async());
        assert!(poll(&mut wait, &waker).is_pending());
        lease.done();
        assert_eq!(poll(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
        play(&*queue, "empty; leased 0");
        // And so does a close.
        let mut pop = Box::pin(queue.pop_async());
        let inside = Arc::clone(&queue);
        let waker = Runs::waker(move || assert!(!inside.close() && inside.add(key("b"), 1).is_err()));
        assert!(poll(&mut pop, &waker).is_pending());
        assert!(queue.close());
        // Not at once where calls of other tests, of other queues, have yet to end.
        assert!(block_on(pop).is_err());
    });
}

/// As an executor does when a task is cancelled. The wake-up of the dropped one is not lost either.
fn waker_drops_another_waiting_future<F: Family>() {
    for other_first in [false, true] {
        finishes("the call", move || {
            let queue = Arc::new(queue::<F>());
            let waits = Arc::clone(&queue);
            let mut other: Pin<Box<dyn Future<Output = ()> + Send>> =
                Box::pin(async move { drop(waits.pop_async_owned().await) });
            let mut pop = Box::pin(queue.pop_async());
            let slot = Arc::new(Mutex::new(None));
            let victim = Arc::clone(&slot);
            let waker = Runs::waker(move || drop(victim.lock().unwrap().take()));
            let idle = Woken::new();
            if other_first {
                assert!(poll_once(&mut other, &idle).is_pending());
            }
            assert!(poll(&mut pop, &waker).is_pending());
            if !other_first {
                assert!(poll_once(&mut other, &idle).is_pending());
            }
            *slot.lock().unwrap() = Some(other);
            let third = Woken::new();
            let mut last = Box::pin(queue.pop_async());
            assert!(poll_once(&mut last, &third).is_pending());
            play(&*queue, "add a1; add b1");
            let Poll::Ready(Ok(lease)) = poll(&mut pop, Waker::noop()) else {
                panic!("two keys are in line")
            };
            assert_eq!(lease_text(&lease), "a:[A1]");
            // Two keys for three that waited, one of which is gone or going: the last one is told.
            drop(slot.lock().unwrap().take());
            third.wait();
            let Poll::Ready(Ok(second)) = poll_once(&mut last, &third) else { panic!("b is in line") };
            assert_eq!(lease_text(&second), "b:[A1]");
            lease.done();
            second.done();
        });
    }
}

/// Panics when it is dropped, which happens in the call that wakes it: the queue has the last handle.
struct Volatile(Arc<AtomicUsize>);

impl Volatile {
    /// Lets `pop` wait with such a waker; counts its drops.
    fn poll<T: Future + ?Sized>(future: &mut Pin<Box<T>>, drops: &Arc<AtomicUsize>) {
        let waker = Waker::from(Arc::new(Volatile(Arc::clone(drops))));
        assert!(poll(future, &waker).is_pending());
        assert_eq!(drops.load(Ordering::SeqCst), 0);
    }
}

impl Wake for Volatile {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Volatile {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        if !thread::panicking() {
            resume_unwind(Box::new("drop of a waker"));
        }
    }
}

/// Nobody gets its panic; the error hook hears of it, and the others are woken.
fn waker_with_a_panicking_drop<F: Family>() {
    let reports = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&reports);
    let queue: Queue<F> = builder()
        .on_error(move |event| {
            assert!(matches!(event, ErrorEvent::WakerPanicked));
            told.fetch_add(1, Ordering::SeqCst);
        })
        .build();
    let (drops, woken) = (Arc::new(AtomicUsize::new(0)), Woken::new());
    let (mut bad, mut good) = (Box::pin(queue.pop_async()), Box::pin(queue.pop_async()));
    Volatile::poll(&mut bad, &drops);
    assert!(poll_once(&mut good, &woken).is_pending());
    play(&queue, "add a1");
    assert_eq!((drops.load(Ordering::SeqCst), reports.load(Ordering::SeqCst)), (1, 1));
    woken.wait();
    let Poll::Ready(Ok(lease)) = poll_once(&mut good, &woken) else { panic!("a key is in line") };
    assert_eq!(lease_text(&lease), "a:[A1]");
    drop(bad);

    let (drops, mark) = (Arc::new(AtomicUsize::new(0)), queue.mark(1).unwrap());
    let mut wait = Box::pin(mark.wait_async());
    Volatile::poll(&mut wait, &drops);
    lease.done();
    assert_eq!((drops.load(Ordering::SeqCst), reports.load(Ordering::SeqCst)), (1, 2));
    assert_eq!(poll(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
}

/// Whoever wakes async consumers for delayed keys goes on doing so.
fn alarm_survives_a_waker_with_a_panicking_drop<F: Family>() {
    const SHORT: Duration = Duration::from_millis(2);
    let queue = queue::<F>();
    play(&queue, "add a1");
    for round in 1..4 {
        let lease = queue.pop().unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let mut bad = Box::pin(queue.pop_async());
        Volatile::poll(&mut bad, &drops);
        lease.requeue_after(SHORT);
        let limit = Instant::now() + LONG;
        while drops.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < limit, "nobody is woken any more, round {round}");
            thread::yield_now();
        }
        drop(bad);
        // The key is due, or will be.
        let lease = queue.pop_timeout(LONG).unwrap();
        let woken = Woken::new();
        let mut good = Box::pin(queue.pop_async());
        assert!(poll_once(&mut good, &woken).is_pending());
        lease.requeue_after(SHORT);
        // It may be woken too early as well, together with the other one.
        let (mut seen, limit) = (0, Instant::now() + LONG);
        let lease = loop {
            assert!(Instant::now() < limit, "nobody is woken any more, round {round}");
            if woken.count() == seen {
                thread::yield_now();
                continue;
            }
            seen = woken.count();
            if let Poll::Ready(lease) = poll_once(&mut good, &woken) {
                break lease.unwrap();
            }
        };
        lease.requeue();
    }
}
