//! I9 and I10: buckets that go while others look up, insert, remove, grow, and shrink.
//!
//! A model's table begins with four buckets, all in the list, of which 2 and 3 go, one with each call.

use super::super::extent::Phase;
use super::*;

model! { a_look_up_under_a_shrinking_table, preemptions: Some(2),
    fails: fails_if_the_doomed_do_not_rest "the doomed do not rest" "ran ahead",
}
model! { a_walk_under_a_shrinking_table, preemptions: Some(2),
    fails: fails_if_the_doomed_do_not_rest "the doomed do not rest" "ran ahead",
}
model! { an_insert_under_a_shrinking_table, preemptions: Some(2),
    fails: fails_if_nobody_waits_for_who_has_entered "the doomed are not left before they are unlinked" "lost",
}
model! { a_claim_under_a_shrinking_table, preemptions: Some(2),
    fails: fails_if_nobody_waits_for_who_claims "the doomed are not left before they are unlinked" "lost",
}
model! { an_insert_behind_a_bucket_that_goes, preemptions: Some(3),
    fails: fails_if_a_marked_link_may_change "a marked link may change" "lost",
}
model! { a_removal_behind_a_bucket_that_goes, preemptions: Some(3),
    fails: fails_if_a_marked_link_may_change "a marked link may change" "still reached",
}
model! { two_shrink, preemptions: Some(3),
    fails: fails_if_only_the_marker_unlinks "who did not mark does not unlink a bucket" "still reached",
}
model! { growth_while_the_doomed_rest, preemptions: Some(2),
    fails: fails_if_the_doomed_are_claimed "the doomed are claimed" "is not in the list",
}
model! { growth_while_an_array_is_freed, preemptions: Some(3),
    fails: fails_if_who_vacates_does_not_look_again "who vacates does not look again" "ran ahead",
    fails: fails_if_vacated_relaxed "an array is vacated by a relaxed load" "ran ahead",
}
model! { growth_when_an_array_has_gone, preemptions: Some(3),
    fails: fails_if_the_count_is_read_relaxed "who grows reads the count relaxed" "ran ahead",
}
model! { growth_when_others_have_unlinked, preemptions: Some(2),
    fails: fails_if_unlinked_relaxed "buckets are unlinked relaxed" "lost",
    fails: fails_if_read_relaxed "what others have unlinked is read relaxed" "lost",
}
model! { growth_against_the_beginning_of_a_shrinking, preemptions: Some(3), }
model! { a_stopped_shrinker_is_passed, preemptions: Some(1), }
model! { a_stopped_unlinker_is_passed, preemptions: Some(1), }
model! { a_stopped_freer_is_passed, preemptions: Some(1), }

impl Set {
    /// With four buckets, of which those are in the list that have a key.
    fn with_four(keys: &[u64], more: usize) -> (Shared, Vec<Index>) {
        let set = Set { table: Table::new(), nodes: Slab::new() };
        set.grow();
        let slots: Vec<Index> = (0..keys.len() + more).map(|_| set.nodes.take()).collect();
        let guard = epoch::pin();
        for (key, slot) in keys.iter().zip(&slots) {
            set.insert(*key, *slot, &guard).expect("a new key");
        }
        drop(guard);
        assert_eq!(set.table.buckets(), 4);
        (Arc::new(set), slots)
    }

    fn phase(&self) -> Phase {
        self.table.extent(crate::sync::atomic::Ordering::Acquire).phase()
    }

    /// A piece of a shrinking.
    fn shrink(&self) {
        self.table.shrink(&self.nodes, || 0, &epoch::pin());
    }

    /// To its end, in a thread that nobody else keeps from it.
    fn shrink_all(&self) {
        while self.table.buckets() > 2 || self.phase() != Phase::Steady {
            self.shrink();
        }
    }

    /// Up to a phase.
    fn shrink_until(&self, phase: Phase) {
        while self.phase() != phase {
            self.shrink();
        }
    }

    /// Whether any link that can be reached leads to the bucket.
    fn reaches_bucket(&self, wanted: u32) -> bool {
        let guard = epoch::pin();
        let mut link = Link::load(self.table.directory.bucket(0, &guard));
        loop {
            link = match link.target() {
                Target::Node(index) => Link::load(self.nodes.get(index).next()),
                Target::Bucket(bucket) if bucket == wanted => return true,
                Target::Bucket(bucket) => Link::load(self.table.directory.bucket(bucket, &guard)),
                Target::End => return false,
            }
        }
    }

    fn has(&self, key: u64) -> bool {
        self.find(key, &epoch::pin()).is_some()
    }
}

fn sorted(mut keys: Vec<u64>) -> Vec<u64> {
    keys.sort_unstable();
    keys
}

mod bodies {
    use super::*;

    /// From before, and begun at each moment of it.
    pub(super) fn a_look_up_under_a_shrinking_table() {
        let (set, _) = Set::with_four(&[10, 12, 11, 13], 0);
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            let guard = epoch::pin();
            assert!(shared.find(13, &guard).is_some(), "missed");
            assert!(shared.find(12, &guard).is_some(), "missed");
        });
        for _ in 0..6 {
            set.shrink();
        }
        reader.join().unwrap();
        set.shrink_all();
        assert!(set.has(10) && set.has(11) && set.has(12) && set.has(13), "lost");
    }

    /// Under a guard of its own for each step.
    pub(super) fn a_walk_under_a_shrinking_table() {
        let (set, slots) = Set::with_four(&[10, 12, 22, 13], 0);
        let shared = Arc::clone(&set);
        let walker = spawn(move || {
            let mut keys = shared.keys();
            keys.retain(|key| *key != 12);
            assert_eq!(sorted(keys), [10, 13, 22], "a walk");
        });
        assert!(set.remove(slots[1], &epoch::pin()));
        for _ in 0..6 {
            set.shrink();
        }
        walker.join().unwrap();
        set.shrink_all();
        assert_eq!(sorted(set.keys()), [10, 13, 22], "lost");
    }

    /// It may have come in by the bucket that goes, and its place is right behind.
    pub(super) fn an_insert_under_a_shrinking_table() {
        let (set, slots) = Set::with_four(&[10, 12], 1);
        assert!(set.remove(slots[1], &epoch::pin()));
        let other = inserter(&set, 22, slots[2]);
        for _ in 0..4 {
            set.shrink();
        }
        other.join().unwrap().expect("a new key");
        assert!(set.has(22), "lost");
        set.shrink_all();
        assert_eq!(set.keys(), [10, 22], "lost");
    }

    /// Bucket 2 is not in the list yet, and somebody puts it there who has come before.
    pub(super) fn a_claim_under_a_shrinking_table() {
        let (set, slots) = Set::with_four(&[10], 1);
        let shared = Arc::clone(&set);
        let shrinker = spawn(move || {
            for _ in 0..3 {
                shared.shrink();
            }
            shared.phase()
        });
        set.insert(12, slots[1], &epoch::pin()).expect("a new key");
        if shrinker.join().unwrap() == Phase::Resting {
            assert!(!set.reaches_bucket(2), "bucket 2 is lost in the list");
        }
        set.shrink_all();
        assert_eq!(set.keys(), [10, 12], "lost");
    }

    /// The place of the node is right behind bucket 2.
    pub(super) fn an_insert_behind_a_bucket_that_goes() {
        let (set, slots) = Set::with_four(&[12], 1);
        assert!(set.remove(slots[0], &epoch::pin()));
        set.shrink_until(Phase::Leaving);
        let other = inserter(&set, 22, slots[1]);
        set.shrink();
        other.join().unwrap().expect("a new key");
        assert!(set.has(22), "lost");
        set.shrink_all();
        assert_eq!(set.keys(), [22], "lost");
    }

    /// The node is right behind bucket 2.
    pub(super) fn a_removal_behind_a_bucket_that_goes() {
        let (set, slots) = Set::with_four(&[12, 22], 0);
        set.shrink_until(Phase::Leaving);
        let other = remover(&set, slots[0]);
        set.shrink();
        assert!(other.join().unwrap());
        assert!(set.has(22), "lost");
        set.shrink_all();
        assert_eq!(set.keys(), [22], "lost");
    }

    pub(super) fn two_shrink() {
        let (set, _) = Set::with_four(&[10, 12], 0);
        set.shrink_until(Phase::Leaving);
        let shared = Arc::clone(&set);
        let other = spawn(move || shared.shrink());
        for _ in 0..3 {
            set.shrink();
            if set.phase() == Phase::Resting {
                assert!(!set.reaches_bucket(2), "still reached");
            }
        }
        other.join().unwrap();
        set.shrink_all();
        assert_eq!(set.keys(), [10, 12], "lost");
    }

    /// The array is used again, while somebody may yet come to its old buckets.
    pub(super) fn growth_while_the_doomed_rest() {
        let (set, slots) = Set::with_four(&[10, 12], 1);
        set.shrink_until(Phase::Leaving);
        let shared = Arc::clone(&set);
        let reader = spawn(move || assert!(shared.has(12), "missed"));
        set.shrink_until(Phase::Resting);
        set.grow();
        assert_eq!(set.table.buckets(), 4);
        set.insert(22, slots[2], &epoch::pin()).expect("a new key");
        assert!(set.has(12) && set.has(22), "lost");
        reader.join().unwrap();
        set.shrink();
        assert_eq!(set.phase(), Phase::Steady);
        assert!(set.has(12) && set.has(22), "lost");
        assert!(set.reaches_bucket(2), "bucket 2 is not in the list");
    }

    pub(super) fn growth_while_an_array_is_freed() {
        let (set, _) = Set::with_four(&[10, 12], 0);
        set.shrink_until(Phase::Resting);
        let shared = Arc::clone(&set);
        let other = spawn(move || shared.shrink());
        set.shrink();
        set.grow();
        assert!(set.has(12), "missed");
        other.join().unwrap();
        assert!(set.has(12), "missed");
        assert_eq!(set.keys(), [10, 12], "lost");
    }

    /// Who grows has come before the array is taken out.
    pub(super) fn growth_when_an_array_has_gone() {
        let (set, _) = Set::with_four(&[10, 12], 0);
        set.shrink_until(Phase::Resting);
        let shared = Arc::clone(&set);
        let grower = spawn(move || {
            let guard = epoch::pin();
            shared.table.grow(&shared.table.list(&shared.nodes, &guard));
            assert!(shared.find(12, &guard).is_some(), "missed");
        });
        set.shrink();
        grower.join().unwrap();
        assert!(set.has(12), "missed");
        assert_eq!(set.keys(), [10, 12], "lost");
    }

    /// One has unlinked bucket 3, another says so, and a third, who has begun before, covers the array again and enters. There
    /// is nothing in the bucket, so the place is right behind it.
    pub(super) fn growth_when_others_have_unlinked() {
        let (set, slots) = Set::with_four(&[10, 13], 1);
        assert!(set.remove(slots[1], &epoch::pin()));
        set.shrink_until(Phase::Unlinking);
        let (shared, guard, slot) = (Arc::clone(&set), epoch::pin(), slots[2]);
        let grower = spawn(move || {
            shared.table.grow(&shared.table.list(&shared.nodes, &guard));
            shared.insert(23, slot, &guard).expect("a new key");
        });
        let shared = Arc::clone(&set);
        let other = spawn(move || shared.shrink());
        set.shrink();
        grower.join().unwrap();
        other.join().unwrap();
        assert!(set.has(23), "lost");
    }

    pub(super) fn growth_against_the_beginning_of_a_shrinking() {
        let (set, slots) = Set::with_four(&[10, 12], 1);
        let shared = Arc::clone(&set);
        let other = spawn(move || {
            shared.shrink();
            shared.shrink();
        });
        set.grow();
        set.insert(13, slots[2], &epoch::pin()).expect("a new key");
        assert!(set.has(12) && set.has(13), "missed");
        other.join().unwrap();
        assert_eq!(sorted(set.keys()), [10, 12, 13], "lost");
    }

    fn stopped_at(points: [&'static str; 4]) {
        for at in points {
            let (set, slots) = Set::with_four(&[10, 12, 13], 2);
            let shrinker = stopped(&set, at, |set| (0..8).for_each(|_| set.shrink()));
            set.insert(22, slots[3], &epoch::pin()).expect("a new key");
            assert!(set.has(12) && set.has(22), "missed");
            assert!(remove(&set, slots[1]));
            set.grow();
            set.grow();
            assert!(set.table.buckets() >= 4, "it does not grow");
            set.insert(32, slots[4], &epoch::pin()).expect("a new key");
            set.shrink();
            go_on(shrinker);
            assert_eq!(sorted(set.keys()), [10, 13, 22, 32], "lost");
        }
    }

    pub(super) fn a_stopped_shrinker_is_passed() {
        stopped_at(["shrink: begun", "shrink: left", "shrink: unlinked", "shrink: resting"]);
    }

    pub(super) fn a_stopped_unlinker_is_passed() {
        stopped_at(["unlink: marked", "search: marked bucket", "shrink: resting", "shrink: freeing"]);
    }

    pub(super) fn a_stopped_freer_is_passed() {
        stopped_at(["vacate: read", "vacate: due", "vacate: taken", "shrink: freed"]);
    }
}
