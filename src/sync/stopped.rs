//! Stops a thread at a [`pause_point`](super::pause_point) until a test opens the gate.

use std::cell::RefCell;

use super::Arc;
use super::atomic::{AtomicBool, Ordering};

#[derive(Clone)]
pub(crate) struct Gate {
    open: Arc<AtomicBool>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate { open: Arc::new(AtomicBool::new(false)) }
    }

    pub(crate) fn is_open(&self) -> bool {
        // Acquire: pairs with open (Release).
        self.open.load(Ordering::Acquire)
    }

    /// The thread must also be unparked.
    pub(crate) fn open(&self) {
        // Release: pairs with is_open (Acquire); nothing but the flag is published.
        self.open.store(true, Ordering::Release);
    }
}

#[cfg(not(delta_fifo_loom))]
std::thread_local! {
    static STOP: RefCell<Option<(&'static str, Gate)>> = const { RefCell::new(None) };
}
#[cfg(delta_fifo_loom)]
loom::thread_local! {
    static STOP: RefCell<Option<(&'static str, Gate)>> = RefCell::new(None);
}

/// The calling thread will stop at the pause point of this name, the first time it gets there.
pub(crate) fn stop_me_at(name: &'static str, gate: &Gate) {
    STOP.with(|stop| *stop.borrow_mut() = Some((name, gate.clone())));
}

/// Whether the calling thread has yet to come to its pause point.
pub(crate) fn is_armed() -> bool {
    STOP.with(|stop| stop.borrow().is_some())
}

/// From now on the calling thread gives its processor away at some of the points it comes to.
#[cfg(not(delta_fifo_loom))]
pub(crate) fn stumble(seed: u64) {
    DICE.set(seed);
}

#[cfg(not(delta_fifo_loom))]
std::thread_local! {
    /// 0: the thread does not stumble.
    static DICE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

pub(super) fn at(name: &'static str) {
    #[cfg(not(delta_fifo_loom))]
    if DICE.get() != 0 {
        // Knuth's generator; the upper bits are good.
        DICE.set(
            DICE.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) | 1,
        );
        if DICE.get() >> 61 == 0 {
            super::thread::yield_now();
        }
    }
    let gate = STOP.with(|stop| {
        let mut stop = stop.borrow_mut();
        if stop.as_ref().is_some_and(|(at, _)| *at == name) { stop.take() } else { None }
    });
    if let Some((_, gate)) = gate {
        while !gate.is_open() {
            super::thread::park();
        }
    }
}
