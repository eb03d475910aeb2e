//! Producers: what each change appends.

use std::sync::{Arc, Mutex, OnceLock};

use delta_fifo::{Builder, Change, DeltaQueue, KnownView, ResyncError};

use crate::common::{Family, Queue, builder, for_each_queue, key, lease_text, play, queue};

for_each_queue!(
    apply_is_an_addition_where_the_key_does_not_exist,
    delete_key_takes_the_newest_object_seen,
    delete_of_what_is_pending_or_known,
    resync_of_one_key,
    resync_says_how_many,
    resync_skips_leased_keys,
    many_changes_in_one_call_are_as_one_by_one,
    many_changes_find_their_own_predecessors,
    hook_sees_objects_before_anyone_else_and_without_locks,
    objects_are_shared_and_never_cloned,
    keys_are_looked_up_by_borrowed_form,
);

fn apply_is_an_addition_where_the_key_does_not_exist<F: Family>() {
    // Neither pending nor known.
    play(&queue::<F>(), "apply a1; apply a2; pop a:[A1 U2]; apply a3; pop a:[U3]; empty");
    // Pending with a newest delta that is a deletion.
    play(&queue::<F>(), "known a1; delete a2; apply a3; pop a:[D2 A3]; empty");
    // Deleted and done.
    play(&queue::<F>(), "known a1; delete a2; pop a:[D2]; apply a3; pop a:[A3] was -; empty");
    // While it is leased: known by the pop, or by its deletion no longer.
    play(&queue::<F>(), "add a1; hold a:[A1]; apply a2; done a; pop a:[U2]; empty");
    play(&queue::<F>(), "known a1; delete a2; hold a:[D2]; apply a3; done a; pop a:[A3]; empty");
    // Given back it exists as before.
    play(&queue::<F>(), "add a1; hold a:[A1]; requeue a; apply a2; pop a:[A1 U2]");
    play(&queue::<F>(), "known a1; delete a2; hold a:[D2]; requeue a; apply a3; pop a:[D2 A3]");
    play(&queue::<F>(), "known a1; delete a2; hold a:[D2]; apply a3; requeue a; pop a:[D2 A3]");
}

fn delete_key_takes_the_newest_object_seen<F: Family>() {
    play(&queue::<F>(), "add a1; update a2; delete_key a; pop a:[A1 U2 T(a2)]; empty");
    play(&queue::<F>(), "known a1; delete_key a; pop a:[T(a1)] was 1; empty");
    play(&queue::<F>(), "known a1; update a2; hold a:[U2]; delete_key a; done a; pop a:[T(a2)] was 2; empty");
    play(&queue::<F>(), "replace [a1]; delete_key a; pop a:[R1 T(a1)]; empty");
    play(&queue::<F>(), "known a1; resync; delete_key a; pop a:[S1 T(a1)]; empty");
    play(&queue::<F>(), "known a1; delete a2; delete_key a; pop a:[D2]; empty");
    // Neither pending nor known.
    play(&queue::<F>(), "delete_key a; pending 0; empty; add a1; pop a:[A1]");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add a1; delete_key a; pop a:[A1 T(a1)]; delete_key a; empty");
}

fn delete_of_what_is_pending_or_known<F: Family>() {
    // Pending, whatever the newest delta is, and though it was never handed out.
    play(&queue::<F>(), "add a1; delete a2; delete a3; pending 1; pop a:[A1 D2]");
    // In flight counts as known, whatever store there is.
    play(&queue::<F>(), "add a1; hold a:[A1]; delete a2; done a; pop a:[D2]; empty");
    let queue: Queue<F> = builder().no_known_objects().build();
    play(&queue, "add a1; hold a:[A1]; delete a2; done a; pop a:[D2]; empty");
    // A deletion in flight is known no longer: a second one is ignored.
    play(&crate::common::queue::<F>(), "known a1; delete a2; hold a:[D2]; delete a3; done a; empty");
}

fn resync_of_one_key<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1 b1");
    assert_eq!(queue.resync_key(key("a")), Ok(true));
    // It is pending now.
    assert_eq!(queue.resync_key(key("a")), Ok(false));
    let lease = queue.pop().unwrap();
    assert_eq!(lease_text(&lease), "a:[S1]");
    assert_eq!(queue.resync_key(key("a")), Ok(false));
    lease.done();
    assert_eq!(queue.resync_key(key("c")), Ok(false));
    play(&queue, "empty; pending 0");
    queue.close();
    assert!(queue.resync_key(key("a")).is_err());
}

fn resync_says_how_many<F: Family>() {
    let queue = queue::<F>();
    assert_eq!(queue.resync().unwrap(), 0);
    play(&queue, "unsynced; known a1 b1 c1; update b2");
    assert_eq!(queue.resync().unwrap(), 2);
    assert_eq!(queue.resync().unwrap(), 0);
    play(&queue, "pop b:[U2]; any a:[S1] c:[S1]; empty");
    queue.close();
    assert!(matches!(queue.resync(), Err(ResyncError::Closed)));
    play(&queue, "closed; pending 0");
}

fn resync_skips_leased_keys<F: Family>() {
    play(&queue::<F>(), "known a1 b1; update a2; hold a:[U2]; resync; pop b:[S1]; pending 0; done a; empty");
    // A key with a delayed delta is pending.
    let queue = queue::<F>();
    play(&queue, "known a1; update a2");
    queue.pop().unwrap().requeue_after(std::time::Duration::from_secs(3600));
    assert_eq!(queue.resync().unwrap(), 0);
}

fn many_changes_in_one_call_are_as_one_by_one<F: Family>() {
    let changes = || {
        [
            Change::Delete(key("z"), 1),
            Change::Add(key("b"), 1),
            Change::Apply(key("a"), 2),
            Change::Apply(key("a"), 3),
            Change::Update(key("b"), 4),
            Change::DeleteKey(key("a")),
            Change::Delete(key("a"), 5),
            Change::Apply(key("a"), 6),
            Change::Delete(key("b"), 7),
        ]
    };
    let (one, all) = (queue::<F>(), queue::<F>());
    for change in changes() {
        one.change(change).unwrap();
    }
    all.change_all(changes()).unwrap();
    for queue in [&one, &all] {
        play(queue, "synced; pending 2; pop b:[A1 U4 D7]; pop a:[A2 U3 D5 A6]; empty");
        assert_eq!(queue.merged(), 1);
    }
    // None at all is no change.
    let queue = queue::<F>();
    queue.change_all([]).unwrap();
    play(&queue, "unsynced; replace [a1]; unsynced; pop a:[R1]; synced");
}

fn many_changes_find_their_own_predecessors<F: Family>() {
    // The list may call the queue while it is read.
    let queue = queue::<F>();
    let changes = (1..=2).map(|value| {
        queue.add(key("first"), value).unwrap();
        Change::Add(key("then"), value)
    });
    queue.change_all(changes).unwrap();
    play(&queue, "pop first:[A1 A2]; pop then:[A1 A2]; empty");
}

fn hook_sees_objects_before_anyone_else_and_without_locks<F: Family>() {
    let queue: Arc<OnceLock<Queue<F>>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inner, sees) = (Arc::clone(&queue), Arc::clone(&seen));
    let built: Queue<F> = builder()
        .transform(move |value: &mut u32| {
            let queue = inner.get().unwrap();
            // Nobody sees the object yet, and any call may be made from here.
            sees.lock().unwrap().push((*value, queue.pending_len(), queue.known().len()));
            if *value < 100 {
                queue.add(key("nested"), 100 + *value).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
        .build();
    let queue = queue.get_or_init(|| built);
    queue.add(key("a"), 1).unwrap();
    queue.change_all([Change::Add(key("b"), 2), Change::Add(key("c"), 3)]).unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [(1, 0, 0), (101, 0, 0), (2, 2, 0), (102, 2, 0), (3, 2, 0), (103, 2, 0)]
    );
    play(queue, "pop nested:[A101 A102 A103]; pop a:[A1]; pop b:[A2]; pop c:[A3]; empty");
}

fn objects_are_shared_and_never_cloned<F: Family>() {
    // Not `Clone`, and a key that is not either.
    #[derive(PartialEq, Eq, Hash, Debug)]
    struct Name(&'static str);
    #[derive(Debug)]
    struct Opaque(u32);
    let queue: F::Queue<Name, Opaque> = Builder::new().build();
    queue.add(Name("a"), Opaque(1)).unwrap();
    let lease = queue.pop().unwrap();
    let handed_out = std::ptr::from_ref(lease.deltas().newest().object().unwrap());
    let known = queue.known().get_with(&Name("a"), std::ptr::from_ref);
    assert_eq!(known, Some(handed_out));
    lease.done();
    queue.resync().unwrap();
    let lease = queue.pop().unwrap();
    assert_eq!(lease.deltas().newest().object().map(std::ptr::from_ref), Some(handed_out));
    assert_eq!(lease.deltas().newest().object().map(|object| object.0), Some(1));
}

fn keys_are_looked_up_by_borrowed_form<F: Family>() {
    let queue = queue::<F>();
    play(&queue, "known a1");
    assert!(queue.known().contains("a") && queue.snapshot().contains("a"));
    assert_eq!(queue.known().find("a").map(|known| known.key().clone()), Some(key("a")));
}
