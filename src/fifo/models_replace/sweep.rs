//! A list and its sweep against changes and pops: whatever is newer wins, wherever its number is at the moment.

use super::*;
use crate::sync::model::model;

model! { e7_a_lease_says_its_numbers_before_it_begins, preemptions: Some(3),
    fails: fails_if_it_says_them_later "a lease raises too late" "placed under a newer change",
}
model! { e7_the_number_of_a_second_deletion_is_seen, preemptions: Some(3),
    fails: fails_if_it_is_dropped "a newer deletion is dropped" "placed under a newer deletion",
}
model! { e7_a_number_is_seen_though_the_replace_begins_late, preemptions: Some(3),
    fails: fails_if_it_is_dropped "a newer deletion is dropped" "placed under a newer deletion",
}
model! { trap_1_an_item_after_a_second_deletion, preemptions: Some(2),
    fails: fails_if_it_is_dropped "a newer deletion is dropped" "revived",
}
model! { trap_1_the_same_of_a_replace_that_begins_late, preemptions: Some(2),
    fails: fails_if_it_is_dropped "a newer deletion is dropped" "revived",
}
model! { trap_1_the_sweep_of_a_key_that_is_changed_and_popped, preemptions: Some(2),
    fails: fails_if_it_keeps_its_generation "an idle key keeps its generation" "over a newer change",
}
model! { trap_1_an_item_of_a_key_that_is_changed_and_popped, preemptions: Some(2),
    fails: fails_if_it_keeps_its_generation "an idle key keeps its generation" "under a newer change",
}
model! { trap_1_the_same_where_nothing_is_known, preemptions: Some(1),
    fails: fails_if_it_goes "who is asked for goes at once" "under a newer change",
}
model! { trap_1_a_list_item_after_a_deletion_that_is_popped, preemptions: Some(2),
    fails: fails_if_it_goes "who is asked for goes at once" "revived",
}
model! { trap_3_a_deletion_meets_the_lease_of_a_sweeps_tombstone, preemptions: Some(3),
    fails: fails_if_the_word_is_stored "the word is stored" "exceeded maximum number of branches",
}
model! { trap_3b_the_sweep_of_a_key_that_is_popped_meanwhile, preemptions: Some(2),
    fails: fails_if_a_leased_key_is_unknown "a leased key is not known" "the sweep has missed it",
}
model! { trap_3b_a_deletion_of_a_key_that_is_popped_meanwhile, preemptions: Some(3),
    fails: fails_if_a_leased_key_is_unknown "a leased key is not known" "the deletion is lost",
}
model! { trap_3b_a_pop_of_a_key_that_is_deleted_meanwhile, preemptions: Some(3),
    fails: fails_if_a_leased_key_is_unknown "a leased key is not known" "the deletion is lost",
}
model! { l3_a_resync_hands_out_what_is_known_then, preemptions: Some(2),
    fails: fails_if_it_carries_an_object "a resync carries what it saw" "an old object",
}

fn is_deletion(delta: &(RawKind, Option<u32>)) -> bool {
    delta.0.is_deletion()
}

mod bodies {
    use super::*;

    pub(super) fn e7_a_lease_says_its_numbers_before_it_begins() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.update_one(2);
        let replacer = queue.spawn(|queue| {
            assert_eq!(queue.upsert(&ticket, 5), Upsert::Superseded, "placed under a newer change");
            ticket
        });
        let log = queue.pop_one();
        let ticket = replacer.join().unwrap();
        assert_eq!(queue.drain(log), [(RawKind::Updated, Some(2))]);
        queue.commit(ticket);
        assert_eq!(queue.known_one(), Some(2));
    }

    /// A deletion after the replace began finds one from before.
    pub(super) fn e7_the_number_of_a_second_deletion_is_seen() {
        let queue = Model::knowing(1);
        queue.delete_one(1);
        let ticket = queue.begin_one();
        let producer = queue.spawn(|queue| queue.delete_one(1));
        let log = queue.pop_one();
        producer.join().unwrap();
        item_after_all(&queue, &ticket, log);
        queue.abort_raw(ticket);
    }

    fn item_after_all(queue: &Model, ticket: &Ticket, log: Log) {
        // Else the second came after the lease, when there was nothing to delete.
        if queue.merged() == 1 {
            assert_eq!(queue.upsert(ticket, 5), Upsert::Superseded, "placed under a newer deletion");
            assert_eq!(queue.drain(log), [(RawKind::Deleted, Some(1))]);
        }
    }

    /// The same, but only the deletion's producer is sure to know that the replace has begun.
    pub(super) fn e7_a_number_is_seen_though_the_replace_begins_late() {
        let queue = Model::knowing(1);
        queue.delete_one(1);
        let producer = queue.spawn(|queue| {
            let ticket = queue.begin_one();
            queue.delete_one(1);
            ticket
        });
        let log = queue.pop_one();
        let ticket = producer.join().unwrap();
        item_after_all(&queue, &ticket, log);
        queue.abort_raw(ticket);
    }

    /// An item that comes right after the deletion, wherever the lease is.
    pub(super) fn trap_1_an_item_after_a_second_deletion() {
        let queue = Model::knowing(1);
        queue.delete_one(1);
        let ticket = queue.begin_one();
        item_right_after(&queue, move |_| ticket);
    }

    pub(super) fn trap_1_the_same_of_a_replace_that_begins_late() {
        let queue = Model::knowing(1);
        queue.delete_one(1);
        item_right_after(&queue, Model::begin_one);
    }

    fn item_right_after(queue: &Arc<Model>, begin: impl FnOnce(&Model) -> Ticket + 'static) {
        let producer = queue.spawn(|queue| {
            let ticket = begin(queue);
            queue.delete_one(1);
            (queue.upsert(&ticket, 5), ticket)
        });
        let log = queue.pop_one();
        let (upsert, ticket) = producer.join().unwrap();
        let log = queue.drain(log);
        let (deleted, item) = ((RawKind::Deleted, Some(1)), (RawKind::Replaced, Some(5)));
        if queue.merged() == 1 {
            assert_eq!((upsert, log.as_slice()), (Upsert::Superseded, &[deleted][..]), "revived");
        } else {
            // It came when there was nothing to delete.
            assert_eq!((upsert, log.as_slice()), (Upsert::Placed, &[deleted, item][..]));
        }
        queue.abort_raw(ticket);
        let (entry, asked) = queue.left_behind();
        assert_eq!((entry.is_some(), asked), (queue.known_one().is_some(), 0));
    }

    pub(super) fn trap_1_the_sweep_of_a_key_that_is_changed_and_popped() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        let consumer = queue.spawn(|queue| {
            queue.update_one(2);
            queue.pop_one()
        });
        queue.sweep_all(&ticket);
        let log = consumer.join().unwrap();
        // A tombstone that comes too late is found out by the lease, but has made the key pending.
        assert_eq!(queue.pending_len(), 0, "over a newer change");
        queue.commit(ticket);
        let log = queue.drain(log);
        let newest = log.last().copied();
        assert_eq!(newest, Some((RawKind::Updated, Some(2))), "a tombstone over a newer change");
        assert_eq!(queue.known_one(), Some(2));
    }

    /// The same against an item. Said to be placed, it is handed out, before the change.
    pub(super) fn trap_1_an_item_of_a_key_that_is_changed_and_popped() {
        item_against_a_change(&Model::knowing(1), Some(2));
    }

    pub(super) fn trap_1_the_same_where_nothing_is_known() {
        item_against_a_change(&Model::blind(), None);
    }

    fn item_against_a_change(queue: &Arc<Model>, known: Option<u32>) {
        let ticket = queue.begin_one();
        let consumer = queue.spawn(|queue| {
            queue.update_one(2);
            queue.pop_one()
        });
        let upsert = queue.upsert(&ticket, 5);
        let log = queue.drain(consumer.join().unwrap());
        let (item, update) = ((RawKind::Replaced, Some(5)), (RawKind::Updated, Some(2)));
        match upsert {
            Upsert::Placed => assert_eq!(log, [item, update], "under a newer change"),
            Upsert::Superseded => assert_eq!(log, [update]),
        }
        queue.commit(ticket);
        assert_eq!((queue.known_one(), queue.left_behind().1), (known, 0));
    }

    pub(super) fn trap_1_a_list_item_after_a_deletion_that_is_popped() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        let consumer = queue.spawn(|queue| {
            queue.delete_one(2);
            queue.pop_one()
        });
        queue.upsert(&ticket, 1);
        let log = consumer.join().unwrap();
        // And with it the entry that has the number.
        queue.abort_raw(ticket);
        let log = queue.drain(log);
        assert!(log.last().is_some_and(is_deletion), "revived");
        assert_eq!(queue.known_one(), None);
        assert_eq!(queue.left_behind(), (None, 0));
    }

    /// The sweep's tombstone is in line, and so sure: what has come since the replace began would have kept it away.
    pub(super) fn trap_3_a_deletion_meets_the_lease_of_a_sweeps_tombstone() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.sweep_all(&ticket);
        let consumer = queue.spawn(Model::pop_one);
        queue.delete_one(9);
        let log = queue.drain(consumer.join().unwrap());
        assert!(log.len() == 1 && log.iter().all(is_deletion), "one deletion: {log:?}");
        assert_eq!(queue.known_one(), None);
        queue.abort_raw(ticket);
        assert_eq!(queue.left_behind(), (None, 0));
    }

    /// It was there before the replace began.
    pub(super) fn trap_3b_the_sweep_of_a_key_that_is_popped_meanwhile() {
        let queue = Model::new();
        queue.add_one(1);
        let ticket = queue.begin_one();
        let consumer = queue.spawn(Model::pop_one);
        queue.commit(ticket);
        let log = queue.drain(consumer.join().unwrap());
        assert!(log.last().is_some_and(is_deletion), "the sweep has missed it");
        assert_eq!(queue.known_one(), None);
    }

    pub(super) fn trap_3b_a_deletion_of_a_key_that_is_popped_meanwhile() {
        let queue = Model::new();
        queue.add_one(1);
        let consumer = queue.spawn(Model::pop_one);
        queue.delete_one(9);
        ends_deleted(&queue, consumer.join().unwrap());
    }

    /// The same with the roles changed: who loads before it writes hides races with another's writes from loom.
    pub(super) fn trap_3b_a_pop_of_a_key_that_is_deleted_meanwhile() {
        let queue = Model::new();
        queue.add_one(1);
        let producer = queue.spawn(|queue| queue.delete_one(9));
        let log = queue.pop_one();
        producer.join().unwrap();
        ends_deleted(&queue, log);
    }

    fn ends_deleted(queue: &Model, log: Log) {
        let log = queue.drain(log);
        assert_eq!(log.last(), Some(&(RawKind::Deleted, Some(9))), "the deletion is lost");
        assert_eq!(queue.known_one(), None);
    }

    pub(super) fn l3_a_resync_hands_out_what_is_known_then() {
        let queue = Model::knowing(1);
        let resync = queue.spawn(|queue| queue.resync_all().expect("it is not closed"));
        queue.update_one(2);
        let mut log = queue.pop_one();
        log.extend(queue.pop_one());
        resync.join().unwrap();
        let log = queue.drain(log);
        let updated = log.iter().position(|delta| *delta == (RawKind::Updated, Some(2)));
        let after = &log[updated.expect("it was accepted")..];
        assert!(after.iter().all(|(_, object)| *object == Some(2)), "an old object");
        assert_eq!(queue.known_one(), Some(2));
    }
}
