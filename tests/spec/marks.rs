//! Barriers in the stream of changes, and waiting for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use delta_fifo::{DeltaQueue, Version, WaitError};

use crate::common::{Family, LONG, finishes, for_each_queue, key, play, queue};

for_each_queue!(
    processed_when_all_predecessors_are_completed,
    never_runs_ahead,
    dirty_key_may_hold_it_back_once_more,
    delayed_key_holds_it_back,
    versions_are_opaque,
    waits_end_when_processed,
    own_borrowed_lease_would_deadlock,
    owned_lease_waits_with_a_limit,
    what_can_no_longer_come_is_closed,
    forgotten_lease_holds_it_back,
);

fn through<Q: DeltaQueue>(queue: &Q) -> String {
    queue.processed_through().map_or("-".to_owned(), |version| version.to_string())
}

fn processed_when_all_predecessors_are_completed<F: Family>() {
    let queue = queue::<F>();
    assert_eq!(through(&queue), "-");
    let nothing_before = queue.mark(1).unwrap();
    assert!(nothing_before.is_complete());
    assert_eq!(through(&queue), "1");
    play(&queue, "add a1");
    let second = queue.mark(2).unwrap();
    play(&queue, "add b1");
    let third = queue.mark(3).unwrap();
    assert_eq!(through(&queue), "1");
    let lease = queue.pop().unwrap();
    assert!(!second.is_complete());
    lease.done();
    assert!(second.is_complete() && !third.is_complete());
    assert_eq!(through(&queue), "2");
    play(&queue, "pop b:[A1]");
    assert_eq!(through(&queue), "3");
    assert!(third.is_complete());
    // Later changes are behind the marks.
    play(&queue, "add c1");
    assert_eq!(through(&queue), "3");
}

fn never_runs_ahead<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    let first = queue.mark(1).unwrap();
    play(&queue, "add c1");
    queue.mark(2).unwrap();
    let mut leases = queue.pop_batch(3).unwrap().into_iter();
    let (a, b, c) = (leases.next().unwrap(), leases.next().unwrap(), leases.next().unwrap());
    c.done();
    b.done();
    assert_eq!(through(&queue), "-");
    a.requeue();
    assert_eq!(through(&queue), "-");
    play(&queue, "update a2; pop a:[A1 U2]");
    assert_eq!(through(&queue), "2");
    assert!(first.is_complete());
    // Given up is completed; a tombstone and a sync count as any delta.
    play(&queue, "resync; replace [a3 b3]");
    queue.mark(3).unwrap();
    assert_eq!(through(&queue), "2");
    play(&queue, "any a:[S2 R3] b:[S1 R3] c:[S1 T(c1)]");
    assert_eq!(through(&queue), "3");
    queue.add(key("a"), 9).unwrap();
    queue.mark(4).unwrap();
    queue.pop().unwrap().give_up();
    assert_eq!(through(&queue), "4");
}

fn dirty_key_may_hold_it_back_once_more<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1");
    let lease = queue.pop().unwrap();
    queue.update(key("a"), 2).unwrap();
    let mark = queue.mark(1).unwrap();
    lease.done();
    // The second delta came before the mark and is not completed.
    assert!(!mark.is_complete());
    let lease = queue.pop().unwrap();
    queue.update(key("a"), 3).unwrap();
    lease.done();
    // At most one more lease.
    play(&queue, "pop a:[U3]");
    assert!(mark.is_complete());
    assert_eq!(through(&queue), "1");
}

fn delayed_key_holds_it_back<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let mark = queue.mark(1).unwrap();
    queue.pop().unwrap().requeue_after(Duration::from_secs(3600));
    assert!(!mark.is_complete());
    assert_eq!(mark.wait_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    play(&queue, "update a2; pop a:[A1 U2]");
    assert!(mark.is_complete());
}

fn versions_are_opaque<F: Family>() {
    // Their order is that of the calls, whatever they look like; equal ones are different marks.
    let queue = queue::<F>();
    queue.mark("b").unwrap();
    queue.mark("a".to_owned()).unwrap();
    assert_eq!(queue.processed_through(), Some(Version::from("a")));
    queue.mark(17).unwrap();
    assert_eq!(queue.processed_through(), Some(Version::from(17)));
    queue.add(key("a"), 1).unwrap();
    let again = queue.mark(17).unwrap();
    assert!(!again.is_complete());
    assert_eq!(queue.processed_through(), Some(Version::from(17)));
}

fn waits_end_when_processed<F: Family>() {
    for _ in 0..50 {
        let queue = Arc::new(queue::<F>());
        queue.add(key("a"), 1).unwrap();
        let lease = queue.pop_owned().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (waiter, sees) = (Arc::clone(&queue), Arc::clone(&ended));
        let waiting = thread::spawn(move || {
            waiter.mark(1).unwrap().wait().unwrap();
            sees.load(Ordering::SeqCst)
        });
        thread::yield_now();
        ended.store(true, Ordering::SeqCst);
        lease.done();
        assert!(finishes("the wait", move || waiting.join().unwrap()));
    }
}

fn own_borrowed_lease_would_deadlock<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.replace([(key("a"), 1), (key("b"), 1)]).unwrap();
    let mark = queue.mark(1).unwrap();
    let lease = queue.pop().unwrap();
    for wait in [
        replace.wait(),
        replace.wait_timeout(LONG),
        mark.wait(),
        mark.wait_timeout(LONG),
        queue.wait_synced(),
        queue.wait_synced_timeout(LONG),
    ] {
        assert_eq!(wait, Err(WaitError::WouldDeadlock));
    }
    // Another thread has no such lease.
    thread::scope(|scope| {
        let other = scope.spawn(|| mark.wait_timeout(Duration::from_millis(1)));
        assert_eq!(other.join().unwrap(), Err(WaitError::Timeout));
    });
    // A lease that it does not wait for does not matter: of a key changed after the mark.
    let later = crate::common::queue::<F>();
    play(&later, "add before1");
    let mark_before = later.mark(1).unwrap();
    play(&later, "add after1");
    let mut leases = later.pop_batch(2).unwrap().into_iter();
    leases.next().unwrap().requeue();
    assert_eq!(mark_before.wait_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    leases.next().unwrap().done();
    // Nor one of a key that was completed since.
    play(&queue, "hold b:[R1]");
    queue.add(key("c"), 1).unwrap();
    lease.done();
    let unrelated = queue.pop().unwrap();
    assert_eq!((unrelated.key().as_str(), mark.wait(), replace.wait()), ("c", Ok(()), Ok(())));
    assert_eq!(queue.close_and_wait_timeout(LONG), Err(WaitError::WouldDeadlock));
    assert!(queue.is_closed());
    unrelated.done();
    assert_eq!(queue.close_and_wait(), Ok(()));
}

fn owned_lease_waits_with_a_limit<F: Family>() {
    let queue = Arc::new(queue::<F>());
    queue.add(key("a"), 1).unwrap();
    let mark = queue.mark(1).unwrap();
    let lease = queue.pop_owned().unwrap();
    assert_eq!(mark.wait_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    lease.done();
    assert_eq!(mark.wait_timeout(LONG), Ok(()));
}

fn what_can_no_longer_come_is_closed<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.replace([(key("a"), 1)]).unwrap();
    let mark = queue.mark(1).unwrap();
    queue.close();
    // It still can.
    assert_eq!(mark.wait_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    assert_eq!(queue.close_discard().keys, 1);
    assert_eq!(mark.wait(), Err(WaitError::Closed));
    assert_eq!(replace.wait(), Err(WaitError::Closed));
    assert_eq!(queue.wait_synced(), Err(WaitError::Closed));
    assert!(!mark.is_complete() && !replace.is_complete() && !queue.has_synced());
    assert_eq!(queue.processed_through(), None);
    // Nothing decided the first sync, and nothing can any more.
    let queue = crate::common::queue::<F>();
    assert_eq!(queue.wait_synced_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    queue.close();
    assert_eq!(queue.wait_synced(), Err(WaitError::Closed));
    // Completed in time, a mark and a replace stay so.
    let queue = crate::common::queue::<F>();
    let replace = queue.replace([(key("a"), 1)]).unwrap();
    let mark = queue.mark(1).unwrap();
    play(&queue, "pop a:[R1]");
    queue.close_discard();
    assert_eq!((mark.wait(), replace.wait(), queue.wait_synced()), (Ok(()), Ok(()), Ok(())));
}

fn forgotten_lease_holds_it_back<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let mark = queue.mark(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(queue.pop().unwrap()));
    });
    play(&queue, "add b1; pop b:[A1]");
    assert_eq!(mark.wait_timeout(Duration::from_millis(1)), Err(WaitError::Timeout));
    assert_eq!(queue.processed_through(), None);
}
