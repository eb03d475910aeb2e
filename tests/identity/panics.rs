//! Comparisons that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delta_fifo::{Compression, DeltaQueue};

use crate::common::{Family, Queue, Store, builder, for_each_queue, key, play};

for_each_queue!(
    a_pop_that_panics_has_done_nothing,
    with_deltas_that_came_back,
    over_a_store,
    others_of_a_batch_come_back,
    a_mark_that_panics,
    while_a_discard_comes,
);

/// Panics at the object 66, while it is told to.
fn touchy<F: Family>(panics: &Arc<AtomicBool>) -> delta_fifo::Builder<String, u32> {
    let panics = Arc::clone(panics);
    builder().identity(move |object: &u32| {
        assert!(*object != 66 || !panics.load(Ordering::Relaxed), "66");
        object / 10
    })
}

fn pop_panics<Q: DeltaQueue>(queue: &Q) {
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.try_pop().map(drop).map_err(drop)));
    assert!(panicked.is_err(), "{panicked:?}");
}

fn a_pop_that_panics_has_done_nothing<F: Family>() {
    for compression in [Compression::Deletions, Compression::Latest] {
        let panics = Arc::new(AtomicBool::new(true));
        let queue: Queue<F> = touchy::<F>(&panics).compression(compression).build();
        play(&queue, "known a11");
        let listed = queue.replace([(key("a"), 66), (key("b"), 11)]).unwrap();
        pop_panics(&queue);
        assert_eq!((queue.pending_len(), queue.leased_len(), queue.merged()), (2, 0, 0));
        // It stands behind the others now.
        play(&queue, "pop b:[R11]; pending 1");
        pop_panics(&queue);
        assert!(!listed.is_complete());
        panics.store(false, Ordering::Relaxed);
        play(&queue, "pop a:[T(a11) A66] was 11 try 1; empty; leased 0; pending 0");
        assert!(listed.is_complete());
    }
}

fn with_deltas_that_came_back<F: Family>() {
    let panics = Arc::new(AtomicBool::new(true));
    let queue: Queue<F> = touchy::<F>(&panics).build();
    play(&queue, "known a11; update a21; hold a:[T(a11) A21]; update a66; requeue a");
    pop_panics(&queue);
    play(&queue, "update a67");
    pop_panics(&queue);
    panics.store(false, Ordering::Relaxed);
    play(&queue, "pop a:[T(a11) A21 T(a21) A66 U67] was 11 try 2; empty; update a68; pop a:[U68] was 67");
}

fn over_a_store<F: Family>() {
    let store = Store::new([("a", 11)]);
    let panics = Arc::new(AtomicBool::new(true));
    let queue: Queue<F> = touchy::<F>(&panics).known_objects(store.clone()).build();
    play(&queue, "update a66");
    pop_panics(&queue);
    play(&queue, "pending 1; leased 0");
    panics.store(false, Ordering::Relaxed);
    play(&queue, "pop a:[T(a11) A66] was 11 try 1; empty");
}

fn others_of_a_batch_come_back<F: Family>() {
    let panics = Arc::new(AtomicBool::new(true));
    let queue: Queue<F> = touchy::<F>(&panics).numbered().build();
    play(&queue, "known a11 b11; update a21; update b66; update c1");
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.try_pop_batch(3).map(drop).map_err(drop)));
    assert!(panicked.is_err());
    play(&queue, "pending 3; leased 0; pop a:[T(a11) A21] was 11 try 1; pop c:[U1] was - try 1");
    panics.store(false, Ordering::Relaxed);
    play(&queue, "pop b:[T(b11) A66] was 11 try 1; empty");
}

fn a_mark_that_panics<F: Family>() {
    let queue: Queue<F> = builder()
        .unchanged(|old: &u32, new: &u32| {
            assert!(*new != 66);
            old == new
        })
        .build();
    play(&queue, "known a11; replace [a66]");
    pop_panics(&queue);
    play(&queue, "pending 1; leased 0; delete_key a");
    pop_panics(&queue);
    let discarded = queue.close_discard();
    assert_eq!((discarded.keys, discarded.deltas), (1, 2));
}

/// The queue is closed, and what is pending dropped, while the comparison of a pop runs, which panics then.
fn while_a_discard_comes<F: Family>() {
    use std::sync::{OnceLock, Weak};
    let place: Arc<OnceLock<Weak<Queue<F>>>> = Arc::default();
    let inside = Arc::clone(&place);
    let queue = builder().identity(move |object: &u32| {
        let queue = inside.get().and_then(Weak::upgrade).expect("the queue is there");
        queue.close_discard();
        assert!(*object != 66, "66");
        object / 10
    });
    let queue: Arc<Queue<F>> = Arc::new(queue.build());
    place.set(Arc::downgrade(&queue)).expect("set once");
    play(&*queue, "known a11; update a66; add b1");
    pop_panics(&*queue);
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    let discarded = queue.close_discard();
    assert_eq!((discarded.keys, discarded.deltas), (2, 2));
    assert!(queue.update(key("a"), 1).is_err());
}
