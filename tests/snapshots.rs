//! Snapshots: one moment of all known objects, kept as long as somebody holds it and no longer.
//!
//! `DELTA_FIFO_STRESS_ROUNDS` says how many rounds `storm` is run, `DELTA_FIFO_STRESS_SEED` with which first seed.

mod common;
mod model;

use std::panic::{RefUnwindSafe, UnwindSafe};

use delta_fifo::{DeltaFifo, DeltaQueue, FifoSnapshot, KnownView, RandomState};

#[path = "snapshots/cut.rs"]
mod cut;
#[path = "snapshots/histories.rs"]
mod histories;
#[path = "snapshots/kept.rs"]
mod kept;
#[path = "snapshots/moments.rs"]
mod moments;
#[path = "snapshots/panics.rs"]
mod panics;
#[path = "snapshots/random.rs"]
mod random;
#[path = "snapshots/storm.rs"]
mod storm;
#[path = "snapshots/transfers.rs"]
mod transfers;
#[path = "snapshots/views.rs"]
mod views;

/// Neither `Clone` nor `Debug` nor `Default`.
#[derive(PartialEq, Eq, Hash)]
struct Key(u32);
struct Value;

fn send<T: Send>() {}
fn sync<T: Sync>() {}
fn clone<T: Clone>() {}
fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
fn is_static<T: 'static>() {}

#[test]
fn a_snapshot_goes_wherever_its_objects_may() {
    type Snapshot = FifoSnapshot<Key, Value, RandomState>;
    send::<Snapshot>();
    sync::<Snapshot>();
    clone::<Snapshot>();
    unwind_safe::<Snapshot>();
    is_static::<Snapshot>();
    send::<<DeltaFifo<Key, Value> as DeltaQueue>::Snapshot>();
}

/// Keys and objects may borrow from something that outlives queue and snapshot.
#[test]
fn a_snapshot_need_not_be_static() {
    let names = [String::from("a"), String::from("b")];
    let queue = DeltaFifo::<&str, &String>::new();
    names.iter().for_each(|name| queue.add(name, name).expect("the queue is open"));
    queue.pop_batch(2).expect("two are in line").done();
    let snapshot = queue.snapshot();
    drop(queue);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((snapshot.len(), snapshot.get("a")), (2, Some(&names[0]))));
    });
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}
