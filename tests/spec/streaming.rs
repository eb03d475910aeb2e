//! The complete set of objects, page by page.

use std::sync::Arc;

use delta_fifo::{BeginReplaceError, CommitError, DeltaQueue, Upsert, UpsertErrorKind};

use crate::common::{Family, Queue, Store, builder, finishes, for_each_queue, key, known_text, play, queue};

for_each_queue!(
    objects_go_in_line_as_they_arrive,
    newer_change_supersedes,
    seen_and_popped_meanwhile_is_not_swept,
    changed_meanwhile_is_not_swept,
    dropped_one_leaves_what_was_seen_and_deletes_nothing,
    dropped_one_decides_nothing_about_the_first_sync,
    change_while_open_decides_after_the_drop,
    change_while_open_does_not_decide_if_committed,
    close_cuts_it,
    first_sync_waits_for_the_commit,
    remembers_over_a_users_store,
    forgotten_one_blocks_only_later_replaces,
    owned_one_moves_into_a_thread,
);

fn objects_go_in_line_as_they_arrive<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known gone1");
    let replace = queue.begin_replace().unwrap();
    assert_eq!(replace.upsert(key("b"), 1).unwrap(), Upsert::Placed);
    play(&queue, "pending 1; pop b:[R1]; empty");
    assert_eq!(replace.upsert(key("a"), 1).unwrap(), Upsert::Placed);
    assert_eq!(replace.upsert(key("a"), 2).unwrap(), Upsert::Placed);
    assert_eq!(replace.upsert(key("b"), 2).unwrap(), Upsert::Placed);
    play(&queue, "pop a:[R1 R2]; hold b:[R2]");
    let completion = replace.commit().unwrap();
    assert!(!completion.is_complete());
    play(&queue, "pop gone:[T(gone1)]; empty");
    assert!(completion.is_complete());
}

fn newer_change_supersedes<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1 c1; update c2");
    let replace = queue.begin_replace().unwrap();
    play(&queue, "update a2; delete b2; pop c:[U2]; pop a:[U2]");
    assert_eq!(replace.upsert(key("a"), 1).unwrap(), Upsert::Superseded);
    assert_eq!(replace.upsert(key("b"), 1).unwrap(), Upsert::Superseded);
    // Changed before the replace began: the list is newer.
    assert_eq!(replace.upsert(key("c"), 3).unwrap(), Upsert::Placed);
    // A change after the list's object is newer than a second one of the list.
    play(&queue, "update c4");
    assert_eq!(replace.upsert(key("c"), 3).unwrap(), Upsert::Superseded);
    replace.commit().unwrap();
    play(&queue, "pop b:[D2]; pop c:[R3 U4]; empty");
    assert_eq!(known_text(&queue.known()), "a2 c4");
}

fn seen_and_popped_meanwhile_is_not_swept<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1");
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 2).unwrap();
    replace.upsert(key("c"), 2).unwrap();
    play(&queue, "pop a:[R2]; pop c:[R2]; resync; any a:[S2] b:[S1] c:[S2]");
    replace.commit().unwrap();
    play(&queue, "pop b:[T(b1)]; empty");
}

fn changed_meanwhile_is_not_swept<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1 c1 d1");
    let replace = queue.begin_replace().unwrap();
    // In line, handed out, done, deleted and added again.
    play(
        &queue,
        "update a2; add new2; pop a:[U2]; update b2; pop new:[A2]; delete c2; pop b:[U2]; pop c:[D2]; add c3",
    );
    let lease = queue.pop().unwrap();
    replace.commit().unwrap();
    lease.done();
    play(&queue, "pop d:[T(d1)]; empty");
    assert_eq!(known_text(&queue.known()), "a2 b2 c3 new2");
}

fn dropped_one_leaves_what_was_seen_and_deletes_nothing<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1");
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 2).unwrap();
    replace.upsert(key("c"), 2).unwrap();
    drop(replace);
    play(&queue, "pending 2; pop a:[R2]; pop c:[R2]; empty");
    assert_eq!(known_text(&queue.known()), "a2 b1 c2");
    // The next one sweeps as ever, also what the dropped one had seen.
    play(&queue, "replace [c3]; any a:[T(a2)] b:[T(b1)] c:[R3]; empty");
}

fn dropped_one_decides_nothing_about_the_first_sync<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 1).unwrap();
    drop(replace);
    play(&queue, "unsynced; hold a:[R1]; done a; unsynced");
    // The next replace is the first.
    play(&queue, "replace [b1]; unsynced; any a:[T(a1)] b:[R1]; synced");
    // Or a change is.
    let queue = crate::common::queue::<F>();
    drop(queue.begin_replace().unwrap());
    play(&queue, "unsynced; add a1; synced");
}

fn change_while_open_decides_after_the_drop<F: Family>() {
    for change in ["add b1", "update b1", "apply b1", "delete b1", "delete_key b"] {
        let queue = queue::<F>();
        let replace = queue.begin_replace().unwrap();
        replace.upsert(key("a"), 1).unwrap();
        play(&queue, change);
        play(&queue, "unsynced; undelivered");
        drop(replace);
        play(&queue, "synced; delivered");
    }
}

fn change_while_open_does_not_decide_if_committed<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    play(&queue, "add b1; pop b:[A1] later; unsynced");
    replace.upsert(key("a"), 1).unwrap();
    replace.commit().unwrap();
    play(&queue, "unsynced; pop a:[R1] initial; synced");
}

fn close_cuts_it<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known gone1");
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 1).unwrap();
    play(&queue, "close");
    let error = replace.upsert(key("b"), 2).unwrap_err();
    assert!(matches!(error.kind, UpsertErrorKind::Closed));
    assert_eq!((error.key.as_str(), error.value), ("b", 2));
    play(&queue, "pop a:[R1]; closed");
    assert!(matches!(replace.commit(), Err(CommitError::Closed)));
    play(&queue, "closed; pending 0");
    assert_eq!(known_text(&queue.known()), "a1 gone1");
}

fn first_sync_waits_for_the_commit<F: Family>() {
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 1).unwrap();
    play(&queue, "pop a:[R1] initial; unsynced; undelivered");
    let completion = replace.commit().unwrap();
    assert!(completion.is_complete());
    play(&queue, "synced; delivered");
    // Without any object.
    let queue = crate::common::queue::<F>();
    let replace = queue.begin_replace().unwrap();
    play(&queue, "unsynced");
    replace.commit().unwrap();
    play(&queue, "synced");
}

fn remembers_over_a_users_store<F: Family>() {
    let store = Store::new([("a", 1), ("b", 1), ("c", 1)]);
    let queue: Queue<F> = builder().known_objects(store.clone()).build();
    let mut script = crate::common::Script::over(&queue, &store);
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 2).unwrap();
    script.play("pop a:[R2] was 1; update b2; pop b:[U2] was 1; add d2; pop d:[A2]");
    assert_eq!(replace.upsert(key("b"), 1).unwrap(), Upsert::Superseded);
    replace.commit().unwrap();
    script.play("pop c:[T(c1)] was 1; empty");
    assert_eq!(store.objects().into_keys().collect::<String>(), "abd");
}

fn forgotten_one_blocks_only_later_replaces<F: Family>() {
    let queue = queue::<F>();
    std::mem::forget(queue.begin_replace().unwrap());
    assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress)));
    play(&queue, "add a1; pop a:[A1]; resync; pop a:[S1]; delete a2; pop a:[D2]; empty; close; closed");
}

fn owned_one_moves_into_a_thread<F: Family>() {
    let queue = Arc::new(queue::<F>());
    play(&*queue, "known gone1");
    let replace = queue.begin_replace_owned().unwrap();
    let completion = finishes("the lister", move || {
        replace.upsert(key("a"), 1).unwrap();
        replace.commit().unwrap()
    });
    play(&*queue, "any a:[R1] gone:[T(gone1)]; empty");
    assert_eq!(completion.wait(), Ok(()));
}
