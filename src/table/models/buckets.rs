//! I3 and I8: buckets that come as the table grows.

use super::super::list::order_of_hash;
use super::*;
use crate::sync::atomic::Ordering::Relaxed;

model! { i8_growth_against_look_ups, preemptions: Some(3),
    fails: fails_if_doubled_relaxed "the count is doubled relaxed" "ran ahead",
    fails: fails_if_read_relaxed "the count is read relaxed" "ran ahead",
}
model! { i8_an_array_that_another_has_provided, preemptions: Some(3),
    fails: fails_if_provided_relaxed "an array is provided relaxed" "Causality violation",
    fails: fails_if_met_relaxed "an array is met by a relaxed load" "Causality violation",
}
model! { i3_two_enter_a_new_bucket, preemptions: Some(3),
    fails: fails_if_settled_too_early "a bucket is settled before it is linked" "lost",
    fails: fails_if_claimed_is_linked "a claimed bucket counts as linked" "lost",
}
model! { i3_a_new_bucket_hands_over_what_is_behind, preemptions: Some(3),
    fails: fails_if_settled_relaxed "a bucket is settled relaxed" "Causality violation",
}
model! { i3_who_settles_a_bucket_goes_on_from_there, preemptions: Some(3),
    fails: fails_if_read_relaxed "a settled link is read relaxed" "Causality violation",
}
model! { i3_a_stopped_claimer_is_passed, preemptions: Some(1),
    fails: fails_if_others_wait "who finds a claimed bucket waits" "exceeded maximum number of branches",
}

mod bodies {
    use super::*;

    pub(super) fn i8_growth_against_look_ups() {
        let (set, _) = Set::with(&[10, 12], 0);
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            let guard = epoch::pin();
            assert!(shared.find(12, &guard).is_some(), "missed");
            assert!(shared.find(10, &guard).is_some(), "missed");
        });
        set.grow();
        reader.join().unwrap();
        assert_eq!(set.table.buckets(), 4);
        assert_eq!(set.keys(), [10, 12]);
    }

    /// Who doubles the count has not made the array.
    pub(super) fn i8_an_array_that_another_has_provided() {
        let (set, _) = Set::with(&[12], 0);
        let shared = Arc::clone(&set);
        let grower = spawn(move || {
            // Before it finds the array: a pin is a fence, and would acquire it.
            let guard = epoch::pin();
            shared.table.grow(&shared.table.list(&shared.nodes, &guard));
            assert!(shared.find(12, &guard).is_some(), "missed");
        });
        assert!(set.table.directory.provide(2));
        grower.join().unwrap();
        assert_eq!(set.table.buckets(), 4);
        assert_eq!(set.keys(), [12]);
    }

    /// Bucket 2 is new. Both put nodes in it.
    pub(super) fn i3_two_enter_a_new_bucket() {
        let (set, slots) = Set::with(&[10], 2);
        set.grow();
        let other = inserter(&set, 22, slots[1]);
        let guard = epoch::pin();
        set.insert(12, slots[2], &guard).expect("a new key");
        assert!(set.find(12, &guard).is_some(), "lost");
        drop(guard);
        other.join().unwrap().expect("a new key");
        let mut keys = set.keys();
        keys.sort_unstable();
        assert_eq!(keys, [10, 12, 22], "lost");
    }

    /// The node is put behind bucket 0, as by somebody who has read the count before it doubled. So only what is then made of
    /// bucket 2 publishes it to who enters there.
    pub(super) fn i3_a_new_bucket_hands_over_what_is_behind() {
        let (set, slots) = Set::with(&[], 1);
        set.grow();
        let shared = Arc::clone(&set);
        let reader = spawn(move || {
            shared.find(12, &epoch::pin());
        });
        let guard = epoch::pin();
        let (node, order) = (set.nodes.get(slots[0]), order_of_hash(2));
        node.set_key(22);
        // Relaxed: nobody reads it before the node is linked.
        node.order().store(order, Relaxed);
        let list = set.table.list(&set.nodes, &guard);
        let (start, _) = list.entrance(0);
        loop {
            let place = list.behind(start, order);
            place.next().store(node.next());
            if place.fill(Link::to_node(slots[0])) {
                break;
            }
        }
        assert!(set.find(22, &guard).is_some(), "lost");
        drop(guard);
        reader.join().unwrap();
        assert_eq!(set.keys(), [22]);
    }

    /// The walk comes to bucket 2 while it is claimed, and the node is put there before the walk settles it.
    pub(super) fn i3_who_settles_a_bucket_goes_on_from_there() {
        let (set, slots) = Set::with(&[], 1);
        set.grow();
        let shared = Arc::clone(&set);
        let walker = spawn(move || {
            shared.table.walk(&shared.nodes, Position::default(), 9, &epoch::pin(), |_, _| ());
        });
        let guard = epoch::pin();
        // Puts bucket 2 in the list before the key is written.
        set.find(12, &guard);
        set.insert(22, slots[0], &guard).expect("a new key");
        drop(guard);
        walker.join().unwrap();
        assert_eq!(set.keys(), [22]);
    }

    /// Stopped at each step of putting bucket 2 in the list.
    pub(super) fn i3_a_stopped_claimer_is_passed() {
        for at in ["link: claimed", "link: ready", "link: linked"] {
            let (set, slots) = Set::with(&[12], 2);
            set.grow();
            let (mine, theirs) = (slots[1], slots[2]);
            let claimer = stopped(&set, at, move |set| {
                set.insert(32, theirs, &epoch::pin()).expect("a new key");
            });
            let guard = epoch::pin();
            assert!(set.find(12, &guard).is_some(), "missed");
            set.insert(22, mine, &guard).expect("a new key");
            drop(guard);
            assert!(remove(&set, slots[0]));
            go_on(claimer);
            let mut keys = set.keys();
            keys.sort_unstable();
            assert_eq!(keys, [22, 32], "lost");
        }
    }
}
