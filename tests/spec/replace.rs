//! The complete set of objects, as one list.

use std::sync::Mutex;

use delta_fifo::{BeginReplaceError, DeltaQueue, Emit, KnownView, ReplaceErrorKind};

use crate::common::{
    Family, Queue, builder, finishes, for_each_queue, key, known_text, lease_text, play, queue,
};

for_each_queue!(
    items_are_appended_in_list_order,
    every_key_that_exists_and_is_not_listed_gets_a_tombstone,
    tombstones_have_the_newest_object_seen,
    keys_are_counted_not_items,
    change_before_is_covered_and_change_during_wins,
    deletion_of_nothing_is_no_change,
    change_during_by_another_thread,
    second_one_gets_replace_in_progress,
    waiting_form_waits,
    calls_from_inside_the_list,
    panic_in_the_list_ends_the_replace,
    completion_of_a_replace,
    completion_of_nothing,
    over_no_known_objects,
);

fn list(items: &[(&str, u32)]) -> Vec<(String, u32)> {
    items.iter().map(|&(name, value)| (key(name), value)).collect()
}

fn items_are_appended_in_list_order<F: Family>() {
    play(&queue::<F>(), "replace [c1 a1 b1]; pop c:[R1]; pop a:[R1]; pop b:[R1]; empty");
    // What is in line keeps its place.
    play(&queue::<F>(), "add b1; replace [c2 a2 b2]; pop b:[A1 R2]; pop c:[R2]; pop a:[R2]; empty");
}

fn every_key_that_exists_and_is_not_listed_gets_a_tombstone<F: Family>() {
    // Known and idle, pending and alive, leased and alive, requeued.
    play(
        &queue::<F>(),
        "known idle1; add pending1; add leased1; hold pending:[A1]; requeue pending; hold leased:[A1]; \
         replace [new1]; done leased; \
         any pending:[A1 T(pending1)] idle:[T(idle1)] new:[R1] leased:[T(leased1)]; empty",
    );
    // Pending deletion, leased deletion, deleted and done, never seen: nothing.
    play(
        &queue::<F>(),
        "known a1 b1 c1; delete c2; pop c:[D2]; delete a2; hold a:[D2]; delete b2; replace []; done a; \
        pop b:[D2]; empty",
    );
    // Deleted while leased, and the other way round.
    play(&queue::<F>(), "known a1; update a2; hold a:[U2]; delete a3; replace []; done a; pop a:[D3]; empty");
    play(
        &queue::<F>(),
        "known a1; delete a2; hold a:[D2]; add a3; replace []; done a; pop a:[A3 T(a3)]; empty",
    );
}

fn tombstones_have_the_newest_object_seen<F: Family>() {
    play(&queue::<F>(), "known a1; update a2; update a3; replace []; pop a:[U2 U3 T(a3)]");
    play(&queue::<F>(), "known a1; replace []; pop a:[T(a1)] was 1; empty");
    play(&queue::<F>(), "known a1; update a2; hold a:[U2]; update a3; replace []; done a; pop a:[U3 T(a3)]");
    play(&queue::<F>(), "known a1; update a2; hold a:[U2]; replace []; requeue a; pop a:[U2 T(a2)]");
    let queue: Queue<F> = builder().replace_emits(Emit::Sync).build();
    play(&queue, "replace [a1]; replace []; pop a:[S1 T(a1)]; empty");
}

fn keys_are_counted_not_items<F: Family>() {
    play(&queue::<F>(), "replace [a1 b1 a2]; pending 2; pop a:[R1 R2]; unsynced; pop b:[R1]; synced");
}

fn change_before_is_covered_and_change_during_wins<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1 c1 d1; update b2");
    let mut calls = vec!["update c7", "add new7", "delete d7"].into_iter();
    let items = list(&[("a", 5), ("c", 5), ("d", 5)]).into_iter().inspect(|_| {
        if let Some(call) = calls.next() {
            play(&queue, call);
        }
    });
    queue.replace(items).unwrap();
    // b changed before and is not listed; c is newer than its item; new is not tombstoned; d stays deleted.
    play(&queue, "any a:[R5] b:[U2 T(b2)] c:[U7] d:[D7] new:[A7]; empty");
    assert_eq!(known_text(&queue.known()), "a5 c7 new7");
    // The next list is newer again.
    play(&queue, "replace [c8]; any c:[R8] a:[T(a5)] new:[T(new7)]; empty");
}

fn deletion_of_nothing_is_no_change<F: Family>() {
    let queue = queue::<F>();
    let items = list(&[("a", 5)]).into_iter().inspect(|_| play(&queue, "delete a4; delete_key a"));
    queue.replace(items).unwrap();
    // The list's object of a is not superseded by a deletion that did nothing.
    play(&queue, "pop a:[R5]; empty");
    // A real one wins.
    let items = list(&[("a", 6)]).into_iter().inspect(|_| play(&queue, "delete a5"));
    queue.replace(items).unwrap();
    play(&queue, "pop a:[D5]; empty");
}

fn change_during_by_another_thread<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1");
    let items = list(&[("a", 2)]).into_iter().inspect(|_| {
        std::thread::scope(|scope| {
            // Producers and consumers go on while a replace is running.
            scope.spawn(|| {
                play(&queue, "update b3; pop b:[U3]; add c3; pop c:[A3]; delete a3; pop a:[D3]; empty")
            });
        });
    });
    queue.replace(items).unwrap();
    // b and c were popped meanwhile, a was deleted meanwhile.
    play(&queue, "empty; pending 0");
    assert_eq!(known_text(&queue.known()), "b3 c3");
}

fn second_one_gets_replace_in_progress<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1");
    let first = queue.begin_replace().unwrap();
    let error = queue.replace(list(&[("b", 1)])).unwrap_err();
    assert!(matches!(error.kind, ReplaceErrorKind::Begin(BeginReplaceError::ReplaceInProgress)));
    assert_eq!(error.list, list(&[("b", 1)]));
    assert!(matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress)));
    // A resync needs no exclusion.
    assert_eq!(queue.resync().unwrap(), 1);
    play(&queue, "pop a:[S1]; pending 0");
    drop(first);
    play(&queue, "replace [b1]; any a:[T(a1)] b:[R1]; empty");
}

fn waiting_form_waits<F: Family>() {
    for round in 0..20 {
        let queue = std::sync::Arc::new(queue::<F>());
        play(&*queue, "known a1");
        let running = queue.begin_replace_owned().unwrap();
        let waiter = std::sync::Arc::clone(&queue);
        let waiting = std::thread::spawn(move || waiter.replace_wait(list(&[("c", 3)])).map(drop).unwrap());
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        running.upsert(key("b"), 2).unwrap();
        running.commit().unwrap();
        finishes("the waiting replace", move || waiting.join().unwrap());
        play(&*queue, "any a:[T(a1)] b:[R2 T(b2)] c:[R3]; empty");
    }
    // A close ends the wait, and the list comes back.
    let queue = std::sync::Arc::new(queue::<F>());
    let running = queue.begin_replace_owned().unwrap();
    let waiter = std::sync::Arc::clone(&queue);
    let waiting = std::thread::spawn(move || waiter.replace_wait(list(&[("c", 3)])).map(drop).unwrap_err());
    std::thread::yield_now();
    queue.close();
    let error = finishes("the waiting replace", move || waiting.join().unwrap());
    assert!(matches!(error.kind, ReplaceErrorKind::Begin(BeginReplaceError::Closed)));
    assert_eq!(error.list, list(&[("c", 3)]));
    drop(running);
}

fn calls_from_inside_the_list<F: Family>() {
    let queue = queue::<F>();
    let errors = Mutex::new(Vec::new());
    let items = list(&[("a", 1), ("b", 1)]).into_iter().inspect(|(name, _)| {
        // A nested one is refused rather than deadlocked; everything else works.
        errors.lock().unwrap().push(queue.replace([]).unwrap_err().to_string());
        queue.add(format!("{name}-nested"), 1).unwrap();
        assert_eq!(queue.known().len(), 0);
    });
    queue.replace(items).unwrap();
    assert_eq!(errors.into_inner().unwrap().len(), 2);
    play(&queue, "pop a-nested:[A1]; pop b-nested:[A1]; pop a:[R1]; pop b:[R1]; empty");
}

fn panic_in_the_list_ends_the_replace<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        queue
            .replace(list(&[("b", 1), ("c", 1)]).into_iter().inspect(|(name, _)| assert_ne!(name, "c")))
            .map(drop)
    }));
    assert!(result.is_err());
    play(&queue, "pending 0; empty; replace [b2]; any a:[T(a1)] b:[R2]; empty");
}

fn completion_of_a_replace<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1; add other1");
    let completion = queue.replace(list(&[("a", 2), ("c", 2)])).unwrap();
    assert!(!completion.is_complete());
    play(&queue, "pop other:[A1 T(other1)]; pop a:[R2]; hold c:[R2]; requeue c");
    // The tombstone of b counts, and so does what was given back.
    assert!(!completion.is_complete());
    let mut left: Vec<String> = Vec::new();
    while let Ok(lease) = queue.try_pop() {
        assert!(!completion.is_complete());
        left.push(lease_text(&lease));
        lease.done();
    }
    left.sort();
    assert_eq!(left, ["b:[T(b1)]", "c:[R2]"]);
    assert!(completion.is_complete());
    assert_eq!(completion.wait(), Ok(()));
    // What comes later does not undo it.
    play(&queue, "add a3");
    assert!(completion.is_complete());
}

fn completion_of_nothing<F: Family>() {
    let queue = queue::<F>();
    let completion = queue.replace([]).unwrap();
    assert!(completion.is_complete());
    assert_eq!(completion.wait(), Ok(()));
}

fn over_no_known_objects<F: Family>() {
    let queue: Queue<F> = builder().no_known_objects().build();
    play(
        &queue,
        "add a1; add b1; hold a:[A1]; replace [c1]; pop b:[A1 T(b1)]; pop c:[R1]; done a; pop a:[T(a1)]; \
        empty",
    );
    // What was popped while the replace ran is remembered as seen.
    let queue: Queue<F> = builder().no_known_objects().build();
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("a"), 1).unwrap();
    play(&queue, "pop a:[R1]; add b2; pop b:[A2]; update a3; pop a:[U3]");
    // Superseded by the change, though nothing of it is pending.
    assert_eq!(replace.upsert(key("b"), 1).unwrap(), delta_fifo::Upsert::Superseded);
    replace.commit().unwrap();
    play(&queue, "empty; pending 0");
    assert_eq!(queue.known().len(), 0);
}
