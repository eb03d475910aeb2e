//! The backend of the models: loom's primitives and a stand-in for the epoch collector.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;

pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

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
    static BURIED: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
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
        BURIED.take();
        epoch::forget_all();
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

    fn die(&self) -> bool {
        self.leak.take();
        self.alive.replace(false)
    }
}

/// What dies by [`bury`].
pub(crate) trait Mortal: Any {
    fn canary(&self) -> &Canary;
}

/// Drops what nobody can reach any more, as far as loom can tell.
pub(crate) fn bury<T: Mortal>(value: T) {
    if !value.canary().die() {
        mem::forget(value);
        panic!("freed twice");
    }
    BURIED.with_borrow_mut(|buried| buried.push(Box::new(value)));
}

/// The same with a whole array.
pub(crate) fn bury_all<T: Mortal>(values: Box<[T]>) {
    if !values.iter().all(|value| value.canary().die()) {
        mem::forget(values);
        panic!("freed twice");
    }
    BURIED.with_borrow_mut(|buried| buried.push(Box::new(values)));
}

/// Stands in for crossbeam's collector, and is as eager as the contract allows: what is deferred runs as soon as the
/// last guard that was alive at that moment ends.
///
/// Its book is kept outside loom, so that it orders nothing by itself. The edges are those of the contract and no
/// more: beginning a guard and deferring are `SeqCst` fences (whoever begins after a deferral sees what was unlinked
/// before it), and the end of every guard happens before what runs after it.
pub(crate) mod epoch {
    use std::cell::RefCell;
    use std::mem;
    // Not loom's, whose counting is a step.
    use std::sync::Arc;

    use super::atomic::AtomicUsize;
    use super::atomic::Ordering::{Acquire, Release, SeqCst};
    use super::atomic::fence;

    type Deferred = Box<dyn FnOnce() + Send>;

    #[derive(Default)]
    struct Book {
        begun: u64,
        alive: Vec<u64>,
        waiting: Vec<(Vec<u64>, Deferred)>,
        /// Every guard's end writes it, whatever runs afterwards reads it.
        ends: Option<Arc<AtomicUsize>>,
    }

    impl Drop for Book {
        /// Something waits only if a model has failed, and the thread is ending: loom's things can be dropped no more.
        fn drop(&mut self) {
            mem::take(&mut self.waiting).into_iter().for_each(mem::forget);
        }
    }

    thread_local! {
        static BOOK: RefCell<Book> = RefCell::default();
    }

    pub(super) fn forget_all() {
        BOOK.take();
    }

    #[must_use = "what was read is protected only while the guard lives"]
    pub(crate) struct Guard {
        number: u64,
        ends: Arc<AtomicUsize>,
    }

    pub(crate) fn pin() -> Guard {
        BOOK.with_borrow_mut(|book| {
            book.begun += 1;
            book.alive.push(book.begun);
            let ends = book.ends.get_or_insert_with(|| Arc::new(AtomicUsize::new(0)));
            fence(SeqCst);
            Guard { number: book.begun, ends: Arc::clone(ends) }
        })
    }

    impl Guard {
        pub(crate) fn defer(&self, f: impl FnOnce() + Send + 'static) {
            BOOK.with_borrow_mut(|book| {
                fence(SeqCst);
                book.waiting.push((book.alive.clone(), Box::new(f)));
            });
        }

        pub(crate) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return;
            }
            // Release: pairs with the one below (Acquire); publishes all that was done under this guard.
            self.ends.fetch_add(1, Release);
            let due = BOOK.with_borrow_mut(|book| {
                book.alive.retain(|alive| *alive != self.number);
                book.waiting.iter_mut().for_each(|(alive, _)| alive.retain(|alive| *alive != self.number));
                let (due, waiting) =
                    mem::take(&mut book.waiting).into_iter().partition(|(alive, _)| alive.is_empty());
                book.waiting = waiting;
                let due: Vec<(Vec<u64>, Deferred)> = due;
                due
            });
            if due.is_empty() {
                return;
            }
            // Acquire: pairs with the one above (Release). A read-modify-write, since a load could read an old value.
            self.ends.fetch_add(0, Acquire);
            for (_, deferred) in due {
                deferred();
            }
        }
    }
}

/// A fence that costs little after a read-modify-write.
pub(crate) fn fence_after_rmw() {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// A fence that ThreadSanitizer would not see.
pub(crate) fn acquire_fence(_: &atomic::AtomicU32) {
    atomic::fence(atomic::Ordering::Acquire);
}

/// Nothing that a model could see.
#[inline(always)]
pub(crate) fn prefetch<T>(_: &T) {}

#[inline(always)]
pub(crate) fn prefetch_place<T>(_: *const T) {}

#[inline(always)]
pub(crate) fn prefetch_all<T>(_: &T) {}
