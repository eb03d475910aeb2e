//! Entries that stay when nothing is pending: for what is known, and for the sake of replaces (E6, E8, E9).

use super::*;
use crate::replace::Version;
use crate::sync::model::model;

model! { e9_who_is_asked_for_goes_with_the_replace, preemptions: Some(3),
    fails: fails_without_the_leases_fence "no fence when an entry stays" "left behind",
    fails: fails_without_the_replaces_fence "no fence before entries go" "left behind",
}
model! { e9_a_lease_ends_while_its_replace_does, preemptions: Some(3),
    fails: fails_without_the_leases_fence "no fence when an entry stays" "left behind",
    fails: fails_without_the_replaces_fence "no fence before entries go" "left behind",
}
model! { e9_the_same_where_nothing_is_known, preemptions: Some(3),
    fails: fails_without_the_leases_fence "no fence when an entry stays" "left behind",
    fails: fails_without_the_replaces_fence "no fence before entries go" "left behind",
}
model! { e7_a_replace_begins_while_a_lease_ends, preemptions: Some(2),
    fails: fails_if_it_goes "who is asked for goes at once" "under a newer change",
}
model! { e9_who_is_asked_for_goes_or_becomes_pending, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "lost",
}
model! { e8_a_key_that_was_at_rest_holds_marks_up, preemptions: Some(3),
    fails: fails_if_read_late "a mark is read after the change" "not completed",
}
model! { e8_a_key_that_was_leased_holds_marks_up, preemptions: Some(3),
    fails: fails_if_read_late "a lease reads the mark at its end" "not completed",
}

model! { e8_a_query_overtaken_by_a_change_and_a_mark, preemptions: Some(3),
    fails: fails_if_read_late "the newest mark is read after the look" "not completed",
}
model! { e8_a_query_after_another, preemptions: Some(3),
    fails: fails_if_it_is_for_ever "the last look is for ever" "held up for ever",
}

mod bodies {
    use super::*;

    /// An entry that keeps nothing but its number goes with the replace, while its lease ends.
    pub(super) fn e9_who_is_asked_for_goes_with_the_replace() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.delete_one(1);
        let consumer = queue.spawn(Model::pop_one);
        queue.abort_raw(ticket);
        let log = queue.drain(consumer.join().unwrap());
        assert_eq!(log, [(RawKind::Deleted, Some(1))]);
        assert_eq!(queue.left_behind(), (None, 0), "left behind");
    }

    /// The same with the roles changed: who loads before it writes hides races with another's writes from loom.
    pub(super) fn e9_a_lease_ends_while_its_replace_does() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.delete_one(1);
        let replacer = queue.spawn(|queue| queue.abort_raw(ticket));
        let log = queue.pop_one();
        replacer.join().unwrap();
        assert_eq!(queue.drain(log), [(RawKind::Deleted, Some(1))]);
        assert_eq!(queue.left_behind(), (None, 0), "left behind");
    }

    pub(super) fn e9_the_same_where_nothing_is_known() {
        let queue = Model::blind();
        let ticket = queue.begin_one();
        queue.add_one(1);
        let consumer = queue.spawn(Model::pop_one);
        queue.abort_raw(ticket);
        let log = queue.drain(consumer.join().unwrap());
        assert_eq!(log, [(RawKind::Added, Some(1))]);
        assert_eq!(queue.left_behind(), (None, 0), "left behind");
    }

    /// A change that its producer made after the replace had begun, while a consumer that may not know of it goes on.
    pub(super) fn e7_a_replace_begins_while_a_lease_ends() {
        let queue = Model::blind();
        queue.add_one(1);
        let producer = queue.spawn(|queue| {
            let ticket = queue.begin_one();
            queue.update_one(2);
            ticket
        });
        let mut log = queue.pop_one();
        log.extend(queue.pop_one());
        let ticket = producer.join().unwrap();
        let log = queue.drain(log);
        assert_eq!(log, [(RawKind::Added, Some(1)), (RawKind::Updated, Some(2))]);
        assert_eq!(queue.upsert(&ticket, 5), Upsert::Superseded, "under a newer change");
        queue.abort_raw(ticket);
        assert_eq!(queue.left_behind(), (None, 0), "left behind");
    }

    /// The first again, while a change comes: it finds the entry, or makes a new one.
    pub(super) fn e9_who_is_asked_for_goes_or_becomes_pending() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.delete_one(1);
        queue.pop_one();
        assert_eq!(queue.left_behind().1, 1);
        let producer = queue.spawn(|queue| queue.add_one(2));
        queue.abort_raw(ticket);
        producer.join().unwrap();
        assert_eq!(queue.drain(Log::new()), [(RawKind::Added, Some(2))], "lost, or left behind");
        assert_eq!((queue.known_one(), queue.left_behind().1), (Some(2), 0), "lost, or left behind");
        queue.delete_one(2);
        queue.pop_one();
        assert_eq!(queue.left_behind(), (None, 0), "lost, or left behind");
    }

    /// A mark after a change of this thread, on top of one whose producer has not said when.
    pub(super) fn e8_a_key_that_was_at_rest_holds_marks_up() {
        let queue = Model::knowing(1);
        let producer = queue.spawn(|queue| queue.update_one(2));
        queue.update_one(3);
        let mark = queue.marks.mark(Version::from(1));
        queue.process_marks();
        assert!(!queue.marks.is_processed(mark), "not completed");
        producer.join().unwrap();
        queue.process_marks();
        assert!(!queue.marks.is_processed(mark), "not completed");
        queue.drain(Log::new());
        queue.process_marks();
        assert!(queue.marks.is_processed(mark), "held up for ever");
    }

    pub(super) fn e8_a_query_overtaken_by_a_change_and_a_mark() {
        let queue = Model::knowing(1);
        let query = queue.spawn(|queue| _ = queue.process_marks());
        queue.update_one(2);
        let mark = queue.marks.mark(Version::from(1));
        query.join().unwrap();
        assert!(!queue.marks.is_processed(mark), "not completed");
        queue.drain(Log::new());
        queue.process_marks();
        assert!(queue.marks.is_processed(mark), "held up for ever");
    }

    /// The first has found a key that was furthest behind, and is completed. Another key comes between two marks.
    pub(super) fn e8_a_query_after_another() {
        let queue = Model::knowing(1);
        queue.update_one(2);
        let first = queue.marks.mark(Version::from(1));
        queue.process_marks();
        assert!(!queue.marks.is_processed(first), "not completed");
        let consumer = queue.spawn(Model::pop_one);
        queue.offer_change(Change::Add(KEY + 1, 3));
        let second = queue.marks.mark(Version::from(2));
        queue.process_marks();
        let log = consumer.join().unwrap();
        assert!(!queue.marks.is_processed(second), "not completed");
        assert_eq!(log, [(RawKind::Updated, Some(2))]);
        queue.process_marks();
        assert!(queue.marks.is_processed(first), "held up for ever");
        queue.drain(log);
        queue.process_marks();
        assert!(queue.marks.is_processed(second), "held up for ever");
    }

    /// A mark after a change of this thread, whether that comes during another lease, before or after.
    pub(super) fn e8_a_key_that_was_leased_holds_marks_up() {
        let queue = Model::knowing(1);
        queue.update_one(2);
        let consumer = queue.spawn(Model::pop_one);
        queue.update_one(3);
        let mark = queue.marks.mark(Version::from(1));
        let log = consumer.join().unwrap();
        if !log.contains(&(RawKind::Updated, Some(3))) {
            queue.process_marks();
            assert!(!queue.marks.is_processed(mark), "not completed");
        }
        queue.drain(log);
        queue.process_marks();
        assert!(queue.marks.is_processed(mark), "held up for ever");
    }
}
