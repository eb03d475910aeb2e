//! What a queue says of itself.

use std::time::Duration;

use delta_fifo::{Background, DeltaQueue, ManualClock, Stats};

use crate::common::{Family, Queue, builder, for_each_queue, key, play, queue};

for_each_queue!(
    keys_are_counted_where_they_are,
    merged_deltas_are_counted,
    ages_and_heights_are_measured_on_request,
    oldest_key_is_the_one_that_waits_longest,
    dirty_key_waits_since_its_first_delta,
    what_comes_back_waits_anew,
    delayed_key_waits_since_its_time_has_come,
    rest_between_two_changes_is_no_wait,
    moved_from_the_background_it_waits_on,
    high_water_stays,
    leases_say_how_long_they_waited,
    discarded_keys_wait_no_more,
);

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn measured<F: Family>() -> (ManualClock, Queue<F>) {
    let clock = ManualClock::new();
    (clock.clone(), builder().timer(clock).measure().build())
}

/// In line, delayed, leased, dirty.
fn places(stats: Stats) -> [usize; 4] {
    [stats.depth, stats.delayed, stats.leased, stats.dirty]
}

fn age<F: Family>(queue: &Queue<F>) -> Option<u64> {
    queue.stats().oldest_age.map(|age| age.as_secs())
}

fn keys_are_counted_where_they_are<F: Family>() {
    let clock = ManualClock::new();
    let queue: Queue<F> = builder().timer(clock.clone()).build();
    assert_eq!(queue.stats(), Stats::default());
    play(&queue, "add a1; add b1; add c1; add d1");
    assert_eq!(places(queue.stats()), [4, 0, 0, 0]);
    let (a, b) = (queue.pop().unwrap(), queue.pop().unwrap());
    assert_eq!(places(queue.stats()), [2, 0, 2, 0]);
    play(&queue, "update a2; update a3; update c2");
    assert_eq!(places(queue.stats()), [2, 0, 2, 1]);
    b.requeue_after(HOUR);
    assert_eq!(places(queue.stats()), [2, 1, 1, 1]);
    a.done();
    assert_eq!(places(queue.stats()), [3, 1, 0, 0]);
    // It is due, though no call has put it in line.
    clock.advance(HOUR);
    assert_eq!(places(queue.stats()), [4, 0, 0, 0]);
    queue.close_discard();
    assert_eq!(places(queue.stats()), [0; 4]);
}

fn merged_deltas_are_counted<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; delete a2; delete a3");
    queue.pop().unwrap().done();
    assert_eq!((queue.stats().merged, queue.merged()), (1, 1));
}

fn ages_and_heights_are_measured_on_request<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1");
    assert_eq!((queue.stats().oldest_age, queue.stats().high_water), (None, None));
    let (_, queue) = measured::<F>();
    assert_eq!((queue.stats().oldest_age, queue.stats().high_water), (None, Some(0)));
    play(&queue, "add a1");
    assert_eq!((queue.stats().oldest_age, queue.stats().high_water), (Some(Duration::ZERO), Some(1)));
}

fn oldest_key_is_the_one_that_waits_longest<F: Family>() {
    let (clock, queue) = measured::<F>();
    for name in ["a", "b", "c"] {
        queue.add(key(name), 1).unwrap();
        clock.advance(SECOND);
    }
    assert_eq!(age::<F>(&queue), Some(3));
    // More of the same does not make it younger.
    play(&queue, "update a2");
    assert_eq!(age::<F>(&queue), Some(3));
    queue.pop().unwrap().done();
    assert_eq!(age::<F>(&queue), Some(2));
    play(&queue, "pop b:[A1]; pop c:[A1]; empty");
    assert_eq!(age::<F>(&queue), None);
}

fn dirty_key_waits_since_its_first_delta<F: Family>() {
    let (clock, queue) = measured::<F>();
    play(&queue, "add a1");
    clock.advance(SECOND);
    let lease = queue.pop().unwrap();
    assert_eq!(age::<F>(&queue), None);
    clock.advance(SECOND);
    play(&queue, "update a2");
    assert_eq!(age::<F>(&queue), Some(0));
    clock.advance(SECOND);
    play(&queue, "update a3");
    assert_eq!(age::<F>(&queue), Some(1));
    lease.done();
    assert_eq!(age::<F>(&queue), Some(1));
    clock.advance(SECOND);
    assert_eq!(age::<F>(&queue), Some(2));
    // The same when the lease gives back what it had.
    let lease = queue.pop().unwrap();
    play(&queue, "update a4");
    clock.advance(SECOND);
    lease.requeue_after(HOUR);
    assert_eq!(age::<F>(&queue), Some(1));
}

fn what_comes_back_waits_anew<F: Family>() {
    let (clock, queue) = measured::<F>();
    play(&queue, "add a1");
    let lease = queue.pop().unwrap();
    clock.advance(HOUR);
    lease.requeue();
    clock.advance(SECOND);
    assert_eq!(age::<F>(&queue), Some(1));
}

fn delayed_key_waits_since_its_time_has_come<F: Family>() {
    let (clock, queue) = measured::<F>();
    play(&queue, "add a1");
    queue.pop().unwrap().requeue_after(HOUR);
    assert_eq!(age::<F>(&queue), None);
    clock.advance(HOUR + SECOND);
    assert_eq!(age::<F>(&queue), Some(1));
    // Any change puts it in line.
    play(&queue, "add b1");
    clock.advance(SECOND);
    assert_eq!((queue.stats().depth, age::<F>(&queue)), (2, Some(2)));
    // A delta ends a delay early, and then counts.
    let lease = queue.pop().unwrap();
    play(&queue, "pop b:[A1]");
    lease.requeue_after(HOUR);
    clock.advance(SECOND);
    play(&queue, "update a2");
    clock.advance(SECOND);
    assert_eq!(age::<F>(&queue), Some(1));
    // So does a close, before its time.
    queue.pop().unwrap().requeue_after(HOUR);
    queue.close();
    assert_eq!((queue.stats().depth, age::<F>(&queue)), (1, Some(0)));
}

fn rest_between_two_changes_is_no_wait<F: Family>() {
    let (clock, queue) = measured::<F>();
    for object in 1..4 {
        queue.apply(key("a"), object).unwrap();
        clock.advance(SECOND);
        assert_eq!(age::<F>(&queue), Some(1));
        queue.pop().unwrap().done();
        clock.advance(HOUR);
        assert_eq!(age::<F>(&queue), None);
    }
    // The same of a key that goes, and comes in the place of another.
    play(&queue, "delete_key a");
    queue.pop().unwrap().done();
    clock.advance(HOUR);
    play(&queue, "add b1");
    assert_eq!(age::<F>(&queue), Some(0));
}

fn moved_from_the_background_it_waits_on<F: Family>() {
    let clock = ManualClock::new();
    let queue: Queue<F> = builder().timer(clock.clone()).measure().background(Background::Resync).build();
    play(&queue, "add a1; pop a:[A1]");
    queue.resync().unwrap();
    clock.advance(SECOND);
    play(&queue, "update a2");
    assert_eq!((places(queue.stats()), age::<F>(&queue)), ([1, 0, 0, 0], Some(1)));
    assert_eq!(queue.stats().high_water, Some(1));
}

fn high_water_stays<F: Family>() {
    let (_, queue) = measured::<F>();
    for _ in 0..3 {
        play(&queue, "apply a1; apply b1; apply c1; apply c2");
        // A dirty key and a delayed one are not in line.
        let lease = queue.pop().unwrap();
        play(&queue, "update a2");
        queue.pop().unwrap().requeue_after(HOUR);
        lease.done();
        queue.pop().unwrap().done();
        play(&queue, "update b2");
        for _ in 0..2 {
            queue.pop().unwrap().done();
        }
        assert_eq!((queue.stats().depth, queue.stats().high_water), (0, Some(3)));
    }
    let keys: Vec<(String, u32)> = (0..10).map(|number| (number.to_string(), 1)).collect();
    queue.replace(keys).unwrap();
    queue.pop_batch(20).unwrap().done();
    // Ten of the list, and three that are gone.
    assert_eq!(queue.stats().high_water, Some(13));
}

fn discarded_keys_wait_no_more<F: Family>() {
    let (clock, queue) = measured::<F>();
    play(&queue, "add a1; add b1");
    let lease = queue.pop().unwrap();
    play(&queue, "update a2");
    clock.advance(SECOND);
    queue.close_discard();
    assert_eq!((places(queue.stats()), age::<F>(&queue)), ([0, 0, 1, 0], None));
    lease.requeue();
    assert_eq!((places(queue.stats()), age::<F>(&queue)), ([0; 4], None));
}

fn leases_say_how_long_they_waited<F: Family>() {
    let (clock, queue) = measured::<F>();
    let waited = |key: &str| {
        let lease = queue.pop().unwrap();
        assert_eq!(lease.key().as_str(), key);
        let seconds = lease.waited().expect("it is measured").as_secs();
        (lease, seconds)
    };
    play(&queue, "add a1");
    clock.advance(SECOND);
    play(&queue, "update a2; add b1");
    clock.advance(SECOND);
    let (a, seconds) = waited("a");
    assert_eq!(seconds, 2, "since its first");
    clock.advance(SECOND);
    play(&queue, "update a3");
    clock.advance(5 * SECOND);
    assert_eq!(a.waited().unwrap().as_secs(), 2, "it stays what it was");
    a.done();
    let (b, seconds) = waited("b");
    assert_eq!(seconds, 7);
    b.requeue_after(HOUR);
    let (a, seconds) = waited("a");
    assert_eq!(seconds, 5, "since it became dirty");
    a.done();
    clock.advance(HOUR + 3 * SECOND);
    let (b, seconds) = waited("b");
    assert_eq!(seconds, 3, "since its time had come");
    b.done();
    let unmeasured = crate::common::queue::<F>();
    play(&unmeasured, "add a1");
    assert_eq!(unmeasured.pop().unwrap().waited(), None);
}
