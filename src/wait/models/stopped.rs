//! A thread that stops for good between two steps: what the others still do (I6).

use super::*;
use crate::sync::stopped::{Gate, stop_me_at};

/// A notifier stops for good at this point; another one's add is popped all the same.
fn stopped_notifier(at: &'static str) {
    let line = Line::new();
    let gate = Gate::new();
    let popper = popper(&line);
    let stopped = spawn({
        let (line, gate) = (Arc::clone(&line), gate.clone());
        move || {
            stop_me_at(at, &gate);
            line.add();
        }
    });
    line.add();
    popper.join().unwrap();
    gate.open();
    stopped.thread().unpark();
    stopped.join().unwrap();
}

model!(i6_a_notifier_stopped_after_its_fence, Some(2), broken by [], || {
    stopped_notifier("notify: fence");
});
model!(i6_a_notifier_stopped_before_its_claim, Some(2), broken by [], || {
    stopped_notifier("notify: found");
});
model!(i6_a_notifier_stopped_after_its_claim, Some(2), broken by ["no help", "counted down with the claim"], || {
    stopped_notifier("notify: claimed");
});
model!(i6_a_notifier_stopped_after_its_wake, Some(2), broken by [], || {
    stopped_notifier("notify: woken");
});
model!(i6_a_notifier_stopped_before_its_accounts, Some(2), broken by [], || {
    stopped_notifier("notify: unpinned");
});

/// A waiter stops for good at this point of its registration; `adds` of them reach another waiter.
fn stopped_waiter(at: &'static str, adds: usize) {
    let line = Line::new();
    let gate = Gate::new();
    let stopped = spawn({
        let (line, gate) = (Arc::clone(&line), gate.clone());
        move || {
            stop_me_at(at, &gate);
            let look = || if gate.is_open() { line.take() } else { None };
            line.waiters.wait_until(Deadline::Never, look).expect("no deadline");
        }
    });
    let popper = popper(&line);
    for _ in 0..adds {
        line.add();
    }
    popper.join().unwrap();
    gate.open();
    stopped.thread().unpark();
    if adds == 1 {
        line.add(); // for the stopped one
    }
    stopped.join().unwrap();
}

model!(a_waiter_stopped_when_counted, Some(2), broken by ["no notifier fence"], || {
    stopped_waiter("register: counted", 1);
});
model!(a_waiter_stopped_with_its_cell, Some(2), broken by ["no notifier fence"], || {
    stopped_waiter("register: cell held", 1);
});
model!(a_waiter_stopped_with_its_handle_written, Some(2), broken by ["no notifier fence"], || {
    stopped_waiter("register: handle written", 1);
});
// Once registered it may be claimed, and keeps that one wake-up.
model!(a_waiter_stopped_when_registered, Some(2), broken by ["content with another's claim"], || {
    stopped_waiter("register: registered", 2);
});
