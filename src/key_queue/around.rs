//! What the lives of segments are for (L3): a popper stands between its look at a cell and its claim while others use the segment
//! again. Only in narrow builds, where they go once around in no time.

use std::sync::Arc;
use std::thread;

use super::{Handle, KeyQueue};
use crate::sync::stopped::{Gate, stop_me_at};
use crate::sync::width::all_are_narrow;

/// Whether a popper comes back with a handle that was popped meanwhile, if it stands while others push and pop so many. Each time that
/// is one that it should not have, and one that nobody gets.
fn is_deceived_by(others: u64) -> bool {
    let queue = Arc::new(KeyQueue::<2>::new());
    queue.push(Handle::new(1).expect("not 0"));
    let gate = Gate::new();
    let late = thread::spawn({
        let (queue, gate) = (Arc::clone(&queue), gate.clone());
        move || {
            stop_me_at("pop: read", &gate);
            queue.pop().map(Handle::get)
        }
    });
    while !gate.is_reached() {
        thread::yield_now();
    }
    // Never more than one in line, and one at the end.
    for number in 2..others + 2 {
        assert_eq!(queue.pop().map(Handle::get), Some(number - 1));
        queue.push(Handle::new(number).expect("not 0"));
    }
    gate.open();
    late.thread().unpark();
    let popped = late.join().expect("it pops");
    popped == Some(1) && others > 0
}

#[test]
fn l3_a_popper_is_deceived_by_others_that_go_exactly_once_around() {
    assert!(!is_deceived_by(0));
    // Two segments take turns; one that is used four times has had its turn when sixteen handles have gone through.
    let deceived: Vec<u64> = (1..64).filter(|others| is_deceived_by(*others)).collect();
    let expected: Vec<u64> = if all_are_narrow() { vec![16, 32, 48] } else { vec![] };
    assert_eq!(deceived, expected);
}
