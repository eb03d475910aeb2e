//! The order of the line, and the second line in the background.

use delta_fifo::{Background, DeltaQueue};

use crate::common::{Family, Queue, builder, for_each_queue, key, play, queue};

for_each_queue!(
    first_in_first_out_by_going_in_line,
    no_second_line_by_default,
    resynced_keys_stand_in_the_background,
    background_is_served_at_least_every_16th_pop,
    real_change_moves_a_key_to_the_first_line,
    first_replace_in_the_background,
    put_there_twice_it_leaves_the_background_too,
    both_in_the_background,
    line_is_chosen_each_time,
);

fn first_in_first_out_by_going_in_line<F: Family>() {
    play(
        &queue::<F>(),
        "add c1; add a1; add b1; update c2; delete a2; pop c:[A1 U2]; pop a:[A1 D2]; pop b:[A1]; empty",
    );
    play(
        &queue::<F>(),
        "known a1 b1; update b2; replace [c3 b3 a3]; pop b:[U2 R3]; pop c:[R3]; pop a:[R3]; empty",
    );
    let queue = queue::<F>();
    for index in 0..1_000u32 {
        queue.add(index.to_string(), index).unwrap();
    }
    for index in 0..1_000u32 {
        let lease = queue.pop().unwrap();
        assert_eq!(lease.key(), &index.to_string());
        lease.done();
    }
}

fn no_second_line_by_default<F: Family>() {
    play(
        &queue::<F>(),
        "known a1; resync; add b1; pop a:[S1]; pop b:[A1]; replace [c1 a1 b1]; add d1; pop c:[R1]; \
        pop a:[R1]; pop b:[R1]; pop d:[A1]; empty",
    );
    play(&queue::<F>(), "replace [a1]; add b1; pop a:[R1]; pop b:[A1]; empty");
}

fn resynced_keys_stand_in_the_background<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Resync).build();
    play(&queue, "known a1; resync; add b1; add c1; pop b:[A1]; pop c:[A1]; pop a:[S1]; empty; pending 0");
    // A single one too; and a replace is no resync.
    assert_eq!(queue.resync_key(key("a")), Ok(true));
    play(
        &queue,
        "update b2; pop b:[U2]; pop a:[S1]; replace [c3 a3 b3]; add d3; pop c:[R3]; pop a:[R3]; \
        pop b:[R3]; pop d:[A3]; empty",
    );
}

/// The order in which `n` keys come out, with a new real change for each that was one.
fn order<Q: DeltaQueue<Key = String, Value = u32>>(queue: &Q, n: usize) -> Vec<bool> {
    (0..n)
        .map(|_| {
            let lease = queue.try_pop().unwrap();
            let is_real = lease.key().starts_with("real");
            let name = lease.key().clone();
            lease.done();
            if is_real {
                queue.update(name, 1).unwrap();
            }
            is_real
        })
        .collect()
}

fn background_is_served_at_least_every_16th_pop<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Resync).build();
    let known: Vec<String> = (0..10).map(|index| format!("idle{index}")).collect();
    for name in &known {
        queue.add(name.clone(), 1).unwrap();
        queue.pop().unwrap().done();
    }
    assert_eq!(queue.resync().unwrap(), 10);
    for index in 0..3 {
        queue.add(format!("real{index}"), 1).unwrap();
    }
    let order = order(&queue, 100);
    let background: Vec<usize> = (0..100).filter(|&index| !order[index]).collect();
    assert!(background.len() >= 100 / 16, "{background:?}");
    // Fresh changes come first, and no 16 pops pass without one from the background.
    assert!(background[0] > 0);
    assert!(
        background[0] < 16 && background.windows(2).all(|pair| pair[1] - pair[0] <= 16),
        "{background:?}"
    );
    assert!(
        background.len() <= 10 && background.windows(2).all(|pair| pair[1] - pair[0] > 1),
        "{background:?}"
    );
}

fn real_change_moves_a_key_to_the_first_line<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Resync).build();
    play(
        &queue,
        "known a1 b1 c1; resync; add x1; update b2; pop x:[A1]; pop b:[S1 U2]; any a:[S1] c:[S1]; empty",
    );
    // A deletion and a replace are real changes.
    play(&queue, "resync; add y1; delete a2; replace [c2 x2 b2 y2]");
    play(&queue, "pop y:[A1 R2]; pop a:[S1 D2]; pop c:[S1 R2]; pop x:[S1 R2]; pop b:[S2 R2]; empty");
    assert_eq!(queue.pending_len(), 0);
}

fn first_replace_in_the_background<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Initial).build();
    play(
        &queue,
        "replace [a1 b1 c1]; add x1; update b2; pop x:[A1]; pop b:[R1 U2]; pop a:[R1]; pop c:[R1]; \
        synced; empty",
    );
    // Only the first one; and a resync is none.
    play(
        &queue,
        "replace [a2 b3]; add y1; any a:[R2] b:[R3] c:[T(c1)] x:[T(x1)]; pop y:[A1]; resync; add z1",
    );
    assert!(queue.pop().unwrap().key() != "z");
}

/// The second time a sharded queue notes that it stands there.
fn put_there_twice_it_leaves_the_background_too<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Initial).build();
    let replace = queue.begin_replace().unwrap();
    for (name, number) in [("b", 1), ("a", 1), ("a", 2)] {
        replace.upsert(key(name), number).unwrap();
    }
    play(&queue, "update a3");
    assert_eq!(queue.pop().unwrap().key(), "a");
    replace.commit().unwrap();
}

fn both_in_the_background<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Resync).background(Background::Initial).build();
    play(
        &queue,
        "replace [a1 b1]; add x1; pop x:[A1]; pop a:[R1]; pop b:[R1]; synced; resync; add y1; pop y:[A1]",
    );
    play(&queue, "any a:[S1] b:[S1] x:[S1]; empty");
}

fn line_is_chosen_each_time<F: Family>() {
    let queue: Queue<F> = builder().background(Background::Resync).build();
    play(&queue, "known a1 b1; resync");
    let lease = queue.pop().unwrap();
    let (first, second) = if lease.key() == "a" { ("a", "b") } else { ("b", "a") };
    // Given back, it is still only a resync: it goes behind a real change.
    lease.requeue();
    play(&queue, "add x1; pop x:[A1]");
    let lease = queue.pop().unwrap();
    assert_eq!(lease.key(), second);
    // Changed while leased: the deltas that go in line are real.
    queue.update(key(second), 2).unwrap();
    lease.done();
    play(&queue, &format!("pop {second}:[U2]; pop {first}:[S1] try 2; empty"));
    // Given back with a real change behind it: it moves to the first line.
    play(
        &queue,
        &format!(
            "resync_key {first}; hold {first}:[S1]; update {first}3; requeue {first}; add y1; \
            pop {first}:[S1 U3]; pop y:[A1]; empty"
        ),
    );
}
