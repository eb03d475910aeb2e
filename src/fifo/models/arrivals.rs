//! What arrives while a lease begins, or ends (E1, E3).

use super::*;
use crate::lease::Outcome;
use crate::raw::Ending;
use crate::sync::model::model;

model! { e1_an_add_meets_the_pop_of_the_last_delta, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e1_an_add_meets_the_end_of_the_lease, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
    fails: fails_if_left_alone "a dirty key is left alone" "lost",
}
model! { e1_a_pop_of_the_last_delta_meets_an_add, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e1_the_end_of_a_lease_meets_an_add, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
    fails: fails_if_left_alone "a dirty key is left alone" "lost",
}
model! { e1_two_adds_meet_on_a_key_at_rest, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e1_two_adds_make_one_key_pending, preemptions: Some(3),
    fails: fails_if_inserted_by_a_store "an insert is a store" "two leases",
}

mod bodies {
    use super::*;

    /// Either the pop gets both, or it gets the first, and the key is in line with the second.
    pub(super) fn e1_an_add_meets_the_pop_of_the_last_delta() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        let mine = pop(&queue);
        adder.join().unwrap();
        let rest = rest(&queue);
        let leases = 1 + rest.len();
        assert_eq!(of_key(1, mine.into_iter().chain(rest)), [10, 20], "lost, doubled or out of order");
        assert!(leases <= 2, "an empty lease");
    }

    /// The key is in line with it afterwards, whether it found the lease or an entry that is retired, or none.
    pub(super) fn e1_an_add_meets_the_end_of_the_lease() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let lease = queue.try_pop().unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        lease.done();
        adder.join().unwrap();
        assert_eq!(rest(&queue), [(1, vec![20])], "lost, or doubled");
    }

    /// The same two with the roles changed: who loads before it writes hides races with another's writes from loom.
    pub(super) fn e1_a_pop_of_the_last_delta_meets_an_add() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let consumer = queue.thread(pop);
        queue.add(1, 20).unwrap();
        let theirs = consumer.join().unwrap();
        let rest = rest(&queue);
        let leases = usize::from(theirs.is_some()) + rest.len();
        assert_eq!(of_key(1, theirs.into_iter().chain(rest)), [10, 20], "lost, doubled or out of order");
        assert!(leases <= 2, "an empty lease");
    }

    pub(super) fn e1_the_end_of_a_lease_meets_an_add() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let held = queue.try_pop().unwrap().into_held();
        let consumer = queue.thread(|queue| queue.end_one(held, Ending::By(Outcome::Done)));
        queue.add(1, 20).unwrap();
        consumer.join().unwrap();
        assert_eq!(rest(&queue), [(1, vec![20])], "lost, or doubled");
    }

    pub(super) fn e1_two_adds_meet_on_a_key_at_rest() {
        let queue = Queue::new();
        queue.add(1, 1).unwrap();
        pop(&queue);
        two_adds(&queue);
    }

    pub(super) fn e1_two_adds_make_one_key_pending() {
        two_adds(&Queue::new());
    }

    fn two_adds(queue: &Queue) {
        let adder = queue.thread(|queue| queue.add(1, 10).unwrap());
        queue.add(1, 20).unwrap();
        adder.join().unwrap();
        let rest = rest(queue);
        assert_eq!(rest.len(), 1, "two leases, or lost: {rest:?}");
        let mut all = of_key(1, rest);
        all.sort_unstable();
        assert_eq!(all, [10, 20], "lost, or doubled");
    }
}
