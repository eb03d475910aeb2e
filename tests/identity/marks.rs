//! Which items of lists are marked as nothing new.

use delta_fifo::{Builder, Compression, DeltaQueue, Emit, Lease};

use crate::common::{Family, Queue, Store, builder, for_each_queue, key, lease_text, play};

for_each_queue!(
    a_list_that_shows_nothing_new,
    only_items_of_lists_are_marked,
    compared_with_what_comes_before_it,
    what_came_back_keeps_its_mark,
    latest_marks_what_all_say,
    of_another_identity_nothing_is_asked,
    without_it_nothing_is_marked,
    over_no_known_objects_and_over_a_store,
);

/// Objects of the same tens look the same.
fn by_tens<F: Family>() -> Builder<String, u32> {
    builder().unchanged(|old: &u32, new: &u32| old / 10 == new / 10)
}

/// What a lease shows, marked deltas with a star.
fn text<Q: DeltaQueue<Key = String, Value = u32>>(lease: &Lease<'_, Q>) -> String {
    let deltas = lease.deltas();
    assert_eq!(deltas.infos().last(), Some(deltas.newest_info()));
    let text = lease_text(lease);
    let (key, list) = text.trim_end_matches(']').split_once('[').expect("it has deltas");
    let marked = deltas.infos().map(|info| if info.is_unchanged() { "*" } else { "" });
    let list: Vec<String> =
        list.split(' ').zip(marked).map(|(delta, mark)| format!("{delta}{mark}")).collect();
    format!("{key}[{}]", list.join(" "))
}

#[track_caller]
fn pop<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q, expected: &str) {
    let lease = queue.try_pop().expect("a key is in line");
    assert_eq!(text(&lease), expected);
    lease.done();
}

fn list<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q, value: u32) {
    queue.replace([(key("a"), value)]).unwrap();
}

fn a_list_that_shows_nothing_new<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().build();
    list(&queue, 11);
    pop(&queue, "a:[R11]");
    list(&queue, 12);
    pop(&queue, "a:[R12*]");
    list(&queue, 21);
    pop(&queue, "a:[R21]");
    list(&queue, 21);
    pop(&queue, "a:[R21*]");
    play(&queue, "replace []; pop a:[T(a21)]; replace [a21]");
    pop(&queue, "a:[R21]");
}

fn only_items_of_lists_are_marked<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().build();
    play(&queue, "known a11; update a11; apply a11; add a11; delete a11");
    pop(&queue, "a:[U11 U11 A11 D11]");
    play(&queue, "known a11; resync");
    pop(&queue, "a:[S11]");
    let queue: Queue<F> = by_tens::<F>().replace_emits(Emit::Sync).build();
    play(&queue, "known a11; replace [a12]");
    pop(&queue, "a:[S12*]");
    play(&queue, "resync");
    pop(&queue, "a:[S12]");
}

fn compared_with_what_comes_before_it<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().build();
    play(
        &queue,
        "known a11; update a21; replace [a22]; replace [a31]; replace [a32]; delete a33; replace [a31]",
    );
    pop(&queue, "a:[U21 R22* R31 R32* D33 R31]");
}

fn what_came_back_keeps_its_mark<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().build();
    play(&queue, "known a11; replace [a12]");
    queue.try_pop().unwrap().requeue();
    play(&queue, "replace [a21]");
    let lease = queue.try_pop().unwrap();
    assert_eq!(text(&lease), "a:[R12* R21]");
    list(&queue, 22);
    lease.requeue();
    pop(&queue, "a:[R12* R21 R22*]");
}

fn latest_marks_what_all_say<F: Family>() {
    let latest = || -> Queue<F> { by_tens::<F>().compression(Compression::Latest).build() };
    let queue = latest();
    play(&queue, "known a11; replace [a12]; replace [a13]");
    pop(&queue, "a:[R13*]");
    play(&queue, "replace [a21]; replace [a14]");
    pop(&queue, "a:[R14*]");
    play(&queue, "update a21; replace [a11]");
    pop(&queue, "a:[U11]");
    // Given back, the first of the two is not processed.
    list(&queue, 21);
    let lease = queue.try_pop().unwrap();
    list(&queue, 22);
    lease.requeue();
    pop(&queue, "a:[R22]");
    list(&queue, 23);
    let lease = queue.try_pop().unwrap();
    assert_eq!(text(&lease), "a:[R23*]");
    list(&queue, 24);
    lease.requeue();
    pop(&queue, "a:[R24*]");
}

fn of_another_identity_nothing_is_asked<F: Family>() {
    let queue: Queue<F> = builder()
        .identity(|object: &u32| object / 10)
        .unchanged(|old: &u32, new: &u32| {
            assert_eq!(old / 10, new / 10, "they are different things");
            true
        })
        .build();
    play(&queue, "known a11; replace [a21]; replace [a22]");
    pop(&queue, "a:[T(a11) A21 R22*]");
}

fn without_it_nothing_is_marked<F: Family>() {
    let queue: Queue<F> = builder().build();
    play(&queue, "known a11; replace [a11]");
    pop(&queue, "a:[R11]");
}

fn over_no_known_objects_and_over_a_store<F: Family>() {
    let queue: Queue<F> = by_tens::<F>().no_known_objects().build();
    list(&queue, 11);
    list(&queue, 11);
    pop(&queue, "a:[R11 R11*]");
    list(&queue, 11);
    pop(&queue, "a:[R11]");
    let store = Store::new([("a", 11)]);
    let queue: Queue<F> = by_tens::<F>().known_objects(store.clone()).build();
    list(&queue, 12);
    pop(&queue, "a:[R12*]");
    store.fail_get(true);
    list(&queue, 12);
    pop(&queue, "a:[R12]");
}
