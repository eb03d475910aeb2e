//! Which thread holds a borrowed lease: a wait that would wait for one of its own is an error.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sync::thread_local;

thread_local! {
    /// Borrowed leases that this thread popped, of all queues, and that were not ended by it. Ended by another thread
    /// they still count, so this only says when there is nothing to look for.
    static OWN_LEASES: Cell<usize> = const { Cell::new(0) };
}

/// This thread has popped a borrowed lease, or more.
#[inline(always)]
pub(crate) fn note_popped(leases: usize) {
    OWN_LEASES.with(|own| own.set(own.get() + leases));
}

/// A lease that `thread` popped has ended, or is borrowed no more.
#[inline(always)]
pub(crate) fn note_ended(thread: u32) {
    if thread == current_thread() {
        OWN_LEASES.with(|own| own.set(own.get().saturating_sub(1)));
    }
}

/// Whether this thread may hold a borrowed lease.
pub(crate) fn may_hold_leases() -> bool {
    OWN_LEASES.with(Cell::get) > 0
}

/// A number for the calling thread: never 0, below 2^31, and of no other thread until there have been so many.
#[inline(always)]
pub(crate) fn current_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        // Relaxed: only uniqueness counts.
        static NUMBER: u32 = (NEXT.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1)).max(1);
    }
    NUMBER.with(|number| *number)
}
