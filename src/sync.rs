//! The only door to atomics, fences, cells, locks, ordered maps, threads, parking, spinning and the
//! epoch collector.
//!
//! Two backends stand behind the same names: std with crossbeam's epochs, and under `cfg(delta_fifo_loom)` the model
//! checker's primitives with a stand-in for the collector. Concurrent code of this crate takes everything from here,
//! so that a model sees every step of it.
//!
//! Rules for code that models check: payloads sit in this module's `UnsafeCell`; a total order comes from `fence` and
//! never from a `SeqCst` access (loom takes those for `AcqRel`); memory that is freed carries a `Canary` and ends by
//! `bury`.

#![allow(unused_imports, dead_code, reason = "the door is wider than what goes through it so far")]

#[cfg(delta_fifo_loom)]
#[path = "sync/checked.rs"]
mod backend;
#[cfg(not(delta_fifo_loom))]
#[path = "sync/native.rs"]
mod backend;

pub(crate) use backend::*;

#[cfg(delta_fifo_loom)]
#[path = "sync/map_checked.rs"]
pub(crate) mod map;
#[cfg(not(delta_fifo_loom))]
#[path = "sync/map_native.rs"]
pub(crate) mod map;

pub(crate) mod width;

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
