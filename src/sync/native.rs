//! The backend of every build but the checkers'.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
pub(crate) use std::thread_local;

/// The time.
#[inline(always)]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod cell {
    /// std's cell with loom's interface.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Shared access: the pointer is valid for reads during the call if nobody has exclusive access.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Exclusive access: the pointer is valid for reads and writes during the call if nobody else has access.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

pub(crate) mod hint {
    pub(crate) use std::hint::spin_loop;
}

pub(crate) mod thread {
    pub(crate) use std::thread::{Thread, current, park, park_timeout, sleep, spawn, yield_now};
}

/// Sings for checkers only: see its twin there.
#[derive(Debug)]
pub(crate) struct Canary;

impl Canary {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Canary
    }

    #[inline(always)]
    pub(crate) fn touch(&self) {}
}

/// Whether this bug is planted. Never but in the tests' own build and under `cfg(delta_fifo_mutants)`, where the
/// variable `DELTA_FIFO_MUTANT` names one: see `.ci/mutants`.
#[cfg(not(any(test, delta_fifo_mutants)))]
#[inline(always)]
pub(crate) const fn planted(_bug: &'static str) -> bool {
    false
}

#[cfg(any(test, delta_fifo_mutants))]
pub(crate) fn planted(bug: &'static str) -> bool {
    static PLANTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("DELTA_FIFO_MUTANT").unwrap_or_default());
    *PLANTED == bug
}

/// The ordering that the code asks for, or `Relaxed` if this bug is planted; which shows in models, and here on few
/// machines.
#[cfg(not(any(test, delta_fifo_mutants)))]
#[inline(always)]
pub(crate) const fn weaken(_bug: &'static str, ordering: atomic::Ordering) -> atomic::Ordering {
    ordering
}

#[cfg(any(test, delta_fifo_mutants))]
pub(crate) fn weaken(bug: &'static str, ordering: atomic::Ordering) -> atomic::Ordering {
    if planted(bug) { atomic::Ordering::Relaxed } else { ordering }
}

/// Drops what nobody can reach any more.
#[inline(always)]
pub(crate) fn bury<T>(value: T) {
    drop(value);
}

/// The same with a whole array.
#[inline(always)]
pub(crate) fn bury_all<T>(values: Box<[T]>) {
    drop(values);
}

/// Memory that is freed when nobody can be reading it any more.
///
/// One collector for this crate alone: what is pinned for a moment in a producer's call never runs the garbage of
/// other crates, whose destructors may do anything.
pub(crate) mod epoch {
    use std::sync::LazyLock;

    use crossbeam_epoch::{Collector, LocalHandle};

    static COLLECTOR: LazyLock<Collector> = LazyLock::new(Collector::new);

    thread_local! {
        static PARTICIPANT: LocalHandle = COLLECTOR.register();
    }

    /// While it is alive, nothing is freed that was reachable when it began or later.
    #[must_use = "what was read is protected only while the guard lives"]
    pub(crate) struct Guard(crossbeam_epoch::Guard);

    /// Pins the thread. Nested calls cost a counter.
    #[inline]
    pub(crate) fn pin() -> Guard {
        // A thread whose locals are gone already takes a participant for this one guard.
        Guard(PARTICIPANT.try_with(LocalHandle::pin).unwrap_or_else(|_| COLLECTOR.register().pin()))
    }

    /// For structures of crossbeam's that free through this collector.
    pub(in crate::sync) fn collector() -> Collector {
        COLLECTOR.clone()
    }

    impl Guard {
        /// The guard of crossbeam's that is in here.
        pub(in crate::sync) fn inner(&self) -> &crossbeam_epoch::Guard {
            &self.0
        }

        /// Runs `f` once no guard that is alive now is alive any more, on whichever thread finds that out.
        ///
        /// Allocates once for every few dozen calls; `f` of up to three words is stored inline.
        pub(crate) fn defer(&self, f: impl FnOnce() + Send + 'static) {
            self.0.defer(f);
        }

        /// Hands what this thread deferred to all, and collects what is due.
        pub(crate) fn flush(&self) {
            self.0.flush();
        }
    }
}

/// A `SeqCst` fence whose caller has just done a read-modify-write. On x86 that was one already, as every locked
/// instruction is, and a second would cost as much as everything else in the call; only the compiler has to be told.
#[inline(always)]
pub(crate) fn fence_after_rmw() {
    #[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), not(miri)))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(not(all(any(target_arch = "x86", target_arch = "x86_64"), not(miri))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// An `Acquire` fence whose caller has just read `place`. ThreadSanitizer sees no fences: for it that is read once more.
#[inline(always)]
pub(crate) fn acquire_fence(place: &atomic::AtomicU32) {
    if cfg!(delta_fifo_tsan) {
        place.load(atomic::Ordering::Acquire);
    } else {
        atomic::fence(atomic::Ordering::Acquire);
    }
}

/// Asks the processor to bring the line at `place` near, without waiting for it. Nothing but time depends on it.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    prefetch_at::<false>(std::ptr::from_ref(place).cast());
}

/// The same for memory that may be gone by now.
#[inline(always)]
pub(crate) fn prefetch_place<T>(place: *const T) {
    prefetch_at::<false>(place.cast());
}

/// The same for what will be written: the line need not be asked for a second time then.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(place: &T) {
    prefetch_at::<true>(std::ptr::from_ref(place).cast());
}

#[inline(always)]
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "the instruction takes a pointer")
)]
fn prefetch_at<const WRITE: bool>(place: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::asm;
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing as far as the program can tell, and never faults. Of x86-64 processors those that have no
        // `prefetchw`, which compilers therefore do not emit, take it for one that does nothing.
        unsafe {
            if WRITE {
                asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
            } else {
                _mm_prefetch::<_MM_HINT_T0>(place.cast());
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// The lines of a value, up to some.
#[inline(always)]
fn lines<T>(value: &T) -> impl Iterator<Item = *const u8> {
    const LINE: usize = 64;
    const MOST: usize = 4;
    let first = std::ptr::from_ref(value).cast::<u8>();
    // At the end too, which may stand on one line more.
    let ends = (0..size_of::<T>()).step_by(LINE).chain([size_of::<T>().saturating_sub(1)]);
    ends.take(MOST).map(move |at| first.wrapping_add(at))
}

/// As [`prefetch`], all lines of a value, up to some.
#[inline(always)]
pub(crate) fn prefetch_all<T>(value: &T) {
    lines(value).for_each(prefetch_at::<false>);
}

/// As [`prefetch_to_write`], all lines of a value, up to some.
#[inline(always)]
pub(crate) fn prefetch_all_to_write<T>(value: &T) {
    lines(value).for_each(prefetch_at::<true>);
}
