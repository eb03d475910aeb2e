//! The known objects: live, and as of one moment.

use std::collections::BTreeMap;

use delta_fifo::{DeltaQueue, KnownView};

use crate::common::{Family, Queue, builder, for_each_queue, key, known_text, play, queue};

for_each_queue!(
    live_view_shows_what_was_handed_out,
    snapshot_never_changes,
    snapshot_outlives_the_queue,
    lengths_count_objects,
    lengths_of_pending_and_leased,
    view_is_empty_without_known_objects,
    handles_outlive_the_queue,
);

fn live_view_shows_what_was_handed_out<F: Family>() {
    let queue = queue::<F>();
    assert!(queue.known().is_empty());
    play(&queue, "add a1; add b1");
    assert_eq!((queue.known().len(), queue.known().contains("a")), (0, false));
    play(&queue, "pop a:[A1]; pop b:[A1]; update a2");
    assert_eq!(known_text(&queue.known()), "a1 b1");
    let lease = queue.pop().unwrap();
    assert_eq!(known_text(&queue.known()), "a2 b1");
    lease.done();
    assert_eq!(queue.known().get("a"), Some(2));
    assert_eq!(queue.known().get("c"), None);
    // The closure may call the queue.
    let seen = queue.known().get_with("b", |object| {
        queue.update(key("b"), 9).unwrap();
        (*object, queue.known().len())
    });
    assert_eq!(seen, Some((1, 2)));
    let mut keys: Vec<String> = queue.known().keys().map(|key| String::clone(&key)).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b"]);
    let found = queue.known().find("a").unwrap();
    assert_eq!((found.key().as_str(), *found.object()), ("a", 2));
    play(&queue, "replace []; any a:[T(a2)] b:[U9 T(b9)]");
    assert!(queue.known().is_empty());
    // Iterating while the queue goes on.
    play(&queue, "known a1 b1 c1");
    let mut seen = BTreeMap::new();
    for known in queue.known().iter() {
        assert_eq!(seen.insert(known.key().clone(), *known.object()), None, "a key twice");
        play(&queue, "update a2; pop a:[U2]; update b2; pop b:[U2]");
    }
    assert!(seen.keys().map(String::as_str).eq(["a", "b", "c"]) && seen["c"] == 1);
}

fn snapshot_never_changes<F: Family>() {
    let queue = queue::<F>();
    let empty = queue.snapshot();
    play(&queue, "known a1 b1 c1");
    let first = queue.snapshot();
    let copy = first.clone();
    play(&queue, "update a2; delete b2; add d2; pop a:[U2]; pop b:[D2]; pop d:[A2]");
    let second = queue.snapshot();
    play(&queue, "replace [x3]; any a:[T(a2)] c:[T(c1)] d:[T(d2)] x:[R3]");
    for _ in 0..2 {
        assert_eq!(known_text(&empty), "");
        assert_eq!(known_text(&first), "a1 b1 c1");
        assert_eq!(known_text(&copy), "a1 b1 c1");
        assert_eq!(known_text(&second), "a2 c1 d2");
        assert_eq!(known_text(&queue.snapshot()), "x3");
        play(&queue, "resync; pop x:[S3]");
    }
    assert_eq!((first.len(), first.get("b"), first.get("d")), (3, Some(1), None));
    assert_eq!((second.get("b"), second.contains("d"), second.is_empty()), (None, true, false));
}

fn snapshot_outlives_the_queue<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1");
    let snapshot = queue.snapshot();
    drop(queue);
    assert_eq!(known_text(&snapshot), "a1");
}

fn lengths_count_objects<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1; delete a2; hold a:[D2]");
    assert_eq!(queue.known().len(), 1);
    // Records that a running replace may keep are not objects.
    let replace = queue.begin_replace().unwrap();
    play(&queue, "delete b2; pop b:[D2]; add c1; delete c2; pop c:[A1 D2]");
    assert_eq!((queue.known().len(), queue.known().iter().count()), (0, 0));
    assert_eq!((queue.snapshot().len(), queue.snapshot().contains("b")), (0, false));
    replace.commit().unwrap();
    assert_eq!(queue.known().len(), 0);
    play(&queue, "empty; add b3; pop b:[A3] was -");
    assert_eq!(queue.known().len(), 1);
}

fn lengths_of_pending_and_leased<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "pending 0; leased 0; add a1; add b1; update a2; pending 2; leased 0");
    let lease = queue.pop().unwrap();
    play(&queue, "pending 1; leased 1; update a3; pending 2; leased 1; update a4; pending 2; leased 1");
    lease.done();
    play(&queue, "pending 2; leased 0; delete b2; pending 2; delete x1; pending 2");
    queue.pop().unwrap().requeue_after(std::time::Duration::from_secs(3600));
    play(&queue, "pending 2; leased 0; pop a:[U3 U4]; pending 1; empty");
}

fn view_is_empty_without_known_objects<F: Family>() {
    let queue: Queue<F> = builder().no_known_objects().build();
    play(
        &queue,
        "add a1; hold a:[A1] was -; update a2; done a; pop a:[U2]; apply a3; pop a:[A3]; resync; empty",
    );
    assert_eq!((queue.known().len(), queue.known().get("a"), queue.snapshot().len()), (0, None, 0));
}

fn handles_outlive_the_queue<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1");
    let handle = queue.known().find("a").unwrap();
    let all: Vec<_> = queue.known().iter().collect();
    play(&queue, "update a2; pop a:[U2]");
    drop(queue);
    assert_eq!((handle.key().as_str(), *handle.object(), *all[0].clone().object()), ("a", 1, 1));
}
