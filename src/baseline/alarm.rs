//! Wakes async consumers when the first delayed key is due: by the user's timer, else by a thread that is started when
//! it is first needed.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::delay::Timer;

use super::lock::lock;
use super::sleepers::AsyncSleepers;

pub(super) struct Alarm {
    timer: Option<Arc<dyn Timer>>,
    clock: Arc<Clock>,
}

struct Clock {
    state: Mutex<Armed>,
    /// The thread has something else to wait for.
    changed: Condvar,
    sleepers: Arc<AsyncSleepers>,
}

#[derive(Default)]
struct Armed {
    next: Option<Instant>,
    has_thread: bool,
    stopped: bool,
}

impl Alarm {
    pub(super) fn new(timer: Option<Arc<dyn Timer>>, sleepers: Arc<AsyncSleepers>) -> Self {
        let clock = Clock { state: Mutex::new(Armed::default()), changed: Condvar::new(), sleepers };
        Alarm { timer, clock: Arc::new(clock) }
    }

    /// Wakes all sleepers at `at` or soon after.
    ///
    /// # Errors
    ///
    /// The thread could not be started; the next call tries again.
    pub(super) fn arm(&self, at: Instant) -> io::Result<()> {
        let mut armed = lock(&self.clock.state);
        // One that should have rung by now may have been lost: then it does not count.
        if armed.next.is_some_and(|next| next <= at && next > Instant::now()) {
            return Ok(());
        }
        armed.next = Some(at);
        if let Some(timer) = &self.timer {
            drop(armed);
            let clock = Arc::clone(&self.clock);
            let mut disarm = Disarm { clock: &self.clock, at, done: false };
            timer.wake_at(at, Box::new(move || clock.ring(at)));
            disarm.done = true;
            return Ok(());
        }
        if !armed.has_thread {
            let clock = Arc::clone(&self.clock);
            let started =
                std::thread::Builder::new().name("delta-fifo-delays".into()).spawn(move || clock.run());
            if let Err(error) = started {
                armed.next = None;
                return Err(error);
            }
            armed.has_thread = true;
        }
        self.clock.changed.notify_one();
        Ok(())
    }
}

/// Forgets an alarm that the user's timer has not taken because it panicked: the next one must ask it again.
struct Disarm<'a> {
    clock: &'a Clock,
    at: Instant,
    done: bool,
}

impl Drop for Disarm<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.clock.disarm(self.at);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        lock(&self.clock.state).stopped = true;
        self.clock.changed.notify_one();
    }
}

impl Clock {
    /// The sleepers look for themselves what is due, and arm the next alarm if they sleep again.
    fn ring(&self, at: Instant) {
        self.disarm(at);
        // All are woken: nobody's place has to be taken.
        self.sleepers.wake(usize::MAX);
    }

    fn disarm(&self, at: Instant) {
        let mut armed = lock(&self.state);
        if armed.next.is_some_and(|next| next <= at) {
            armed.next = None;
        }
    }

    fn run(&self) {
        let mut armed = lock(&self.state);
        while !armed.stopped {
            let wait = armed.next.map(|next| next.saturating_duration_since(Instant::now()));
            armed = match (armed.next, wait) {
                (Some(next), Some(wait)) if wait.is_zero() => {
                    drop(armed);
                    self.ring(next);
                    lock(&self.state)
                }
                (_, Some(wait)) => {
                    self.changed.wait_timeout(armed, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                (_, None) => self.changed.wait(armed).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
