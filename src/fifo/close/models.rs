//! What a close, its seal and a discard publish, under loom.

use super::{Closing, after_grace};
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::epoch;
use crate::sync::model::model;
use crate::sync::thread::{JoinHandle, spawn};

model! { who_sees_it_closed_sees_what_came_before, preemptions: None,
    fails: fails_if_shown_relaxed "a close is shown relaxed" "Causality violation",
    fails: fails_if_read_relaxed "a close is read relaxed" "Causality violation",
}
model! { who_sees_the_seal_sees_what_was_done_under_guards, preemptions: None,
    fails: fails_without_a_grace_period "sealed without a grace period" "Causality violation",
    fails: fails_if_it_ends_relaxed "a grace period ends relaxed" "Causality violation",
    fails: fails_if_read_relaxed "the seal is read relaxed" "Causality violation",
}
model! { a_discard_begins_after_who_has_not_seen_it, preemptions: None,
    fails: fails_if_its_grace_period_ends_relaxed "a grace period ends relaxed" "Causality violation",
    fails: fails_if_that_is_read_relaxed "the end of a grace period is read relaxed" "Causality violation",
}
model! { who_sees_it_discarding_sees_it_closed, preemptions: None,
    fails: fails_if_shown_relaxed "a discard is shown relaxed" "not closed",
    fails: fails_if_read_relaxed "a discard is read relaxed" "not closed",
}
model! { no_key_is_counted_without_its_deltas, preemptions: None,
    fails: fails_if_counted_early "a key is counted before its deltas" "a key without deltas",
    fails: fails_if_counted_relaxed "a discarded key is counted relaxed" "a key without deltas",
    fails: fails_if_read_relaxed "discarded keys are read relaxed" "a key without deltas",
}

type Work = Arc<UnsafeCell<()>>;

fn thread(closing: &Arc<Closing>, work: &Work, f: impl FnOnce(&Closing, &Work) + 'static) -> JoinHandle<()> {
    let (closing, work) = (Arc::clone(closing), Arc::clone(work));
    spawn(move || f(&closing, &work))
}

fn closing() -> (Arc<Closing>, Work) {
    (Arc::new(Closing::new()), Arc::new(UnsafeCell::new(())))
}

mod bodies {
    use super::*;

    pub(super) fn who_sees_it_closed_sees_what_came_before() {
        let (closing, work) = closing();
        let closer = thread(&closing, &work, |closing, work| {
            work.with_mut(|_| ());
            assert!(closing.close());
        });
        if closing.is_closed() {
            work.with(|_| ());
        }
        closer.join().unwrap();
    }

    /// A producer that may have begun before.
    pub(super) fn who_sees_the_seal_sees_what_was_done_under_guards() {
        let (closing, work) = closing();
        let producer = thread(&closing, &work, |closing, work| {
            let _guard = epoch::pin();
            if !closing.is_closed() {
                work.with_mut(|_| ());
            }
        });
        closing.close();
        after_grace(&closing.sealed);
        if closing.is_sealed() {
            work.with(|_| ());
        }
        producer.join().unwrap();
    }

    /// A consumer that gives something back, when the seal is there already.
    pub(super) fn a_discard_begins_after_who_has_not_seen_it() {
        let (closing, work) = closing();
        closing.close();
        after_grace(&closing.sealed);
        let consumer = thread(&closing, &work, |closing, work| {
            let _guard = epoch::pin();
            if !closing.is_discarding() {
                work.with_mut(|_| ());
            }
        });
        closing.begin_discard();
        work.with(|_| ());
        consumer.join().unwrap();
    }

    /// Closed by who was not the first to do so: it does nothing for the seal, which is there.
    pub(super) fn who_sees_it_discarding_sees_it_closed() {
        let (closing, work) = closing();
        after_grace(&closing.sealed);
        let closer = thread(&closing, &work, |closing, _| {
            closing.close();
            closing.begin_discard();
        });
        if closing.is_discarding() {
            assert!(closing.is_closed(), "not closed");
        }
        closer.join().unwrap();
    }

    pub(super) fn no_key_is_counted_without_its_deltas() {
        let (closing, work) = closing();
        let discarder = thread(&closing, &work, |closing, _| closing.count(2));
        let discarded = closing.discarded();
        assert!(discarded.deltas >= 2 * discarded.keys, "a key without deltas");
        discarder.join().unwrap();
    }
}
