//! The edges of marks under loom.

use super::Marks;
use crate::replace::Version;
use crate::sync::Arc;
use crate::sync::cell::UnsafeCell;
use crate::sync::model::model;
use crate::sync::thread::spawn;

model! { a_number_that_was_read_keeps_its_version, preemptions: None,
    fails: fails_if_not_noted "read and not noted" "the answer is gone",
}
model! { who_sees_it_processed_sees_what_was_completed, preemptions: None,
    fails: fails_if_reported_relaxed "reported relaxed" "Causality violation",
}
model! { processed_never_goes_back, preemptions: None, }
model! { who_reads_a_number_comes_after_its_mark, preemptions: None,
    fails: fails_if_numbered_relaxed "a mark is numbered relaxed" "Causality violation",
    fails: fails_if_read_relaxed "a number is read relaxed" "Causality violation",
    fails: fails_if_noted_relaxed "a number is noted relaxed" "Causality violation",
}
model! { who_sees_a_loss_sees_what_came_before, preemptions: None,
    fails: fails_if_shown_relaxed "a loss is shown relaxed" "Causality violation",
    fails: fails_if_read_relaxed "a loss is read relaxed" "Causality violation",
}

fn marks() -> Arc<Marks> {
    Arc::new(Marks::new())
}

mod bodies {
    use super::*;

    pub(super) fn a_number_that_was_read_keeps_its_version() {
        let marks = marks();
        marks.mark(Version::from(1));
        let producer = {
            let marks = Arc::clone(&marks);
            spawn(move || marks.newest())
        };
        marks.mark(Version::from(2));
        marks.mark(Version::from(3));
        let since = producer.join().unwrap();
        assert_eq!(marks.processed(since), Some(Version::from(since)), "the answer is gone");
        assert_eq!(marks.processed(3), Some(Version::from(3)));
    }

    pub(super) fn who_sees_it_processed_sees_what_was_completed() {
        let (marks, work) = (marks(), Arc::new(UnsafeCell::new(())));
        marks.mark(Version::from(1));
        let asking = {
            let (marks, work) = (Arc::clone(&marks), Arc::clone(&work));
            spawn(move || {
                work.with_mut(|_| ());
                let _ = marks.processed(marks.newest());
            })
        };
        if marks.is_processed(1) {
            work.with(|_| ());
        }
        asking.join().unwrap();
        assert!(marks.is_processed(1));
    }

    /// Of two marks; who reads the second may be the first to do so, or have seen only the one before when it began.
    pub(super) fn who_reads_a_number_comes_after_its_mark() {
        let (marks, work) = (marks(), Arc::new(UnsafeCell::new(())));
        let marking = {
            let (marks, work) = (Arc::clone(&marks), Arc::clone(&work));
            spawn(move || {
                marks.mark(Version::from(1));
                work.with_mut(|_| ());
                marks.mark(Version::from(2));
                marks.newest();
            })
        };
        if marks.newest() == 2 {
            work.with(|_| ());
        }
        marking.join().unwrap();
    }

    pub(super) fn who_sees_a_loss_sees_what_came_before() {
        let (marks, work) = (marks(), Arc::new(UnsafeCell::new(())));
        let losing = {
            let (marks, work) = (Arc::clone(&marks), Arc::clone(&work));
            spawn(move || {
                work.with_mut(|_| ());
                marks.lose(1);
            })
        };
        if marks.is_lost(2) {
            work.with(|_| ());
        }
        losing.join().unwrap();
    }

    pub(super) fn processed_never_goes_back() {
        let marks = marks();
        marks.mark(Version::from(1));
        marks.newest();
        marks.mark(Version::from(2));
        let asking = {
            let marks = Arc::clone(&marks);
            spawn(move || marks.processed(1))
        };
        let newer = marks.processed(marks.newest());
        assert_eq!(newer, Some(Version::from(2)));
        assert!(asking.join().unwrap().is_some() && marks.is_processed(2));
    }
}
