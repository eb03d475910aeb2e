//! What client-go's own tests pin of its DeltaFIFO, its batch-popping queue and its work queue: one test per
//! behaviour, with our own code.

mod common;
#[path = "client_go/threads.rs"]
mod threads;
#[path = "client_go/work_queue.rs"]
mod work_queue;

use std::sync::{Arc, Mutex};

use common::{Family, Queue, Script, Store, builder, for_each_queue, key, lease_text, play, queue};
use delta_fifo::{DeltaQueue, Emit};

for_each_queue!(
    replace_appends_after_a_queued_deletion,
    only_queued_keys_get_one_tombstone,
    only_queued_keys_get_one_tombstone_without_known_objects,
    all_changes_of_a_key_are_one_pop,
    objects_are_transformed_once_and_tombstones_never,
    deletion_of_an_idle_key_needs_a_known_object,
    resync_leaves_queued_keys_alone,
    deletion_of_a_queued_key_is_kept,
    relist_after_a_queued_deletion,
    relist_after_a_queued_addition,
    relist_after_deletion_and_addition,
    relist_twice,
    relist_without_known_objects,
    replaced_items_are_sync_or_replaced,
    update_beats_resync,
    first_sync_counts_tombstones,
    later_changes_keep_the_place_in_line,
    first_sync_table,
    requeue_without_newer_deltas,
    requeue_with_newer_deltas,
    batch_has_distinct_keys,
    batch_of_one_is_a_pop,
);

fn replace_appends_after_a_queued_deletion<F: Family>() {
    play(&queue::<F>(), "known foo10; delete foo10; replace [foo15]; pop foo:[D10 R15]; empty");
    let queue: Queue<F> = builder().replace_emits(Emit::Sync).build();
    play(&queue, "known foo10; delete foo10; replace [foo15]; pop foo:[D10 S15]; empty");
}

fn only_queued_keys_get_one_tombstone<F: Family>() {
    // With a known object that is older than what is queued.
    play(&queue::<F>(), "known foo5; update foo10; replace []; replace []; pop foo:[U10 T(foo10)]; empty");
    // Never handed out yet.
    play(
        &queue::<F>(),
        "add foo10; add bar1; replace [bar2]; replace [bar3]; pop foo:[A10 T(foo10)]; pop bar:[A1 R2 R3]; \
        empty",
    );
    // The newest object is the one of the relist before.
    play(&queue::<F>(), "add foo10; replace [foo11]; replace []; pop foo:[A10 R11 T(foo11)]; empty");
}

fn only_queued_keys_get_one_tombstone_without_known_objects<F: Family>() {
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add foo10; update foo11; replace []; replace []; pop foo:[A10 U11 T(foo11)]; empty");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add foo10; pop foo:[A10]; replace []; empty");
}

fn all_changes_of_a_key_are_one_pop<F: Family>() {
    play(
        &queue::<F>(),
        "add foo10; update foo12; delete foo15; pending 1; pop foo:[A10 U12 D15]; empty; pending 0",
    );
}

fn objects_are_transformed_once_and_tombstones_never<F: Family>() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let queue: Queue<F> = builder()
        .transform(move |value: &mut u32| {
            assert!(*value < 100, "transformed twice");
            sees.lock().unwrap().push(*value);
            *value += 100;
            Ok(())
        })
        .build();
    play(
        &queue,
        "add a1; update a2; apply a3; add b4; delete b5; replace [c6 c7]; delete_key c; add d8; \
         pop a:[A101 U102 U103 T(a103)]; pop b:[A104 D105]; pop c:[R106 R107 T(c107)]; pop d:[A108]; \
         resync; pop d:[S108]; delete_key d; pop d:[T(d108)]; empty",
    );
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

fn deletion_of_an_idle_key_needs_a_known_object<F: Family>() {
    play(&queue::<F>(), "delete foo10; delete_key foo; pending 0; empty");
    play(&queue::<F>(), "known foo5; delete foo10; pop foo:[D10]; delete foo11; empty");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add foo1; pop foo:[A1]; delete foo10; delete_key foo; empty");
    let store = Store::new([("foo", 5)]);
    let queue: Queue<F> = builder().known_objects(store.clone()).build();
    Script::over(&queue, &store).play("delete bar1; empty; delete foo10; pop foo:[D10]; delete foo11; empty");
}

fn resync_leaves_queued_keys_alone<F: Family>() {
    play(
        &queue::<F>(),
        "known foo5 bar6 baz7; delete foo10; update bar8; resync; pop foo:[D10]; pop bar:[U8]; \
        pop baz:[S7]; empty",
    );
    let store = Store::new([("bar", 6), ("foo", 5)]);
    let queue: Queue<F> = builder().known_objects(store.clone()).build();
    Script::over(&queue, &store).play("delete foo10; resync; pop foo:[D10]; pop bar:[S6]; empty");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add a1; pop a:[A1]; resync; empty");
}

fn deletion_of_a_queued_key_is_kept<F: Family>() {
    play(&queue::<F>(), "add foo10; delete foo11; pop foo:[A10 D11]; empty");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add foo10; delete foo11; pop foo:[A10 D11]; empty");
    // Twice deleted, it stays one deletion; and nothing of it is known afterwards.
    play(&queue, "add foo10; delete foo11; delete foo12; pop foo:[A10 D11]; delete foo13; empty");
}

fn relist_after_a_queued_deletion<F: Family>() {
    play(
        &queue::<F>(),
        "known foo5 bar6 baz7; delete baz10; replace [foo5]; \
         any baz:[D10] foo:[R5] bar:[T(bar6)]; empty",
    );
}

fn relist_after_a_queued_addition<F: Family>() {
    play(
        &queue::<F>(),
        "known foo5 bar6 baz7; add baz10; replace [foo5]; \
         any baz:[A10 T(baz10)] foo:[R5] bar:[T(bar6)]; empty",
    );
}

fn relist_after_deletion_and_addition<F: Family>() {
    play(
        &queue::<F>(),
        "known foo5 baz7; delete baz10; add baz11; replace [foo5]; \
         any baz:[D10 A11 T(baz11)] foo:[R5]; empty",
    );
}

fn relist_twice<F: Family>() {
    // The second list has again what the first had not.
    play(
        &queue::<F>(),
        "known foo5 bar6; replace [foo7]; replace [foo8 bar9]; \
         any foo:[R7 R8] bar:[T(bar6) R9]; empty",
    );
    // And neither list has it.
    play(
        &queue::<F>(),
        "known foo5 bar6; replace [foo7]; replace [foo8]; any foo:[R7 R8] bar:[T(bar6)]; empty",
    );
}

fn relist_without_known_objects<F: Family>() {
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add baz10; replace [foo5]; any baz:[A10 T(baz10)] foo:[R5]; replace []; empty");
}

fn replaced_items_are_sync_or_replaced<F: Family>() {
    play(&queue::<F>(), "replace [foo10]; pop foo:[R10]");
    let queue: Queue<F> = builder().replace_emits(Emit::Replaced).build();
    play(&queue, "replace [foo10]; pop foo:[R10]");
    let queue: Queue<F> = builder().replace_emits(Emit::Sync).build();
    play(&queue, "replace [foo10]; pop foo:[S10]; resync; pop foo:[S10]; empty");
}

fn update_beats_resync<F: Family>() {
    play(&queue::<F>(), "known foo5; resync; update foo6; pop foo:[S5 U6]; empty");
    play(&queue::<F>(), "known foo5; update foo6; resync; pop foo:[U6]; empty");
}

fn first_sync_counts_tombstones<F: Family>() {
    let store = Store::new([("foo", 5), ("bar", 6), ("baz", 7)]);
    let queue: Queue<F> = builder().known_objects(store.clone()).build();
    queue.replace([(key("foo"), 8)]).unwrap();
    for left in (0..3).rev() {
        assert!(!queue.has_synced());
        let lease = queue.try_pop().unwrap();
        assert!(lease.is_initial(), "{}", lease_text(&lease));
        store.note(&lease);
        lease.done();
        assert_eq!(queue.pending_len(), left);
    }
    assert!(queue.has_synced());
    Script::over(&queue, &store)
        .play("replace [foo9]; pop foo:[R9] later; update foo10; pop foo:[U10] later");
}

fn later_changes_keep_the_place_in_line<F: Family>() {
    play(
        &queue::<F>(),
        "add foo10; add bar1; add foo11; add foo13; add zab30; \
         pop foo:[A10 A11 A13]; add foo14; pop bar:[A1]; pop zab:[A30]; pop foo:[A14]; empty",
    );
}

fn first_sync_table<F: Family>() {
    let cases = [
        "unsynced",
        "unsynced; add a1; synced",
        "update a1; synced",
        "apply a1; synced",
        "delete a1; synced",
        "delete_key a; synced",
        "resync; unsynced",
        "replace []; synced",
        "replace [a1 b2]; unsynced",
        "replace [a1 b2]; pop a:[R1]; unsynced",
        "replace [a1 b2]; pop a:[R1]; pop b:[R2]; synced",
        "replace [a1 a2]; pop a:[R1 R2]; synced",
        // What comes later does not decide it.
        "replace [a1 b2]; pop a:[R1]; add a3; add c4; unsynced; pop b:[R2]; synced",
        "replace [a1]; replace [a2 b3]; pop a:[R1 R2]; synced",
    ];
    for case in cases {
        play(&queue::<F>(), case);
    }
}

fn requeue_without_newer_deltas<F: Family>() {
    play(
        &queue::<F>(),
        "add foo10; hold foo:[A10] try 1; requeue foo; pending 1; hold foo:[A10] try 2; done foo; empty",
    );
}

fn requeue_with_newer_deltas<F: Family>() {
    // What was given back comes before what arrived meanwhile.
    play(
        &queue::<F>(),
        "add foo10; hold foo:[A10]; update foo11; requeue foo; pending 1; pop foo:[A10 U11] try 2; empty",
    );
    // The joint is compressed as any other place.
    play(
        &queue::<F>(),
        "known foo5; delete foo10; hold foo:[D10]; delete foo11; requeue foo; pop foo:[D10]; empty",
    );
}

fn batch_has_distinct_keys<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "add a1; add b1; update a2; add c1; update b2");
    let batch = queue.pop_batch(2).unwrap();
    let texts: Vec<String> = batch.iter().map(lease_text).collect();
    assert_eq!(texts, ["a:[A1 U2]", "b:[A1 U2]"]);
    // A batch never waits to fill up.
    let rest = queue.pop_batch(2).unwrap();
    assert_eq!(rest.iter().map(lease_text).collect::<Vec<_>>(), ["c:[A1]"]);
    rest.done();
    batch.done();
    play(&queue, "empty; leased 0");
}

fn batch_of_one_is_a_pop<F: Family>() {
    let (one, other) = (queue::<F>(), queue::<F>());
    for queue in [&one, &other] {
        play(queue, "replace [a1 b1 c1]; update b2; delete c2");
    }
    for _ in 0..3 {
        let (batch, lease) = (one.pop_batch(1).unwrap(), other.pop().unwrap());
        assert_eq!(batch.len(), 1);
        let single = batch.into_iter().next().unwrap();
        assert_eq!(format!("{single:?}"), format!("{lease:?}"));
        single.done();
        lease.done();
        assert_eq!(one.has_synced(), other.has_synced());
        assert_eq!(one.pending_len(), other.pending_len());
    }
}
