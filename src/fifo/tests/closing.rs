//! A close while calls from before it are on their way.

use std::sync::{Arc, Mutex};

use crate::delta::DeltaKind;
use crate::queue::DeltaQueue;
use crate::replace::Upsert;
use crate::sync::stopped::{Gate, stop_me_at};
use crate::{Builder, DeltaFifo};

use super::stopped::{arrives, go_on};

/// The item of a list comes, late, to a key with a newer change that a consumer has taken after the close: it is told so.
#[test]
fn e7_an_item_from_before_a_close_knows_of_what_was_leased_after_it() {
    let queue: Arc<DeltaFifo<u32, u32>> = Arc::new(Builder::new().shards(1).build());
    let replace = queue.begin_replace_owned().expect("it is the only one");
    queue.add(1, 10).expect("it is open");
    let (gate, told) = (Gate::new(), Arc::new(Mutex::new(None)));
    let late = std::thread::spawn({
        let (gate, told) = (gate.clone(), Arc::clone(&told));
        move || {
            stop_me_at("push: looked for the entry", &gate);
            *told.lock().unwrap() = Some(replace.upsert(1, 11).expect("the close is not sealed"));
        }
    });
    assert!(arrives(&late, &gate));
    queue.close();
    // A consumer has the key, and has yet to look at what it took.
    let begun = Gate::new();
    let consumer = std::thread::spawn({
        let (begun, queue) = (begun.clone(), Arc::clone(&queue));
        move || {
            stop_me_at("lease: begun", &begun);
            let lease = queue.try_pop().expect("it came before the close");
            assert_eq!((lease.deltas().len(), lease.deltas().newest().kind()), (1, DeltaKind::Added));
            lease.done();
        }
    });
    assert!(arrives(&consumer, &begun));
    go_on(late, &gate);
    assert_eq!(*told.lock().unwrap(), Some(Upsert::Superseded));
    go_on(consumer, &begun);
    assert!(queue.pop().is_err(), "that was all");
}
