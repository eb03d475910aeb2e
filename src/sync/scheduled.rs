//! The backend of the schedules: shuttle's primitives. It runs the threads of an execution as coroutines, switches at every
//! atomic step and knows one order of memory only.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool as PlainBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

// Counting references is no step: nobody decides anything by it.
pub(crate) use std::sync::Arc;

pub(crate) use shuttle::sync::{Mutex, MutexGuard};
pub(crate) use shuttle::thread_local;

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod cell {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A cell that finds out who comes while another is in it: the calls that go in may be switched away from.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T> {
        value: std::cell::UnsafeCell<T>,
        readers: AtomicUsize,
    }

    const WRITER: usize = usize::MAX;

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell { value: std::cell::UnsafeCell::new(value), readers: AtomicUsize::new(0) }
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            assert_ne!(self.readers.load(Relaxed), WRITER, "read while it is written");
            self.readers.fetch_add(1, Relaxed);
            let _leave = Leave(|| _ = self.readers.fetch_sub(1, Relaxed));
            f(self.value.get())
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            assert_eq!(self.readers.swap(WRITER, Relaxed), 0, "written while somebody else is there");
            let _leave = Leave(|| self.readers.store(0, Relaxed));
            f(self.value.get())
        }
    }

    struct Leave<F: Fn()>(F);

    impl<F: Fn()> Drop for Leave<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
}

pub(crate) mod hint {
    /// No step: who spins looks at something between two of these.
    pub(crate) fn spin_loop() {}
}

pub(crate) mod thread {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    pub(crate) use shuttle::thread::{JoinHandle, spawn, yield_now};

    use super::pass_time;

    /// With a token of its own: shuttle's cannot be asked for, and it has no time-outs.
    #[derive(Clone, Debug)]
    pub(crate) struct Thread {
        thread: shuttle::thread::Thread,
        token: Arc<AtomicBool>,
    }

    shuttle::thread_local! {
        static TOKEN: Arc<AtomicBool> = Arc::default();
    }

    pub(crate) fn current() -> Thread {
        Thread { thread: shuttle::thread::current(), token: TOKEN.with(Arc::clone) }
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            // Others may come in between before, not within.
            yield_to_all();
            self.token.store(true, Relaxed);
            self.thread.unpark();
        }
    }

    /// A step of nothing, whose thread does not ask to be set back.
    fn yield_to_all() {
        shuttle::thread::sleep(Duration::ZERO);
    }

    fn take_token() -> bool {
        TOKEN.with(|token| token.swap(false, Relaxed))
    }

    pub(crate) fn park() {
        while !take_token() {
            shuttle::thread::park();
        }
    }

    /// The time is up as soon as the scheduler says so.
    pub(crate) fn park_timeout(time: Duration) {
        if !take_token() {
            yield_now();
            if !take_token() {
                pass_time(time);
            }
        }
    }

    pub(crate) fn sleep(time: Duration) {
        yield_now();
        pass_time(time);
    }
}

// All threads of an execution run on the thread that called it.
std::thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// No two looks at the clock are the same.
const TICK: Duration = Duration::from_micros(10);

fn pass_time(time: Duration) {
    PASSED.set(PASSED.get().saturating_add(time));
}

/// The time of the execution: it passes by being looked at and by being waited for, and so is the same in every replay.
pub(crate) fn now() -> Instant {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    pass_time(TICK);
    *ORIGIN + PASSED.get()
}

/// Before each execution, in its first thread.
pub(crate) fn begin() {
    PASSED.set(Duration::ZERO);
    super::standin::forget_execution();
}

/// Sleeps in the execution's time.
pub(crate) fn sleep_until(at: Instant) {
    thread::yield_now();
    pass_time(at.saturating_duration_since(now()));
}

/// Whether this bug is planted: the one that `DELTA_FIFO_MUTANT` names.
pub(crate) fn planted(bug: &'static str) -> bool {
    static PLANTED: LazyLock<String> =
        LazyLock::new(|| std::env::var("DELTA_FIFO_MUTANT").unwrap_or_default());
    *PLANTED == bug
}

/// Shuttle knows no other than `SeqCst`.
pub(crate) const fn weaken(_bug: &'static str, ordering: atomic::Ordering) -> atomic::Ordering {
    ordering
}

/// Lives in memory that is freed, which outlives it until the next execution: a use after that finds it dead.
#[derive(Debug)]
pub(crate) struct Canary(PlainBool);

impl Canary {
    pub(crate) fn new() -> Self {
        Canary(PlainBool::new(true))
    }

    pub(crate) fn touch(&self) {
        assert!(self.0.load(Relaxed), "used after it was freed");
    }

    /// Whether it was alive.
    pub(crate) fn die(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
}
