//! One lease of a key at a time (E2), and what comes back from one: before what arrived meanwhile.

use super::*;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::epoch;
use crate::sync::model::model;

use super::super::end::LazyPin;

model! { e2_two_consumers_and_two_handles_of_one_key, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "doubled",
    fails: fails_if_a_handle_is_good_whatever_the_state "a handle is good whatever the state" "Causality violation",
}
model! { e2_two_consumers_and_an_add, preemptions: Some(2),
    fails: fails_if_exchanged_relaxed "the word is exchanged relaxed" "Causality violation",
    fails: fails_if_the_word_is_stored "the word is stored" "doubled",
}
model! { e2_what_is_requeued_comes_before_what_arrives, preemptions: Some(3),
    fails: fails_if_it_comes_last "what came back comes last" "out of order",
    fails: fails_if_the_word_is_stored "the word is stored" "out of order",
}
model! { e2_an_abandoned_lease_comes_back, preemptions: Some(3),
    fails: fails_if_it_comes_last "what came back comes last" "out of order",
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e2_a_pop_that_came_to_nothing_goes_to_the_tail, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e2_a_lease_that_nobody_has_seen_comes_first, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}

/// Who has the key. Its steps are seen by loom, and order nothing.
struct Turn(AtomicBool);

impl Turn {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Turn(AtomicBool::new(false)))
    }

    fn pop(&self, queue: &Fifo) -> Option<(u32, Vec<u32>)> {
        let lease = queue.try_pop().ok()?;
        // Relaxed, both: a read-modify-write sees the newest.
        let taken = self.0.swap(true, Ordering::Relaxed);
        let popped = (*lease.key(), numbers(&lease));
        self.0.swap(false, Ordering::Relaxed);
        if taken {
            std::mem::forget(lease);
            panic!("two leases of one key");
        }
        lease.done();
        Some(popped)
    }
}

mod bodies {
    use super::*;

    pub(super) fn e2_two_consumers_and_two_handles_of_one_key() {
        let (queue, turn) = (Queue::new(), Turn::new());
        queue.add(1, 10).unwrap();
        once_more(&queue);
        let theirs = turn.clone();
        let consumer = queue.thread(move |queue| theirs.pop(queue));
        let mine = turn.pop(&queue);
        let theirs = consumer.join().unwrap();
        let all = of_key(1, mine.into_iter().chain(theirs).chain(rest(&queue)));
        assert_eq!(all, [10], "lost, or doubled");
    }

    /// The add may find the key in line, leased by either, or gone.
    pub(super) fn e2_two_consumers_and_an_add() {
        let (queue, turn) = (Queue::new(), Turn::new());
        queue.add(1, 10).unwrap();
        once_more(&queue);
        let theirs = turn.clone();
        let consumer = queue.thread(move |queue| theirs.pop(queue));
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        let mine = turn.pop(&queue);
        let theirs = consumer.join().unwrap();
        adder.join().unwrap();
        let mut all = of_key(1, mine.into_iter().chain(theirs).chain(rest(&queue)));
        all.sort_unstable();
        assert_eq!(all, [10, 20], "lost, or doubled");
    }

    /// A lease ends as it does, and is popped again; a change arrives at any moment.
    fn comes_back(end: fn(Lease<'_, Fifo>)) {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let lease = queue.try_pop().unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        end(lease);
        let again = queue.try_pop().map(|lease| {
            let again = (lease.attempts(), numbers(&lease));
            lease.done();
            again
        });
        adder.join().unwrap();
        let (attempts, mut all) = again.expect("lost: it is in line");
        assert_eq!(attempts, 2, "handed out twice");
        all.extend(of_key(1, rest(&queue)));
        assert_eq!(all, [10, 20], "lost, doubled or out of order");
    }

    pub(super) fn e2_what_is_requeued_comes_before_what_arrives() {
        comes_back(|lease| lease.requeue());
    }

    /// This is what a panic of its consumer does. (Not by one: the threads of a model would all be taken for panicking.)
    pub(super) fn e2_an_abandoned_lease_comes_back() {
        comes_back(|lease| drop(lease));
    }

    /// Two keys are in line. A pop takes the first, which goes back as if nobody had seen it, while a change arrives. Then
    /// both are popped.
    fn goes_back(undo: fn(&Fifo), in_line: [u32; 2]) {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        queue.add(2, 10).unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        undo(&queue);
        let mut all = Vec::new();
        for key in in_line {
            let lease = queue.try_pop().expect("lost: it is in line");
            assert_eq!((*lease.key(), lease.attempts()), (key, 1), "out of its place");
            if key == 1 {
                all.extend(numbers(&lease));
            }
            lease.done();
        }
        adder.join().unwrap();
        all.extend(of_key(1, rest(&queue)));
        assert_eq!(all, [10, 20], "lost, doubled or out of order");
    }

    /// As when the user's store has panicked.
    pub(super) fn e2_a_pop_that_came_to_nothing_goes_to_the_tail() {
        let undo = |queue: &Fifo| {
            let guard = epoch::pin();
            let at = queue.lines.pop().expect("it is in line");
            let taken = queue.lease(at.0, at.1, &mut LazyPin::default()).expect("its handle is good");
            queue.untake(taken, &guard);
        };
        goes_back(undo, [2, 1]);
    }

    /// As when something of the user's has panicked over a later key of a batch.
    pub(super) fn e2_a_lease_that_nobody_has_seen_comes_first() {
        let undo = |queue: &Fifo| {
            let held = queue.take(1, 0).pop().expect("it is in line");
            queue.unlease(held, &epoch::pin());
        };
        goes_back(undo, [1, 2]);
    }
}
