//! What the numbers of changes publish (E7).

use super::*;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;

model! { e7_who_reads_a_number_sees_what_led_to_it, preemptions: None,
    fails: fails_if_raised_relaxed "a settled number is raised relaxed" "Causality violation",
    fails: fails_if_read_relaxed "a settled number is read relaxed" "Causality violation",
}
model! { e7_a_chain_that_was_taken_says_nothing, preemptions: Some(2),
    fails: fails_without_a_fence "no fence before the word is read again" "another key's number",
}

fn work() -> Arc<UnsafeCell<()>> {
    Arc::new(UnsafeCell::new(()))
}

mod bodies {
    use super::*;

    // Who writes is the thread that others are spawned by: what it loads before hides nothing then.

    pub(super) fn e7_who_reads_a_number_sees_what_led_to_it() {
        let (queue, work) = (Model::knowing(1), work());
        let index = queue.left_behind().0.expect("the key is known");
        let reading = {
            let work = Arc::clone(&work);
            queue.spawn(move |queue| {
                if queue.core.shards[0].entries.get(index).settled() == 9 {
                    work.with(|_| ());
                }
            })
        };
        work.with_mut(|_| ());
        queue.core.shards[0].entries.get(index).raise(9);
        reading.join().unwrap();
    }

    /// The facts of a key are popped, and the cell of one of them becomes a newer change of another key, while an item looks at
    /// them.
    pub(super) fn e7_a_chain_that_was_taken_says_nothing() {
        let queue = Model::new();
        queue.add_one(1);
        queue.update_one(2);
        let ticket = queue.begin_one();
        let replacer = queue.spawn(move |queue| queue.upsert(&ticket, 5));
        queue.pop_one();
        (3..6).for_each(|object| queue.offer_change(Change::Add(KEY + 1, object)));
        assert_eq!(replacer.join().unwrap(), Upsert::Placed, "superseded by another key's number");
    }
}
