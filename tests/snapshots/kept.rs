//! What snapshots keep alive: of every key the objects that they show, and nothing when they are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delta_fifo::{Builder, DeltaQueue, KnownView, OwnedLease, TryPopError};

use crate::common::{Family, LONG, for_each_queue};
use crate::model::counted::{Count, Key, Value};

for_each_queue!(
    nothing_is_kept_for_nobody,
    one_snapshot_keeps_one_object_of_a_key,
    each_snapshot_keeps_one_object_of_a_key,
    what_nobody_shows_goes_in_whatever_order,
    consumers_take_away_what_the_drop_has_left,
    a_snapshot_ends_while_its_key_is_with_a_consumer,
    a_snapshot_ends_while_its_key_waits,
    a_snapshot_ends_while_its_key_is_deleted,
    deleted_keys_go_with_the_last_snapshot,
    deleted_keys_are_asked_for_by_a_replace_too,
    the_queue_goes_before_the_snapshots,
    clones_are_one_snapshot,
    a_snapshot_is_dropped_elsewhere,
);

type Queue<F> = <F as Family>::Queue<Key, Value>;

const HOUR: Duration = Duration::from_secs(3600);

fn queue<F: Family>() -> Queue<F> {
    Builder::new().build()
}

fn add<F: Family>(queue: &Queue<F>, count: &Count, name: u32) {
    let (key, value) = count.pair(name);
    queue.update(key, value).unwrap();
}

/// Makes a new object of this key known.
fn know<F: Family>(queue: &Queue<F>, count: &Count, name: u32) {
    add::<F>(queue, count, name);
    queue.try_pop().unwrap().done();
}

fn forget<F: Family>(queue: &Queue<F>, count: &Count, name: u32) {
    queue.delete_key(count.key(name)).unwrap();
    queue.try_pop().unwrap().done();
}

fn shown<F: Family>(snapshot: &<Queue<F> as DeltaQueue>::Snapshot, count: &Count, name: u32) -> Option<u64> {
    snapshot.get_with(&count.key(name), Value::id)
}

/// Pops that find nothing have time for all that snapshots have left.
fn find_nothing<F: Family>(queue: &Queue<F>) {
    (0..10).for_each(|_| assert_eq!(queue.try_pop().map(|_| ()), Err(TryPopError::Empty)));
}

fn nothing_is_kept_for_nobody<F: Family>() {
    let (count, queue) = (Count::default(), queue::<F>());
    drop(queue.snapshot());
    for _ in 0..100 {
        know::<F>(&queue, &count, 1);
        count.expect_values(1);
        drop(queue.snapshot());
        count.expect_values(1);
    }
    // One that was taken when there was nothing.
    forget::<F>(&queue, &count, 1);
    let empty = queue.snapshot();
    for _ in 0..100 {
        know::<F>(&queue, &count, 1);
        count.expect_values(1);
        forget::<F>(&queue, &count, 1);
        count.expect_values(0);
    }
    assert_eq!((empty.len(), queue.known().len()), (0, 0));
    count.expect_alive::<F>(0, 0);
}

fn one_snapshot_keeps_one_object_of_a_key<F: Family>() {
    let (count, queue) = (Count::default(), queue::<F>());
    know::<F>(&queue, &count, 1);
    let snapshot = queue.snapshot();
    count.expect_values(1);
    for _ in 0..1000 {
        know::<F>(&queue, &count, 1);
        count.expect_values(2);
    }
    for _ in 0..100 {
        forget::<F>(&queue, &count, 1);
        count.expect_values(1);
        know::<F>(&queue, &count, 1);
        count.expect_values(2);
    }
    assert_eq!(shown::<F>(&snapshot, &count, 1), Some(0));
    drop(snapshot);
    count.expect_alive::<F>(1, 1);
}

fn each_snapshot_keeps_one_object_of_a_key<F: Family>() {
    let (count, queue) = (Count::default(), queue::<F>());
    let mut snapshots = Vec::new();
    for round in 0..50 {
        for _ in 0..20 {
            know::<F>(&queue, &count, 1);
            count.expect_values(round + 1);
        }
        snapshots.push(queue.snapshot());
        // As good as the one before: no more is kept for it.
        snapshots.push(queue.snapshot());
    }
    for (number, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(shown::<F>(snapshot, &count, 1), Some(number as u64 / 2 * 20 + 19));
    }
    // The newest is still known.
    for left in (0..50).rev() {
        snapshots.pop();
        count.expect_values((left + 2).min(50));
        snapshots.pop();
        count.expect_values(left + 1);
    }
}

/// All orders of four snapshots over keys that some of them share objects of.
fn what_nobody_shows_goes_in_whatever_order<F: Family>() {
    for order in (0..256_usize).map(|digits| [0, 2, 4, 6].map(|shift| digits >> shift & 3)) {
        if (0..4).any(|snapshot| !order.contains(&snapshot)) {
            continue;
        }
        let (count, queue) = (Count::default(), queue::<F>());
        (0..4).for_each(|name| know::<F>(&queue, &count, name));
        let mut snapshots = Vec::new();
        for snapshot in 0..4_u32 {
            snapshots.push(Some(queue.snapshot()));
            // Key 0 never changes, 1 always, 2 after every other one; 3 goes and comes.
            for name in [1, 2].into_iter().filter(|name| (snapshot + 1) % name == 0) {
                know::<F>(&queue, &count, name);
            }
            if snapshot % 2 == 0 { forget::<F>(&queue, &count, 3) } else { know::<F>(&queue, &count, 3) }
        }
        for gone in order {
            let mut alive = std::collections::BTreeSet::new();
            snapshots[gone] = None;
            for view in snapshots.iter().flatten() {
                alive.extend(view.iter().map(|known| known.object().id()));
            }
            alive.extend(queue.known().iter().map(|known| known.object().id()));
            count.expect_values(alive.len());
        }
        count.expect_alive::<F>(4, 4);
        drop(queue);
        count.expect(0, 0);
    }
}

fn consumers_take_away_what_the_drop_has_left<F: Family>() {
    const KEYS: usize = 1000;
    let (count, queue) = (Count::default(), queue::<F>());
    (0..KEYS as u32).for_each(|name| know::<F>(&queue, &count, name));
    let snapshot = queue.snapshot();
    (0..KEYS as u32).for_each(|name| know::<F>(&queue, &count, name));
    count.expect_values(2 * KEYS);
    drop(snapshot);
    assert!(count.values() <= 2 * KEYS - 256, "{} are left", count.values());
    // A lease that ends takes a few away, in whatever way it ends.
    for round in 0..10 {
        let before = count.values();
        add::<F>(&queue, &count, 0);
        let lease = queue.try_pop().unwrap();
        if round % 2 == 0 {
            lease.done()
        } else {
            lease.requeue()
        }
        // What is given back has the object before it.
        let expected = before.saturating_sub(10).max(KEYS + 1);
        assert!(count.values() <= expected, "{} are left of {before}", count.values());
        if round % 2 == 1 {
            queue.try_pop().unwrap().done();
        }
    }
    find_nothing::<F>(&queue);
    count.expect_alive::<F>(KEYS, KEYS);
}

fn a_snapshot_ends_while_its_key_is_with_a_consumer<F: Family>() {
    for deletes in [false, true] {
        let (count, queue) = (Count::default(), Arc::new(queue::<F>()));
        know::<F>(&queue, &count, 1);
        let snapshot = queue.snapshot();
        know::<F>(&queue, &count, 1);
        if deletes {
            queue.delete_key(count.key(1)).unwrap();
        } else {
            add::<F>(&queue, &count, 1);
        }
        let lease: OwnedLease<Queue<F>> = queue.pop_owned().unwrap();
        assert_eq!(lease.previous().map(Value::id), Some(1));
        count.expect_values(if deletes { 2 } else { 3 });
        drop(snapshot);
        count.expect_values(if deletes { 1 } else { 2 });
        lease.done();
        count.expect_alive::<F>(1 - usize::from(deletes), 1 - usize::from(deletes));
        assert_eq!(queue.known().len(), 1 - usize::from(deletes));
    }
}

/// In line, given back, or put off.
fn a_snapshot_ends_while_its_key_waits<F: Family>() {
    for how in 0..3 {
        let (count, queue) = (Count::default(), queue::<F>());
        know::<F>(&queue, &count, 1);
        let snapshot = queue.snapshot();
        know::<F>(&queue, &count, 1);
        add::<F>(&queue, &count, 1);
        match how {
            0 => {}
            1 => queue.try_pop().unwrap().requeue(),
            _ => queue.try_pop().unwrap().requeue_after(HOUR),
        }
        // What it is to be, what it is (or was), and what the snapshot shows.
        count.expect_values(3);
        drop(snapshot);
        count.expect_values(2);
        if how == 2 {
            find_nothing::<F>(&queue);
            queue.close();
        }
        queue.try_pop().unwrap().done();
        count.expect_alive::<F>(1, 1);
    }
}

fn a_snapshot_ends_while_its_key_is_deleted<F: Family>() {
    for how in 0..4 {
        let (count, queue) = (Count::default(), queue::<F>());
        know::<F>(&queue, &count, 1);
        let snapshot = queue.snapshot();
        forget::<F>(&queue, &count, 1);
        assert_eq!((queue.known().len(), snapshot.len()), (0, 1));
        count.expect_values(1);
        match how {
            0 => {}
            // It is in line again.
            1 => add::<F>(&queue, &count, 1),
            // It has come and gone again.
            2 => {
                know::<F>(&queue, &count, 1);
                forget::<F>(&queue, &count, 1);
                count.expect_values(1);
            }
            // Another snapshot shows what came.
            _ => {
                know::<F>(&queue, &count, 1);
                let other = queue.snapshot();
                forget::<F>(&queue, &count, 1);
                count.expect_values(2);
                drop(other);
                count.expect_values(1);
            }
        }
        drop(snapshot);
        if how == 1 {
            count.expect_alive::<F>(1, 1);
            let lease = queue.try_pop().unwrap();
            assert!(lease.previous().is_none());
            lease.done();
            count.expect_alive::<F>(1, 1);
            forget::<F>(&queue, &count, 1);
        }
        find_nothing::<F>(&queue);
        count.expect_alive::<F>(0, 0);
        drop(queue);
        count.expect(0, 0);
    }
}

/// More keys than may go late.
fn deleted_keys_go_with_the_last_snapshot<F: Family>() {
    const KEYS: usize = 3000;
    let (count, queue) = (Count::default(), queue::<F>());
    (0..KEYS as u32).for_each(|name| know::<F>(&queue, &count, name));
    let snapshots = [queue.snapshot(), queue.snapshot()];
    (0..KEYS as u32).for_each(|name| forget::<F>(&queue, &count, name));
    assert_eq!((queue.known().len(), queue.known().iter().count()), (0, 0));
    count.expect_alive::<F>(KEYS, KEYS);
    for snapshot in snapshots {
        assert_eq!((snapshot.len(), snapshot.iter().count()), (KEYS, KEYS));
        count.expect_values(KEYS);
        drop(snapshot);
    }
    find_nothing::<F>(&queue);
    count.expect_values(0);
    // Keys go in batches, when nobody can be reading them.
    let until = Instant::now() + LONG;
    while count.keys() > F::LATE_KEYS {
        assert!(Instant::now() < until, "{} keys are left", count.keys());
        for name in 0..100 {
            know::<F>(&queue, &count, name);
            forget::<F>(&queue, &count, name);
        }
    }
    drop(queue);
    count.expect(0, 0);
}

/// Whichever of the two ends first.
fn deleted_keys_are_asked_for_by_a_replace_too<F: Family>() {
    for replace_first in [false, true] {
        let (count, queue) = (Count::default(), queue::<F>());
        know::<F>(&queue, &count, 1);
        know::<F>(&queue, &count, 2);
        let snapshot = queue.snapshot();
        let replace = queue.begin_replace().unwrap();
        forget::<F>(&queue, &count, 1);
        if replace_first {
            replace.commit().unwrap();
            // That of key 2.
            queue.try_pop().unwrap().done();
            count.expect_alive::<F>(2, 2);
            drop(snapshot);
        } else {
            drop(snapshot);
            count.expect_alive::<F>(2, 1);
            drop(replace);
            forget::<F>(&queue, &count, 2);
        }
        find_nothing::<F>(&queue);
        count.expect_alive::<F>(0, 0);
        assert_eq!(queue.known().len(), 0);
    }
}

fn the_queue_goes_before_the_snapshots<F: Family>() {
    let (count, queue) = (Count::default(), queue::<F>());
    (0..4).for_each(|name| know::<F>(&queue, &count, name));
    let first = queue.snapshot();
    know::<F>(&queue, &count, 1);
    forget::<F>(&queue, &count, 2);
    queue.delete_key(count.key(3)).unwrap();
    let second = queue.snapshot();
    know::<F>(&queue, &count, 4);
    add::<F>(&queue, &count, 0);
    add::<F>(&queue, &count, 5);
    queue.try_pop().unwrap().requeue();
    drop(queue);
    // 0 to 3, and the other 1; 3 was popped after both, and 4 and 5 are shown by nobody.
    count.expect_values(5);
    assert_eq!((first.len(), second.len()), (4, 3));
    let ids = |snapshot: &<Queue<F> as DeltaQueue>::Snapshot| {
        (0..6).filter_map(|name| shown::<F>(snapshot, &count, name)).collect::<Vec<_>>()
    };
    assert_eq!((ids(&first), ids(&second)), (vec![0, 1, 2, 3], vec![0, 4, 3]));
    drop(first);
    count.expect_values(3);
    assert_eq!((second.len(), ids(&second)), (3, vec![0, 4, 3]));
    drop(second);
    count.expect(0, 0);
}

fn clones_are_one_snapshot<F: Family>() {
    let (count, queue) = (Count::default(), queue::<F>());
    know::<F>(&queue, &count, 1);
    let snapshot = queue.snapshot();
    let mut clones = vec![snapshot.clone(), snapshot.clone()];
    drop(snapshot);
    for _ in 0..3 {
        know::<F>(&queue, &count, 1);
        count.expect_values(2);
    }
    while let Some(clone) = clones.pop() {
        assert_eq!(shown::<F>(&clone, &count, 1), Some(0));
        count.expect_values(2);
    }
    count.expect_alive::<F>(1, 1);
}

fn a_snapshot_is_dropped_elsewhere<F: Family>() {
    for the_queue_too in [false, true] {
        let (count, queue) = (Count::default(), queue::<F>());
        (0..100).for_each(|name| know::<F>(&queue, &count, name));
        let snapshot = queue.snapshot();
        (0..100).for_each(|name| know::<F>(&queue, &count, name));
        let queue = Some(queue).filter(|_| !the_queue_too);
        std::thread::spawn(move || drop(snapshot)).join().unwrap();
        count.expect_values(queue.as_ref().map_or(0, |queue| queue.known().len()));
    }
}
