//! Leases that were held for long are told of when they end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use delta_fifo::{Builder, DeltaQueue, ManualClock, Outcome};

use crate::common::{Family, Queue, block_on, builder, for_each_queue, key, play};

for_each_queue!(
    each_ending_of_a_slow_lease_is_told,
    quick_leases_are_not_told,
    leases_of_a_batch_are_told_one_by_one,
    process_is_timed_too,
    hook_may_call_the_queue,
    panics_of_the_hook_are_contained,
    each_lease_counts_from_its_own_beginning,
);

const LIMIT: Duration = Duration::from_millis(100);
const MS: Duration = Duration::from_millis(1);

type Told = Arc<Mutex<Vec<(String, usize, u128)>>>;

fn told_by(clock: &ManualClock) -> (Told, Builder<String, u32>) {
    let told = Told::default();
    let hears = Arc::clone(&told);
    let hook = move |slow: &delta_fifo::SlowEvent<'_, String>| {
        hears.lock().unwrap().push((slow.key.clone(), slow.depth, slow.time.as_millis()));
    };
    (told, builder().timer(clock.clone()).on_slow(LIMIT, hook))
}

fn slow<F: Family>() -> (ManualClock, Told, Queue<F>) {
    let clock = ManualClock::new();
    let (told, builder) = told_by(&clock);
    (clock, told, builder.build())
}

fn take(told: &Told) -> Vec<(String, usize, u128)> {
    std::mem::take(&mut told.lock().unwrap())
}

fn each_ending_of_a_slow_lease_is_told<F: Family>() {
    let (clock, told, queue) = slow::<F>();
    let queue = Arc::new(queue);
    play(&*queue, "add a1; add b1");
    let endings: [fn(delta_fifo::OwnedLease<Queue<F>>); 7] = [
        |lease| lease.requeue(),
        |lease| lease.requeue_after(Duration::ZERO),
        |lease| lease.requeue_with_backoff(),
        |lease| drop(lease),
        |lease| lease.give_up(),
        |lease| lease.done(),
        |lease| {
            _ = catch_unwind(AssertUnwindSafe(|| {
                let _lease = lease;
                panic!("a consumer panics")
            }))
        },
    ];
    for (number, end) in endings.into_iter().enumerate() {
        play(&*queue, "apply a2; apply b2");
        // Whichever is first: one is held, the other waits.
        let lease = match number % 2 {
            0 => queue.pop_owned().unwrap(),
            _ => block_on(queue.pop_async_owned()).unwrap(),
        };
        let name = lease.key().clone();
        clock.advance(LIMIT + MS);
        end(lease);
        assert_eq!(take(&told), [(name, 1, 101)], "ending {number}");
        clock.advance(Duration::from_secs(3600));
    }
    assert_eq!(queue.leased_len(), 0);
}

fn quick_leases_are_not_told<F: Family>() {
    let (clock, told, queue) = slow::<F>();
    play(&queue, "add a1");
    let lease = queue.pop().unwrap();
    clock.advance(LIMIT);
    lease.done();
    assert_eq!(take(&told), []);
    // Nor does it count how long a key waits.
    play(&queue, "add a1");
    clock.advance(LIMIT * 2);
    queue.pop().unwrap().done();
    assert_eq!(take(&told), []);
}

fn leases_of_a_batch_are_told_one_by_one<F: Family>() {
    let (clock, told, queue) = slow::<F>();
    play(&queue, "add a1; add b1; add c1");
    let batch = queue.pop_batch(2).unwrap();
    clock.advance(LIMIT * 2);
    batch.done();
    assert_eq!(take(&told), [(key("a"), 1, 200), (key("b"), 1, 200)]);
}

fn process_is_timed_too<F: Family>() {
    let (clock, told, queue) = slow::<F>();
    play(&queue, "add a1; add b1");
    let process = |time: Duration, outcome: Outcome| {
        queue.process(|_| {
            clock.advance(time);
            outcome
        })
    };
    process(LIMIT * 3, Outcome::Requeue).unwrap();
    assert_eq!(take(&told), [(key("a"), 1, 300)]);
    process(LIMIT, Outcome::Done).unwrap();
    assert_eq!(take(&told), []);
}

fn hook_may_call_the_queue<F: Family>() {
    let clock = ManualClock::new();
    let place: Arc<OnceLock<Weak<Queue<F>>>> = Arc::default();
    let called = Arc::clone(&place);
    let hook = move |slow: &delta_fifo::SlowEvent<'_, String>| {
        let queue = called.get().and_then(Weak::upgrade).expect("the caller has it");
        assert_eq!(queue.leased_len(), 0, "the lease has ended");
        queue.add(format!("{} was slow", slow.key), 1).unwrap();
    };
    let queue: Arc<Queue<F>> = Arc::new(builder().timer(clock.clone()).on_slow(LIMIT, hook).build());
    let _ = place.set(Arc::downgrade(&queue));
    play(&*queue, "add a1");
    let lease = queue.pop().unwrap();
    clock.advance(LIMIT * 2);
    lease.done();
    assert_eq!(queue.pop().unwrap().key(), "a was slow");
}

fn panics_of_the_hook_are_contained<F: Family>() {
    let clock = ManualClock::new();
    let queue: Queue<F> =
        builder().timer(clock.clone()).on_slow(LIMIT, |_| panic!("the hook panics")).build();
    play(&queue, "add a1; add b1");
    let batch = queue.pop_batch(2).unwrap();
    clock.advance(LIMIT * 2);
    batch.done();
    assert_eq!((queue.leased_len(), queue.pending_len()), (0, 0));
    // In the middle of another panic, too.
    play(&queue, "add a1");
    let consumer = catch_unwind(AssertUnwindSafe(|| {
        let _lease = queue.pop().unwrap();
        clock.advance(LIMIT * 2);
        panic!("a consumer panics");
    }));
    assert!(consumer.is_err());
    assert_eq!((queue.leased_len(), queue.pending_len()), (0, 1));
}

fn each_lease_counts_from_its_own_beginning<F: Family>() {
    let (clock, told, queue) = slow::<F>();
    play(&queue, "add a1; add b1");
    let first = queue.pop().unwrap();
    clock.advance(LIMIT);
    let second = queue.pop().unwrap();
    clock.advance(MS);
    second.done();
    assert_eq!(take(&told), []);
    first.requeue();
    assert_eq!(take(&told), [(key("a"), 0, 101)]);
    queue.pop().unwrap().done();
    assert_eq!(take(&told), []);
}
