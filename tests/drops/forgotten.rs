//! Handles that are forgotten (`mem::forget`): everybody else goes on, a close does what it says, and a queue that is dropped
//! afterwards frees everything but what the forgotten handle itself keeps.

use std::mem::forget;
use std::pin::Pin;
use std::task::Waker;

use delta_fifo::{BeginReplaceError, OwnedLease};

use super::*;
use crate::model::tasks::{Woken, poll};

/// What is done with a queue that knows 1 to 4 and has nothing in line, and what it leaves behind.
struct Forgotten<F: Family> {
    name: &'static str,
    forget: fn(&Arc<Queue<F>>, &Count),
    /// Keys that stay leased, of which one is pending.
    leased: usize,
    /// Replaces are refused.
    blocks_replaces: bool,
    /// Keys and objects that are never dropped.
    leaks: [usize; 2],
    /// The same where it depends on the hash.
    at_most: [usize; 2],
}

/// What a forgotten lease leaks of the mutex queue: its key, its deltas and the old object. Of the sharded one the key and the
/// newest object are the queue's.
fn of_a_lease<F: Family>(older_deltas: usize) -> [usize; 2] {
    match F::LEASES_OWN_KEYS {
        true => [1, older_deltas + 2],
        false => [0, older_deltas + 1],
    }
}

fn rows<F: Family>() -> Vec<Forgotten<F>> {
    let row = |name, forget, leaks| Forgotten {
        name,
        forget,
        leased: 0,
        blocks_replaces: false,
        leaks,
        at_most: leaks,
    };
    vec![
        Forgotten {
            leased: 1,
            ..row(
                "a lease",
                |queue, count| {
                    (0..3).for_each(|_| add::<F>(queue, count, 1));
                    forget(queue.try_pop().unwrap());
                },
                of_a_lease::<F>(2),
            )
        },
        Forgotten {
            leased: 1,
            ..row(
                "a batch",
                |queue, count| {
                    add::<F>(queue, count, 1);
                    forget(queue.try_pop_batch(3).unwrap());
                },
                of_a_lease::<F>(0),
            )
        },
        Forgotten {
            blocks_replaces: true,
            ..row(
                "a replace",
                |queue, count| {
                    let replace = queue.begin_replace().unwrap();
                    let (key, value) = count.pair(9);
                    replace.upsert(key, value).unwrap();
                    forget(replace);
                    queue.try_pop().unwrap().done();
                },
                [0, 0],
            )
        },
        row(
            "a mark's completion",
            |queue, count| {
                add::<F>(queue, count, 1);
                forget(queue.mark(1_u64).unwrap());
                queue.try_pop().unwrap().done();
            },
            [0, 0],
        ),
        row(
            "a list's completion",
            |queue, count| {
                forget(queue.replace((1..5).map(|name| count.pair(name))).unwrap());
                queue.try_pop_batch(9).unwrap().done();
            },
            [0, 0],
        ),
        row(
            "futures that wait",
            |queue, _| {
                let mut pops = [Box::pin(queue.pop_async()), Box::pin(queue.pop_async())];
                let mut batch = Box::pin(queue.pop_batch_async(2));
                assert!(pops.iter_mut().all(|pop| poll(pop.as_mut(), Waker::noop()).is_pending()));
                assert!(poll(batch.as_mut(), Waker::noop()).is_pending());
                forget((pops, batch));
            },
            [0, 0],
        ),
        row(
            "a future that was woken",
            |queue, count| {
                let woken = Arc::new(Woken::default());
                let mut pop = Box::pin(queue.pop_async());
                assert!(poll(pop.as_mut(), &Waker::from(Arc::clone(&woken))).is_pending());
                add::<F>(queue, count, 1);
                assert_eq!(woken.count(), 1);
                forget(pop);
                // It has the wake-up, and no key.
                queue.try_pop().unwrap().done();
            },
            [0, 0],
        ),
        row(
            "a handle of an object",
            |queue, count| forget(queue.known().find(&count.key(1)).unwrap()),
            [1, 1],
        ),
        Forgotten {
            // What it has read ahead.
            at_most: [3, 3],
            ..row(
                "an iteration",
                |queue, _| {
                    let view = queue.known();
                    let mut known = view.iter();
                    assert!(known.next().is_some());
                    forget(known);
                },
                [0, 0],
            )
        },
        // Where a snapshot is left, so are some keys that it does not show.
        Forgotten {
            at_most: [4 + F::LATE_KEYS, 4],
            ..row("a snapshot", |queue, _| forget(queue.snapshot()), [4, 4])
        },
        Forgotten {
            at_most: [4 + F::LATE_KEYS, 4],
            ..row(
                "a snapshot's clone",
                |queue, _| {
                    let snapshot = queue.snapshot();
                    forget(snapshot.clone());
                    assert_eq!(snapshot.len(), 4);
                },
                [4, 4],
            )
        },
    ]
}

/// The other keys go on.
fn others_go_on<F: Family>(queue: &Arc<Queue<F>>, count: &Count, row: &Forgotten<F>) {
    for name in [2, 3, 5] {
        add::<F>(queue, count, name);
        let lease = queue.try_pop().unwrap();
        assert_eq!(lease.key().name, name, "{}", row.name);
        lease.done();
    }
    queue.delete_key(count.key(5)).unwrap();
    assert_eq!(queue.try_pop_batch(9).map(|batch| batch.done()), Ok(()), "{}", row.name);
    assert!(queue.resync().unwrap() >= 3, "{}", row.name);
    queue.try_pop_batch(9).unwrap().done();
    let refused = matches!(queue.begin_replace(), Err(BeginReplaceError::ReplaceInProgress));
    assert_eq!(refused, row.blocks_replaces, "{}", row.name);
    assert_eq!(queue.snapshot().len(), queue.known().len(), "{}", row.name);
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, row.leased), "{}", row.name);
}

pub(crate) fn everybody_else_goes_on<F: Family>() {
    for row in rows::<F>() {
        let count = Count::default();
        let queue = Arc::new(queue::<F>());
        (1..5).for_each(|name| know::<F>(&queue, &count, name));
        (row.forget)(&queue, &count);
        others_go_on::<F>(&queue, &count, &row);
        if row.leased > 0 {
            // A change of the leased key waits for a lease that does not end.
            add::<F>(&queue, &count, 1);
            assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Empty), "{}", row.name);
        }
        queue.close();
        let drained = queue.close_and_wait_timeout(Duration::ZERO).is_ok();
        assert_eq!(drained, row.leased == 0, "{}", row.name);
        let discarded = queue.close_discard();
        assert_eq!(
            (discarded.keys as usize, discarded.deltas as usize),
            (row.leased, row.leased),
            "{}",
            row.name
        );
        assert_eq!(queue.try_pop().map(drop), Err(TryPopError::Closed), "{}", row.name);
        drop(Arc::into_inner(queue).expect("nobody else has it"));
        let alive = [count.keys(), count.values()];
        let leaks = (0..2).all(|at| (row.leaks[at]..=row.at_most[at]).contains(&alive[at]));
        assert!(leaks, "{}: {alive:?} keys and objects alive", row.name);
    }
}

/// A forgotten handle that owns the queue is an owner for ever: nothing is dropped, and the queue goes on.
pub(crate) fn owners<F: Family>() {
    type Owner<F> = fn(Arc<Queue<F>>, &Count);
    let owners: [(&str, Owner<F>, usize); 4] = [
        ("a lease", |queue, _| forget::<OwnedLease<_>>(queue.pop_owned().unwrap()), 1),
        (
            "a replace",
            |queue, _| {
                queue.try_pop().unwrap().done();
                forget(queue.begin_replace_owned().unwrap());
            },
            0,
        ),
        (
            "a completion",
            |queue, _| {
                queue.try_pop().unwrap().done();
                let replace = queue.begin_replace_owned().unwrap();
                forget(replace.commit().unwrap());
                queue.try_pop().unwrap().done();
            },
            0,
        ),
        (
            "a task",
            |queue, _| {
                queue.try_pop().unwrap().done();
                let mut task: Pin<Box<dyn Future<Output = _>>> =
                    Box::pin(async move { queue.pop_async_owned().await.map(drop) });
                assert!(poll(task.as_mut(), Waker::noop()).is_pending());
                forget(task);
            },
            0,
        ),
    ];
    for (name, owner, leased) in owners {
        let count = Count::default();
        let queue = Arc::new(queue::<F>());
        add::<F>(&queue, &count, 1);
        owner(Arc::clone(&queue), &count);
        assert!(Arc::strong_count(&queue) > 1, "{name}");
        add::<F>(&queue, &count, 2);
        queue.try_pop().unwrap().done();
        assert_eq!((queue.pending_len(), queue.leased_len()), (0, leased), "{name}");
        let known = queue.known().len();
        assert_eq!(count.values(), known, "{name}");
        drop(queue);
        assert_eq!(count.values(), known, "{name}: its owner has it still");
    }
}
