//! Over a user's own store that is not quite as it should be.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delta_fifo::{BoxError, DeltaKind, DeltaQueue, KnownObjects, KnownView, Upsert};

use crate::common::{
    Family, Queue, Store, builder, for_each_queue, key, known_text, lease_text, play, pop_soon,
};

for_each_queue!(
    panic_over_one_key_does_not_hold_up_others,
    accepted_deletion_is_handed_out_though_the_object_is_lost,
    key_listed_twice_is_known_once,
);

fn panic_over_one_key_does_not_hold_up_others<F: Family>() {
    // The store panics when it is asked for `bad`, until it is told not to.
    let healed = Arc::new(AtomicBool::new(false));
    let heals = Arc::clone(&healed);
    let get = move |key: &String| match key.as_str() {
        "bad" if !heals.load(Ordering::SeqCst) => resume_unwind(Box::new("bad")),
        _ => Ok(None),
    };
    let queue: Queue<F> = builder().known_objects((|| Ok(Vec::new()), get)).build();
    play(&queue, "add bad1; add b1; add c1; add d1");
    let (mut panics, mut seen) = (0, Vec::new());
    while seen.len() < 3 {
        match catch_unwind(AssertUnwindSafe(|| queue.pop().unwrap())) {
            Ok(lease) => {
                seen.push(lease_text(&lease));
                lease.done();
            }
            Err(_) => panics += 1,
        }
        assert!(panics < 10, "only {seen:?} got through");
        assert_eq!((queue.pending_len(), queue.leased_len()), (4 - seen.len(), 0));
    }
    assert_eq!(seen, ["b:[A1]", "c:[A1]", "d:[A1]"]);
    assert!(panics > 0, "the store was not asked");
    healed.store(true, Ordering::SeqCst);
    let lease = pop_soon(&queue);
    assert_eq!((lease_text(&lease), lease.attempts()), ("bad:[A1]".into(), 1));
    lease.done();
    play(&queue, "empty; pending 0; leased 0");
}

fn accepted_deletion_is_handed_out_though_the_object_is_lost<F: Family>() {
    for pending in [false, true] {
        let store = Store::new([("a", 1)]);
        let queue: Queue<F> = builder().known_objects(store.clone()).build();
        assert!(!pending || queue.resync_key(key("a")).unwrap());
        let list = queue.begin_replace().unwrap();
        queue.delete_key(key("a")).unwrap();
        store.set(Default::default());
        let lease = queue.try_pop().expect("the deletion was accepted");
        let newest = lease.deltas().newest();
        assert_eq!((lease.key().as_str(), newest.kind()), ("a", DeltaKind::DeletedFinalStateUnknown));
        assert_eq!(newest.object(), None);
        lease.done();
        // The deletion was called after the list began: it is newer.
        assert_eq!(list.upsert(key("a"), 1).unwrap(), Upsert::Superseded);
        list.commit().unwrap();
        play(&queue, "empty; pending 0; leased 0");
    }
}

/// Lists everything twice.
struct Stutter(Store);

impl KnownObjects<String, u32> for Stutter {
    fn keys(&self) -> Result<Vec<String>, BoxError> {
        Ok([self.0.keys()?, self.0.keys()?].concat())
    }

    fn get(&self, key: &String) -> Result<Option<u32>, BoxError> {
        self.0.get(key)
    }
}

fn key_listed_twice_is_known_once<F: Family>() {
    let queue: Queue<F> = builder().known_objects(Stutter(Store::new([("a", 1), ("b", 2)]))).build();
    let known = queue.known();
    assert_eq!((known_text(&known).as_str(), known.len(), known.keys().count()), ("a1 b2", 2, 2));
    let snapshot = queue.snapshot();
    assert_eq!((known_text(&snapshot).as_str(), snapshot.len()), ("a1 b2", 2));
    assert_eq!(queue.resync().unwrap(), 2);
}
