//! The backend of the models: loom's primitives.

use std::cell::{Cell, RefCell};

pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
pub(crate) use std::thread_local;

/// Not a subject of models.
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod cell {
    pub(crate) use loom::cell::UnsafeCell;
}

pub(crate) mod hint {
    pub(crate) use loom::hint::spin_loop;
}

pub(crate) mod thread {
    pub(crate) use loom::thread::{JoinHandle, Thread, current, park, spawn, yield_now};

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

// loom runs all threads of a model on the thread that called it, so its thread locals are the model's globals.
// They are invisible to loom: they add neither steps nor edges.
thread_local! {
    static PLANTED: Cell<&'static str> = const { Cell::new("") };
}

/// Whether a model has planted this bug.
pub(crate) fn planted(bug: &'static str) -> bool {
    PLANTED.get() == bug
}

/// The ordering that the code asks for, or `Relaxed` if a model has planted this bug.
pub(crate) fn weaken(bug: &'static str, ordering: atomic::Ordering) -> atomic::Ordering {
    if planted(bug) { atomic::Ordering::Relaxed } else { ordering }
}

/// Explores `body` with a bug planted, or with none (`""`), and says how many executions it took. Instead of none it is
/// the one that `DELTA_FIFO_MUTANT` names, if that is set: the model must fail then (`.ci/mutants`).
pub(crate) fn explore(
    bug: &'static str,
    preemptions: Option<usize>,
    body: impl Fn() + Sync + Send + 'static,
) -> usize {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    PLANTED.set(if bug.is_empty() { from_outside() } else { bug });
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        super::standin::forget_execution();
        body();
    });
    PLANTED.set("");
    executions.load(Relaxed)
}

/// The bug that is planted by whoever runs the tests.
fn from_outside() -> &'static str {
    static BUG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BUG.get_or_init(|| std::env::var("DELTA_FIFO_MUTANT").unwrap_or_default())
}

/// Lives in memory that is freed, and is touched at every use of it: a use that does not happen before the freeing
/// is a violation of its cell, and one that happens after it finds it dead. Its memory outlives it until the next
/// execution, so that a model that finds such a bug can say so. What is never freed is a leak, which loom reports.
#[derive(Debug)]
pub(crate) struct Canary {
    alive: loom::cell::Cell<bool>,
    leak: RefCell<Option<loom::alloc::Track<()>>>,
}

impl Canary {
    pub(crate) fn new() -> Self {
        Canary { alive: loom::cell::Cell::new(true), leak: RefCell::new(Some(loom::alloc::Track::new(()))) }
    }

    pub(crate) fn touch(&self) {
        assert!(self.alive.get(), "used after it was freed");
    }

    /// Whether it was alive.
    pub(super) fn die(&self) -> bool {
        self.leak.take();
        self.alive.replace(false)
    }
}
