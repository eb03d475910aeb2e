//! Entries go and come back while others look for them (E6).

use super::*;
use crate::known::KnownView;
use crate::lease::Outcome;
use crate::raw::Ending;
use crate::sync::model::model;

model! { e6_an_entry_is_recycled_after_grace, preemptions: Some(2),
    fails: fails_without_grace "slots are recycled without a grace period" "Causality violation",
    fails: fails_if_handed_over_before_it_is_unlinked "an entry is handed over before it is unlinked" "Causality violation",
}
model! { e6_a_key_that_a_reader_has_found_stays, preemptions: Some(2),
    fails: fails_without_grace "slots are recycled without a grace period" "Causality violation",
    fails: fails_if_it_is_not_counted "a reference is shared and not counted" "another key",
}
model! { e6_a_key_that_a_resync_has_met_stays, preemptions: Some(2),
    fails: fails_without_grace "slots are recycled without a grace period" "Causality violation",
    fails: fails_if_it_is_not_counted "a reference is shared and not counted" "Causality violation",
}
model! { e6_a_retired_entry_is_passed, preemptions: Some(2),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}

mod bodies {
    use super::*;

    /// The lease of a key's deletion, after which nothing is known of it.
    fn deleted(queue: &Fifo) -> Lease<'_, Fifo> {
        queue.add(1, 10).unwrap();
        pop(queue);
        queue.delete(1, 11).unwrap();
        queue.try_pop().unwrap()
    }

    /// A key's lease ends, and another key gets its slot, while a producer looks for the first one.
    pub(super) fn e6_an_entry_is_recycled_after_grace() {
        let queue = Queue::new();
        let lease = deleted(&queue);
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        lease.done();
        queue.add(2, 30).unwrap();
        adder.join().unwrap();
        let mut rest = rest(&queue);
        rest.sort_unstable();
        assert_eq!(rest, [(1, vec![20]), (2, vec![30])], "lost, doubled, or another key's");
    }

    /// The same while a reader looks. What it has found stays what it was, though the entry is another key's by then.
    pub(super) fn e6_a_key_that_a_reader_has_found_stays() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        pop(&queue);
        let reader = queue.thread(|queue| queue.known().find(&1));
        queue.delete(1, 11).unwrap();
        pop(&queue);
        queue.add(2, 30).unwrap();
        if let Some(known) = reader.join().unwrap() {
            assert_eq!((*known.key(), *known.object()), (1, 10), "another key");
        }
        assert_eq!(rest(&queue), [(2, vec![30])]);
    }

    /// The same while a resync goes over the keys, holding one under no guard.
    pub(super) fn e6_a_key_that_a_resync_has_met_stays() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        pop(&queue);
        let resync = queue.thread(|queue| queue.resync().unwrap());
        queue.delete(1, 11).unwrap();
        let mine = pop(&queue);
        queue.add(2, 30).unwrap();
        let resynced = resync.join().unwrap();
        let all: Vec<_> = mine.into_iter().chain(rest(&queue)).collect();
        let first = if resynced == 1 { vec![10, 11] } else { vec![11] };
        assert_eq!((of_key(1, all.clone()), of_key(2, all)), (first, vec![30]), "another key");
    }

    /// Whoever ends the lease is stopped, with the entry retired, and on its way to be used again.
    pub(super) fn e6_a_retired_entry_is_passed() {
        for at in ["remove: marked", "limbo: claimed"] {
            let queue = Queue::new();
            let held = deleted(&queue).into_held();
            let consumer = queue.stopped(at, |queue| queue.end_one(held, Ending::By(Outcome::Done)));
            queue.add(1, 20).unwrap();
            queue.add(2, 30).unwrap();
            let mine: Vec<_> = std::iter::from_fn(|| pop(&queue)).take(4).collect();
            go_on(consumer);
            let mut all: Vec<_> = mine.into_iter().chain(rest(&queue)).collect();
            all.sort_unstable();
            assert_eq!(all, [(1, vec![20]), (2, vec![30])], "lost, doubled, or another key's");
        }
    }
}
