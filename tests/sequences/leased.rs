//! Rows L1 to L5, L8, L9, L11 and L12: what happens while a key is leased.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use delta_fifo::{DeltaQueue, KnownView, OnAbandon, TryPopError};

use crate::common::{
    Family, LONG, Queue, Woken, builder, for_each_queue, key, lease_text, play, poll_once, pop_soon, queue,
    race,
};

for_each_queue!(seq_l01, seq_l02, seq_l03, seq_l04, seq_l05, seq_l08, seq_l09, seq_l11, seq_l12);

const ROUNDS: usize = 300;

fn seq_l01<F: Family>() {
    play(&queue::<F>(), "add a1; hold a:[A1]; delete a2; empty; done a; pop a:[D2]; empty");
}

fn seq_l02<F: Family>() {
    play(&queue::<F>(), "add a1; hold a:[A1]; replace []; empty; done a; pop a:[T(a1)]; empty");
}

fn seq_l03<F: Family>() {
    play(
        &queue::<F>(),
        "known a1; update a2; hold a:[U2]; resync; pending 0; done a; empty; resync; pop a:[S2]",
    );

    // And with both at the same time: what a resync shows is never older than what a pop showed before.
    race(
        ROUNDS,
        |_| {
            let queue = queue::<F>();
            play(&queue, "known a1; update a2");
            queue
        },
        &[
            &|queue: &Queue<F>| {
                queue.resync().unwrap();
            },
            &|queue: &Queue<F>| pop_soon(queue).done(),
        ],
        |queue| {
            while let Ok(lease) = queue.try_pop() {
                assert_eq!(lease_text(&lease), "a:[S2]");
                lease.done();
            }
        },
    );
}

fn seq_l04<F: Family>() {
    play(&queue::<F>(), "known a1; delete a1; hold a:[D1]; replace [a2]; empty; done a; pop a:[R2]; empty");
}

fn seq_l05<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    let lease = queue.pop().unwrap();
    queue.add(key("a"), 2).unwrap();
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, popped) = mpsc::channel();
        let (queue, released) = (&queue, &released);
        scope.spawn(move || {
            let lease = pop_soon(queue);
            assert_eq!(lease_text(&lease), "b:[A1]");
            lease.done();
            sender.send(()).unwrap();
            let lease = pop_soon(queue);
            assert_eq!((lease_text(&lease).as_str(), released.load(Ordering::SeqCst)), ("a:[A2]", true));
            lease.done();
        });
        popped.recv_timeout(LONG).unwrap();
        // The second consumer waits now, or is about to. So does a third, and gets nothing.
        let woken = Woken::new();
        let mut third = Box::pin(queue.pop_async());
        assert!(poll_once(&mut third, &woken).is_pending());
        drop(third);
        assert_eq!((queue.pending_len(), queue.leased_len(), lease_text(&lease)), (1, 1, "a:[A1]".into()));
        released.store(true, Ordering::SeqCst);
        lease.done();
    });
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
}

fn seq_l08<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "replace [a1 b1]");
    thread::scope(|scope| {
        let (popped, is_popped) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        let queue = &queue;
        let slow = scope.spawn(move || {
            let lease = pop_soon(queue);
            popped.send(lease_text(&lease)).unwrap();
            finished.recv_timeout(LONG).unwrap();
            lease.done();
        });
        let waiter = scope.spawn(move || queue.wait_synced_timeout(LONG));
        assert_eq!(is_popped.recv_timeout(LONG).unwrap(), "a:[R1]");
        play(queue, "pop b:[R1]; unsynced; empty");
        assert!(!waiter.is_finished());
        finish.send(()).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()));
        assert!(queue.has_synced());
        slow.join().unwrap();
    });
}

fn seq_l09<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "replace [a1 b1]; add x1");
    let mut leases: Vec<_> = queue.pop_batch(3).unwrap().into_iter().collect();
    let x = leases.pop().unwrap();
    assert_eq!((lease_text(&x), x.is_initial()), ("x:[A1]".into(), false));
    x.done();
    assert!(!queue.has_synced());
    for lease in leases {
        assert!(lease.is_initial() && !queue.has_synced());
        lease.done();
    }
    assert!(queue.has_synced());
    play(&queue, "update a2; update x2; pop a:[U2] later; pop x:[U2] later");
}

fn seq_l11<F: Family>() {
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "add a1; add b1");
    let panicked = thread::scope(|scope| {
        let consumer = || {
            let lease = pop_soon(&queue);
            panic!("a handler failed on {}", lease.key());
        };
        scope.spawn(consumer).join()
    });
    assert!(panicked.is_err());
    play(&queue, "leased 0; pending 2; pop b:[A1]; pop a:[A1] try 2; empty; add c1; pop c:[A1]");

    // Through `process` too.
    queue.add(key("a"), 2).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.process::<()>(|_| panic!("a handler failed"))));
    assert!(panicked.is_err());
    play(&queue, "leased 0; pop a:[A2] try 2; empty");

    // By default it comes back by itself after the back-off.
    let queue = crate::common::queue::<F>();
    queue.add(key("a"), 1).unwrap();
    drop(queue.pop().unwrap());
    assert_eq!(queue.pending_len(), 1);
    assert_eq!(pop_soon(&queue).attempts(), 2);
}

fn seq_l12<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let lease = queue.pop().unwrap();
    queue.add(key("a"), 2).unwrap();
    assert_eq!((queue.pending_len(), queue.leased_len()), (1, 1));
    assert!(queue.has_synced());
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
    assert_eq!(queue.known().get("a"), Some(1));
    assert_eq!(queue.resync().unwrap(), 0);
    queue.replace([(key("a"), 3), (key("b"), 3)]).unwrap();
    assert_eq!((queue.pending_len(), queue.leased_len()), (2, 1));
    queue.begin_replace().unwrap().commit().unwrap();
    assert_eq!(queue.snapshot().len(), 1);
    assert_eq!(lease_text(&lease), "a:[A1]");
    lease.done();
    play(&queue, "pop b:[R3 T(b3)]; pop a:[A2 R3 T(a3)]; empty");
}
