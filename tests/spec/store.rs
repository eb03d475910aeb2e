//! Over the user's own store of known objects.

use std::sync::{Arc, Mutex, OnceLock};

use delta_fifo::{
    BoxError, CommitError, DeltaKind, DeltaQueue, ErrorEvent, KnownObjects, KnownView, ReplaceErrorKind,
    ResyncError,
};

use crate::common::{Family, Queue, Script, Store, builder, for_each_queue, key, known_text, play};

for_each_queue!(
    store_is_what_is_known,
    in_flight_counts_as_known_whatever_the_store_says,
    previous_is_the_stores_object,
    delete_takes_cannot_tell_as_exists,
    replace_emits_tombstones_without_objects,
    deletion_is_handed_out_though_the_store_has_lost_the_object,
    resync_skips_what_the_store_cannot_tell,
    key_listing_failure_comes_before_anything,
    store_that_lists_a_key_twice,
    store_is_called_without_locks,
    closures_will_do,
);

type Events = Arc<Mutex<Vec<String>>>;

fn over<F: Family>(store: &Store) -> (Queue<F>, Events) {
    let events = Events::default();
    let hook = Arc::clone(&events);
    let queue = builder()
        .known_objects(store.clone())
        .on_error(move |event| {
            let text = match event {
                ErrorEvent::StoreGet { key, error } => format!("get {key}: {error}"),
                ErrorEvent::StoreKeys { error } => format!("keys: {error}"),
                other => format!("{other}"),
            };
            hook.lock().unwrap().push(text);
        })
        .build();
    (queue, events)
}

fn take(events: &Events) -> Vec<String> {
    std::mem::take(&mut *events.lock().unwrap())
}

fn store_is_what_is_known<F: Family>() {
    let store = Store::new([("a", 1), ("b", 1)]);
    let (queue, events) = over::<F>(&store);
    let mut script = Script::over(&queue, &store);
    script.play("apply a2; apply c2; pop a:[U2] was 1; pop c:[A2] was -; resync; any a:[S2] b:[S1] c:[S2]");
    script.play(
        "delete x1; empty; delete b2; pop b:[D2] was 1; delete b3; empty; delete_key a; pop a:[T(a2)]; empty",
    );
    script.play("add b4; pop b:[A4] was -; replace [d4]; any b:[T(b4)] c:[T(c2)] d:[R4]; empty");
    assert_eq!(store.objects().into_iter().collect::<Vec<_>>(), [(key("d"), 4)]);
    assert_eq!(
        (known_text(&queue.known()), queue.known().get("d"), queue.known().len()),
        ("d4".into(), Some(4), 1)
    );
    assert_eq!(known_text(&queue.snapshot()), "d4");
    assert_eq!(queue.resync_key(key("d")), Ok(true));
    assert_eq!(queue.resync_key(key("x")), Ok(false));
    script.play("pop d:[S4]; empty");
    assert_eq!(take(&events), [""; 0]);
}

fn in_flight_counts_as_known_whatever_the_store_says<F: Family>() {
    // The consumer has not stored it yet.
    let store = Store::new([("gone", 1)]);
    let (queue, _) = over::<F>(&store);
    let mut script = Script::over(&queue, &store);
    script.play("add a1; hold a:[A1]; delete a2; done a; pop a:[D2]; empty");
    script.play("add a1; hold a:[A1]; replace [gone2]; resync; done a; pop gone:[R2]; pop a:[T(a1)]; empty");
    // And the other way round: a deletion in flight that is still in the store.
    script.play("delete gone3; hold gone:[D3]; delete gone4; resync; replace []; done gone; empty");
}

fn previous_is_the_stores_object<F: Family>() {
    let store = Store::new([("a", 1)]);
    let (queue, _) = over::<F>(&store);
    let mut script = Script::over(&queue, &store);
    script.play("update a2; hold a:[U2] was 1; update a3; done a; pop a:[U3] was 2; update a4");
    // After a requeue it is the queue's own memory, whatever the store holds.
    script.play("hold a:[U4] was 3; requeue a; pop a:[U4] was 3 try 2; update a5; pop a:[U5] was 4");
}

fn delete_takes_cannot_tell_as_exists<F: Family>() {
    let store = Store::new([]);
    let (queue, events) = over::<F>(&store);
    let mut script = Script::over(&queue, &store);
    script.play("delete a1; empty");
    store.fail_get(true);
    script.play("delete a2; pending 1");
    assert_eq!(take(&events), ["get a: the store cannot tell"]);
    script.play("hold a:[D2]; done a; empty; delete_key b; pending 1; hold b:[T(b,-)]; done b; empty");
    assert!(!take(&events).is_empty());
    store.fail_get(false);
    script.play("delete a3; delete_key b; empty");
}

fn replace_emits_tombstones_without_objects<F: Family>() {
    let store = Store::new([("a", 1), ("b", 1)]);
    let (queue, events) = over::<F>(&store);
    store.fail_get(true);
    let mut script = Script::over(&queue, &store);
    script.play("replace [b2]; any a:[T(a,-)] b:[R2]; empty");
    let events = take(&events);
    assert!(events.contains(&"get a: the store cannot tell".to_owned()), "{events:?}");
    assert!(queue.has_synced());
}

fn deletion_is_handed_out_though_the_store_has_lost_the_object<F: Family>() {
    let store = Store::new([("a", 1)]);
    let (queue, _) = over::<F>(&store);
    play(&queue, "replace []; unsynced; pending 1");
    store.set(Default::default());
    let lease = queue.try_pop().unwrap();
    let kind = lease.deltas().newest().kind();
    assert_eq!((lease.deltas().len(), kind), (1, DeltaKind::DeletedFinalStateUnknown));
    lease.done();
    play(&queue, "synced; empty; leased 0");
}

fn resync_skips_what_the_store_cannot_tell<F: Family>() {
    let store = Store::new([("a", 1), ("b", 1)]);
    let (queue, events) = over::<F>(&store);
    store.fail_get(true);
    queue.resync().unwrap();
    assert_eq!(queue.resync_key(key("a")), Ok(false));
    assert!(queue.try_pop().is_err(), "a key that the store cannot tell was handed out");
    play(&queue, "pending 0; leased 0");
    let events = take(&events);
    assert!(events.contains(&"get a: the store cannot tell".to_owned()), "{events:?}");
    store.fail_get(false);
    let mut script = Script::over(&queue, &store);
    script.play("resync; any a:[S1] b:[S1]; empty");
}

fn key_listing_failure_comes_before_anything<F: Family>() {
    let store = Store::new([("a", 1)]);
    let (queue, events) = over::<F>(&store);
    store.fail_keys(true);
    let error = queue.replace([(key("b"), 1)]).unwrap_err();
    assert!(matches!(error.kind, ReplaceErrorKind::ListKeys(_)));
    assert!(error.to_string().contains("the store cannot list"), "{error}");
    assert_eq!(error.list, [(key("b"), 1)]);
    assert!(matches!(queue.resync(), Err(ResyncError::ListKeys(_))));
    play(&queue, "pending 0; unsynced; empty");
    assert_eq!(take(&events), ["keys: the store cannot list"; 2]);
    // A streaming one is then as if dropped.
    let replace = queue.begin_replace().unwrap();
    replace.upsert(key("b"), 1).unwrap();
    assert!(matches!(replace.commit(), Err(CommitError::ListKeys(_))));
    play(&queue, "pending 1; unsynced");
    store.fail_keys(false);
    let mut script = Script::over(&queue, &store);
    script.play("pop b:[R1]; unsynced; replace [c1]; any a:[T(a1)] b:[T(b1)] c:[R1]; synced");
}

fn store_that_lists_a_key_twice<F: Family>() {
    struct Stutter(Store);
    impl KnownObjects<String, u32> for Stutter {
        fn keys(&self) -> Result<Vec<String>, BoxError> {
            Ok([self.0.keys()?, self.0.keys()?].concat())
        }

        fn get(&self, key: &String) -> Result<Option<u32>, BoxError> {
            self.0.get(key)
        }
    }
    let store = Store::new([("a", 1), ("b", 1)]);
    let queue: Queue<F> = builder().known_objects(Stutter(store.clone())).build();
    let mut script = Script::over(&queue, &store);
    script.play("resync; pending 2; any a:[S1] b:[S1]; empty; replace [a2]; any a:[R2] b:[T(b1)]; empty");
}

fn store_is_called_without_locks<F: Family>() {
    struct Nosy<Q>(Store, Arc<OnceLock<Q>>);
    impl<Q: DeltaQueue<Key = String, Value = u32>> Nosy<Q> {
        fn look(&self) {
            let queue = self.1.get().unwrap();
            queue.update(key("nosy"), 1).unwrap();
            let _ = queue.pending_len() + queue.leased_len();
        }
    }
    impl<Q: DeltaQueue<Key = String, Value = u32>> KnownObjects<String, u32> for Nosy<Q> {
        fn keys(&self) -> Result<Vec<String>, BoxError> {
            self.look();
            self.0.keys()
        }

        fn get(&self, key: &String) -> Result<Option<u32>, BoxError> {
            self.look();
            self.0.get(key)
        }
    }
    let store = Store::new([("a", 1), ("b", 1)]);
    let shared: Arc<OnceLock<Queue<F>>> = Arc::default();
    let queue =
        shared.get_or_init(|| builder().known_objects(Nosy(store.clone(), Arc::clone(&shared))).build());
    queue.delete(key("a"), 2).unwrap();
    queue.delete_key(key("b")).unwrap();
    queue.replace([(key("c"), 1)]).unwrap();
    queue.resync().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 4 {
        let lease = queue.try_pop().unwrap();
        store.note(&lease);
        seen.insert(lease.key().clone());
        lease.done();
    }
    assert!(seen.iter().map(String::as_str).eq(["a", "b", "c", "nosy"]));
}

fn closures_will_do<F: Family>() {
    let queue: Queue<F> = builder()
        .known_objects((
            || Ok(vec!["a".to_owned(), "b".to_owned()]),
            |key: &String| Ok((key == "a").then_some(7)),
        ))
        .build();
    play(&queue, "delete a8; pop a:[D8] was 7; delete c8; empty");
    assert_eq!(queue.known().get("a"), Some(7));
}
