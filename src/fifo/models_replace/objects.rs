//! What is known, and its readers.

use super::*;
use crate::sync::model::model;

model! { v3_a_get_while_versions_change, preemptions: Some(3),
    fails: fails_without_a_second_look "a version is looked at once" "of another key",
}

mod bodies {
    use super::*;

    pub(super) fn v3_a_get_while_versions_change() {
        let queue = Model::knowing(1);
        let reader = queue.spawn(Model::known_one);
        queue.update_one(2);
        queue.pop_one();
        // Into the cell of the old object.
        queue.offer_change(Change::Add(KEY + 1, 3));
        let known = reader.join().unwrap().expect("it was there all the time");
        assert!(known <= 2, "of another key");
    }
}
