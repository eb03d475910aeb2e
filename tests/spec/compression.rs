//! What is merged while it is pending.

use delta_fifo::{Compression, DeltaQueue, OnAbandon};

use crate::common::{Family, Queue, builder, for_each_queue, key, play, queue};

for_each_queue!(
    of_two_deletions_one_is_kept,
    nothing_else_is_merged_by_default,
    merged_deltas_are_counted,
    latest_keeps_one_live_delta,
    latest_live_kind_is_the_strongest,
    latest_keeps_the_newest_deletion_and_one_live_delta_after_it,
    latest_deletion_without_a_live_delta_between,
    latest_deletion_of_a_key_never_known_is_handed_out,
    latest_merges_what_was_given_back,
    latest_keeps_the_first_replace,
);

fn of_two_deletions_one_is_kept<F: Family>() {
    // A real one wins over a tombstone, on either side.
    play(&queue::<F>(), "known a1; delete a2; delete_key a; pop a:[D2]; empty");
    play(&queue::<F>(), "known a1; delete_key a; delete a2; pop a:[D2]; empty");
    // Of two real ones the older.
    play(&queue::<F>(), "known a1; delete a2; delete a3; pop a:[D2]; empty");
    // Of two tombstones the newer, which is of the same object.
    play(&queue::<F>(), "known a1; delete_key a; delete_key a; pop a:[T(a1)]; empty");
    // At the joint with what was given back.
    play(&queue::<F>(), "known a1; delete_key a; hold a:[T(a1)]; requeue a; delete a2; pop a:[D2]; empty");
    play(&queue::<F>(), "known a1; delete a2; hold a:[D2]; requeue a; delete_key a; pop a:[D2]; empty");
    // Three in a row, with live ones before.
    play(&queue::<F>(), "add a1; delete_key a; delete a2; delete_key a; add a3; pop a:[A1 D2 A3]; empty");
}

fn nothing_else_is_merged_by_default<F: Family>() {
    let queue = queue::<F>();
    play(
        &queue,
        "known a1; resync; update a2; update a2; add a2; replace [a2 a2]; delete a2; add a2; \
         pop a:[S1 U2 U2 A2 R2 R2 D2 A2]; empty",
    );
    assert_eq!(queue.merged(), 0);
}

fn merged_deltas_are_counted<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1; delete a2; delete a3; delete_key a");
    play(&queue, "pop a:[D2]");
    assert_eq!(queue.merged(), 2);
}

fn latest<F: Family>() -> Queue<F> {
    builder().compression(Compression::Latest).build()
}

fn latest_keeps_one_live_delta<F: Family>() {
    let queue = latest::<F>();
    play(&queue, "add a1; update a2; update a3; pop a:[A3]; empty");
    assert_eq!(queue.merged(), 2);
    play(&queue, "update a4; update a5; pop a:[U5] was 3; apply a6; apply a7; pop a:[U7]; empty");
}

fn latest_live_kind_is_the_strongest<F: Family>() {
    // Added, else Updated, else Replaced, else Sync; always with the newest object.
    play(&latest::<F>(), "update a1; add a2; pop a:[A2]");
    play(&latest::<F>(), "add a1; replace [a2]; pop a:[A2]");
    play(&latest::<F>(), "replace [a1]; add a2; pop a:[A2]");
    play(&latest::<F>(), "replace [a1]; update a2; pop a:[U2]");
    play(&latest::<F>(), "known a1; update a2; replace [a3]; pop a:[U3]");
    play(&latest::<F>(), "replace [a1 a2]; replace [a3]; pop a:[R3]");
    play(&latest::<F>(), "known a1; resync; replace [a2]; pop a:[R2]");
    play(&latest::<F>(), "known a1; resync; update a2; pop a:[U2]");
    play(&latest::<F>(), "known a1; resync; pop a:[S1]");
    // An apply is what it turns out to be.
    play(&latest::<F>(), "apply a1; update a2; pop a:[A2]");
    play(&latest::<F>(), "known a1; resync; apply a2; pop a:[U2]");
    play(&latest::<F>(), "replace [a1]; apply a2; pop a:[U2]");
}

fn latest_keeps_the_newest_deletion_and_one_live_delta_after_it<F: Family>() {
    play(&latest::<F>(), "known a1; update a2; delete a3; add a4; update a5; pop a:[D3 A5]; empty");
    play(
        &latest::<F>(),
        "known a1; delete a2; add a3; delete a4; add a5; update a6; delete a7; apply a8; pop a:[D7 A8]; \
        empty",
    );
    play(&latest::<F>(), "known a1; delete a2; replace [a3]; update a4; pop a:[D2 U4]; empty");
    play(&latest::<F>(), "known a1; update a2; replace []; apply a3; pop a:[T(a2) A3]; empty");
}

fn latest_deletion_without_a_live_delta_between<F: Family>() {
    // The rule of two deletions; with live ones between them the newest stays.
    play(&latest::<F>(), "known a1; delete a2; delete a3; pop a:[D2]");
    play(&latest::<F>(), "known a1; delete_key a; delete a3; pop a:[D3]");
    play(&latest::<F>(), "known a1; delete a2; delete_key a; pop a:[D2]");
    play(&latest::<F>(), "known a1; delete a2; add a3; delete a4; pop a:[D4]");
    play(&latest::<F>(), "known a1; delete a2; add a3; delete_key a; pop a:[T(a3)]");
}

fn latest_deletion_of_a_key_never_known_is_handed_out<F: Family>() {
    play(&latest::<F>(), "add a1; update a2; delete a3; pop a:[D3] was -; empty; delete a4; empty");
    play(&latest::<F>(), "add a1; delete_key a; pop a:[T(a1)] was -; empty");
    play(&latest::<F>(), "add a1; replace []; pop a:[T(a1)]; empty");
    // Then it does not exist.
    play(&latest::<F>(), "add a1; delete a2; apply a3; pop a:[D2 A3]; empty");
}

fn latest_merges_what_was_given_back<F: Family>() {
    play(&latest::<F>(), "add a1; hold a:[A1]; update a2; requeue a; pop a:[A2] try 2; empty");
    play(&latest::<F>(), "add a1; hold a:[A1]; requeue a; update a2; pop a:[A2] try 2; empty");
    play(
        &latest::<F>(),
        "known a1; delete a2; hold a:[D2]; apply a3; requeue a; apply a4; pop a:[D2 A4] was 1; empty",
    );
    play(&latest::<F>(), "known a1; update a2; hold a:[U2]; delete a3; requeue a; pop a:[D3] was 1; empty");
    let queue: Queue<F> = builder().compression(Compression::Latest).on_abandon(OnAbandon::Requeue).build();
    play(&queue, "add a1; hold a:[A1]; drop a; update a2; update a3; pop a:[A3] try 2; empty");
}

fn latest_keeps_the_first_replace<F: Family>() {
    // Merging does not lose whose delta it was.
    let queue = latest::<F>();
    play(
        &queue,
        "replace [a1 b1]; update a2; delete b2; pop a:[U2] initial; unsynced; pop b:[D2] initial; synced",
    );
    let queue = latest::<F>();
    queue.replace([(key("a"), 1)]).unwrap();
    play(&queue, "hold a:[R1] initial; update a2; requeue a; unsynced; pop a:[U2] initial; synced");
}
