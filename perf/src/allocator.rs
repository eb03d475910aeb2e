//! One program, two allocators: every allocation is dispatched to the one that was chosen when the process began.
//!
//! The choice is an environment variable of the process (`compare` starts itself once per allocator) and is read at the
//! very first allocation, which happens before `main`. It never changes afterwards, so each pointer goes back to the
//! allocator that made it. The price is one load and one well predicted branch per call, the same for every peer.
//!
//! The third choice, for `memory` alone, is the system's with every call counted. Who does not choose it pays nothing for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use delta_fifo_perf::workload::memory::Counted;
use delta_fifo_perf::workload::relist::Meter;
use mimalloc::MiMalloc;
use serde::{Deserialize, Serialize};

/// The variable that chooses; only the program itself sets it, for its children.
pub(crate) const VARIABLE: &str = "DELTA_FIFO_PERF_ALLOCATOR";
const VARIABLE_C: &CStr = c"DELTA_FIFO_PERF_ALLOCATOR";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Allocator {
    System,
    Mimalloc,
    /// The system's, with its calls counted.
    Counting,
}

impl Allocator {
    /// Those that can be asked for where time is measured.
    pub(crate) const ALL: [Self; 2] = [Self::System, Self::Mimalloc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Mimalloc => "mimalloc",
            Self::Counting => "counting",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allocator| allocator.name() == name)
    }

    /// The one that serves this process.
    pub(crate) fn current() -> Self {
        match CHOICE.get() {
            MIMALLOC => Self::Mimalloc,
            COUNTING => Self::Counting,
            _ => Self::System,
        }
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const UNDECIDED: u8 = 0;
const SYSTEM: u8 = 1;
const MIMALLOC: u8 = 2;
const COUNTING: u8 = 3;

#[global_allocator]
static GLOBAL: Dispatch = Dispatch;
static CHOICE: Choice = Choice(AtomicU8::new(UNDECIDED));

struct Choice(AtomicU8);

impl Choice {
    #[inline]
    fn get(&self) -> u8 {
        // Relaxed: nothing is published with the choice; whoever sees it undecided comes to the same decision.
        match self.0.load(Ordering::Relaxed) {
            UNDECIDED => self.decide(),
            decided => decided,
        }
    }

    #[cold]
    fn decide(&self) -> u8 {
        let choice = if variable_is(c"mimalloc") {
            MIMALLOC
        } else if variable_is(c"counting") {
            COUNTING
        } else {
            SYSTEM
        };
        self.0.store(choice, Ordering::Relaxed);
        choice
    }
}

/// Whether the variable has this value, found out without allocating.
fn variable_is(value: &CStr) -> bool {
    // SAFETY: the name is a valid C string. The program never changes its own environment (it only sets variables of
    // the processes that it starts), so nobody writes what `getenv` reads.
    let found: *const c_char = unsafe { libc::getenv(VARIABLE_C.as_ptr()) };
    if found.is_null() {
        return false;
    }
    // SAFETY: not null, so a C string within the environment, which stays as it is (see above).
    unsafe { CStr::from_ptr(found) == value }
}

/// What this process has asked for; zeros unless it [counts](Allocator::Counting).
pub(crate) fn counted() -> Counted {
    COUNTER.read()
}

/// The same with the most bytes at once.
pub(crate) const METER: Meter = Meter {
    live: || COUNTER.read().live,
    peak: || COUNTER.peak.load(Ordering::Relaxed),
    forget_peak: || COUNTER.peak.store(COUNTER.read().live, Ordering::Relaxed),
};

static COUNTER: Counter =
    Counter { live: AtomicU64::new(0), calls: AtomicU64::new(0), peak: AtomicU64::new(0) };

struct Counter {
    live: AtomicU64,
    calls: AtomicU64,
    /// Of `live`.
    peak: AtomicU64,
}

impl Counter {
    // Relaxed, all: sums. Who reads them waits for the threads whose calls are to be in them.

    fn add(&self, size: usize) {
        let live = self.live.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
        // What is lower needs no store, which is nearly always.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn sub(&self, size: usize) {
        self.live.fetch_sub(size as u64, Ordering::Relaxed);
    }

    fn read(&self) -> Counted {
        Counted { live: self.live.load(Ordering::Relaxed), calls: self.calls.load(Ordering::Relaxed) }
    }
}

/// Failed calls are counted too: after one there is nothing left to measure.
struct Counting;

// SAFETY: every call is handed on unchanged to the system's allocator. Counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTER.add(layout.size());
        // SAFETY: the caller's contract is the allocator's own.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNTER.add(layout.size());
        // SAFETY: the caller's contract is the allocator's own.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        COUNTER.sub(layout.size());
        // SAFETY: the caller's contract is the allocator's own.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNTER.add(size);
        COUNTER.sub(layout.size());
        // SAFETY: the caller's contract is the allocator's own.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

struct Dispatch;

// SAFETY: every call is handed on unchanged to one of three correct allocators, and to the same one throughout the life of
// the process: the choice depends only on the environment, which does not change. Deciding does not allocate.
unsafe impl GlobalAlloc for Dispatch {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match CHOICE.get() {
            // SAFETY: the caller's contract is the allocator's own.
            MIMALLOC => unsafe { MiMalloc.alloc(layout) },
            // SAFETY: as above.
            COUNTING => unsafe { Counting.alloc(layout) },
            // SAFETY: as above.
            _ => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match CHOICE.get() {
            // SAFETY: the caller's contract is the allocator's own.
            MIMALLOC => unsafe { MiMalloc.alloc_zeroed(layout) },
            // SAFETY: as above.
            COUNTING => unsafe { Counting.alloc_zeroed(layout) },
            // SAFETY: as above.
            _ => unsafe { System.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match CHOICE.get() {
            // SAFETY: the caller's contract, and the pointer was made by this allocator, since the choice never changes.
            MIMALLOC => unsafe { MiMalloc.dealloc(pointer, layout) },
            // SAFETY: as above.
            COUNTING => unsafe { Counting.dealloc(pointer, layout) },
            // SAFETY: as above.
            _ => unsafe { System.dealloc(pointer, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match CHOICE.get() {
            // SAFETY: the caller's contract, and the pointer was made by this allocator, since the choice never changes.
            MIMALLOC => unsafe { MiMalloc.realloc(pointer, layout, size) },
            // SAFETY: as above.
            COUNTING => unsafe { Counting.realloc(pointer, layout, size) },
            // SAFETY: as above.
            _ => unsafe { System.realloc(pointer, layout, size) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for allocator in Allocator::ALL {
            assert_eq!(Allocator::by_name(allocator.name()), Some(allocator));
        }
        for other in ["jemalloc", Allocator::Counting.name()] {
            assert_eq!(Allocator::by_name(other), None);
        }
    }

    #[test]
    fn what_is_given_back_is_no_longer_live() {
        // The test's own allocator does not count, so nobody else does meanwhile.
        let before = counted();
        let layout = Layout::from_size_align(100, 8).unwrap();
        let larger = Layout::from_size_align(300, 8).unwrap();
        // SAFETY: the size is not zero; what is allocated is given back once, with its last layout.
        unsafe {
            let pointer = Counting.alloc(layout);
            assert_eq!(counted(), Counted { live: before.live + 100, calls: before.calls + 1 });
            let pointer = Counting.realloc(pointer, layout, 300);
            assert_eq!(counted(), Counted { live: before.live + 300, calls: before.calls + 2 });
            (METER.forget_peak)();
            assert_eq!((METER.peak)(), before.live + 300);
            Counting.dealloc(pointer, larger);
        }
        assert_eq!(((METER.peak)(), (METER.live)()), (before.live + 300, before.live));
        assert_eq!(counted(), Counted { live: before.live, calls: before.calls + 2 });
    }

    #[test]
    fn the_environment_decides() {
        let expected = match std::env::var(VARIABLE).as_deref() {
            Ok("mimalloc") => Allocator::Mimalloc,
            Ok("counting") => Allocator::Counting,
            _ => Allocator::System,
        };
        assert_eq!(Allocator::current(), expected);
    }
}
