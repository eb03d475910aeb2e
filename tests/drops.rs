//! Exact counts: every key and object is dropped once, as soon as nobody can see it any more.

mod common;
mod model;

use std::sync::Arc;
use std::time::Duration;

use delta_fifo::{
    Builder, Change, ChangeErrorKind, Compression, DeltaQueue, KnownView, Outcome, TryPopError, Upsert,
};

use common::{Family, for_each_queue};
use model::counted::{Count, Key, Value};

type Queue<F> = <F as Family>::Queue<Key, Value>;

fn queue<F: Family>() -> Queue<F> {
    Builder::new().build()
}

fn add<F: Family>(queue: &Queue<F>, count: &Count, name: u32) {
    let (key, value) = count.pair(name);
    queue.add(key, value).unwrap();
}

/// Makes a key known and leaves nothing pending.
fn know<F: Family>(queue: &Queue<F>, count: &Count, name: u32) {
    add::<F>(queue, count, name);
    queue.try_pop().unwrap().done();
}

fn pending<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    for _ in 0..3 {
        add::<F>(&queue, &count, 1);
    }
    add::<F>(&queue, &count, 2);
    count.expect_alive::<F>(2, 4); // a key is stored once
    drop(queue);
    count.expect(0, 0);
}

/// In whatever state it is: idle and known, in line, leased, dirty, given back.
fn a_key_is_stored_once<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    know::<F>(&queue, &count, 1);
    add::<F>(&queue, &count, 1);
    count.expect_alive::<F>(1, 2);
    let lease = queue.try_pop().unwrap();
    count.expect_alive::<F>(1, 2);
    add::<F>(&queue, &count, 1);
    count.expect_alive::<F>(1, 3);
    lease.requeue();
    let snapshot = queue.snapshot();
    count.expect_alive::<F>(1, 3);
    queue.try_pop().unwrap().done();
    drop(snapshot);
    count.expect_alive::<F>(1, 1);
    let replace = queue.begin_replace().unwrap();
    let (key, value) = count.pair(1);
    replace.upsert(key, value).unwrap();
    count.expect_alive::<F>(1, 2);
}

fn an_ignored_deletion<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    let (key, value) = count.pair(1);
    queue.delete(key, value).unwrap();
    queue.delete_key(count.key(1)).unwrap();
    count.expect_alive::<F>(0, 0);
}

fn merged_deletions<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    add::<F>(&queue, &count, 1);
    for _ in 0..5 {
        let (key, value) = count.pair(1);
        queue.delete(key, value).unwrap();
        count.expect_alive::<F>(1, 2);
    }
    drop(queue);
    count.expect(0, 0);
}

/// Memory is bounded by the keys, however slow the consumers.
fn latest_keeps_one_object<F: Family>() {
    let count = Count::default();
    let queue: Queue<F> = Builder::new().compression(Compression::Latest).build();
    for _ in 0..100 {
        add::<F>(&queue, &count, 1);
        count.expect_merged::<F>(1, 1);
    }
    let (key, value) = count.pair(1);
    queue.delete(key, value).unwrap();
    count.expect_merged::<F>(1, 1);
    add::<F>(&queue, &count, 1);
    count.expect_merged::<F>(1, 2);
    // The same while a lease is open, and at the joint.
    let lease = queue.try_pop().unwrap();
    for _ in 0..100 {
        add::<F>(&queue, &count, 1);
        count.expect_merged::<F>(1, 3);
    }
    lease.requeue();
    let lease = queue.try_pop().unwrap();
    assert_eq!(lease.deltas().len(), 2);
    count.expect_alive::<F>(1, 2);
    lease.done();
    count.expect_alive::<F>(1, 1);
}

fn the_old_object_goes_with_the_lease<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    know::<F>(&queue, &count, 1);
    count.expect_alive::<F>(1, 1);
    add::<F>(&queue, &count, 1);
    let lease = queue.try_pop().unwrap();
    assert!(lease.previous().is_some());
    count.expect_values(2);
    lease.done();
    count.expect_alive::<F>(1, 1);
    queue.resync().unwrap();
    queue.try_pop().unwrap().done();
    count.expect_alive::<F>(1, 1);
}

/// "Popped objects are freed": nothing is left of a deleted key.
fn a_deleted_key_is_freed<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    for _ in 0..3 {
        know::<F>(&queue, &count, 1);
        let (key, value) = count.pair(1);
        queue.delete(key, value).unwrap();
        queue.try_pop().unwrap().done();
        count.expect_alive::<F>(0, 0);
        know::<F>(&queue, &count, 1);
        queue.delete_key(count.key(1)).unwrap();
        let lease = queue.try_pop().unwrap();
        assert!(lease.deltas().newest().object().is_some());
        lease.done();
        count.expect_alive::<F>(0, 0);
        know::<F>(&queue, &count, 1);
        queue.replace([]).unwrap();
        queue.try_pop().unwrap().give_up();
        count.expect_alive::<F>(0, 0);
    }
}

fn snapshots_outlive_the_queue<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    know::<F>(&queue, &count, 1);
    know::<F>(&queue, &count, 2);
    let snapshot = queue.snapshot();
    let handle = queue.known().find(&count.key(1)).unwrap();
    queue.delete_key(count.key(1)).unwrap();
    queue.try_pop().unwrap().done();
    count.expect_alive::<F>(2, 2);
    know::<F>(&queue, &count, 2);
    count.expect_alive::<F>(2, 3); // the snapshot keeps the old object of 2
    drop(queue);
    count.expect(2, 2);
    assert_eq!(snapshot.len(), 2);
    let copy = snapshot.clone();
    drop(snapshot);
    count.expect_alive::<F>(2, 2);
    drop(copy);
    count.expect_alive::<F>(1, 1);
    assert_eq!(handle.key().name, 1);
    let twin = handle.clone();
    drop(handle);
    count.expect_alive::<F>(1, 1);
    drop(twin);
    count.expect_alive::<F>(0, 0);
}

fn a_forgotten_lease_leaks_itself_only<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    add::<F>(&queue, &count, 1);
    add::<F>(&queue, &count, 2);
    add::<F>(&queue, &count, 2);
    std::mem::forget(queue.try_pop().unwrap());
    add::<F>(&queue, &count, 1);
    count.expect_alive::<F>(2, 4);
    drop(queue);
    // Where the key and the newest object are lent, they are the queue's, and go with it.
    let leaked = usize::from(F::LEASES_OWN_KEYS);
    count.expect(leaked, leaked);
}

fn owned_leases_outlive_every_handle<F: Family>() {
    type End<F> = fn(delta_fifo::OwnedLease<Queue<F>>);
    let ends: [End<F>; 5] = [
        |lease| lease.done(),
        |lease| lease.give_up(),
        |lease| lease.requeue(),
        |lease| lease.requeue_after(Duration::from_secs(3600)),
        drop,
    ];
    for end in ends {
        let count = Count::default();
        let queue = Arc::new(queue::<F>());
        know::<F>(&queue, &count, 1);
        for name in [1, 2, 3] {
            add::<F>(&queue, &count, name);
        }
        let first = queue.pop_owned().unwrap();
        let second = queue.try_pop().unwrap().into_owned(&queue);
        drop(queue);
        count.expect_values(4);
        drop(first);
        let alive_with_second = second.deltas().len();
        assert_eq!(alive_with_second, 1);
        end(second);
        count.expect_alive::<F>(0, 0);
    }
}

fn batches<F: Family>() {
    for outcome in [Some(Outcome::Done), Some(Outcome::GiveUp), Some(Outcome::Requeue), None] {
        let count = Count::default();
        let queue = Arc::new(queue::<F>());
        (0..4).for_each(|name| know::<F>(&queue, &count, name));
        (0..4).for_each(|name| add::<F>(&queue, &count, name));
        let batch = queue.try_pop_batch(3).unwrap();
        assert_eq!(batch.len(), 3);
        count.expect_values(8);
        let expected = match outcome {
            Some(Outcome::Done | Outcome::GiveUp) => 5,
            _ => 8,
        };
        match outcome {
            Some(outcome) => batch.end(outcome),
            None => drop(batch),
        }
        count.expect_values(expected);
        // Taken apart, and owned.
        let leases: Vec<_> =
            queue.try_pop_batch(9).unwrap().into_iter().map(|lease| lease.into_owned(&queue)).collect();
        drop(queue);
        drop(leases);
        count.expect_alive::<F>(0, 0);
    }
}

fn close_discard<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    know::<F>(&queue, &count, 1);
    for name in [1, 2, 2, 3, 4] {
        add::<F>(&queue, &count, name);
    }
    let (lease, done) = (queue.try_pop().unwrap(), queue.try_pop().unwrap());
    assert_eq!((lease.key().name, done.key().name), (1, 2));
    add::<F>(&queue, &count, 2);
    let delayed = queue.try_pop().unwrap();
    delayed.requeue_after(Duration::from_secs(3600));
    count.expect_values(7);
    let discarded = queue.close_discard();
    assert_eq!((discarded.keys, discarded.deltas), (3, 3)); // dirty 2, delayed 3, 4 in line
    // What 3 was handed out with is known.
    count.expect_values(5);
    lease.requeue();
    let discarded = queue.close_discard();
    assert_eq!((discarded.keys, discarded.deltas), (4, 4));
    count.expect_values(4);
    done.done();
    assert_eq!(queue.try_pop().map(|_| ()), Err(TryPopError::Closed));
    assert_eq!((queue.known().len(), queue.pending_len(), queue.leased_len()), (3, 0, 0));
    count.expect_alive::<F>(3, 3);
    drop(queue);
    count.expect(0, 0);
}

fn closed_gives_back<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    let replace = queue.begin_replace().unwrap();
    queue.close();
    let (key, value) = count.pair(1);
    let id = value.id();
    let error = queue.apply(key, value).unwrap_err();
    assert!(matches!(&error.change, Change::Apply(key, value) if key.name == 1 && value.id() == id));
    count.expect_alive::<F>(1, 1);
    drop(error);
    count.expect_alive::<F>(0, 0);

    let ids = |changes: &[Change<Key, Value>]| -> Vec<Option<u64>> {
        changes.iter().map(|change| change.value().map(Value::id)).collect()
    };
    let (key, value) = count.pair(1);
    let changes = vec![Change::Add(key, value), Change::DeleteKey(count.key(2))];
    let expected = ids(&changes);
    let error = queue.change_all(changes).unwrap_err();
    assert!(matches!(error.kind, ChangeErrorKind::Closed) && error.index == 0);
    assert_eq!(ids(&error.rest), expected);
    count.expect_alive::<F>(2, 1);
    drop(error);

    let list = vec![count.pair(1), count.pair(1)];
    let expected: Vec<u64> = list.iter().map(|(_, value)| value.id()).collect();
    let error = queue.replace(list).unwrap_err();
    assert_eq!(error.list.iter().map(|(_, value)| value.id()).collect::<Vec<_>>(), expected);
    count.expect_alive::<F>(2, 2);
    drop(error);

    let (key, value) = count.pair(1);
    let id = value.id();
    let error = replace.upsert(key, value).unwrap_err();
    assert_eq!((error.key.name, error.value.id()), (1, id));
    drop((error, replace));
    count.expect_alive::<F>(0, 0);
}

fn rejected_gives_back<F: Family>() {
    let count = Count::default();
    let limit = 3;
    let queue: Queue<F> = Builder::new()
        .transform(move |value: &mut Value| if value.id() == limit { Err("no".into()) } else { Ok(()) })
        .build();
    add::<F>(&queue, &count, 1); // object 0
    let list = vec![count.pair(1), count.pair(2), count.pair(3)]; // 1, 2, 3
    let error = queue.replace(list).unwrap_err();
    assert_eq!(error.list.iter().map(|(_, value)| value.id()).collect::<Vec<_>>(), [1, 2, 3]);
    count.expect_alive::<F>(4, 4);
    let replace = queue.begin_replace().unwrap();
    let (key, value) = error.list.into_iter().nth(2).unwrap();
    let error = replace.upsert(key, value).unwrap_err();
    assert_eq!(error.value.id(), 3);
    count.expect_alive::<F>(2, 2);
    drop(replace);
    let error = queue.change_all([Change::Delete(error.key, error.value)]).unwrap_err();
    assert_eq!(error.rest[0].value().map(Value::id), Some(3));
    drop(error);
    count.expect_alive::<F>(1, 1);
}

fn a_dropped_replace<F: Family>() {
    let count = Count::default();
    let queue = queue::<F>();
    know::<F>(&queue, &count, 9);
    let replace = queue.begin_replace().unwrap();
    for name in [1, 1, 2] {
        let (key, value) = count.pair(name);
        assert_eq!(replace.upsert(key, value).unwrap(), Upsert::Placed);
    }
    count.expect_alive::<F>(3, 4);
    add::<F>(&queue, &count, 3);
    queue.try_pop_batch(3).unwrap().done();
    count.expect_alive::<F>(4, 4);
    let (key, value) = count.pair(3);
    assert_eq!(replace.upsert(key, value).unwrap(), Upsert::Superseded);
    count.expect_alive::<F>(4, 4); // the superseded object is gone at once
    queue.delete_key(count.key(3)).unwrap();
    queue.try_pop().unwrap().done();
    drop(replace);
    count.expect_alive::<F>(3, 3); // nothing is remembered of key 3
    drop(queue);
    count.expect(0, 0);
}

#[path = "drops/forgotten.rs"]
mod forgotten;
#[path = "drops/orders.rs"]
mod orders;
#[path = "model/random_drops.rs"]
mod random;
use forgotten::{everybody_else_goes_on, owners};
use orders::dropped_in_any_order;
use random::random_calls;

for_each_queue!(
    pending,
    a_key_is_stored_once,
    an_ignored_deletion,
    merged_deletions,
    latest_keeps_one_object,
    the_old_object_goes_with_the_lease,
    a_deleted_key_is_freed,
    snapshots_outlive_the_queue,
    a_forgotten_lease_leaks_itself_only,
    owned_leases_outlive_every_handle,
    batches,
    close_discard,
    closed_gives_back,
    rejected_gives_back,
    a_dropped_replace,
    random_calls,
    everybody_else_goes_on,
    owners,
    dropped_in_any_order,
);
