//! Keys that wait for their time.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{Backoff, DeltaQueue, Outcome, Timer};

use crate::common::{
    Family, LONG, Queue, Woken, block_on, builder, for_each_queue, key, lease_text, play, poll_once,
    pop_soon, queue,
};

for_each_queue!(
    delayed_key_comes_back_by_itself,
    delayed_key_goes_in_line_with_a_new_delta,
    dirty_key_does_not_wait_for_its_delay,
    delays_are_served_in_their_own_order,
    close_puts_delayed_keys_in_line,
    delays_after_close_are_waited_for,
    backoff_follows_the_attempts,
    abandoned_lease_waits_for_the_backoff,
    sleeping_consumer_wakes_for_an_earlier_delay,
    async_consumers_wake_without_a_timer_hook,
    async_consumers_wake_by_the_timer_hook,
    delay_of_no_time_and_of_all_time,
);

const HOUR: Duration = Duration::from_secs(3600);

fn delayed_key_comes_back_by_itself<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1");
    let delay = Duration::from_millis(30);
    let start = Instant::now();
    queue.pop().unwrap().requeue_after(delay);
    assert_eq!((queue.pending_len(), queue.leased_len()), (1, 0));
    let lease = pop_soon(&queue);
    assert!(start.elapsed() >= delay);
    assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 2));
    lease.done();
    play(&queue, "empty; pending 0");
}

fn delayed_key_goes_in_line_with_a_new_delta<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    queue.pop().unwrap().requeue_after(HOUR);
    play(&queue, "empty; pending 1; add b1; update a2; pop b:[A1]; pop a:[A1 U2] try 2; empty; pending 0");
    // A deletion and a replace are new deltas too.
    for delta in ["delete a2", "delete_key a", "replace [a2]", "replace []"] {
        let queue = crate::common::queue::<F>();
        queue.add(key("a"), 1).unwrap();
        queue.pop().unwrap().requeue_after(HOUR);
        play(&queue, delta);
        assert_eq!(queue.try_pop().unwrap().deltas().len(), 2, "{delta}");
    }
}

fn dirty_key_does_not_wait_for_its_delay<F: Family>() {
    let queue = queue::<F>();
    queue.add(key("a"), 1).unwrap();
    let lease = queue.pop().unwrap();
    queue.update(key("a"), 2).unwrap();
    lease.requeue_after(HOUR);
    play(&queue, "pop a:[A1 U2] try 2; empty");
}

fn delays_are_served_in_their_own_order<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1; add c1");
    let delays = [40, 1, 20].map(Duration::from_millis);
    for (lease, delay) in queue.pop_batch(3).unwrap().into_iter().zip(delays) {
        lease.requeue_after(delay);
    }
    let order: Vec<String> = (0..3)
        .map(|_| {
            let lease = pop_soon(&queue);
            let name = lease.key().clone();
            lease.done();
            name
        })
        .collect();
    assert_eq!(order, ["b", "c", "a"]);
}

fn close_puts_delayed_keys_in_line<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    queue.pop().unwrap().requeue_after(HOUR);
    queue.pop().unwrap().requeue_after(HOUR * 2);
    play(&queue, "empty; pending 2; close; pending 2; any a:[A1] b:[A1]; closed");
    // Who sleeps wakes for it.
    let queue = crate::common::queue::<F>();
    queue.add(key("a"), 1).unwrap();
    queue.pop().unwrap().requeue_after(HOUR);
    thread::scope(|scope| {
        let pop = scope.spawn(|| {
            let lease = pop_soon(&queue);
            let text = lease_text(&lease);
            lease.done();
            text
        });
        thread::yield_now();
        queue.close();
        assert_eq!(pop.join().unwrap(), "a:[A1]");
    });
}

fn delays_after_close_are_waited_for<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; close");
    let delay = Duration::from_millis(30);
    let start = Instant::now();
    queue.pop().unwrap().requeue_after(delay);
    play(&queue, "empty; pending 1");
    let lease = pop_soon(&queue);
    assert!(start.elapsed() >= delay);
    lease.done();
    play(&queue, "closed");
}

fn backoff_follows_the_attempts<F: Family>() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asks = Arc::clone(&asked);
    let backoff = Backoff::custom(move |attempts| {
        asks.lock().unwrap().push(attempts);
        Duration::from_millis(1)
    });
    let queue: Queue<F> = builder().backoff(backoff).build();
    queue.add(key("a"), 1).unwrap();
    pop_soon(&queue).requeue_with_backoff();
    pop_soon(&queue).requeue_with_backoff();
    drop(pop_soon(&queue));
    pop_soon(&queue).end(Outcome::RequeueWithBackoff);
    pop_soon(&queue).done();
    queue.update(key("a"), 2).unwrap();
    // Done forgets the attempts; a plain requeue and a fixed delay ask nobody, and count.
    pop_soon(&queue).requeue();
    pop_soon(&queue).requeue_after(Duration::ZERO);
    pop_soon(&queue).requeue_with_backoff();
    pop_soon(&queue).give_up();
    queue.update(key("a"), 3).unwrap();
    pop_soon(&queue).requeue_with_backoff();
    assert_eq!(*asked.lock().unwrap(), [1, 2, 3, 4, 3, 1]);
}

fn abandoned_lease_waits_for_the_backoff<F: Family>() {
    let queue: Queue<F> = builder().backoff(Backoff::exponential(HOUR, HOUR)).build();
    play(&queue, "add a1; add b1; hold a:[A1]; drop a; pending 2; pop b:[A1]; empty; pending 1; leased 0");
    play(&queue, "update a2; pop a:[A1 U2] try 2; empty");
}

fn sleeping_consumer_wakes_for_an_earlier_delay<F: Family>() {
    // It sleeps for a delay of an hour when one comes that is shorter.
    for _ in 0..20 {
        let queue = queue::<F>();
        play(&queue, "add far1; add near1");
        let (far, near) = (queue.pop().unwrap(), queue.pop().unwrap());
        far.requeue_after(HOUR);
        thread::scope(|scope| {
            let pop = scope.spawn(|| pop_soon(&queue).key().clone());
            thread::yield_now();
            near.requeue_after(Duration::from_millis(1));
            assert_eq!(pop.join().unwrap(), "near");
        });
    }
}

fn async_consumers_wake_without_a_timer_hook<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    let delay = Duration::from_millis(20);
    queue.pop().unwrap().requeue_after(HOUR);
    let start = Instant::now();
    queue.pop().unwrap().requeue_after(delay);
    // The executor polls only when it was woken.
    let lease = block_on(queue.pop_async()).unwrap();
    assert!(start.elapsed() >= delay);
    assert_eq!(lease_text(&lease), "b:[A1]");
    lease.done();
    // One that waits already when the delay begins.
    queue.add(key("c"), 1).unwrap();
    let lease = queue.pop().unwrap();
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    lease.requeue_after(Duration::from_millis(1));
    woken.wait();
    let lease = block_on(pop).unwrap();
    assert_eq!((lease_text(&lease), lease.attempts()), ("c:[A1]".into(), 2));
}

/// What a queue has asked its timer for.
type Alarm = (Instant, Box<dyn FnOnce() + Send>);

struct Recorder(Mutex<mpsc::Sender<Alarm>>);

impl Timer for Recorder {
    fn wake_at(&self, at: Instant, wake: Box<dyn FnOnce() + Send>) {
        let _ = self.0.lock().unwrap().send((at, wake));
    }
}

fn async_consumers_wake_by_the_timer_hook<F: Family>() {
    let (sender, alarms) = mpsc::channel();
    let queue: Queue<F> = builder().timer(Recorder(Mutex::new(sender))).build();
    queue.add(key("a"), 1).unwrap();
    let delay = Duration::from_millis(10);
    let start = Instant::now();
    queue.pop().unwrap().requeue_after(delay);
    let woken = Woken::new();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    let (at, wake) = alarms.recv_timeout(LONG).unwrap();
    assert!(at >= start + delay && at <= Instant::now() + delay);
    // Too early it does no harm; the queue asks again.
    wake();
    let lease = loop {
        match poll_once(&mut pop, &woken) {
            Poll::Ready(lease) => break lease.unwrap(),
            Poll::Pending => {
                let (at, wake) = alarms.recv_timeout(LONG).unwrap();
                while Instant::now() < at {
                    thread::yield_now();
                }
                wake();
                woken.wait();
            }
        }
    };
    assert!(start.elapsed() >= delay);
    assert_eq!((lease_text(&lease), lease.attempts()), ("a:[A1]".into(), 2));
}

fn delay_of_no_time_and_of_all_time<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1");
    queue.pop().unwrap().requeue_after(Duration::MAX);
    queue.pop().unwrap().requeue_after(Duration::ZERO);
    assert_eq!(lease_text(&pop_soon(&queue)), "b:[A1]");
    play(&queue, "update a2; hold a:[A1 U2]");
}
