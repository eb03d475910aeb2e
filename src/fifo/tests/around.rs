//! What generations are for (E5): somebody stands with what it knows of a key while that goes through its generations. Only in
//! narrow builds, where there are four of them.

use std::sync::Arc;
use std::time::Duration;

use crate::builder::{Background, Builder};
use crate::fifo::DeltaFifo;
use crate::known::KnownView;
use crate::queue::DeltaQueue;
use crate::sync::stopped::{Gate, stop_me_at};

use super::stopped::{arrives, go_on};

type Queue = DeltaFifo<u32, u32>;

const HOUR: Duration = Duration::from_secs(3600);

fn queue(choose: impl FnOnce(Builder<u32, u32>) -> Builder<u32, u32>) -> Arc<Queue> {
    Arc::new(choose(Builder::new().shards(1)).build())
}

/// Whether a delay of an hour is over at once, if who ends an earlier one stands while the key is delayed so often.
fn a_delay_ends_early_after(delays: u32) -> bool {
    let queue = queue(|builder| builder);
    queue.add(1, 0).expect("open");
    queue.pop().expect("in line").requeue_after(Duration::ZERO);
    let gate = Gate::new();
    let late = std::thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("promote: before the exchange", &gate);
            assert_eq!(queue.resync_key(2).ok(), Some(false));
            queue.add(2, 0).expect("open");
        }
    });
    assert!(arrives(&late, &gate));
    for number in 1..=delays {
        queue.add(1, number).expect("open");
        let lease = queue.pop().expect("a change ends a delay");
        assert_eq!(*lease.key(), 1);
        lease.requeue_after(HOUR);
    }
    go_on(late, &gate);
    let keys: Vec<u32> = std::iter::from_fn(|| queue.try_pop().ok())
        .map(|lease| {
            let key = *lease.key();
            lease.done();
            key
        })
        .collect();
    assert!(keys.contains(&2), "{keys:?}");
    // Nothing is lost: it comes when it should, or did already.
    queue.close();
    let rest = queue.pop();
    assert_eq!(rest.is_err(), keys.contains(&1));
    rest.into_iter().for_each(|lease| lease.done());
    assert_eq!((queue.pending_len(), queue.leased_len(), queue.known().get(&1)), (0, 0, Some(delays)));
    keys.contains(&1)
}

#[test]
fn e5_a_delay_ends_early_when_its_key_goes_exactly_once_around() {
    // Each delay, and each change that ends one, is a generation.
    let early: Vec<u32> = (1..=8).filter(|delays| a_delay_ends_early_after(*delays)).collect();
    assert_eq!(early, [2, 4, 6, 8]);
}

/// Whether a key comes before one that became pending earlier, if a pop stands with its old handle while it goes in line so often.
fn a_key_overtakes_after(turns: u32) -> bool {
    let queue = queue(|builder| builder.background(Background::Resync));
    for key in [1, 2] {
        queue.add(key, 0).expect("open");
        queue.pop().expect("in line").done();
    }
    // In the background, and then, by a change, in the first line too.
    assert_eq!(queue.resync_key(1).ok(), Some(true));
    let gate = Gate::new();
    let late = std::thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("lines: background popped", &gate);
            let lease = queue.try_pop().expect("something is in line");
            lease.done();
        }
    });
    assert!(arrives(&late, &gate));
    queue.add(1, 0).expect("open");
    for _ in 0..turns {
        queue.pop().expect("in line").done();
        queue.add(1, 0).expect("open");
    }
    // It rests, and then comes behind another. (In the background, as what comes from there takes nothing that is not.)
    queue.pop().expect("in line").done();
    assert_eq!(queue.resync_key(2).ok(), Some(true));
    assert_eq!(queue.resync_key(1).ok(), Some(true));
    go_on(late, &gate);
    let lease = queue.try_pop().expect("one is left");
    let second = *lease.key();
    lease.done();
    assert!(queue.try_pop().is_err(), "each key comes once");
    assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
    second == 2
}

#[test]
fn e5_a_key_that_goes_exactly_once_around_loses_its_place_and_nothing_else() {
    let overtaken: Vec<u32> = (0..12).filter(|turns| a_key_overtakes_after(*turns)).collect();
    assert_eq!(overtaken, [3, 7, 11]);
}
