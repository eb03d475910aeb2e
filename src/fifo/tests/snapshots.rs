//! Snapshots that end, or are published, while threads are stopped or others are held.

use std::sync::Arc;
use std::time::Duration;

use crate::known::KnownView;
use crate::queue::DeltaQueue;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::{Builder, DeltaFifo};

use super::stopped::{arrives, go_on};

type Queue = DeltaFifo<u32, u32>;

fn set<V: Send + Sync>(queue: &DeltaFifo<u32, V>, key: u32, object: V) {
    queue.update(key, object).expect("it is open");
    queue.try_pop().expect("it is in line").done();
}

/// However many keys a snapshot that is held keeps in view, a pop that finds nothing ends after so many.
#[test]
fn a_pop_that_finds_nothing_looks_at_some_of_many_keys() {
    const KEYS: u32 = 5_000;
    let queue = DeltaFifo::<u32, Arc<u32>>::new();
    let objects: Vec<_> = (0..KEYS).map(Arc::new).collect();
    let kept = || objects.iter().filter(|object| Arc::strong_count(object) > 1).count();
    objects.iter().for_each(|object| set(&queue, **object, Arc::clone(object)));
    let snapshot = queue.snapshot();
    (0..KEYS).for_each(|key| set(&queue, key, Arc::new(0)));
    assert_eq!(kept(), KEYS as usize);
    drop(snapshot);
    let before = kept();
    assert_eq!(before, KEYS as usize - 256);
    assert!(queue.try_pop().is_err());
    assert_eq!(before - kept(), 1_024);
    while kept() > 0 {
        assert!(queue.core.is_sweep_due() && queue.try_pop().is_err());
    }
    assert!(!queue.core.is_sweep_due());
}

/// What a snapshot keeps that is held is not looked at when others end.
#[test]
fn k1_what_another_snapshot_shows_is_left_alone() {
    let queue = DeltaFifo::<u32, u32>::new();
    (0..5_000).for_each(|key| set(&queue, key, 0));
    let held = queue.snapshot();
    (0..5_000).for_each(|key| set(&queue, key, 1));
    drop(queue.snapshot());
    assert!(!queue.core.is_sweep_due());
    assert_eq!((held.len(), held.get(&7)), (5_000, Some(0)));
}

/// A version that two snapshots show goes with the second, whichever that is; one behind it with its own.
#[test]
fn k1_what_two_snapshots_show_goes_with_both() {
    for first in [0, 1] {
        let queue = DeltaFifo::<u32, Arc<u32>>::new();
        let objects: Vec<_> = (0..3).map(Arc::new).collect();
        let alive = || objects.iter().map(|object| Arc::strong_count(object) - 1).collect::<Vec<_>>();
        let put = |number: usize| set(&queue, 1, Arc::clone(&objects[number]));
        put(0);
        let oldest = queue.snapshot();
        put(1);
        let mut both = [queue.snapshot(), queue.snapshot()].map(Some);
        put(2);
        assert_eq!(alive(), [1, 1, 1]);
        drop(both[first].take());
        assert_eq!(alive(), [1, 1, 1]);
        drop(oldest);
        assert_eq!(alive(), [0, 1, 1]);
        drop(both);
        assert_eq!(alive(), [0, 0, 1]);
        assert!(!queue.core.is_sweep_due());
    }
}

/// Who is stopped while it takes the snapshot to be published keeps nobody from publishing a later one.
#[test]
fn b3_a_stopped_publisher_holds_nobody_up() {
    let queue: Arc<Queue> = Arc::new(Builder::new().publish_every(Duration::ZERO).build());
    set(&queue, 1, 10);
    assert_eq!(queue.published().get(&1), Some(10));
    set(&queue, 1, 11);
    let gate = Gate::new();
    let publisher = std::thread::spawn({
        let (gate, queue) = (gate.clone(), Arc::clone(&queue));
        move || {
            stop_me_at("snapshot: registered", &gate);
            let _ = queue.published().get(&1);
        }
    });
    assert!(arrives(&publisher, &gate));
    assert_eq!(queue.published().get(&1), Some(11));
    set(&queue, 1, 12);
    assert_eq!(queue.published().get(&1), Some(12));
    let epoch = queue.published().epoch();
    go_on(publisher, &gate);
    assert_eq!(queue.published().get(&1), Some(12));
    assert!(queue.published().epoch() >= epoch, "back");
}
