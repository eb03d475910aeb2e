//! A key that waits for its time, and a new fact that does not.

use std::time::Duration;

use super::*;
use crate::sync::model::model;

model! { a_due_delay_meets_an_add, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { an_add_ends_a_delay_that_begins, preemptions: Some(3),
    fails: fails_if_left_alone "a new fact leaves the delay alone" "not in line",
    fails: fails_if_the_word_is_stored "the word is stored" "not in line",
}
model! { e5_a_delay_that_is_over_ends_no_other, preemptions: Some(3),
    fails: fails_if_due_for_ever "a delay is due for ever" "too early",
}

const LONG: Duration = Duration::from_secs(3_600);

mod bodies {
    use super::*;

    fn delayed(delay: Duration) -> Queue {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        queue.try_pop().unwrap().requeue_after(delay);
        queue
    }

    /// One puts it in line because it is due, the other because something has happened.
    pub(super) fn a_due_delay_meets_an_add() {
        let queue = delayed(Duration::ZERO);
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        let mine = pop(&queue);
        adder.join().unwrap();
        let all = of_key(1, mine.into_iter().chain(rest(&queue)));
        assert_eq!(all, [10, 20], "lost, doubled or out of order");
        assert_eq!(queue.delays.earliest(), None, "left behind");
    }

    /// Whether it comes before the delay, in it or in between: it does not wait.
    pub(super) fn an_add_ends_a_delay_that_begins() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let lease = queue.try_pop().unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        lease.requeue_after(LONG);
        adder.join().unwrap();
        assert_eq!(pop(&queue), Some((1, vec![10, 20])), "not in line, or out of order");
        rest(&queue);
    }

    /// The add may come when the key is Delayed and its time not noted yet: then that is noted in vain, and must not end the
    /// delay that the next lease asks for.
    pub(super) fn e5_a_delay_that_is_over_ends_no_other() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let lease = queue.try_pop().unwrap();
        let other = queue.thread(|queue| {
            queue.add(1, 20).unwrap();
            queue.try_pop().map(|lease| lease.requeue_after(LONG)).is_ok()
        });
        lease.requeue_after(Duration::ZERO);
        if other.join().unwrap() {
            assert_eq!(pop(&queue), None, "too early");
        }
    }
}
