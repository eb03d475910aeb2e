//! A list and its sweep against changes and pops: whatever is newer wins, wherever its number is at the moment.

use super::*;
use crate::sync::model::model;

model! { e7_a_lease_says_its_numbers_before_it_begins, preemptions: Some(3),
    fails: fails_if_it_says_them_later "a lease raises too late" "placed under a newer change",
}
model! { e7_a_number_that_is_raised_is_seen_by_the_lease, preemptions: Some(3),
    fails: fails_without_the_producers_fence "no fence after a raise" "placed under a newer deletion",
    fails: fails_without_the_leases_fence "no fence in a lease" "placed under a newer deletion",
}
model! { trap_1_the_sweep_of_a_key_that_is_changed_and_popped, preemptions: Some(2),
    fails: fails_if_numbers_stay_in_entries "the number stays in the entry" "over a newer change",
}
model! { trap_1_a_list_item_after_a_deletion_that_is_popped, preemptions: Some(1),
    fails: fails_without_another_look "a first push is not looked at again" "revived",
    fails: fails_if_numbers_stay_in_entries "the number stays in the entry" "revived",
    fails: fails_if_absent_records_go "absent records go at once" "revived",
}
model! { trap_1_the_sweep_of_an_entry_whose_record_is_newer, preemptions: Some(2),
    fails: fails_if_no_record_is_asked "no record is asked for its number" "an accepted change is lost",
}
model! { trap_2_absent_records_go_with_the_last_replace, preemptions: Some(3),
    fails: fails_without_the_leases_fence "no fence when a record stays" "left behind",
    fails: fails_without_the_replaces_fence "no fence before records go" "left behind",
}
model! { trap_3_a_deletion_meets_the_lease_of_a_void_tombstone, preemptions: Some(3),
    fails: fails_if_the_word_is_sure "a sweep's word is sure" "the deletion and nothing else",
    fails: fails_if_a_void_one_deletes "a void tombstone deletes" "the deletion and nothing else",
    fails: fails_if_leases_do_not_judge "a lease judges nothing" "the deletion and nothing else",
}
model! { trap_3b_the_sweep_of_a_key_that_is_popped_meanwhile, preemptions: Some(2),
    fails: fails_if_records_come_first "records before entries" "the sweep has missed it",
    fails: fails_if_leases_number "a lease numbers what it takes" "the sweep has missed it",
}
model! { trap_3b_a_deletion_of_a_key_that_is_popped_meanwhile, preemptions: Some(3),
    fails: fails_if_it_looks_at_the_record_first "a deletion looks at the record first" "the deletion is lost",
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
        let consumer = queue.spawn(Model::pop_one);
        assert_eq!(queue.upsert(&ticket, 5), Upsert::Superseded, "placed under a newer change");
        assert_eq!(queue.drain(consumer.join().unwrap()), [(RawKind::Updated, Some(2))]);
        queue.commit(ticket);
        assert_eq!(queue.known_one(), Some(2));
    }

    /// A deletion after the replace began finds one from before, and only raises its number.
    pub(super) fn e7_a_number_that_is_raised_is_seen_by_the_lease() {
        let queue = Model::knowing(1);
        queue.delete_one(1);
        let ticket = queue.begin_one();
        let producer = queue.spawn(|queue| queue.delete_one(1));
        let held = queue.take(1, 0).pop().expect("it is in line");
        producer.join().unwrap();
        queue.finish_one(held, &mut Log::new());
        // Else it came after the lease, when there was nothing to delete.
        if queue.merged() == 1 {
            let upsert = queue.upsert(&ticket, 5);
            assert_eq!(upsert, Upsert::Superseded, "placed under a newer deletion");
        }
        queue.abort_raw(ticket);
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
        queue.commit(ticket);
        let log = queue.drain(log);
        let newest = log.last().copied();
        assert_eq!(newest, Some((RawKind::Updated, Some(2))), "a tombstone over a newer change");
        assert_eq!(queue.known_one(), Some(2));
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
        // And with it the record that has the number.
        queue.abort_raw(ticket);
        let log = queue.drain(log);
        assert!(log.last().is_some_and(is_deletion), "revived");
        assert_eq!(queue.known_one(), None);
    }

    /// A producer that read its number before the replace began, after a newer change was popped. What the sweep absorbed
    /// would be void with it.
    pub(super) fn trap_1_the_sweep_of_an_entry_whose_record_is_newer() {
        let queue = Model::with(Compression::Latest);
        queue.add_one(1);
        queue.pop_one();
        let ticket = queue.begin_one();
        queue.update_one(2);
        queue.pop_one();
        let replacer = queue.spawn(|queue| queue.commit(ticket));
        queue.update_late(3, 0);
        replacer.join().unwrap();
        let log = queue.drain(Log::new());
        assert_eq!(log, [(RawKind::Updated, Some(3))], "an accepted change is lost");
    }

    pub(super) fn trap_2_absent_records_go_with_the_last_replace() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.delete_one(1);
        let consumer = queue.spawn(Model::pop_one);
        queue.abort_raw(ticket);
        consumer.join().unwrap();
        let guard = epoch::pin();
        let record = queue.shards[0].find_record(queue.hash(&KEY), &KEY, &guard);
        assert_eq!(record, None, "left behind");
    }

    /// A sweep's first fact, over a change that was popped between its look and its insertion.
    pub(super) fn trap_3_a_deletion_meets_the_lease_of_a_void_tombstone() {
        let queue = Model::knowing(1);
        let ticket = queue.begin_one();
        queue.sweep_all(&ticket);
        let guard = epoch::pin();
        let shard = &queue.shards[0];
        let record = shard.find_record(queue.hash(&KEY), &KEY, &guard).expect("it is known");
        shard.records.get(record).raise(3);
        drop(guard);
        let consumer = queue.spawn(Model::pop_one);
        queue.delete_one(9);
        let log = queue.drain(consumer.join().unwrap());
        assert_eq!(log, [(RawKind::Deleted, Some(9))], "the deletion and nothing else");
        queue.abort_raw(ticket);
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
        let log = queue.drain(consumer.join().unwrap());
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
