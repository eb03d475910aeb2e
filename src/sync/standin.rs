//! What the checked backends have in common: memory that is freed in quarantine, and a stand-in for the epoch collector.

use std::any::Any;
use std::cell::RefCell;
use std::mem;

use super::{Canary, atomic};

// The checkers run all threads of an execution on the thread that called them, so its thread locals are the execution's
// globals. They are invisible: they add neither steps nor edges.
thread_local! {
    static BURIED: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Before each execution.
pub(super) fn forget_execution() {
    BURIED.take();
    epoch::forget_all();
}

/// What dies by [`bury`].
pub(crate) trait Mortal: Any {
    fn canary(&self) -> &Canary;
}

/// Drops what nobody can reach any more, as far as the checker can tell.
pub(crate) fn bury<T: Mortal>(value: T) {
    if !value.canary().die() {
        mem::forget(value);
        panic!("freed twice");
    }
    keep(value);
}

/// The same with a whole array.
pub(crate) fn bury_all<T: Mortal>(values: Box<[T]>) {
    if !values.iter().all(|value| value.canary().die()) {
        mem::forget(values);
        panic!("freed twice");
    }
    keep(values);
}

/// It stays until the next execution.
pub(crate) fn keep(dead: impl Any) {
    BURIED.with_borrow_mut(|buried| buried.push(Box::new(dead)));
}

/// Stands in for crossbeam's collector, and is as eager as the contract allows: what is deferred runs as soon as the
/// last guard that was alive at that moment ends.
///
/// Its book is kept outside the checker, so that it orders nothing by itself. The edges are those of the contract and no
/// more: beginning a guard and deferring are `SeqCst` fences (whoever begins after a deferral sees what was unlinked
/// before it), and the end of every guard happens before what runs after it.
pub(crate) mod epoch {
    use std::cell::RefCell;
    use std::mem;
    // Not a checker's, whose counting may be a step.
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
        /// Something waits only if an execution has failed, whose things can be dropped no more.
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
            // A model that has failed would fail again, and abort. Under shuttle panics may be meant.
            if cfg!(delta_fifo_loom) && std::thread::panicking() {
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

/// Nothing that a checker could see.
#[inline(always)]
pub(crate) fn prefetch<T>(_: &T) {}

#[inline(always)]
pub(crate) fn prefetch_place<T>(_: *const T) {}

#[inline(always)]
pub(crate) fn prefetch_to_write<T>(_: &T) {}

#[inline(always)]
pub(crate) fn prefetch_all<T>(_: &T) {}

#[inline(always)]
pub(crate) fn prefetch_all_to_write<T>(_: &T) {}
