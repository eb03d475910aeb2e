//! What the generic tests share: the queues they run on, and the sequential model.
#![allow(dead_code, unused_macros, unused_imports, reason = "each test program uses its own part")]

pub(crate) mod config;
pub(crate) mod counted;
pub(crate) mod fuse;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod tasks;

use std::hash::Hash;
use std::sync::mpsc;
use std::time::Duration;

use delta_fifo::DeltaQueue;
use delta_fifo::baseline::MutexDeltaFifo;

/// A kind of queue, for any keys and objects.
pub(crate) trait Family {
    type Queue<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static>: DeltaQueue<Key = K, Value = V, Hasher = ahash::RandomState>
        + 'static;
}

pub(crate) struct Mutex;

impl Family for Mutex {
    type Queue<K: Hash + Eq + Send + Sync + 'static, V: Send + Sync + 'static> = MutexDeltaFifo<K, V>;
}

/// Runs generic tests on every queue: one line here for each.
macro_rules! on_every_queue {
    ($($test:ident),* $(,)?) => {
        on_every_queue!(@ mutex, Mutex, $($test)*);
    };
    (@ $module:ident, $family:ident, $($test:ident)*) => {
        mod $module {
            $(#[test] fn $test() { super::$test::<crate::model::$family>() })*
        }
    };
}
pub(crate) use on_every_queue;

/// Runs `f` on a thread of its own and fails instead of waiting for ever if it does not return.
pub(crate) fn within<T: Send + 'static>(limit: Duration, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = f();
        let _ = tell.send(());
        result
    });
    match told.recv_timeout(limit) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        },
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}

/// Long enough that only something that hangs exceeds it.
pub(crate) const LONG: Duration = Duration::from_secs(60);
