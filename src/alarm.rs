//! Wakes async consumers when the first delayed key is due: by the user's timer, else by a thread that is started when
//! it is first needed. By a timer with a clock of its own it wakes threads as well (`clock.rs`, C1).
//!
//! It holds what it was given to wake, and nothing of the queue. Dropping it ends the thread and lets go of that; a timer
//! that still rings then wakes nobody. `arm` takes a mutex for O(1), as the thread does, and never waits for a wake.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use crate::clock::Clock;
use crate::delay::Timer;
use crate::sync::now as system_now;

/// Wakes all who sleep. They look for themselves what is due, and arm the next alarm if they sleep again.
pub(crate) type Wake = dyn Fn() + Send + Sync;

pub(crate) struct Alarm {
    clock: Clock,
    bell: Arc<Bell>,
    /// Held here alone, so that neither the thread nor a timer keeps it.
    _wake: Arc<Wake>,
}

struct Bell {
    state: Mutex<Armed>,
    /// The thread has something else to wait for.
    changed: Condvar,
    wake: Weak<Wake>,
}

#[derive(Default)]
struct Armed {
    /// What the timer was asked for.
    asked: Option<Instant>,
    /// What the thread waits for, in the system's time.
    next: Option<Instant>,
    has_thread: bool,
    stopped: bool,
}

impl Alarm {
    /// `wake` must not hold the queue that holds the alarm. It is called outside every lock of this module.
    pub(crate) fn new(clock: Clock, wake: Arc<Wake>) -> Self {
        let bell = Bell {
            state: Mutex::new(Armed::default()),
            changed: Condvar::new(),
            wake: Arc::downgrade(&wake),
        };
        Alarm { clock, bell: Arc::new(bell), _wake: wake }
    }

    /// Wakes all sleepers at `at` or soon after.
    ///
    /// # Errors
    ///
    /// The thread could not be started; the next call tries again.
    pub(crate) fn arm(&self, at: Instant) -> io::Result<()> {
        match self.clock.timer() {
            Some(timer) => {
                self.ask(&**timer, at);
                Ok(())
            }
            None => self.set_thread(at),
        }
    }

    /// The same in the system's time, whatever the clock is: for what no clock of a test's must hold up.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn arm_in_real_time(&self, at: Instant) -> io::Result<()> {
        if self.clock.is_own() { self.set_thread(at) } else { self.arm(at) }
    }

    fn ask(&self, timer: &dyn Timer, at: Instant) {
        // User code, so before the lock. What rings in between is asked for once more.
        let now = self.clock.now();
        let mut armed = self.bell.armed();
        // One that should have rung by now may have been lost: then it does not count.
        if armed.asked.is_some_and(|asked| asked <= at && asked > now) {
            return;
        }
        armed.asked = Some(at);
        drop(armed);
        let bell = Arc::clone(&self.bell);
        let mut disarm = Disarm { bell: &self.bell, at, done: false };
        timer.wake_at(
            at,
            Box::new(move || {
                bell.disarm(at);
                bell.ring();
            }),
        );
        disarm.done = true;
    }

    fn set_thread(&self, at: Instant) -> io::Result<()> {
        if cfg!(delta_fifo_shuttle) {
            unreachable!("scenarios bring their own timer");
        }
        let mut armed = self.bell.armed();
        if armed.next.is_some_and(|next| next <= at && next > system_now()) {
            return Ok(());
        }
        armed.next = Some(at);
        if !armed.has_thread {
            let bell = Arc::clone(&self.bell);
            let started =
                std::thread::Builder::new().name("delta-fifo-delays".into()).spawn(move || bell.run());
            if let Err(error) = started {
                armed.next = None;
                return Err(error);
            }
            armed.has_thread = true;
        }
        self.bell.changed.notify_one();
        Ok(())
    }
}

/// Forgets an alarm that the user's timer has not taken because it panicked: the next one must ask it again.
struct Disarm<'a> {
    bell: &'a Bell,
    at: Instant,
    done: bool,
}

impl Drop for Disarm<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.bell.disarm(self.at);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.bell.armed().stopped = true;
        self.bell.changed.notify_one();
    }
}

impl Bell {
    fn ring(&self) {
        let Some(wake) = self.wake.upgrade() else { return };
        // Whoever rings must go on. Who was not woken is woken by the next alarm.
        let _ = catch_unwind(AssertUnwindSafe(|| wake()));
    }

    /// The timer has rung for `at`, or will not.
    fn disarm(&self, at: Instant) {
        let mut armed = self.armed();
        if armed.asked.is_some_and(|asked| asked <= at) {
            armed.asked = None;
        }
    }

    fn run(&self) {
        let mut armed = self.armed();
        while !armed.stopped {
            armed = match armed.next.map(|next| next.saturating_duration_since(system_now())) {
                Some(wait) if wait.is_zero() => {
                    armed.next = None;
                    drop(armed);
                    self.ring();
                    self.armed()
                }
                Some(wait) => {
                    self.changed.wait_timeout(armed, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(armed).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn armed(&self) -> MutexGuard<'_, Armed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn ms(millis: u64) -> Instant {
        Instant::now() + Duration::from_millis(millis)
    }

    fn ringing() -> (Arc<Wake>, mpsc::Receiver<Instant>) {
        let (sender, rung) = mpsc::channel();
        let sender = Mutex::new(sender);
        let wake = move || {
            let _ = sender.lock().unwrap().send(Instant::now());
        };
        (Arc::new(wake), rung)
    }

    #[test]
    fn the_thread_rings_for_the_earliest() {
        let (wake, rung) = ringing();
        let alarm = Alarm::new(Clock::default(), wake);
        let (late, early) = (ms(60_000), ms(20));
        alarm.arm(late).unwrap();
        alarm.arm(early).unwrap();
        assert!(rung.recv_timeout(LONG / 2).expect("it rings") >= early);
        // One that has rung does not stand in the way of the next.
        let next = ms(20);
        alarm.arm(next).unwrap();
        assert!(rung.recv_timeout(LONG / 2).expect("it rings") >= next);
    }

    #[test]
    fn a_wake_that_panics_is_not_the_last() {
        let (wake, rung) = ringing();
        let calls = AtomicUsize::new(0);
        let alarm = Alarm::new(
            Clock::default(),
            Arc::new(move || {
                if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                    std::panic::resume_unwind(Box::new("a waker panics"));
                }
                wake();
            }),
        );
        let until = Instant::now() + LONG;
        while rung.recv_timeout(Duration::from_millis(10)).is_err() {
            assert!(Instant::now() < until, "it never rang again");
            alarm.arm(ms(1)).unwrap();
        }
    }

    type Rings = Vec<Box<dyn FnOnce() + Send>>;

    #[derive(Default)]
    struct ByHand(Mutex<Rings>);

    impl Timer for ByHand {
        fn wake_at(&self, _at: Instant, wake: Box<dyn FnOnce() + Send>) {
            self.0.lock().unwrap().push(wake);
        }
    }

    #[test]
    fn a_timer_that_rings_too_late_wakes_nobody() {
        let (wake, rung) = ringing();
        let watched = Arc::downgrade(&wake);
        let timer = Arc::new(ByHand::default());
        let alarm = Alarm::new(Clock::new(Some(Arc::clone(&timer) as Arc<dyn Timer>)), wake);
        alarm.arm(ms(10_000)).unwrap();
        alarm.arm(ms(20_000)).unwrap();
        let mut rings = std::mem::take(&mut *timer.0.lock().unwrap());
        assert_eq!(rings.len(), 1, "the earlier one stands for both");
        rings.pop().unwrap()();
        assert!(rung.try_recv().is_ok());
        alarm.arm(ms(10_000)).unwrap();
        drop(alarm);
        assert!(watched.upgrade().is_none(), "the timer keeps it alive");
        std::mem::take(&mut *timer.0.lock().unwrap()).into_iter().for_each(|ring| ring());
        assert!(rung.try_recv().is_err());
    }

    #[test]
    fn its_thread_ends_with_it() {
        let (wake, _rung) = ringing();
        let alarm = Alarm::new(Clock::default(), wake);
        alarm.arm(ms(60_000)).unwrap();
        let bell = Arc::downgrade(&alarm.bell);
        drop(alarm);
        let until = Instant::now() + LONG / 2;
        while bell.strong_count() > 0 {
            assert!(Instant::now() < until, "the thread goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
