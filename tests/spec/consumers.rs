//! Leases, and the ways to get one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{
    Closed, DeltaQueue, ErrorEvent, KnownView, OnAbandon, Outcome, PopTimeoutError, TryPopError,
};

use crate::common::{
    Family, LONG, Queue, block_on, builder, finishes, for_each_queue, key, lease_text, play, pop_soon, queue,
};

for_each_queue!(
    all_pops_are_the_same_step,
    pops_with_a_limit_end,
    pops_block_until_a_key_comes,
    batches_do_not_wait_to_fill_up,
    batches_end_one_by_one_or_together,
    empty_batches_are_refused,
    keys_are_processed_side_by_side_but_never_twice,
    known_objects_move_with_the_lease,
    previous_is_of_the_last_completed_lease,
    requeued_deltas_come_first_and_go_to_the_tail,
    requeue_keeps_attempts_until_done_or_given_up,
    give_up_ends_like_done_and_is_reported,
    process_ends_the_lease_by_its_result,
    dropped_lease_is_given_up_if_built_so,
    owned_leases_move_into_threads,
    owned_lease_of_another_queue_is_refused,
    forgotten_lease_harms_nothing_else,
    deltas_can_be_read_from_both_ends,
);

fn all_pops_are_the_same_step<F: Family>() {
    let queue = Arc::new(queue::<F>());
    type Pop<Q> = fn(&Arc<Q>) -> String;
    let pops: [Pop<Queue<F>>; 9] = [
        |queue| lease_text(&queue.pop().unwrap()),
        |queue| lease_text(&queue.try_pop().unwrap()),
        |queue| lease_text(&queue.pop_timeout(LONG).unwrap()),
        |queue| lease_text(&queue.pop_deadline(Instant::now()).unwrap()),
        |queue| lease_text(&block_on(queue.pop_async()).unwrap()),
        |queue| lease_text(&queue.pop_owned().unwrap()),
        |queue| lease_text(&block_on(queue.pop_async_owned()).unwrap()),
        |queue| lease_text(queue.pop_batch(1).unwrap().iter().next().unwrap()),
        |queue| lease_text(block_on(queue.pop_batch_async(1)).unwrap().iter().next().unwrap()),
    ];
    for (index, pop) in pops.into_iter().enumerate() {
        queue.update(index.to_string(), 1).unwrap();
        queue.update(index.to_string(), 2).unwrap();
        assert_eq!(pop(&queue), format!("{index}:[U1 U2]"));
    }
}

fn pops_with_a_limit_end<F: Family>() {
    let queue = queue::<F>();
    let short = Duration::from_millis(1);
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
    assert_eq!(queue.try_pop_batch(2).map(drop), Err(TryPopError::Empty));
    assert_eq!(queue.pop_timeout(short).map(drop), Err(PopTimeoutError::Timeout));
    assert_eq!(queue.pop_deadline(Instant::now() + short).map(drop), Err(PopTimeoutError::Timeout));
    assert_eq!(queue.pop_batch_timeout(2, short).map(drop), Err(PopTimeoutError::Timeout));
    let start = Instant::now();
    let limit = Duration::from_millis(20);
    assert_eq!(queue.pop_timeout(limit).map(drop), Err(PopTimeoutError::Timeout));
    assert!(start.elapsed() >= limit);
    queue.close();
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
    assert_eq!(queue.try_pop_batch(2).map(drop), Err(TryPopError::Closed));
    assert_eq!(queue.pop_timeout(Duration::MAX).map(drop), Err(PopTimeoutError::Closed));
    assert_eq!(queue.pop_batch_timeout(2, LONG).map(drop), Err(PopTimeoutError::Closed));
    assert_eq!(queue.pop_batch(2).map(drop), Err(Closed));
    assert_eq!(queue.pop().map(drop), Err(Closed));
}

fn pops_block_until_a_key_comes<F: Family>() {
    for round in 0..50 {
        let queue = Arc::new(queue::<F>());
        let consumer = Arc::clone(&queue);
        let pop = thread::spawn(move || {
            let lease = match round % 3 {
                0 => consumer.pop().unwrap(),
                1 => consumer.pop_batch(3).unwrap().into_iter().next().unwrap(),
                _ => consumer.pop_timeout(Duration::MAX).unwrap(),
            };
            let text = lease_text(&lease);
            lease.done();
            text
        });
        if round % 2 == 0 {
            thread::yield_now();
        }
        queue.add(key("a"), round).unwrap();
        let text = finishes("the pop", move || pop.join().unwrap());
        assert_eq!(text, format!("a:[A{round}]"));
    }
}

fn batches_do_not_wait_to_fill_up<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1; add c1");
    assert_eq!(queue.pop_batch(2).unwrap().len(), 2);
    play(&queue, "pending 3; leased 0");
    let batch = queue.pop_batch_timeout(usize::MAX, LONG).unwrap();
    assert_eq!(batch.iter().map(lease_text).collect::<Vec<_>>(), ["c:[A1]"]);
    batch.done();
}

fn batches_end_one_by_one_or_together<F: Family>() {
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "add a1; add b1; add c1");
    let mut leases = queue.pop_batch(3).unwrap().into_iter();
    leases.next().unwrap().done();
    leases.next().unwrap().requeue();
    drop(leases);
    play(&queue, "leased 0; pending 2");
    let batch = queue.try_pop_batch(5).unwrap();
    assert_eq!(
        batch.iter().map(|lease| (lease.key().as_str(), lease.attempts())).collect::<Vec<_>>(),
        [("b", 2), ("c", 2)]
    );
    queue.update(key("c"), 2).unwrap();
    batch.end(Outcome::Requeue);
    play(&queue, "leased 0; pending 2; hold b:[A1] try 3; hold c:[A1 U2] try 3");
    play(&queue, "empty; leased 0; pending 0; known d1 e1; update d2; update e2");
    queue.pop_batch(2).unwrap().done();
    play(&queue, "empty; leased 0");
    assert_eq!(queue.known().get("e"), Some(2));
}

fn empty_batches_are_refused<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let pop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.try_pop_batch(0).map(drop)));
    assert!(pop.is_err());
    play(&queue, "pop a:[A1] try 1; empty");
}

fn keys_are_processed_side_by_side_but_never_twice<F: Family>() {
    const KEYS: usize = 4;
    const CHANGES: u32 = 4_000;
    let queue = queue::<F>();
    let open: Mutex<HashSet<String>> = Mutex::default();
    let total: Mutex<usize> = Mutex::default();
    thread::scope(|scope| {
        for consumer in 0..4 {
            let (queue, open, total) = (&queue, &open, &total);
            scope.spawn(move || {
                while let Ok(batch) = queue.pop_batch_timeout(1 + consumer % 2, LONG) {
                    for lease in &batch {
                        assert!(
                            open.lock().unwrap().insert(lease.key().clone()),
                            "{} is leased twice",
                            lease.key()
                        );
                    }
                    thread::yield_now();
                    for lease in batch {
                        *total.lock().unwrap() += lease.deltas().len();
                        assert!(open.lock().unwrap().remove(lease.key()));
                        lease.done();
                    }
                }
            });
        }
        for value in 0..CHANGES {
            queue.update((value as usize % KEYS).to_string(), value).unwrap();
        }
        queue.close();
    });
    assert_eq!(total.into_inner().unwrap(), CHANGES as usize);
    play(&queue, "pending 0; leased 0; closed");
}

fn known_objects_move_with_the_lease<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    assert!(queue.known().is_empty());
    let lease = queue.pop().unwrap();
    // Before the pop returns, not at its end.
    assert_eq!((queue.known().get("a"), queue.known().get("b")), (Some(1), None));
    lease.requeue();
    assert_eq!(queue.known().get("a"), Some(1));
    queue.delete(key("b"), 2).unwrap();
    let lease = queue.pop().unwrap();
    assert_eq!(lease_text(&lease), "b:[A1 D2]");
    assert_eq!(queue.known().get("b"), None);
    drop(lease);
    play(&queue, "hold a:[A1]; leased 1");
    play(&queue, "update a2; delete a3");
    let lease = queue.pop().unwrap();
    assert_eq!(queue.known().get("a"), None);
    lease.done();
}

fn previous_is_of_the_last_completed_lease<F: Family>() {
    play(&queue::<F>(), "add a1; pop a:[A1] was -; update a2; pop a:[U2] was 1; delete a3; pop a:[D3] was 2");
    play(&queue::<F>(), "known a1; delete a2; pop a:[D2]; add a3; pop a:[A3] was -");
    // A requeued lease did not complete.
    play(
        &queue::<F>(),
        "known a1; update a2; hold a:[U2] was 1; requeue a; update a3; pop a:[U2 U3] was 1; \
         update a4; pop a:[U4] was 3",
    );
    // A given-up one did.
    play(&queue::<F>(), "known a1; update a2; hold a:[U2]; give_up a; update a3; pop a:[U3] was 2");
    play(&queue::<F>(), "add a1; hold a:[A1] was -; update a2; requeue a; hold a:[A1 U2] was -; done a");
    // Dirty.
    play(&queue::<F>(), "known a1; update a2; hold a:[U2] was 1; update a3; done a; pop a:[U3] was 2");
}

fn requeued_deltas_come_first_and_go_to_the_tail<F: Family>() {
    play(
        &queue::<F>(),
        "add a1; add b1; hold a:[A1]; update a2; requeue a; pop b:[A1]; pop a:[A1 U2]; empty",
    );
    // As a dirty key does when its lease is done.
    play(
        &queue::<F>(),
        "add a1; add b1; hold a:[A1]; update a2; add c1; done a; pop b:[A1]; pop c:[A1]; pop a:[U2]",
    );
    // With compression at the joint. A deletion in flight is not known: another is ignored until it is back.
    play(&queue::<F>(), "known a1; delete_key a; hold a:[T(a1)]; delete a2; requeue a; pop a:[T(a1)]; empty");
    play(&queue::<F>(), "known a1; delete_key a; hold a:[T(a1)]; requeue a; delete a2; pop a:[D2]; empty");
    play(&queue::<F>(), "known a1; delete a2; hold a:[D2]; replace [a3]; requeue a; pop a:[D2 R3]; empty");
}

fn requeue_keeps_attempts_until_done_or_given_up<F: Family>() {
    play(
        &queue::<F>(),
        "add a1; hold a:[A1] try 1; requeue a; hold a:[A1] try 2; update a2; requeue a; \
         hold a:[A1 U2] try 3; done a; update a3; pop a:[U3] try 1",
    );
    play(
        &queue::<F>(),
        "add a1; hold a:[A1]; requeue a; hold a:[A1] try 2; give_up a; update a2; pop a:[U2] try 1",
    );
    play(
        &queue::<F>(),
        "add a1; hold a:[A1]; requeue a; hold a:[A1] try 2; update a2; done a; pop a:[U2] try 1",
    );
}

fn give_up_ends_like_done_and_is_reported<F: Family>() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&events);
    let queue: Queue<F> = builder()
        .on_error(move |event| {
            let ErrorEvent::GaveUp { key, attempts } = event else { panic!("{event}") };
            hook.lock().unwrap().push((String::clone(key), *attempts));
        })
        .build();
    let completion = queue.replace([(key("a"), 1)]).unwrap();
    let mark = queue.mark("7").unwrap();
    play(
        &queue,
        "hold a:[R1]; requeue a; hold a:[R1] try 2; update a2; give_up a; synced; pop a:[U2] was 1; empty",
    );
    assert!(completion.is_complete() && mark.is_complete());
    assert_eq!(*events.lock().unwrap(), [(key("a"), 2)]);
    queue.add(key("b"), 1).unwrap();
    queue.pop_batch(1).unwrap().end(Outcome::GiveUp);
    assert_eq!(*events.lock().unwrap(), [(key("a"), 2), (key("b"), 1)]);
}

fn process_ends_the_lease_by_its_result<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    assert_eq!(queue.process(|_| Outcome::Requeue), Ok(Outcome::Requeue));
    play(&queue, "pending 1; leased 0");
    assert_eq!(queue.process(|lease| assert_eq!(lease.attempts(), 2)), Ok(Outcome::Done));
    play(&queue, "pending 0; empty; add a2");
    let failed = queue.process(|lease| {
        assert_eq!(lease_text(lease), "a:[A2]");
        Err::<(), _>("not now")
    });
    assert_eq!(failed, Ok(Outcome::RequeueWithBackoff));
    assert_eq!(queue.pending_len(), 1);
    // It comes back by itself.
    let result = queue.process(|lease| {
        assert_eq!(lease.attempts(), 2);
        Ok::<(), &str>(())
    });
    assert_eq!(result, Ok(Outcome::Done));
    queue.add(key("b"), 1).unwrap();
    assert_eq!(queue.process(|_| Outcome::RequeueAfter(LONG * 60)), Ok(Outcome::RequeueAfter(LONG * 60)));
    play(&queue, "empty; pending 1; update b2");
    assert_eq!(queue.process(|_| Outcome::GiveUp), Ok(Outcome::GiveUp));
    play(&queue, "pending 0; empty; close");
    assert_eq!(queue.process(|_| Outcome::Done), Err(Closed));
}

fn dropped_lease_is_given_up_if_built_so<F: Family>() {
    let events = Arc::new(Mutex::new(0));
    let hook = Arc::clone(&events);
    let queue: Queue<F> = builder()
        .on_abandon(OnAbandon::GiveUp)
        .on_error(move |event| {
            assert!(matches!(event, ErrorEvent::GaveUp { attempts: 1, .. }), "{event}");
            *hook.lock().unwrap() += 1;
        })
        .build();
    play(
        &queue,
        "replace [a1]; hold a:[R1]; drop a; synced; empty; pending 0; update a2; pop a:[U2] was 1 try 1",
    );
    assert_eq!(*events.lock().unwrap(), 1);
}

fn owned_leases_move_into_threads<F: Family>() {
    let queue = Arc::new(queue::<F>());
    play(&*queue, "add a1; add b1");
    let lease = queue.pop_owned().unwrap();
    let (weak, borrowed) = (Arc::downgrade(&queue), queue.pop().unwrap());
    let second = borrowed.into_owned(&queue);
    drop(queue);
    // The leases keep the queue alive.
    let text = finishes("the thread", move || {
        let text = format!("{} {}", lease_text(&lease), lease_text(&second));
        lease.done();
        assert_eq!(weak.upgrade().map(|queue| (queue.leased_len(), queue.pending_len())), Some((1, 0)));
        second.done();
        assert!(weak.upgrade().is_none());
        text
    });
    assert_eq!(text, "a:[A1] b:[A1]");
}

fn owned_lease_of_another_queue_is_refused<F: Family>() {
    let (one, other) = (Arc::new(queue::<F>()), Arc::new(queue::<F>()));
    one.add(key("a"), 1).unwrap();
    let lease = one.pop().unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lease.into_owned(&other))));
    assert!(result.is_err());
    assert_eq!((one.leased_len(), other.leased_len(), other.pending_len()), (0, 0, 0));
    assert_eq!(lease_text(&pop_soon(&*one)), "a:[A1]");
}

fn forgotten_lease_harms_nothing_else<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    std::mem::forget(queue.pop().unwrap());
    play(
        &queue,
        "add a2; replace [a3 b3]; resync; pop b:[A1 R3]; leased 1; pending 1; empty; add c1; pop c:[A1]; \
        close",
    );
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
}

fn deltas_can_be_read_from_both_ends<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; update a2; delete a3");
    let lease = queue.pop().unwrap();
    let objects: Vec<u32> = lease.deltas().iter().rev().map(|delta| *delta.object().unwrap()).collect();
    assert_eq!(objects, [3, 2, 1]);
    assert_eq!((lease.deltas().iter().len(), lease.deltas().len()), (3, 3));
}
