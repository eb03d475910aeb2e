//! `Compression::Latest`: producers that merge, against each other and against leases.

use super::*;
use crate::sync::model::model;

model! { latest_a_merge_holds_what_it_merges_with, preemptions: Some(2),
    fails: fails_if_it_lets_go_early "a merge lets go before its exchange" "the number is lost",
}
model! { latest_a_merge_against_a_lease, preemptions: Some(3),
    fails: fails_if_merged_facts_stay "merged facts stay" "leaked",
}
model! { latest_a_tombstone_carries_what_it_absorbs, preemptions: Some(2),
    fails: fails_if_the_carrier_is_let_go_of "a carrier is let go of" "the cell has a value",
}
model! { latest_a_carrier_that_is_merged_away, preemptions: Some(2),
    fails: fails_if_merged_facts_stay "merged facts stay" "leaked",
}

mod bodies {
    use super::*;

    /// Two more merges, after which the second one's cell is the newest fact again, with another number. (The second has marked the
    /// key as in line.)
    pub(super) fn latest_a_merge_holds_what_it_merges_with() {
        let queue = Model::with(Compression::Latest);
        queue.update_late(0, 0);
        queue.update_late(1, 0);
        queue.core.shards[0].objects.bury_dead();
        let producer = queue.spawn(|queue| queue.update_late(2, 0));
        queue.update_late(3, 0);
        queue.core.shards[0].objects.bury_dead();
        queue.update_late(4, 1);
        producer.join().unwrap();
        let shard = &queue.core.shards[0];
        let guard = epoch::pin();
        let entry = shard.find_entry(queue.hash(&KEY), &KEY, &guard).expect("it is pending");
        let grip = shard.grip(entry, entry.word()).ok().expect("nobody else is there");
        assert_eq!(shard.settled(entry, grip.as_ref()), 3, "the number is lost");
    }

    pub(super) fn latest_a_merge_against_a_lease() {
        let queue = Model::with(Compression::Latest);
        queue.add_one(1);
        let producer = queue.spawn(|queue| queue.update_one(2));
        let log = queue.pop_one();
        producer.join().unwrap();
        let log = queue.drain(log);
        let (added, updated) = ((RawKind::Added, Some(1)), (RawKind::Updated, Some(2)));
        assert!(log == [added, updated] || log == [(RawKind::Added, Some(2))]);
        assert_eq!(queue.known_one(), Some(2));
    }

    pub(super) fn latest_a_tombstone_carries_what_it_absorbs() {
        let queue = Model::with(Compression::Latest);
        queue.add_one(1);
        let ticket = queue.begin_one();
        let consumer = queue.spawn(Model::pop_one);
        queue.commit(ticket);
        let log = queue.drain(consumer.join().unwrap());
        assert_eq!(log.last(), Some(&(RawKind::Tombstone, Some(1))));
        assert_eq!(queue.known_one(), None);
    }

    /// A tombstone that carries is replaced by a deletion, or leased before.
    pub(super) fn latest_a_carrier_that_is_merged_away() {
        let queue = Model::with(Compression::Latest);
        queue.add_one(1);
        let ticket = queue.begin_one();
        queue.commit(ticket);
        let producer = queue.spawn(|queue| queue.delete_one(9));
        let log = queue.pop_one();
        producer.join().unwrap();
        let log = queue.drain(log);
        assert!(log == [(RawKind::Tombstone, Some(1))] || log == [(RawKind::Deleted, Some(9))]);
        assert_eq!(queue.known_one(), None);
    }
}
