//! The end.

use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use delta_fifo::{DeltaQueue, Discarded, KnownView, OnAbandon, TryPopError, WaitError};

use crate::common::{
    Family, LONG, Queue, builder, finishes, for_each_queue, key, lease_text, play, pop_soon, queue, race,
};

for_each_queue!(
    idempotent_and_says_who_was_first,
    pops_go_on_until_nothing_is_left,
    lease_given_back_later_is_pending_again,
    dirty_key_is_still_delivered,
    running_replace_is_waited_for,
    replace_that_began_before_completes,
    racing_changes_are_rejected_or_delivered,
    discard_drops_and_counts,
    discard_counts_what_is_given_back_later,
    close_and_wait_waits_for_leases_and_keys,
    close_and_wait_of_an_own_lease,
    known_objects_stay_readable,
    one_of_many_closes_is_first,
);

fn idempotent_and_says_who_was_first<F: Family>() {
    let queue = queue::<F>();
    assert!(!queue.is_closed());
    assert!(queue.close());
    assert!(queue.is_closed());
    assert!(!queue.close());
    assert_eq!(queue.close_discard(), Discarded { keys: 0, deltas: 0 });
    assert_eq!(queue.close_and_wait(), Ok(()));
}

fn pops_go_on_until_nothing_is_left<F: Family>() {
    play(&queue::<F>(), "add a1; update a2; replace [b1]; close; pop a:[A1 U2 T(a2)]; pop b:[R1]; closed");
}

fn lease_given_back_later_is_pending_again<F: Family>() {
    play(&queue::<F>(), "add a1; hold a:[A1]; close; closed; requeue a; pending 1; pop a:[A1] try 2; closed");
    let queue: Queue<F> = builder().on_abandon(OnAbandon::Requeue).build();
    play(&queue, "add a1; hold a:[A1]; close; closed; drop a; pop a:[A1] try 2; closed");
}

fn dirty_key_is_still_delivered<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1");
    let lease = queue.pop().unwrap();
    play(&queue, "update a2; close; empty; pending 1");
    thread::scope(|scope| {
        // It waits for the dirty key.
        let pop = scope.spawn(|| {
            let lease = pop_soon(&queue);
            let text = lease_text(&lease);
            lease.done();
            text
        });
        thread::yield_now();
        lease.done();
        assert_eq!(pop.join().unwrap(), "a:[U2]");
    });
    play(&queue, "closed");
}

fn running_replace_is_waited_for<F: Family>() {
    let queue = queue::<F>();
    let items = [(key("a"), 1)].into_iter().inspect(|_| {
        queue.close();
        // Closed, and yet something may come.
        assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty));
    });
    queue.replace(items).unwrap();
    play(&queue, "pop a:[R1]; closed");
}

fn replace_that_began_before_completes<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known gone1 b1");
    let items = [(key("a"), 1), (key("b"), 2)].into_iter().inspect(|_| {
        queue.close();
    });
    let completion = queue.replace(items).unwrap();
    play(&queue, "any a:[R1] b:[R2] gone:[T(gone1)]; closed");
    assert_eq!(completion.wait(), Ok(()));
}

fn racing_changes_are_rejected_or_delivered<F: Family>() {
    struct Round<Q> {
        queue: Q,
        accepted: Mutex<Option<bool>>,
        popped: Mutex<Vec<String>>,
    }
    let producer = |round: &Round<Queue<F>>| {
        let accepted = round.queue.add(key("a"), 1).is_ok();
        *round.accepted.lock().unwrap() = Some(accepted);
    };
    let consumer = |round: &Round<Queue<F>>| {
        while let Ok(lease) = round.queue.pop_timeout(LONG) {
            round.popped.lock().unwrap().push(lease_text(&lease));
            lease.done();
        }
    };
    race(
        500,
        |_| Round { queue: queue::<F>(), accepted: Mutex::default(), popped: Mutex::default() },
        &[&producer, &consumer, &|round| {
            round.queue.close();
        }],
        |round| {
            let popped = round.popped.into_inner().unwrap();
            match round.accepted.into_inner().unwrap() {
                Some(true) => assert_eq!(popped, ["a:[A1]"]),
                _ => assert!(popped.is_empty(), "{popped:?} was rejected"),
            }
        },
    );
}

fn discard_drops_and_counts<F: Family>() {
    let queue: F::Queue<String, Arc<u32>> = delta_fifo::Builder::new().build();
    let object = Arc::new(1);
    for name in ["a", "a", "b", "c"] {
        queue.add(key(name), Arc::clone(&object)).unwrap();
    }
    queue.pop().unwrap().done();
    queue.pop().unwrap().requeue_after(LONG * 60);
    assert_eq!(Arc::strong_count(&object), 5 - 1);
    assert_eq!(queue.close_discard(), Discarded { keys: 2, deltas: 2 });
    assert!(queue.is_closed());
    assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed));
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    // The object that is known, or was handed out, and our own.
    assert_eq!(Arc::strong_count(&object), 1 + queue.known().len());
    drop(queue);
    assert_eq!(Arc::strong_count(&object), 1);
}

fn discard_counts_what_is_given_back_later<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; update a2; add b1; add c1; add d1");
    let mut leases = queue.pop_batch(3).unwrap().into_iter();
    let (a, b, c) = (leases.next().unwrap(), leases.next().unwrap(), leases.next().unwrap());
    play(&queue, "update a3");
    assert_eq!(queue.close_discard(), Discarded { keys: 2, deltas: 2 });
    play(&queue, "closed; pending 0; leased 3");
    a.requeue();
    play(&queue, "closed; pending 0");
    assert_eq!(queue.close_discard(), Discarded { keys: 3, deltas: 4 });
    b.done();
    drop(c);
    assert_eq!(queue.close_discard(), Discarded { keys: 4, deltas: 5 });
    play(&queue, "closed; pending 0; leased 0");
    assert_eq!(queue.close_and_wait(), Ok(()));
}

fn close_and_wait_waits_for_leases_and_keys<F: Family>() {
    let queue = Arc::new(queue::<F>());
    play(&*queue, "add a1; add b1");
    let lease = queue.pop_owned().unwrap();
    assert_eq!(queue.close_and_wait_timeout(std::time::Duration::from_millis(1)), Err(WaitError::Timeout));
    assert!(queue.is_closed());
    let waiter = Arc::clone(&queue);
    let waiting = thread::spawn(move || {
        waiter.close_and_wait().unwrap();
        (waiter.pending_len(), waiter.leased_len())
    });
    lease.requeue();
    play(&*queue, "pop b:[A1]; pop a:[A1] try 2; closed");
    assert_eq!(finishes("the wait", move || waiting.join().unwrap()), (0, 0));
}

fn close_and_wait_of_an_own_lease<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1");
    let lease = queue.pop().unwrap();
    assert_eq!(queue.close_and_wait(), Err(WaitError::WouldDeadlock));
    assert!(queue.is_closed());
    lease.done();
    assert_eq!(queue.close_and_wait(), Ok(()));
}

fn known_objects_stay_readable<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1; update a2; close");
    queue.close_discard();
    assert_eq!((queue.known().get("a"), queue.snapshot().len()), (Some(1), 1));
}

fn one_of_many_closes_is_first<F: Family>() {
    race(
        100,
        |_| (queue::<F>(), Mutex::new(0)),
        &[
            &|(queue, first): &(Queue<F>, Mutex<u32>)| *first.lock().unwrap() += u32::from(queue.close()),
            &|(queue, first)| *first.lock().unwrap() += u32::from(queue.close()),
        ],
        |(_, first)| assert_eq!(first.into_inner().unwrap(), 1),
    );
}
