//! Stops a thread at a [`pause_point`](super::pause_point) until a test opens the gate; writes down which a thread passes.

use std::cell::RefCell;

use super::Arc;
use super::atomic::{AtomicBool, Ordering};

#[derive(Clone)]
pub(crate) struct Gate {
    /// None only while it is dropped.
    open: Option<Arc<AtomicBool>>,
    /// Not a subject of models.
    reached: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let open = Some(Arc::new(AtomicBool::new(false)));
        Gate { open, reached: std::sync::Arc::default() }
    }

    /// Whether a thread stands, or has stood, before the gate.
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.load(std::sync::atomic::Ordering::SeqCst)
    }

    pub(crate) fn is_open(&self) -> bool {
        // Acquire: pairs with open (Release).
        self.flag().load(Ordering::Acquire)
    }

    /// The thread must also be unparked.
    pub(crate) fn open(&self) {
        // Release: pairs with is_open (Acquire); nothing but the flag is published.
        self.flag().store(true, Ordering::Release);
    }

    fn flag(&self) -> &AtomicBool {
        self.open.as_ref().expect("not dropped")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // A model that has failed would fail again, and abort.
        if cfg!(delta_fifo_loom) && std::thread::panicking() {
            std::mem::forget(self.open.take());
        }
    }
}

#[cfg(not(delta_fifo_loom))]
std::thread_local! {
    static STOP: RefCell<Option<(&'static str, usize, Gate)>> = const { RefCell::new(None) };
}
#[cfg(delta_fifo_loom)]
loom::thread_local! {
    static STOP: RefCell<Option<(&'static str, usize, Gate)>> = RefCell::new(None);
}

/// The calling thread will stop at the pause point of this name, the first time it gets there.
pub(crate) fn stop_me_at(name: &'static str, gate: &Gate) {
    stop_me_at_passage(name, 0, gate);
}

/// The same, after it has passed there so many times.
pub(crate) fn stop_me_at_passage(name: &'static str, passages: usize, gate: &Gate) {
    STOP.with(|stop| *stop.borrow_mut() = Some((name, passages, gate.clone())));
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

/// From now on it is written down which points the calling thread passes.
#[cfg(not(delta_fifo_loom))]
pub(crate) fn write_down() {
    PASSED.set(Some(Vec::new()));
}

/// The points that the calling thread has passed since.
#[cfg(not(delta_fifo_loom))]
pub(crate) fn passed() -> Vec<&'static str> {
    PASSED.take().expect("it is written down")
}

#[cfg(not(delta_fifo_loom))]
std::thread_local! {
    static PASSED: RefCell<Option<Vec<&'static str>>> = const { RefCell::new(None) };
}

pub(super) fn at(name: &'static str) {
    // A thread that ends collects when its locals are gone already.
    #[cfg(not(delta_fifo_loom))]
    if PASSED.try_with(|_| ()).is_err() || STOP.try_with(|_| ()).is_err() {
        return;
    }
    #[cfg(not(delta_fifo_loom))]
    PASSED.with_borrow_mut(|passed| {
        if let Some(passed) = passed {
            passed.push(name);
        }
    });
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
        match &mut *stop {
            Some((at, 0, _)) if *at == name => stop.take(),
            Some((at, passages, _)) if *at == name => {
                *passages -= 1;
                None
            }
            _ => None,
        }
    });
    if let Some((_, _, gate)) = gate {
        gate.reached.store(true, std::sync::atomic::Ordering::SeqCst);
        while !gate.is_open() {
            super::thread::park();
        }
    }
}
