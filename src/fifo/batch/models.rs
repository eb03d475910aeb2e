//! What is published by the counts of a batch, under loom.

use super::Batch;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;
use crate::sync::thread::spawn;

model! { who_sees_it_delivered_sees_what_was_done, preemptions: None,
    fails: fails_if_counted_relaxed "a delivery is counted relaxed" "Causality violation",
    fails: fails_if_read_relaxed "deliveries are read relaxed" "Causality violation",
}

mod bodies {
    use super::*;

    /// Two facts, a consumer for each; it may be the second that takes the last away.
    pub(super) fn who_sees_it_delivered_sees_what_was_done() {
        let batch = Arc::new(Batch::new());
        let work = Arc::new(UnsafeCell::new(()));
        batch.owe();
        batch.deliver(1);
        batch.owe();
        let (shared, seen) = (Arc::clone(&batch), Arc::clone(&work));
        let reader = spawn(move || {
            if shared.is_delivered() {
                seen.with(|_| ());
            }
        });
        let shared = Arc::clone(&batch);
        let other = spawn(move || _ = shared.deliver(1));
        work.with_mut(|_| ());
        batch.deliver(1);
        reader.join().unwrap();
        other.join().unwrap();
    }
}
