//! Adding, taking and looking at once, under loom.

use std::time::{Duration, Instant};

use super::Delays;
use crate::key_queue::Handle;
use crate::sync::Arc;
use crate::sync::model::model;
use crate::sync::thread::{JoinHandle, spawn};

model! { each_is_taken_once, preemptions: None,
    fails: fails_if_everybody_took_it "everybody took it" "taken twice",
}
model! { who_comes_after_an_add_finds_it, preemptions: None,
    fails: fails_if_counted_late "counted late" "missed",
}
model! { the_earliest_of_two_says_so, preemptions: None, }

fn handle(bits: u64) -> Handle {
    Handle::new(bits).expect("a handle")
}

fn thread<T: 'static>(delays: &Arc<Delays>, f: impl FnOnce(&Delays) -> T + 'static) -> JoinHandle<T> {
    let delays = Arc::clone(delays);
    spawn(move || f(&delays))
}

mod bodies {
    use super::*;

    /// One is due; a consumer pops it while its key goes in line for another reason.
    pub(super) fn each_is_taken_once() {
        let now = Instant::now();
        let delays = Arc::new(Delays::new(Instant::now()));
        delays.add(now, handle(1));
        let popper = thread(&delays, move |delays| delays.pop_due(now + Duration::from_secs(60)));
        let removed = delays.remove(delays.stamp(now), handle(1));
        let popped = popper.join().unwrap();
        assert!(removed != popped.is_some(), "taken twice, or not at all");
        assert_eq!(delays.earliest(), None);
    }

    /// One is taken as soon as it is inserted, and another added: that is found.
    pub(super) fn who_comes_after_an_add_finds_it() {
        let until = Instant::now() + Duration::from_secs(1);
        let delays = Arc::new(Delays::new(Instant::now()));
        let adder = thread(&delays, move |delays| delays.add(until, handle(1)));
        let removed = delays.remove(delays.stamp(until), handle(1));
        delays.add(until, handle(2));
        assert_eq!(delays.earliest(), Some(until), "missed");
        adder.join().unwrap();
        assert_eq!(delays.pop_any(), Some(handle(if removed { 2 } else { 1 })));
    }

    pub(super) fn the_earliest_of_two_says_so() {
        let early = Instant::now() + Duration::from_secs(1);
        let delays = Arc::new(Delays::new(Instant::now()));
        let adder = thread(&delays, move |delays| delays.add(early, handle(1)));
        delays.add(early + Duration::from_secs(1), handle(2));
        assert!(adder.join().unwrap(), "nobody looks for the earliest");
        assert_eq!(delays.earliest(), Some(early));
        assert_eq!(
            [delays.pop_any(), delays.pop_any(), delays.pop_any()],
            [Some(handle(1)), Some(handle(2)), None]
        );
    }
}
