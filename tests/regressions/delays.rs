//! Delayed keys, and who wakes for them.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use delta_fifo::{DeltaQueue, OwnedLease, Timer};

use crate::common::{Family, LONG, Queue, Woken, builder, for_each_queue, key, play, poll_once, queue};

for_each_queue!(due_key_stands_before_later_ones);

/// This one asks the timer in the call that delays; in the sharded queue the tasks that sleep do when it wakes them.
mod mutex_alone {
    #[test]
    fn timer_that_lost_a_wake_up_is_asked_again() {
        super::timer_that_lost_a_wake_up_is_asked_again::<crate::common::MutexQueues>();
    }
}

const SHORT: Duration = Duration::from_millis(2);

/// Gives a lease back for a moment; the result is a time at which the key is due.
fn delay<F: Family>(lease: OwnedLease<Queue<F>>) -> Instant {
    lease.requeue_after(SHORT);
    Instant::now() + SHORT
}

fn spin_until(due: Instant) {
    while Instant::now() <= due {
        std::hint::spin_loop();
    }
}

/// Though no call has looked at the clock since its time came.
fn due_key_stands_before_later_ones<F: Family>() {
    type Later<F> = fn(&Arc<Queue<F>>);
    let later: [Later<F>; 4] = [
        |queue| queue.add(key("z"), 1).unwrap(),
        |queue| drop(queue.replace([(key("a"), 2), (key("z"), 1)]).unwrap()),
        |queue| {
            let list = queue.begin_replace().unwrap();
            list.upsert(key("z"), 1).unwrap();
        },
        // A lease that ends goes to the tail as well.
        |queue| {
            queue.add(key("z"), 1).unwrap();
            let [delayed, z] = [(); 2].map(|()| queue.pop_owned().unwrap());
            let due = delay::<F>(delayed);
            spin_until(due);
            z.requeue();
        },
    ];
    for later in later {
        let queue = Arc::new(queue::<F>());
        play(&*queue, "add a1");
        spin_until(delay::<F>(queue.pop_owned().unwrap()));
        later(&queue);
        let batch = queue.try_pop_batch(9).unwrap();
        assert_eq!(batch.iter().map(|lease| lease.key().as_str()).collect::<Vec<_>>(), ["a", "z"]);
        batch.done();
    }
}

type WakeUp = Box<dyn FnOnce() + Send>;

/// Keeps what it is asked for, but the first one gets lost.
#[derive(Clone, Default)]
struct Lossy(Arc<Mutex<(usize, Vec<WakeUp>)>>);

impl Lossy {
    fn asked(&self) -> usize {
        self.0.lock().unwrap().0
    }

    fn ring(&self) {
        let wake_ups = std::mem::take(&mut self.0.lock().unwrap().1);
        wake_ups.into_iter().for_each(|wake_up| wake_up());
    }
}

impl Timer for Lossy {
    fn wake_at(&self, _: Instant, wake: WakeUp) {
        let mut timer = self.0.lock().unwrap();
        timer.0 += 1;
        if timer.0 > 1 {
            timer.1.push(wake);
        }
    }
}

fn timer_that_lost_a_wake_up_is_asked_again<F: Family>() {
    let timer = Lossy::default();
    let queue: Arc<Queue<F>> = Arc::new(builder().timer(timer.clone()).build());
    let woken = Woken::new();
    play(&*queue, "add a1");
    let lease = queue.pop_owned().unwrap();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    let due = delay::<F>(lease);
    assert_eq!(timer.asked(), 1);
    spin_until(due);
    timer.ring();
    assert_eq!(woken.count(), 0, "the wake-up was not lost");
    // The next event brings the key.
    play(&*queue, "add b1");
    woken.wait();
    let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &woken) else { panic!("two keys are in line") };
    assert_eq!(lease.key(), "a");
    lease.done();
    play(&*queue, "pop b:[A1]; empty; add c1");

    let woken = Woken::new();
    let lease = queue.pop_owned().unwrap();
    let mut pop = Box::pin(queue.pop_async());
    assert!(poll_once(&mut pop, &woken).is_pending());
    let due = delay::<F>(lease);
    assert!(timer.asked() > 1, "the timer was not asked again");
    spin_until(due);
    timer.ring();
    woken.wait();
    let Poll::Ready(Ok(lease)) = poll_once(&mut pop, &woken) else { panic!("the key is due") };
    assert_eq!((lease.key().as_str(), lease.attempts()), ("c", 2));
    lease.done();
    assert!(queue.close_and_wait_timeout(LONG).is_ok());
}
