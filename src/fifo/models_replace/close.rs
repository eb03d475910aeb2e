//! The seal: what races with a close is rejected or delivered, and closed is said only when nothing is pending.

use super::*;
use crate::error::PopTimeoutError;
use crate::raw::Deadline;
use crate::sync::model::model;

model! { seal_a_change_is_rejected_or_delivered, preemptions: Some(3),
    fails: fails_without_a_grace_period "sealed without a grace period" "closed, and a key was pending",
    fails: fails_if_nobody_looks_under_the_guard "nobody looks under the guard" "closed, and a key was pending",
}
model! { seal_a_list_from_before_is_delivered, preemptions: Some(2),
    fails: fails_if_nobody_waits_for_it "closed does not wait for a list" "closed, and a key was pending",
}
model! { seal_a_key_that_is_dirty_is_pending, preemptions: Some(3),
    fails: fails_if_it_is_not_counted "a dirty key is not counted" "closed, and a key was pending",
}
model! { seal_who_is_cut_sees_the_close, preemptions: Some(3),
    fails: fails_if_cut_relaxed "a cut is shown relaxed" "cut, and not closed",
    fails: fails_if_the_cut_is_read_relaxed "a cut is read relaxed" "cut, and not closed",
    fails: fails_if_the_end_is_shown_relaxed "the oldest is shown relaxed" "nobody asks",
    fails: fails_if_the_end_is_read_relaxed "the oldest is read relaxed" "nobody asks",
}
model! { discard_no_key_is_swept_whose_item_is_thrown_away, preemptions: Some(2),
    fails: fails_if_a_sweep_goes_on "a sweep goes on during a discard" "swept",
}

impl Model {
    /// Pops, and what it is told if there is nothing.
    fn pop_or_closed(&self, log: &mut Log) -> Result<(), PopTimeoutError> {
        let held = self.pop_blocking(|thread| self.take_one(thread), Deadline::Now)?;
        self.finish_one(held, log);
        Ok(())
    }

    /// What is left, if it was right to be told so.
    fn drain_closed(&self, told: Result<(), PopTimeoutError>, log: Log) -> Log {
        let popped = log.len();
        let log = self.drain(log);
        let left = log.len() > popped;
        assert!(!(left && told == Err(PopTimeoutError::Closed)), "closed, and a key was pending");
        assert_eq!(self.pop_or_closed(&mut Log::new()), Err(PopTimeoutError::Closed));
        log
    }
}

mod bodies {
    use super::*;

    pub(super) fn seal_a_change_is_rejected_or_delivered() {
        let queue = Model::new();
        let producer = queue.spawn(|queue| queue.change_one(Change::Add(KEY, 1)).is_ok());
        queue.close_now();
        let mut log = Log::new();
        let told = queue.pop_or_closed(&mut log);
        let accepted = producer.join().unwrap();
        assert_eq!(queue.drain_closed(told, log).len(), usize::from(accepted));
    }

    pub(super) fn seal_a_list_from_before_is_delivered() {
        let queue = Model::new();
        let ticket = queue.begin(BeginReplace::list(None)).expect("no other is open");
        let replacer = queue.spawn(|queue| queue.replace_listed(ticket, vec![(KEY, 1)], true).is_ok());
        queue.close_now();
        let mut log = Log::new();
        let told = queue.pop_or_closed(&mut log);
        assert!(replacer.join().unwrap());
        assert_eq!(queue.drain_closed(told, log), [(RawKind::Replaced, Some(1))]);
    }

    /// An upsert of a stream that is cut, and a lease that asks whether one may be on its way still.
    pub(super) fn seal_who_is_cut_sees_the_close() {
        let queue = Model::new();
        let ticket = queue.begin_one();
        let closer = queue.spawn(|queue| _ = queue.close_now());
        if ticket.0.is_cut() {
            assert!(queue.core.closing.is_closed(), "cut, and not closed");
        }
        let asks = queue.core.is_listing() || queue.core.closing.is_sealed();
        assert!(asks, "nobody asks, and calls may be on their way");
        closer.join().unwrap();
    }

    /// The replace has placed an item of a key that is known. Nobody pops.
    pub(super) fn discard_no_key_is_swept_whose_item_is_thrown_away() {
        let queue = Model::knowing(1);
        let ticket = queue.begin(BeginReplace::list(None)).expect("no other is open");
        queue.upsert(&ticket, 2);
        let replacer = queue.spawn(move |queue| queue.sweep_all(&ticket));
        queue.close_and_discard();
        replacer.join().unwrap();
        assert_eq!(queue.drain(Log::new()), [], "swept");
        assert_eq!(queue.known_one(), Some(1), "swept");
    }

    /// A lease ends, with a change that came meanwhile, while another consumer asks.
    pub(super) fn seal_a_key_that_is_dirty_is_pending() {
        let queue = Model::new();
        queue.add_one(1);
        let held = queue.take(1, 0).pop().expect("it is in line");
        queue.update_one(2);
        let consumer = queue.spawn(|queue| queue.finish_one(held, &mut Log::new()));
        queue.close_now();
        let mut log = Log::new();
        let told = queue.pop_or_closed(&mut log);
        consumer.join().unwrap();
        assert_eq!(queue.drain_closed(told, log), [(RawKind::Updated, Some(2))]);
    }
}
