//! Snapshots of a queue: what they show and keep, and how that goes when they end (K1 to K3, E9).

use super::objects::{Object, pop_all};
use super::*;
use crate::fifo::known::FifoSnapshot;
use crate::fifo::word::State;
use crate::known::KnownView;
use crate::sync::atomic::Ordering;
use crate::sync::model::model;

model! { p2_a_snapshot_shows_what_was_popped_before_it, preemptions: Some(2),
    fails: fails_if_nobody_looks "nobody looks" "Causality violation",
}
model! { p2_a_snapshot_is_a_cut_through_pops, preemptions: Some(2),
    fails: fails_without_the_stamps_fence "no fence before a stamp" "Causality violation",
}
model! { k3_a_snapshot_ends_while_a_key_comes_into_view, preemptions: Some(2),
    fails: fails_without_the_versions_fence "no fence behind a kept version" "left behind",
    fails: fails_if_nobody_looks_again "who keeps a version does not look again" "left behind",
    fails: fails_without_the_snapshots_fence "no fence when a snapshot ends" "left behind",
}
model! { k1_a_snapshot_ends_while_its_key_changes_again, preemptions: Some(1),
    fails: fails_if_the_walk_ends_there "a walk ends at an undecided link" "left behind",
}
model! { k2_a_version_is_due_and_its_key_changes_again, preemptions: Some(1),
    fails: fails_if_it_is_not_counted "a version in a list is not counted" "Causality violation",
}
model! { e9_a_deleted_key_goes_with_the_snapshot, preemptions: Some(2),
    fails: fails_without_the_leases_fence "no fence when an entry stays" "left behind",
    fails: fails_without_the_sweeps_fence "no fence behind a sweep" "left behind",
}
model! { e9_a_snapshot_ends_while_the_lease_of_its_key_does, preemptions: Some(2),
    fails: fails_without_the_leases_fence "no fence when an entry stays" "left behind",
}
model! { r4_a_snapshot_outlives_its_queue, preemptions: Some(1),
    fails: fails_if_all_goes "a queue takes along what snapshots show" "Causality violation",
}
model! { r4_a_snapshot_ends_while_its_queue_does, preemptions: Some(1),
}

/// Left alone by a model that has failed.
struct Snapshot(Option<FifoSnapshot<u32, Object, Hash>>);

impl Snapshot {
    fn of(queue: &Fifo<Object>) -> Self {
        Snapshot(Some(queue.snapshot()))
    }

    fn get(&self, key: u32) -> Option<u32> {
        self.0.as_ref().expect("it is there until it is dropped").get_with(&key, Object::read)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// Each key has an object, ten times its number.
fn knowing(keys: u32) -> Queue<Object> {
    let queue = Queue::new();
    for key in 1..=keys {
        queue.add(key, Object::new(10 * key)).unwrap();
        pop_all(&queue);
    }
    queue
}

fn change(queue: &Fifo<Object>, object: u32) {
    queue.update(1, Object::new(object)).unwrap();
    pop_all(queue);
}

/// All have ended, and consumers have had the time to look at what is left.
fn nothing_is_left(queue: &Fifo<Object>, entries: usize) {
    while queue.core.sweep_if_due() {}
    let shard = &queue.core.shards[0];
    let mut at_rest = 0;
    queue.visit_entries(|entry| {
        assert!(!entry.version.has_older(&shard.objects), "left behind: an object");
        at_rest += usize::from(entry.word().state() != State::Retired);
    });
    // Relaxed: the others are joined.
    let asked = shard.asked.load(Ordering::Relaxed);
    assert_eq!((at_rest, asked), (entries, 0), "left behind: an entry");
}

mod bodies {
    use super::*;

    /// And another thread may have been the one to stamp it.
    pub(super) fn p2_a_snapshot_shows_what_was_popped_before_it() {
        let queue = knowing(1);
        queue.update(1, Object::new(11)).unwrap();
        let other = queue.thread(|queue| {
            queue.known().get_with(&1, Object::read);
            Snapshot::of(queue).get(1)
        });
        pop_all(&queue);
        assert_eq!(Snapshot::of(&queue).get(1), Some(11), "not what was popped");
        assert!(other.join().unwrap().is_some(), "nothing is shown");
        nothing_is_left(&queue, 1);
    }

    pub(super) fn p2_a_snapshot_is_a_cut_through_pops() {
        let queue = knowing(2);
        queue.update(1, Object::new(11)).unwrap();
        queue.update(2, Object::new(21)).unwrap();
        let reader = queue.thread(|queue| {
            let snapshot = Snapshot::of(queue);
            [1, 2, 1].map(|key| snapshot.get(key).expect("it is there all the time"))
        });
        pop_all(&queue);
        let [first, second, again] = reader.join().unwrap();
        assert!(first == again && first - 10 >= second - 20, "no cut: {first}, {second}, {again}");
        nothing_is_left(&queue, 2);
    }

    pub(super) fn k3_a_snapshot_ends_while_a_key_comes_into_view() {
        let queue = knowing(1);
        let snapshot = Snapshot::of(&queue);
        queue.update(1, Object::new(11)).unwrap();
        let reader = spawn(move || drop(snapshot));
        pop_all(&queue);
        reader.join().unwrap();
        nothing_is_left(&queue, 1);
    }

    /// The first object is shown by two, in the list of the one, and behind a link that is not decided.
    pub(super) fn k1_a_snapshot_ends_while_its_key_changes_again() {
        let queue = knowing(1);
        let (first, second) = (Snapshot::of(&queue), Snapshot::of(&queue));
        change(&queue, 11);
        let reader = spawn(move || drop(first));
        change(&queue, 12);
        reader.join().unwrap();
        assert_eq!(second.get(1), Some(10), "nothing is shown, or another object");
        drop(second);
        nothing_is_left(&queue, 1);
    }

    /// The change takes it out of its key's versions; another key could have its cell.
    pub(super) fn k2_a_version_is_due_and_its_key_changes_again() {
        let queue = knowing(1);
        let snapshot = Snapshot::of(&queue);
        change(&queue, 11);
        let reader = spawn(move || drop(snapshot));
        change(&queue, 12);
        reader.join().unwrap();
        nothing_is_left(&queue, 1);
    }

    pub(super) fn e9_a_deleted_key_goes_with_the_snapshot() {
        let queue = knowing(1);
        let snapshot = Snapshot::of(&queue);
        queue.delete(1, Object::new(11)).unwrap();
        let lease = queue.try_pop().unwrap();
        let reader = spawn(move || assert_eq!(snapshot.get(1), Some(10), "nothing is shown"));
        lease.done();
        reader.join().unwrap();
        nothing_is_left(&queue, 0);
    }

    /// The same with the roles changed: who loads before it writes hides races with another's writes from loom.
    pub(super) fn e9_a_snapshot_ends_while_the_lease_of_its_key_does() {
        let queue = knowing(1);
        let snapshot = Snapshot::of(&queue);
        queue.delete(1, Object::new(11)).unwrap();
        let consumer = queue.thread(|queue| _ = pop_all(queue));
        assert_eq!(snapshot.get(1), Some(10), "nothing is shown");
        drop(snapshot);
        consumer.join().unwrap();
        nothing_is_left(&queue, 0);
    }

    pub(super) fn r4_a_snapshot_outlives_its_queue() {
        let queue = knowing(2);
        let snapshot = Snapshot::of(&queue);
        queue.update(1, Object::new(11)).unwrap();
        let reader = spawn(move || [1, 2, 1, 2].map(|key| snapshot.get(key)));
        drop(queue);
        assert_eq!(reader.join().unwrap(), [10, 20, 10, 20].map(Some), "nothing is shown, or something else");
    }

    /// One key has changed since it began.
    pub(super) fn r4_a_snapshot_ends_while_its_queue_does() {
        let queue = knowing(2);
        let snapshot = Snapshot::of(&queue);
        queue.update(1, Object::new(11)).unwrap();
        pop_all(&queue);
        let reader = spawn(move || drop(snapshot));
        drop(queue);
        reader.join().unwrap();
    }
}
