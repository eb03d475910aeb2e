//! What is known: its readers, and records that go while somebody installs.

use super::*;
use crate::sync::model::model;

model! { r4_a_get_while_versions_change, preemptions: Some(3),
    fails: fails_without_a_second_look "a version is looked at once" "of another key",
}
model! { r3_a_removed_record_is_given_no_object, preemptions: Some(3),
    fails: fails_without_a_reserve "no reserve" "in a record that nobody finds",
}

mod bodies {
    use super::*;

    pub(super) fn r4_a_get_while_versions_change() {
        let queue = Model::knowing(1);
        let reader = queue.spawn(Model::known_one);
        queue.update_one(2);
        queue.pop_one();
        // Into the cell of the old object.
        queue.offer_change(Change::Add(KEY + 1, 3));
        let known = reader.join().unwrap().expect("it was there all the time");
        assert!(known <= 2, "of another key");
    }

    /// A record without an object, kept for the sake of a replace, goes with it while an object comes.
    pub(super) fn r3_a_removed_record_is_given_no_object() {
        let queue = Model::new();
        let ticket = queue.begin_one();
        queue.add_one(1);
        queue.delete_one(1);
        queue.pop_one();
        queue.add_one(2);
        let consumer = queue.spawn(Model::pop_one);
        queue.abort_raw(ticket);
        consumer.join().unwrap();
        assert_eq!(queue.known_one(), Some(2), "in a record that nobody finds");
        assert_eq!((queue.known_view().len(), queue.known_view().iter().count()), (1, 1));
    }
}
