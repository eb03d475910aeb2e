//! The only door to atomics, fences, cells, locks, ordered maps, threads, parking, spinning and the
//! epoch collector.
//!
//! Three backends stand behind the same names: std with crossbeam's epochs; and, with stand-ins for the collector and the
//! ordered map, the model checker's primitives under `cfg(delta_fifo_loom)` and the scheduler's under
//! `cfg(delta_fifo_shuttle)`. Concurrent code of this crate takes everything from here, so that a checker sees every step
//! of it.
//!
//! Rules for code that models check: payloads sit in this module's `UnsafeCell`; a total order comes from `fence` and
//! never from a `SeqCst` access (loom takes those for `AcqRel`); memory that is freed carries a `Canary` and ends by
//! `bury`.

#![allow(unused_imports, dead_code, reason = "the door is wider than what goes through it so far")]

#[cfg(delta_fifo_loom)]
#[path = "sync/checked.rs"]
mod backend;
#[cfg(delta_fifo_shuttle)]
#[path = "sync/scheduled.rs"]
mod backend;
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
#[path = "sync/native.rs"]
mod backend;

pub(crate) use backend::*;

#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
mod standin;
#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
pub(crate) use standin::*;

#[cfg(any(delta_fifo_loom, delta_fifo_shuttle))]
#[path = "sync/map_checked.rs"]
pub(crate) mod map;
#[cfg(not(any(delta_fifo_loom, delta_fifo_shuttle)))]
#[path = "sync/map_native.rs"]
pub(crate) mod map;

pub(crate) mod width;

/// Whether a checker runs this: then capacities and steps are small, so that few keys reach every edge, and nothing is done
/// for speed alone.
pub(crate) const CHECKED: bool = cfg!(any(delta_fifo_loom, delta_fifo_shuttle));

/// A value alone on its cache lines: 128 bytes, since x86 fetches lines in pairs and some ARM cores have long ones.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) const fn new(value: T) -> Self {
        CachePadded(value)
    }
}

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Stands between two atomic operations of a protocol. Empty but in tests, which stop a thread here for good and ask
/// what the others can still do.
#[inline(always)]
pub(crate) fn pause_point(name: &'static str) {
    #[cfg(test)]
    stopped::at(name);
    #[cfg(not(test))]
    let _ = name;
}

#[cfg(all(test, delta_fifo_loom))]
pub(crate) mod model;
#[cfg(test)]
pub(crate) mod stopped;
