//! Who waits is woken, even if the call that should wake him ends in a panic.

use std::task::{Poll, Waker};
use std::thread;

use delta_fifo::{Outcome, PopTimeoutError, Timer};

use super::*;
use crate::common::{LONG, finishes};
use crate::model::tasks::poll;

/// The end of a lease whose object panics when it is dropped.
pub(crate) fn waiters_are_woken<F: Family>() {
    type End<F> = fn(OwnedLease<Queue<F>>);
    let ends: [End<F>; 2] = [|lease| lease.done(), |lease| lease.give_up()];
    for end in ends {
        let scene =
            Scene::<F>::new(Setup { known: Known::Inside, latest: false, replacing: false, scopes: false });
        let Scene { queue, mut leases, fuse, .. } = scene;
        while let Ok(lease) = queue.try_pop() {
            lease.done();
        }
        leases.remove(1).done();
        let dirty = leases.remove(0);
        // Nobody else drops an object before the call is over.
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let lease = queue.pop_timeout(LONG).expect("a key is in line, and nobody was told");
                assert_eq!(lease.key().name, 2);
                is_over.recv().unwrap();
                lease.done();
            })
        };
        let draining = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                while queue.leased_len() + queue.pending_len() > 0 {
                    let all = queue.mark(2_u64).unwrap();
                    all.wait_timeout(LONG).expect("everything is completed, and nobody was told");
                }
            })
        };
        fuse.arm(Site::DropValue, 1);
        assert!(catch_unwind(AssertUnwindSafe(|| end(dirty))).is_err());
        assert!(fuse.disarm());
        over.send(()).unwrap();
        waiting.join().unwrap();
        draining.join().unwrap();
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    }
}

/// A discard whose objects panic when they are dropped: whoever waits for keys hears of the close.
pub(crate) fn waiters_of_a_discard<F: Family>() {
    for _ in 0..20 {
        let fuse = Fuse::default();
        let queue: Arc<Queue<F>> = Arc::new(Builder::new().build());
        queue.add(Key::new(1, &fuse), Value::new(1, &fuse)).unwrap();
        let lease = queue.try_pop().unwrap();
        queue.add(Key::new(1, &fuse), Value::new(2, &fuse)).unwrap();
        let (about, is_about) = std::sync::mpsc::channel();
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                about.send(()).unwrap();
                queue.pop_timeout(Duration::from_secs(20)).map(|lease| lease.done())
            })
        };
        is_about.recv().unwrap();
        fuse.arm(Site::DropValue, 1);
        assert!(catch_unwind(AssertUnwindSafe(|| queue.close_discard())).is_err());
        assert_eq!(waiting.join().unwrap(), Err(PopTimeoutError::Closed));
        lease.done();
    }
}

/// A replace that panics lets the next one begin.
pub(crate) fn replaces_that_wait<F: Family>() {
    for (site, nth) in
        [(Site::Iterator, 2), (Site::Transform, 2), (Site::Hash, 2), (Site::Eq, 3), (Site::DropValue, 1)]
    {
        if site == Site::DropValue && F::LATE_OBJECTS > 0 {
            continue; // what a replace merges away is dropped by consumers
        }
        let scene =
            Scene::<F>::new(Setup { known: Known::Inside, latest: true, replacing: false, scopes: false });
        let (queue, fuse) = (&scene.queue, &scene.fuse);
        let began = std::sync::Barrier::new(2);
        let result = thread::scope(|scope| {
            let next = scope.spawn(|| {
                // The first replace is running: its iterator is here too.
                began.wait();
                queue.replace_wait([(Key::new(8, fuse), Value::new(8, fuse))]).map(drop)
            });
            let list = [3, 0, 3, 6].into_iter().enumerate().map(|(index, name)| {
                if index == 0 {
                    began.wait();
                    fuse.arm(site, nth);
                }
                fuse.tick(Site::Iterator);
                (Key::new(name, fuse), Value::new(name, fuse))
            });
            let first = catch_unwind(AssertUnwindSafe(|| queue.replace(list).map(drop)));
            // The next one may have met the fuse instead.
            let next = next.join();
            (first.is_err() || next.is_err(), first.is_ok() || next.is_ok())
        });
        assert!(fuse.disarm(), "{site:?} was not reached");
        assert_eq!(result, (true, true), "{site:?}");
        scene.observe();
    }
}

/// A timer that calls the queue and rings at once.
pub(crate) fn timers_call_the_queue<F: Family>() {
    type Plain<F> = <F as Family>::Queue<u32, u32>;
    struct Calls(Hook);
    impl Timer for Calls {
        fn wake_at(&self, _: std::time::Instant, wake: Box<dyn FnOnce() + Send>) {
            ring(&self.0);
            wake();
        }
    }
    finishes("the call", || {
        let hook = Hook::default();
        let queue: Arc<Plain<F>> = Arc::new(Builder::new().timer(Calls(Arc::clone(&hook))).build());
        let weak = Arc::downgrade(&queue);
        *hook.lock().unwrap() = Some(Arc::new(move || {
            let queue = weak.upgrade().unwrap();
            queue.add(2, 2).unwrap();
            assert!(queue.pending_len() > 0 && queue.known().len() == 1);
        }));
        queue.add(1, 1).unwrap();
        let lease = queue.pop().unwrap();
        let mut next = Box::pin(queue.pop_async());
        assert!(poll(next.as_mut(), Waker::noop()).is_pending());
        lease.end(Outcome::RequeueAfter(Duration::from_secs(3600)));
        match poll(next.as_mut(), Waker::noop()) {
            Poll::Ready(lease) => assert_eq!(*lease.unwrap().key(), 2),
            Poll::Pending => panic!("the timer was not asked"),
        }
    });
}
