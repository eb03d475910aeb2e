//! Says which call waits for the one that is stopped, and lets that go on, so that the test can end and fail.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::signal;

/// All that the others do during one stop takes a few milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(crate) struct Watchdog {
    /// Since when the others do what. The one that is stopped never touches it.
    doing: Mutex<Option<(&'static str, Instant)>>,
    waited: Mutex<Option<&'static str>>,
    over: AtomicBool,
}

impl Watchdog {
    /// The others begin a call while a thread is stopped.
    pub(crate) fn doing(&self, what: &'static str) {
        *self.doing.lock().unwrap() = Some((what, Instant::now()));
    }

    /// The stop is over. Which call has waited for its end, if any has.
    pub(crate) fn rest(&self) -> Option<&'static str> {
        *self.doing.lock().unwrap() = None;
        self.waited.lock().unwrap().take()
    }

    pub(crate) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    pub(crate) fn watch(&self) {
        while !self.over.load(SeqCst) {
            thread::park_timeout(Duration::from_millis(50));
            let doing = *self.doing.lock().unwrap_or_else(PoisonError::into_inner);
            match doing {
                Some((what, since)) if since.elapsed() > 3 * LIMIT => {
                    eprintln!("{what} does not end, though nobody is stopped any more");
                    std::process::abort();
                }
                Some((what, since)) if since.elapsed() > LIMIT => {
                    self.waited.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                    signal::go_on();
                }
                _ => {}
            }
        }
    }
}
