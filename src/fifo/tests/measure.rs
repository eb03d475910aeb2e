//! What is said of how long keys wait when a thread has stood for long (M1).

use std::sync::Arc;
use std::time::Duration;

use crate::builder::Builder;
use crate::clock::ManualClock;
use crate::fifo::DeltaFifo;
use crate::queue::DeltaQueue;
use crate::sync::stopped::{Gate, stop_me_at};

use super::stopped::{arrives, go_on};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_late_date_says_nothing() {
    let clock = ManualClock::new();
    let builder: Builder<u32, u32> = Builder::new().timer(clock.clone()).shards(1).measure();
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(builder.build());
    queue.add(1, 0).expect("open");
    queue.pop().expect("in line").done();
    let gate = Gate::new();
    let late = std::thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("measure: to be dated", &gate);
            queue.add(1, 1).expect("open");
        }
    });
    assert!(arrives(&late, &gate));
    // It has looked at the clock, and stands while the key comes and goes.
    queue.add(1, 2).expect("open");
    queue.pop().expect("in line").done();
    clock.advance(HOUR);
    queue.add(1, 3).expect("open");
    assert_eq!(queue.stats().oldest_age, Some(Duration::ZERO));
    go_on(late, &gate);
    assert_eq!((queue.stats().depth, queue.stats().oldest_age), (1, None));
    queue.pop().expect("in line").done();
    queue.add(1, 4).expect("open");
    assert_eq!(queue.stats().oldest_age, Some(Duration::ZERO));
}

#[test]
fn a_key_that_waits_has_a_date() {
    let builder: Builder<u32, u32> = Builder::new().shards(1).measure();
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(builder.build());
    queue.add(1, 0).expect("open");
    queue.pop().expect("in line").done();
    let gate = Gate::new();
    let adder = std::thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("push: appended", &gate);
            queue.add(1, 1).expect("open");
        }
    });
    assert!(arrives(&adder, &gate));
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.oldest_age.is_some()), (1, true));
    go_on(adder, &gate);
}

#[test]
fn who_is_counted_out_first_makes_no_height() {
    let builder: Builder<u32, u32> = Builder::new().shards(1).measure();
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(builder.build());
    let gate = Gate::new();
    let late = std::thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("push: entry inserted", &gate);
            queue.add(1, 0).expect("open");
        }
    });
    assert!(arrives(&late, &gate));
    // Helps the first into line.
    queue.add(1, 1).expect("open");
    queue.pop().expect("in line").done();
    assert_eq!(queue.stats().high_water, Some(0), "it is not counted in yet");
    go_on(late, &gate);
    assert_eq!(queue.stats().high_water, Some(0));
    queue.add(2, 0).expect("open");
    assert_eq!(queue.stats().high_water, Some(1));
}
