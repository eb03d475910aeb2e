//! What is different between two snapshots, and the one that is shared.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use delta_fifo::{Builder, DeltaFifo, DeltaQueue, KnownChange, KnownView, OtherQueueError};

type Queue = DeltaFifo<u32, u64>;

fn process(queue: &Queue) {
    while let Ok(lease) = queue.try_pop() {
        lease.done();
    }
}

fn set(queue: &Queue, key: u32, object: u64) {
    queue.update(key, object).unwrap();
    process(queue);
}

fn remove(queue: &Queue, key: u32) {
    queue.delete_key(key).unwrap();
    process(queue);
}

#[derive(Debug, PartialEq)]
enum Change {
    Added(u64),
    Changed(u64, u64),
    Removed(u64),
}

fn changes(
    newer: &<Queue as DeltaQueue>::Snapshot,
    older: &<Queue as DeltaQueue>::Snapshot,
) -> BTreeMap<u32, Change> {
    let mut found = BTreeMap::new();
    for change in newer.changes_since(older).expect("of one queue") {
        let key = *change.key();
        let change = match change {
            KnownChange::Added(known) => Change::Added(*known.object()),
            KnownChange::Changed { before, after } => Change::Changed(*before.object(), *after.object()),
            KnownChange::Removed(known) => Change::Removed(*known.object()),
        };
        assert!(found.insert(key, change).is_none(), "key {key} twice");
    }
    found
}

#[test]
fn what_was_added_changed_and_removed() {
    let queue = Queue::new();
    (1..=4).for_each(|key| set(&queue, key, 10));
    let older = queue.snapshot();
    set(&queue, 2, 20);
    remove(&queue, 3);
    remove(&queue, 4);
    set(&queue, 4, 40);
    set(&queue, 5, 50);
    set(&queue, 6, 60);
    remove(&queue, 6);
    let newer = queue.snapshot();
    // What comes later is in neither.
    remove(&queue, 1);
    set(&queue, 7, 70);
    let expected = [
        (2, Change::Changed(10, 20)),
        (3, Change::Removed(10)),
        (4, Change::Changed(10, 40)),
        (5, Change::Added(50)),
    ];
    assert_eq!(changes(&newer, &older), expected.into());
    let back = [
        (2, Change::Changed(20, 10)),
        (3, Change::Added(10)),
        (4, Change::Changed(40, 10)),
        (5, Change::Removed(50)),
    ];
    assert_eq!(changes(&older, &newer), back.into());
    assert!(changes(&newer, &newer.clone()).is_empty());
    assert!(older.epoch() < newer.epoch() && newer.epoch() == newer.clone().epoch());
    drop(queue);
    assert_eq!(changes(&newer, &older).len(), 4);
}

/// What one snapshot and all changes since say together is the next.
#[test]
fn changes_lead_from_one_snapshot_to_the_next() {
    let queue = Queue::new();
    let (mut last, mut shown) = (queue.snapshot(), BTreeMap::new());
    let mut dice = 7_u64;
    for round in 0..200 {
        for _ in 0..8 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (dice >> 60) as u32;
            if dice >> 59 & 1 == 0 { set(&queue, key, dice) } else { remove(&queue, key) }
        }
        let now = queue.snapshot();
        for change in now.changes_since(&last).unwrap() {
            match change {
                KnownChange::Added(known) => {
                    assert_eq!(shown.insert(*known.key(), *known.object()), None, "round {round}");
                }
                KnownChange::Changed { before, after } => {
                    let was = shown.insert(*after.key(), *after.object());
                    assert_eq!(was, Some(*before.object()), "round {round}");
                }
                KnownChange::Removed(known) => {
                    assert_eq!(shown.remove(known.key()), Some(*known.object()), "round {round}");
                }
            }
        }
        let all: BTreeMap<_, _> = now.iter().map(|known| (*known.key(), *known.object())).collect();
        assert_eq!(shown, all, "round {round}");
        last = now;
    }
}

#[test]
fn snapshots_of_two_queues_are_not_compared() {
    let (one, two) = (Queue::new(), Queue::new());
    assert_eq!(one.snapshot().changes_since(&two.snapshot()).err(), Some(OtherQueueError));
    assert_eq!(OtherQueueError.to_string(), "the snapshots are of different queues");
}

#[test]
fn over_a_store_a_snapshot_is_what_the_store_says() {
    let queue: Queue = Builder::new()
        .known_objects((|| Ok(vec![1, 2]), |key: &u32| Ok(Some(u64::from(*key)).filter(|key| *key < 3))))
        .build();
    let (older, newer) = (queue.snapshot(), queue.published());
    assert_eq!((newer.len(), newer.get(&2), newer.get(&3)), (2, Some(2), None));
    assert!(older.epoch() < newer.epoch());
    // It hands out copies, of which nobody can say that they are the same.
    assert_eq!(newer.changes_since(&older).unwrap().count(), 2);
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn the_published_one_is_shared_until_its_time_is_over() {
    let queue: Queue = Builder::new().publish_every(LONG).build();
    set(&queue, 1, 10);
    let first = queue.published().epoch();
    assert_eq!(queue.published().get(&1), Some(10));
    set(&queue, 1, 11);
    assert_eq!((queue.published().epoch(), queue.published().get(&1)), (first, Some(10)));
}

#[test]
fn the_published_one_follows_what_has_changed_and_nothing_else() {
    let queue: Queue = Builder::new().publish_every(Duration::ZERO).build();
    assert!(queue.published().is_empty());
    let mut last = queue.published().epoch();
    for object in 0..50 {
        set(&queue, 1, object);
        let published = queue.published();
        assert_eq!(published.get(&1), Some(object));
        assert!(published.epoch() > last);
        last = published.epoch();
        assert_eq!(queue.published().epoch(), last, "nothing has changed since");
    }
    remove(&queue, 1);
    assert!(queue.published().is_empty());
}

#[test]
fn the_published_one_is_not_taken_more_often_than_it_may_be() {
    let every = Duration::from_millis(20);
    let queue: Queue = Builder::new().publish_every(every).build();
    let (start, mut epochs) = (Instant::now(), std::collections::BTreeSet::new());
    let mut object = 0;
    while epochs.len() < 6 {
        object += 1;
        set(&queue, 1, object);
        epochs.insert(queue.published().epoch());
    }
    // The first one comes at once; and there is one that began before the last.
    let most = start.elapsed().as_nanos() / every.as_nanos() + 2;
    assert!(epochs.len() as u128 <= most, "{} in {:?}", epochs.len(), start.elapsed());
}

/// Readers on several threads never see the published snapshot go back, and see the last change in the end.
#[test]
fn the_published_one_only_goes_forward() {
    let queue: Arc<Queue> = Arc::new(Builder::new().publish_every(Duration::from_micros(50)).build());
    set(&queue, 1, 0);
    let start = Arc::new(Barrier::new(4));
    const LAST: u64 = 3_000;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, start) = (Arc::clone(&queue), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let (mut object, mut epoch) = (0, 0);
                while object < LAST {
                    let published = queue.published();
                    let now = published.get(&1).expect("it is known all the time");
                    assert!(published.epoch() >= epoch && now >= object, "back from {object} to {now}");
                    (object, epoch) = (now, published.epoch());
                }
            })
        })
        .collect();
    start.wait();
    (1..=LAST).for_each(|object| set(&queue, 1, object));
    readers.into_iter().for_each(|reader| reader.join().expect("it never went back"));
}

#[test]
fn a_queue_that_is_dropped_drops_what_it_has_published() {
    let object = Arc::new(());
    let queue = DeltaFifo::<u32, Arc<()>>::new();
    queue.add(1, Arc::clone(&object)).unwrap();
    queue.pop().unwrap().done();
    let mine = queue.published().clone();
    queue.delete_key(1).unwrap();
    queue.pop().unwrap().done();
    drop(queue);
    assert_eq!((Arc::strong_count(&object), mine.len()), (2, 1));
    drop(mine);
    assert_eq!(Arc::strong_count(&object), 1);
}

/// By handle and by reference a snapshot shows the same, also where keys have left slots in between.
#[test]
fn objects_are_lent_as_they_are_iterated() {
    let queue = Queue::new();
    (0..1_000).for_each(|key| set(&queue, key, u64::from(key)));
    (0..1_000).filter(|key| key % 3 == 0).for_each(|key| remove(&queue, key));
    let snapshot = queue.snapshot();
    (0..1_000).for_each(|key| set(&queue, key, 0));
    (0..1_000).filter(|key| key % 7 == 0).for_each(|key| remove(&queue, key));
    let expected: BTreeMap<u32, u64> =
        (0..1_000).filter(|key| key % 3 != 0).map(|key| (key, u64::from(key))).collect();
    let iterated: BTreeMap<_, _> = snapshot.iter().map(|known| (*known.key(), *known.object())).collect();
    let (mut lent, mut count) = (BTreeMap::new(), 0);
    snapshot.for_each(|key, object| {
        count += 1;
        lent.insert(*key, *object);
    });
    assert_eq!((&iterated, &lent, count, snapshot.len()), (&expected, &expected, 666, 666));
    assert_eq!(snapshot.get_with(&1, |object| *object), Some(1));
    let mut live = 0;
    queue.known().for_each(|key, object| {
        assert_eq!((*object, key % 7 != 0), (0, true));
        live += 1;
    });
    assert_eq!(live, queue.known().len());
}
