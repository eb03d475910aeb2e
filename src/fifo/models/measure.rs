//! Since when a key waits (M1).

use super::*;
use crate::sync::model::model;

model! { m1_a_key_that_waits_on_has_a_date, preemptions: Some(2),
    fails: fails_if_it_stays_behind "a date stays behind" "not dated",
}

mod bodies {
    use super::*;

    fn measured() -> Queue {
        let queue = Queue::built(Builder::measure);
        queue.add(1, 10).unwrap();
        queue
    }

    fn check(queue: &Fifo) {
        let stats = queue.stats();
        assert!(stats.depth + stats.dirty == 0 || stats.oldest_age.is_some(), "not dated: {stats:?}");
    }

    /// A lease ends while something comes for its key.
    pub(super) fn m1_a_key_that_waits_on_has_a_date() {
        let queue = measured();
        let lease = queue.try_pop().unwrap();
        let adder = queue.thread(|queue| queue.add(1, 20).unwrap());
        lease.done();
        check(&queue);
        adder.join().unwrap();
        check(&queue);
        assert_eq!(rest(&queue), [(1, vec![20])]);
    }
}
