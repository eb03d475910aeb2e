//! Entries go and come back while others look for them (E6).

use super::*;
use crate::lease::Outcome;
use crate::raw::Ending;
use crate::sync::model::model;

model! { e6_an_entry_is_recycled_after_grace, preemptions: Some(2),
    fails: fails_without_grace "slots are recycled without a grace period" "Causality violation",
    fails: fails_if_handed_over_before_it_is_unlinked "an entry is handed over before it is unlinked" "Causality violation",
}
model! { e6_a_retired_entry_is_passed, preemptions: Some(2),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}

mod bodies {
    use super::*;

    /// A key's lease ends, and another key gets its slot, while a producer looks for the first one.
    pub(super) fn e6_an_entry_is_recycled_after_grace() {
        let queue = Queue::new();
        queue.add(1, 10).unwrap();
        let lease = queue.try_pop().unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        lease.done();
        queue.add(2, 30).unwrap();
        adder.join().unwrap();
        let mut rest = rest(&queue);
        rest.sort_unstable();
        assert_eq!(rest, [(1, vec![20]), (2, vec![30])], "lost, doubled, or another key's");
    }

    /// Whoever ends the lease is stopped, with the entry retired, and on its way to be used again.
    pub(super) fn e6_a_retired_entry_is_passed() {
        for at in ["remove: marked", "limbo: claimed"] {
            let queue = Queue::new();
            queue.add(1, 10).unwrap();
            let held = queue.try_pop().unwrap().into_held();
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
