//! The sequences that every implementation must reproduce, by number: the tests are their list.
//!
//! What the steps mean stands in `common/script.rs`.

mod common;
#[path = "sequences/leased.rs"]
mod leased;
#[path = "sequences/racing.rs"]
mod racing;

use common::{Family, Queue, Script, Store, builder, for_each_queue, key, play, queue};
use delta_fifo::{Builder, Change, ChangeErrorKind, DeltaQueue, Emit, Keyed, KeyedReplaceErrorKind};

for_each_queue!(
    seq_01, seq_02, seq_03, seq_04, seq_05, seq_06, seq_07, seq_08, seq_09, seq_10, seq_11, seq_12, seq_13,
    seq_14, seq_15, seq_16, seq_17, seq_18, seq_19, seq_20, seq_21,
);

fn seq_01<F: Family>() {
    play(&queue::<F>(), "add a1; update a2; delete a3; pop a:[A1 U2 D3]; empty");
}

fn seq_02<F: Family>() {
    play(
        &queue::<F>(),
        "add f10; add b1; add f11; add f13; add z30; pop f:[A10 A11 A13]; add f14; \
         pop b:[A1]; pop z:[A30]; pop f:[A14]; empty",
    );
}

fn seq_03<F: Family>() {
    play(&queue::<F>(), "known a1; replace [b1]; any b:[R1] a:[T(a1)]; empty");
}

fn seq_04<F: Family>() {
    play(&queue::<F>(), "unsynced; delete a1; pending 0; empty; synced");
}

fn seq_05<F: Family>() {
    play(&queue::<F>(), "known a1; delete a2; pop a:[D2]; empty");
}

fn seq_06<F: Family>() {
    play(&queue::<F>(), "known a1 b1; update a2; resync; pop a:[U2]; pop b:[S1]; empty");
}

fn seq_07<F: Family>() {
    play(&queue::<F>(), "known a1; delete a1; resync; pop a:[D1]; empty");
}

fn seq_08<F: Family>() {
    play(&queue::<F>(), "known a1; delete a1; replace [a2]; pop a:[D1 R2]; empty");
}

fn seq_09<F: Family>() {
    play(&queue::<F>(), "add a1; replace []; pop a:[A1 T(a1)]; empty");
    play(&queue::<F>(), "add a1; replace []; replace []; pop a:[A1 T(a1)]; empty");
}

fn seq_10<F: Family>() {
    play(&queue::<F>(), "known a5; delete a5; add a9; replace []; pop a:[D5 A9 T(a9)]; empty");
}

fn seq_11<F: Family>() {
    let store = Store::new([("a", 1), ("b", 2), ("c", 3)]);
    let queue: Queue<F> = builder().known_objects(store.clone()).build();
    let mut script = Script::over(&queue, &store);
    script.play("replace [a4]; unsynced; pending 3; hold a:[R4] initial; unsynced");
    for _ in 0..2 {
        let lease = queue.try_pop().unwrap();
        assert!(lease.is_initial() && lease.deltas().newest().is_deletion());
        store.note(&lease);
        lease.done();
        assert!(!queue.has_synced());
    }
    script.play("empty; unsynced; done a; synced");
    assert_eq!(store.objects().into_iter().collect::<Vec<_>>(), [(key("a"), 4)]);
}

fn seq_12<F: Family>() {
    play(&queue::<F>(), "replace [a1 a2]; unsynced; hold a:[R1 R2]; unsynced; done a; synced; empty");
}

fn seq_13<F: Family>() {
    play(&queue::<F>(), "replace []; synced; empty");
}

fn seq_14<F: Family>() {
    play(&queue::<F>(), "add a1; delete a2; delete a3; pop a:[A1 D2]; empty");
}

fn seq_15<F: Family>() {
    play(&queue::<F>(), "add a1; hold a:[A1] try 1; requeue a; update a2; pop a:[A1 U2] try 2; empty");
}

fn seq_16<F: Family>() {
    play(&queue::<F>(), "add a1; add b1; hold a:[A1]; requeue a; pop b:[A1]; pop a:[A1]; empty");
}

fn seq_17<F: Family>() {
    play(&queue::<F>(), "known a1; replace [a2]; pop a:[R2] was 1; empty");
}

fn seq_18<F: Family>() {
    let queue: Keyed<F::Queue<String, String>> = Builder::new()
        .key_fn(|object: &String| match object.split_once('=') {
            Some((key, _)) => Ok(key.to_owned()),
            None => Err("no key".into()),
        })
        .build();
    let error = queue.replace(["a=1".to_owned(), "BAD".to_owned()]).unwrap_err();
    assert!(matches!(error.kind, KeyedReplaceErrorKind::Key { index: 1, .. }), "{error}");
    assert!(error.to_string().contains("item 1"), "{error}");
    assert_eq!(error.list, ["a=1", "BAD"]);
    assert_eq!((queue.pending_len(), queue.has_synced()), (0, false));
    assert!(queue.try_pop().is_err());
    // Nothing decided: the next replace is the first.
    queue.replace(["a=1".to_owned()]).unwrap();
    assert!(!queue.has_synced());
}

fn seq_19<F: Family>() {
    let queue = queue::<F>();
    assert!(queue.close());
    let error = queue.add(key("a"), 1).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Closed));
    assert_eq!(error.change, Change::Add(key("a"), 1));
    assert!(queue.pop().is_err());
}

fn seq_20<F: Family>() {
    play(
        &queue::<F>(),
        "known foo5 bar6 baz7; update baz18; add foo10; update bar15; update foo15; delete baz18; \
         pop baz:[U18 D18]; pop foo:[A10 U15]; pop bar:[U15]; empty",
    );
}

fn seq_21<F: Family>() {
    let queue: Queue<F> = builder().replace_emits(Emit::Sync).build();
    play(
        &queue,
        "known foo5 bar6 baz15; update foo10; update foo15; update bar15; update baz18; delete baz18; \
         replace [foo15 baz18]; \
         pop foo:[U10 U15 S15]; pop bar:[U15 T(bar15)]; pop baz:[U18 D18 S18]; empty",
    );
}
