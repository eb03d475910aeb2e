//! The first sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{DeltaQueue, Emit, OnAbandon, Upsert, WaitError};

use crate::common::{
    Family, LONG, Queue, Woken, builder, finishes, for_each_queue, key, play, poll_once, queue, race,
};

for_each_queue!(
    first_call_decides,
    completed_by_done_or_give_up_only,
    counted_by_key_not_by_pop,
    delivered_is_weaker,
    panics_leave_it_neither_stuck_nor_early,
    initial_stays_through_requeues_and_ends_with_the_lease,
    dirty_keys_do_not_hold_it_back,
    never_false_again,
    waiters_wake_at_once,
    waiters_wake_by_the_call_that_decides,
    failed_first_call_decides_nothing,
    superseded_objects_do_not_count,
    resync_and_mark_decide_nothing,
);

fn first_call_decides<F: Family>() {
    play(
        &queue::<F>(),
        "unsynced; undelivered; add a1; synced; delivered; replace [b1]; synced; any a:[A1 T(a1)] b:[R1]",
    );
    play(&queue::<F>(), "replace [a1]; add b1; unsynced; pop a:[R1] initial; synced; pop b:[A1] later");
    // After an early change nothing is initial.
    play(&queue::<F>(), "add a1; replace [b1]; any a:[A1 T(a1)] b:[R1]");
    let queue = queue::<F>();
    play(&queue, "update a1; replace [b1 a2]; pop a:[U1 R2] later; pop b:[R1] later");
}

fn completed_by_done_or_give_up_only<F: Family>() {
    play(
        &queue::<F>(),
        "replace [a1 b1]; hold a:[R1]; unsynced; requeue a; unsynced; hold b:[R1]; give_up b; unsynced; \
        hold a:[R1]; unsynced; \
         done a; synced",
    );
}

fn counted_by_key_not_by_pop<F: Family>() {
    // Five pops of a do not stand for one of b.
    play(
        &queue::<F>(),
        "replace [a1 b1]; hold a:[R1]; hold b:[R1]; requeue a; hold a:[R1]; requeue a; hold a:[R1]; \
        done a; update a2; pop a:[U2]; \
         update a3; pop a:[U3]; unsynced; done b; synced",
    );
    play(&queue::<F>(), "replace [a1 a2 a3]; unsynced; pop a:[R1 R2 R3]; synced");
    let queue: Queue<F> = builder().replace_emits(Emit::Sync).build();
    play(&queue, "replace [a1 b1]; pop a:[S1]; unsynced; pop b:[S1]; synced");
}

fn delivered_is_weaker<F: Family>() {
    play(
        &queue::<F>(),
        "replace [poison1 a1]; undelivered; hold poison:[R1]; undelivered; requeue poison; undelivered; \
        hold a:[R1]; undelivered; \
         done a; delivered; unsynced; pop poison:[R1]; synced; delivered",
    );
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "replace [a1]; hold a:[R1]; drop a; delivered; unsynced; pop a:[R1] try 2; synced");
    play(&crate::common::queue::<F>(), "replace []; delivered; synced");
}

fn panics_leave_it_neither_stuck_nor_early<F: Family>() {
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "replace [a1 b1]");
    for _ in 0..3 {
        let panicked = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let lease = queue.pop().unwrap();
                    panic!("a handler failed on {}", lease.key())
                })
                .join()
        });
        assert!(panicked.is_err());
        assert!(!queue.has_synced());
    }
    play(&queue, "delivered; unsynced; any a:[R1] b:[R1]; synced");
}

fn initial_stays_through_requeues_and_ends_with_the_lease<F: Family>() {
    play(
        &queue::<F>(),
        "replace [a1]; hold a:[R1] initial; update a2; requeue a; hold a:[R1 U2] initial try 2; \
        update a3; done a; \
         pop a:[U3] later; replace [a4]; pop a:[R4] later",
    );
    // One of several deltas is enough.
    play(&queue::<F>(), "replace [a1]; update a2; delete a3; pop a:[R1 U2 D3] initial");
}

fn dirty_keys_do_not_hold_it_back<F: Family>() {
    play(&queue::<F>(), "replace [a1]; hold a:[R1]; update a2; unsynced; done a; synced; pop a:[U2] later");
}

fn never_false_again<F: Family>() {
    play(&queue::<F>(), "replace []; synced; replace [a1]; synced; add b1; synced; close; synced");
}

fn waiters_wake_at_once<F: Family>() {
    for _ in 0..50 {
        let queue = Arc::new(queue::<F>());
        play(&*queue, "replace [a1]");
        let lease = queue.pop_owned().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (waiter, sees) = (Arc::clone(&queue), Arc::clone(&ended));
        let waiting = thread::spawn(move || {
            waiter.wait_synced().unwrap();
            (sees.load(Ordering::SeqCst), waiter.has_synced())
        });
        thread::yield_now();
        ended.store(true, Ordering::SeqCst);
        lease.done();
        assert_eq!(finishes("the wait", move || waiting.join().unwrap()), (true, true));
    }
}

fn waiters_wake_by_the_call_that_decides<F: Family>() {
    for call in ["add a1", "update a1", "apply a1", "delete a1", "delete_key a", "replace []"] {
        let queue = queue::<F>();
        let woken = Woken::new();
        let mut wait = Box::pin(queue.wait_synced_async());
        assert!(poll_once(&mut wait, &woken).is_pending());
        play(&queue, call);
        woken.wait();
        assert!(matches!(poll_once(&mut wait, &woken), Poll::Ready(Ok(()))), "{call}");
    }
    // A change while a streaming replace was open decides when that is dropped.
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    play(&queue, "delete unknown1");
    let woken = Woken::new();
    let mut wait = Box::pin(queue.wait_synced_async());
    assert!(poll_once(&mut wait, &woken).is_pending());
    drop(replace);
    woken.wait();
    assert!(matches!(poll_once(&mut wait, &woken), Poll::Ready(Ok(()))));

    let queue = crate::common::queue::<F>();
    assert_eq!(queue.wait_synced_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    race(
        300,
        |_| crate::common::queue::<F>(),
        &[
            &|queue: &Queue<F>| {
                let start = Instant::now();
                assert_eq!(queue.wait_synced_timeout(LONG / 2), Ok(()));
                assert!(start.elapsed() < LONG / 2, "nobody woke the wait");
            },
            &|queue| queue.delete(key("unknown"), 1).unwrap(),
        ],
        |queue| assert!(queue.has_synced()),
    );
}

fn failed_first_call_decides_nothing<F: Family>() {
    let queue: Queue<F> =
        builder().transform(|value| if *value == 0 { Err("zero".into()) } else { Ok(()) }).build();
    queue.add(key("a"), 0).unwrap_err();
    queue.replace([(key("a"), 0)]).unwrap_err();
    play(&queue, "unsynced; undelivered; replace [a1]; unsynced; pop a:[R1] initial; synced");
}

fn superseded_objects_do_not_count<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    play(&queue, "add a2");
    assert_eq!(replace.upsert(key("a"), 1).unwrap(), Upsert::Superseded);
    let completion = replace.commit().unwrap();
    // It touched no key.
    assert!(completion.is_complete());
    play(&queue, "synced; pop a:[A2] later");
}

fn resync_and_mark_decide_nothing<F: Family>() {
    let queue = queue::<F>();
    queue.resync().unwrap();
    queue.resync_key(key("a")).unwrap();
    queue.mark(1).unwrap();
    play(&queue, "unsynced; replace [a1]; unsynced; pop a:[R1] initial; synced");
}
