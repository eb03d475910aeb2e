//! What the tag of the stock is for (I4): a taker stands between its load and its exchange while others take. Only in narrow
//! builds, where they go once around in no time.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::thread;

use super::{Index, Slab, Slot};
use crate::sync::stopped::{Gate, stop_me_at};
use crate::sync::width::all_are_narrow;

#[derive(Default)]
struct Plain(AtomicU32);

impl Slot for Plain {
    fn link(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Whether a slot is handed out that somebody has, if a taker stands while others take so often, and the slot that it saw on top is
/// there again.
fn is_deceived_by(takes: usize) -> bool {
    let slab = Arc::new(Slab::<Plain>::new());
    let all: Vec<Index> = (0..takes + 3).map(|_| slab.take()).collect();
    let (extra, all) = all.split_at(2);
    // The first taken of these is the second half's last, and the others are the stock.
    all.iter().for_each(|index| slab.give(*index));
    let kept = slab.take();
    let gate = Gate::new();
    let late = thread::spawn({
        let (slab, gate) = (Arc::clone(&slab), gate.clone());
        move || {
            stop_me_at("take: link read", &gate);
            slab.take()
        }
    });
    while !gate.is_reached() {
        thread::yield_now();
    }
    let mut out: Vec<Index> = (0..takes).map(|_| slab.take()).collect();
    // The stock is empty. What stood on top comes to stand there again.
    let top = out.remove(0);
    slab.give(top);
    slab.give(extra[0]);
    assert_eq!(slab.take(), extra[0]);
    gate.open();
    late.thread().unpark();
    let mut now = vec![kept, extra[0], extra[1], late.join().expect("it takes one")];
    now.extend(&out);
    now.push(slab.take());
    let many = now.len();
    now.sort_unstable();
    now.dedup();
    now.len() < many
}

#[test]
fn i4_a_taker_is_deceived_by_others_that_go_exactly_once_around() {
    for takes in [2, 3, 5, 6, 7] {
        assert!(!is_deceived_by(takes), "by {takes} takes");
    }
    assert_eq!(is_deceived_by(4), all_are_narrow());
    assert_eq!(is_deceived_by(8), all_are_narrow());
}
