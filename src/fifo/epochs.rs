//! Epochs: which moments snapshots show. The current one is a number; a snapshot ends it and keeps it.
//!
//! After Wei, Ben-David, Blelloch, Fatourou, Ruppert and Sun, *Constant-Time Snapshots with Applications to Concurrent
//! Data Structures* (PPoPP 2021). What differs: old versions are only kept for epochs that somebody has registered.
//!
//! # Invariants
//!
//! - **P1, registered first.** A snapshot is registered under its epoch before that ends, and ends it itself. So whoever has
//!   read a later epoch finds it registered, until it is dropped. (Trap: ended first, a version that it needs can go.)
//! - **P2, fence on both sides.** Who ends an epoch has a fence before anything is read for the snapshot; who has installed a
//!   version, or met one without a stamp, has a fence before the current epoch is read for the stamp. So if a reader of the
//!   snapshot has missed the version, its stamp is of a later epoch.
//!
//! # Linearization
//!
//! A snapshot takes place at the exchange that ends its epoch.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::map::Map;
use crate::sync::{CachePadded, fence_after_rmw, pause_point, planted};

/// The epoch of a snapshot, and a number that tells it from others that wanted the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    epoch: u64,
    ticket: u64,
}

impl Moment {
    pub(super) fn epoch(self) -> u64 {
        self.epoch
    }
}

pub(super) struct Epochs {
    hot: CachePadded<Hot>,
    tickets: AtomicU64,
    /// The moments that somebody looks at, or is about to.
    watched: Map<Moment, ()>,
}

/// What each lease reads.
struct Hot {
    /// The current epoch; the first is 1.
    now: AtomicU64,
    /// How many moments are watched, at least.
    watchers: AtomicU64,
    /// The latest epoch of which a version was installed.
    newest_stamp: AtomicU64,
}

impl Epochs {
    pub(super) fn new() -> Self {
        let hot =
            Hot { now: AtomicU64::new(1), watchers: AtomicU64::new(0), newest_stamp: AtomicU64::new(0) };
        Epochs { hot: CachePadded::new(hot), tickets: AtomicU64::new(0), watched: Map::new() }
    }

    /// The current one.
    pub(super) fn now(&self) -> u64 {
        // Acquire: pairs with `begin` (Release); publishes that what has ended is watched (P1).
        self.hot.now.load(Ordering::Acquire)
    }

    /// Ends the current epoch, and keeps what can be seen in it. Lock-free: repeats when another snapshot has begun.
    pub(super) fn begin(&self) -> Moment {
        // Relaxed: only the number matters.
        let ticket =
            self.tickets.fetch_add(1, Ordering::Relaxed) * u64::from(!planted("moments have no ticket"));
        // Relaxed: published by the exchange.
        self.hot.watchers.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the exchange says whether it is still so.
        let mut epoch = self.hot.now.load(Ordering::Relaxed);
        loop {
            let moment = Moment { epoch, ticket };
            let late = planted("an epoch ends before it is watched");
            if !late {
                self.watched.insert(moment, ());
            }
            pause_point("snapshot: registered");
            // AcqRel: pairs with `now` (Acquire) and itself: publishes what is watched, also by those before.
            match self.hot.now.compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    // P2. Pairs with the fences before a stamp.
                    if !planted("no fence when an epoch ends") {
                        fence_after_rmw();
                    }
                    if late {
                        self.watched.insert(moment, ());
                    }
                    return moment;
                }
                Err(now) => {
                    self.watched.remove(&moment);
                    epoch = now;
                }
            }
        }
    }

    /// Nobody looks at this moment any more.
    pub(super) fn end(&self, moment: Moment) {
        self.watched.remove(&moment);
        // Relaxed: at worst somebody looks in vain.
        self.hot.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether anybody looks at an epoch from `from` on, and before `until`, which has been the current one (P1).
    pub(super) fn is_watched(&self, from: u64, until: u64) -> bool {
        // Relaxed: raised before `until` became the current epoch.
        self.hot.watchers.load(Ordering::Relaxed) != 0
            && !planted("nobody looks")
            && self.watched.first_from(&Moment { epoch: from, ticket: 0 }).is_some_and(|at| at.epoch < until)
    }

    /// A version was installed, and stamped.
    pub(super) fn note_stamp(&self, stamp: u64) {
        // Relaxed, both: it only rises, and who reads it late is late. Once in an epoch it is written, else the line stays shared.
        if self.hot.newest_stamp.load(Ordering::Relaxed) < stamp {
            self.hot.newest_stamp.fetch_max(stamp, Ordering::Relaxed);
        }
    }

    /// The latest epoch of which a version was installed: a snapshot of that epoch, or of a later one, shows all there is.
    pub(super) fn newest_stamp(&self) -> u64 {
        // Relaxed: as far as it got.
        self.hot.newest_stamp.load(Ordering::Relaxed)
    }
}
