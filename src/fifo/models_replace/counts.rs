//! What the counts of keys show: there are moments at which nothing is pending or leased only if there are.

use super::*;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;

model! { counts_something_is_pending_all_the_time, preemptions: Some(2),
    fails: fails_if_read_relaxed "what is pending is read relaxed" "nothing is pending",
    fails: fails_if_compared_relaxed "what was reached is read relaxed" "nothing is pending",
}
model! { counts_something_is_leased_all_the_time, preemptions: Some(2),
    fails: fails_if_read_relaxed "what is leased is read relaxed" "nothing is leased",
}
model! { who_sees_it_drained_sees_what_leases_did, preemptions: Some(3),
    fails: fails_if_a_lease_ends_relaxed "a lease ends relaxed" "Causality violation",
    fails: fails_if_read_relaxed "what was reached is read relaxed" "Causality violation",
}

impl Model {
    fn lease_one(&self) -> Held<u8, u32> {
        self.take(1, 0).pop().expect("one is in line")
    }
}

/// Two keys, of which the first is leased, in a queue that is closed.
fn two() -> (Arc<Model>, Held<u8, u32>) {
    let queue = Model::new();
    queue.add_one(1);
    queue.offer_change(Change::Add(KEY + 1, 2));
    let first = queue.lease_one();
    queue.close_now();
    (queue, first)
}

mod bodies {
    use super::*;

    /// A key is given back before another is taken.
    pub(super) fn counts_something_is_pending_all_the_time() {
        let (queue, first) = two();
        let consumer = queue.spawn(|queue| {
            queue.end_one(first, Ending::By(Outcome::Requeue));
            queue.lease_one()
        });
        assert!(queue.pending_len_now() > 0, "nothing is pending");
        assert!(!queue.is_finished(), "closed, and nothing is pending");
        let second = consumer.join().unwrap();
        let mut log = Log::new();
        queue.finish_one(second, &mut log);
        assert_eq!(queue.drain(log).len(), 2);
    }

    /// A key is taken before the lease of another ends.
    pub(super) fn counts_something_is_leased_all_the_time() {
        let (queue, first) = two();
        let consumer = queue.spawn(|queue| {
            let second = queue.lease_one();
            queue.finish_one(first, &mut Log::new());
            second
        });
        assert!(queue.leased_len() > 0, "nothing is leased");
        let second = consumer.join().unwrap();
        queue.finish_one(second, &mut Log::new());
        queue.drain(Log::new());
    }

    pub(super) fn who_sees_it_drained_sees_what_leases_did() {
        let (queue, work) = (Model::new(), Arc::new(UnsafeCell::new(())));
        queue.add_one(1);
        let held = queue.lease_one();
        queue.close_now();
        let consumer = {
            let work = Arc::clone(&work);
            queue.spawn(move |queue| {
                work.with_mut(|_| ());
                queue.finish_one(held, &mut Log::new());
            })
        };
        if queue.is_drained() {
            work.with(|_| ());
        }
        consumer.join().unwrap();
        assert!(queue.is_drained(), "never");
    }
}
