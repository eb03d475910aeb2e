//! What a queue makes of the identities of its objects, of lists that show nothing new, and of the numbers of deltas.

mod common;
#[path = "identity/marks.rs"]
mod marks;
#[path = "identity/numbers.rs"]
mod numbers;
#[path = "identity/panics.rs"]
mod panics;

use std::sync::{Arc, OnceLock, Weak};

use common::{Family, Queue, Script, Store, builder, for_each_queue, key, known_text, play};
use delta_fifo::{Builder, Compression, DeltaQueue, Emit, Keyed, KnownView};

for_each_queue!(
    another_identity_is_a_tombstone_and_an_added,
    whatever_the_source_said,
    within_one_lease,
    a_deletion_of_another_identity_is_that_of_the_old_one,
    after_a_deletion_nothing_is_compared,
    what_came_back_is_not_compared_again,
    latest_compares_with_what_is_known,
    latest_keeps_the_deletion_of_what_was_known,
    latest_does_not_count_on_when_facts_are_merged,
    of_two_deletions_the_older_identity_stays,
    over_no_known_objects,
    over_a_store,
    over_a_store_that_cannot_tell,
    first_syncs_are_as_without,
    known_objects_are_the_new_ones,
    resyncs_change_nobody,
    a_keyed_queue_passes_it_on,
    it_runs_outside_every_lock,
);

/// Objects of the same tens are the same thing.
fn by_tens<F: Family>() -> Builder<String, u32> {
    builder().identity(|object: &u32| object / 10)
}

fn of_tens<F: Family>() -> Queue<F> {
    by_tens::<F>().build()
}

fn latest<F: Family>() -> Queue<F> {
    by_tens::<F>().compression(Compression::Latest).build()
}

fn another_identity_is_a_tombstone_and_an_added<F: Family>() {
    let queue = of_tens::<F>();
    play(&queue, "known a11; update a12; pop a:[U12] was 11; update a21; pop a:[T(a12) A21] was 12; empty");
    play(&queue, "update a22; pop a:[U22] was 21; empty");
    // Without, nobody notices.
    let queue: Queue<F> = builder().build();
    play(&queue, "known a11; update a21; pop a:[U21] was 11");
}

fn whatever_the_source_said<F: Family>() {
    play(&of_tens::<F>(), "known a11; add a21; pop a:[T(a11) A21]");
    play(&of_tens::<F>(), "known a11; apply a21; pop a:[T(a11) A21]");
    play(&of_tens::<F>(), "known a11; replace [a21]; pop a:[T(a11) A21]");
    play(&of_tens::<F>(), "known a11; replace [a12]; pop a:[R12]; replace []; pop a:[T(a12)]; empty");
    let queue: Queue<F> = by_tens::<F>().replace_emits(Emit::Sync).build();
    play(&queue, "known a11; replace [a12]; pop a:[S12]; replace [a21]; pop a:[T(a12) A21]");
    play(&of_tens::<F>(), "update a11; pop a:[U11] was -; update a21; pop a:[T(a11) A21]");
}

fn within_one_lease<F: Family>() {
    play(
        &of_tens::<F>(),
        "known a11; update a12; update a21; update a22; replace [a31]; pop a:[U12 T(a12) A21 U22 T(a22) A31] was 11; \
         empty",
    );
    play(&of_tens::<F>(), "add a11; apply a21; delete a22; apply a31; pop a:[A11 T(a11) A21 D22 A31] was -");
    play(&of_tens::<F>(), "add a11; apply a21; delete_key a; pop a:[A11 T(a11) A21 T(a21)]");
}

fn a_deletion_of_another_identity_is_that_of_the_old_one<F: Family>() {
    play(&of_tens::<F>(), "known a11; delete a12; pop a:[D12]; empty");
    // The second one came and went.
    play(
        &of_tens::<F>(),
        "known a11; delete a21; pop a:[T(a11)] was 11; empty; apply a31; pop a:[A31] was -",
    );
    play(&of_tens::<F>(), "add a11; delete a21; pop a:[A11 T(a11)]; empty");
    play(&of_tens::<F>(), "known a11; delete a21; update a31; pop a:[T(a11) U31]");
    play(&of_tens::<F>(), "known a11; update a21; delete a31; pop a:[T(a11) A21 T(a21)]");
}

fn after_a_deletion_nothing_is_compared<F: Family>() {
    play(&of_tens::<F>(), "known a11; delete a12; update a21; pop a:[D12 U21]; update a22; pop a:[U22]");
    play(&of_tens::<F>(), "known a11; delete a12; pop a:[D12]; replace [a21]; pop a:[R21]; empty");
}

fn what_came_back_is_not_compared_again<F: Family>() {
    let again = "hold a:[T(a11) A21] was 11 try 2; requeue a; pop a:[T(a11) A21] was 11 try 3; empty";
    play(&of_tens::<F>(), "known a11; update a21; hold a:[T(a11) A21] was 11; requeue a");
    let queue = of_tens::<F>();
    play(&queue, "known a11; update a21; hold a:[T(a11) A21] was 11; requeue a");
    play(&queue, again);
    // What has come meanwhile is compared with it.
    play(
        &of_tens::<F>(),
        "known a11; update a21; hold a:[T(a11) A21]; update a22; requeue a; hold a:[T(a11) A21 U22] was 11; \
         update a31; requeue a; pop a:[T(a11) A21 U22 T(a22) A31] was 11 try 3; empty; update a32; pop a:[U32] was 31",
    );
    // Processed, it is what is known.
    play(
        &of_tens::<F>(),
        "known a11; update a21; hold a:[T(a11) A21]; update a22; update a31; done a; pop a:[U22 T(a22) A31] was 21",
    );
}

fn latest_compares_with_what_is_known<F: Family>() {
    // Merged before anybody compares.
    play(&latest::<F>(), "known a11; update a12; update a21; pop a:[T(a11) A21] was 11; empty");
    play(&latest::<F>(), "known a11; update a21; update a31; pop a:[T(a11) A31] was 11; empty");
    play(&latest::<F>(), "known a11; update a21; update a12; pop a:[U12] was 11; empty");
    play(&latest::<F>(), "add a11; update a21; pop a:[A21] was -; empty");
    play(&latest::<F>(), "known a11; update a21; delete a22; pop a:[T(a11)]; empty");
    play(&latest::<F>(), "known a11; update a21; delete_key a; pop a:[T(a11)]; empty");
    play(&latest::<F>(), "known a11; delete a12; add a21; delete a22; add a31; pop a:[T(a11) A31]; empty");
    play(&latest::<F>(), "known a11; delete a12; add a21; update a31; pop a:[D12 A31]; empty");
}

fn latest_keeps_the_deletion_of_what_was_known<F: Family>() {
    play(
        &latest::<F>(),
        "known a11; update a21; hold a:[T(a11) A21]; update a31; requeue a; pop a:[T(a11) A31] was 11",
    );
    play(
        &latest::<F>(),
        "known a11; update a21; hold a:[T(a11) A21]; delete a22; requeue a; pop a:[T(a11)] was 11",
    );
    play(
        &latest::<F>(),
        "known a11; delete a12; hold a:[D12]; add a21; delete a22; requeue a; hold a:[D12] was 11; add a31; requeue a; \
         pop a:[D12 A31] was 11; empty",
    );
    play(
        &latest::<F>(),
        "known a11; update a21; hold a:[T(a11) A21]; requeue a; replace []; pop a:[T(a11)] was 11; empty",
    );
    play(&latest::<F>(), "add a11; hold a:[A11]; update a21; requeue a; pop a:[T(a11) A21] was -; empty");
}

/// Facts that owe different replaces are merged late by some queues.
fn latest_does_not_count_on_when_facts_are_merged<F: Family>() {
    let queue = latest::<F>();
    let first = queue.replace([(key("a"), 11)]).unwrap();
    let second = queue.replace([(key("a"), 21)]).unwrap();
    play(&queue, "pop a:[R21] was -; empty");
    assert!(first.is_complete() && second.is_complete());
    let queue = latest::<F>();
    play(&queue, "known a11");
    let first = queue.replace([(key("a"), 21)]).unwrap();
    let second = queue.replace([(key("a"), 12)]).unwrap();
    play(&queue, "pop a:[R12] was 11; empty");
    assert!(first.is_complete() && second.is_complete());
}

fn of_two_deletions_the_older_identity_stays<F: Family>() {
    play(&of_tens::<F>(), "known a11; delete_key a; delete a21; pop a:[T(a11)]; empty");
    play(
        &of_tens::<F>(),
        "known a11; delete_key a; hold a:[T(a11)]; requeue a; delete a21; pop a:[T(a11)] try 2; empty",
    );
    play(
        &of_tens::<F>(),
        "known a11; delete_key a; hold a:[T(a11)]; requeue a; delete a12; pop a:[D12] try 2; empty",
    );
    play(
        &of_tens::<F>(),
        "known a11; delete a12; hold a:[D12]; requeue a; delete a21; pop a:[D12] try 2; empty",
    );
}

fn over_no_known_objects<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().no_known_objects().build();
    play(
        &queue,
        "update a11; update a21; pop a:[U11 T(a11) A21] was -; update a31; pop a:[U31] was -; empty",
    );
    // What a lease leaves to the next one is not forgotten yet.
    play(
        &queue,
        "update a11; hold a:[U11]; update a21; done a; pop a:[T(a11) A21]; empty; delete a11; empty",
    );
    play(&queue, "update a11; hold a:[U11]; delete a21; done a; pop a:[T(a11)]; empty");
}

fn over_a_store<F: Family>() {
    let store = Store::new([("a", 11), ("b", 11)]);
    let queue: Queue<F> = by_tens::<F>().known_objects(store.clone()).build();
    let mut script = Script::over(&queue, &store);
    script
        .play("update a21; hold a:[T(a11) A21] was 11; update a31; done a; pop a:[T(a21) A31] was 21; empty");
    script.play(
        "delete b21; pop b:[T(b11)] was 11; empty; replace [a41 b41]; any a:[T(a31) A41] b:[R41]; empty",
    );
    script.play("update a51; hold a:[T(a41) A51]; requeue a; pop a:[T(a41) A51] was 41 try 2; empty");
    script.play("delete_key a; pop a:[T(a51)]; empty");
}

fn over_a_store_that_cannot_tell<F: Family>() {
    let store = Store::new([("a", 11)]);
    let queue: Queue<F> = by_tens::<F>().known_objects(store.clone()).build();
    store.fail_get(true);
    let mut script = Script::over(&queue, &store);
    script.play("update a21; update a31; pop a:[U21 T(a21) A31] was -; delete_key b; pop b:[T(b,-)]; empty");
}

fn first_syncs_are_as_without<F: Family>() {
    let queue = of_tens::<F>();
    let first = queue.replace([(key("a"), 11), (key("b"), 11)]).unwrap();
    let mut script = Script::new(&queue);
    script.play("pop a:[R11] initial; hold b:[R11] initial; undelivered; update b21; requeue b; delivered");
    script.play(
        "hold b:[R11 T(b11) A21] initial; unsynced; done b; synced; update a21; pop a:[T(a11) A21] later",
    );
    assert!(first.is_complete());
}

fn known_objects_are_the_new_ones<F: Family>() {
    let queue = of_tens::<F>();
    play(&queue, "known a11 b11; update a21; delete b21");
    let before = queue.snapshot();
    let mut script = Script::new(&queue);
    script.play("hold a:[T(a11) A21]");
    assert_eq!((known_text(&queue.known()), queue.known().len()), ("a21 b11".into(), 2));
    script.play("hold b:[T(b11)]");
    assert_eq!((known_text(&queue.known()), known_text(&queue.snapshot())), ("a21".into(), "a21".into()));
    script.play("done a; done b");
    assert_eq!((known_text(&queue.known()), known_text(&before)), ("a21".into(), "a11 b11".into()));
}

fn resyncs_change_nobody<F: Family>() {
    let queue = of_tens::<F>();
    play(
        &queue,
        "known a11; resync; pop a:[S11]; resync; update a21; pop a:[S11 T(a11) A21]; resync; pop a:[S21]; empty",
    );
    play(&latest::<F>(), "known a11; resync; update a21; pop a:[T(a11) A21]; empty");
}

fn a_keyed_queue_passes_it_on<F: Family>() {
    let queue: Keyed<Queue<F>> = by_tens::<F>().key_fn(|_| Ok(key("a"))).build();
    queue.add(11).unwrap();
    queue.update(21).unwrap();
    play(&**queue, "pop a:[A11 T(a11) A21]");
}

fn it_runs_outside_every_lock<F: Family>() {
    let place: Arc<OnceLock<Weak<Queue<F>>>> = Arc::default();
    let inside = Arc::clone(&place);
    let queue = builder().identity(move |object: &u32| {
        let queue = inside.get().and_then(Weak::upgrade).expect("the queue is there");
        queue.update(key("other"), 1).unwrap();
        assert_eq!((queue.known().contains("a"), queue.leased_len()), (true, 1));
        object / 10
    });
    let queue: Arc<Queue<F>> = Arc::new(queue.build());
    place.set(Arc::downgrade(&queue)).expect("set once");
    play(&*queue, "known a11; update a21; pop a:[T(a11) A21]; pop other:[U1 U1]");
}
