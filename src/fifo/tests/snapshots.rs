//! Snapshots that end, or are published, while threads are stopped or others are held.

use std::sync::Arc;
use std::time::Duration;

use crate::known::KnownView;
use crate::queue::DeltaQueue;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::{Builder, DeltaFifo};

use super::stopped::{arrives, go_on};

type Queue = DeltaFifo<u32, u32>;

fn set(queue: &Queue, key: u32, object: u32) {
    queue.update(key, object).expect("it is open");
    queue.try_pop().expect("it is in line").done();
}

/// However many keys a snapshot that is held keeps in view, a pop that finds nothing ends after so many.
#[test]
fn a_pop_that_finds_nothing_looks_at_some_of_many_keys() {
    const KEYS: u32 = 5_000;
    let queue = Queue::new();
    (0..KEYS).for_each(|key| set(&queue, key, 0));
    let held = queue.snapshot();
    (0..KEYS).for_each(|key| set(&queue, key, 1));
    drop(queue.snapshot());
    assert!(queue.core.aged.is_due());
    let due = || queue.core.aged.due();
    let before = due();
    assert!(queue.try_pop().is_err());
    assert_eq!(before - due(), 1_024);
    while due() > 0 {
        assert!(queue.try_pop().is_err());
    }
    assert_eq!((held.len(), held.get(&7)), (KEYS as usize, Some(0)));
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
