//! Epochs: which moments snapshots show. The current one is a number; a snapshot ends it and keeps it.
//!
//! After Wei, Ben-David, Blelloch, Fatourou, Ruppert and Sun, *Constant-Time Snapshots with Applications to Concurrent
//! Data Structures* (PPoPP 2021). What differs: old versions are only kept for epochs that somebody has registered.
//!
//! # Invariants
//!
//! - **P1, watched first.** A snapshot has a watch on its epoch before that ends, and ends it itself. So whoever has read a later
//!   epoch finds the watch, until the snapshot is dropped. (Trap: ended first, a version that it needs can go.)
//! - **P2, fence on both sides.** Who ends an epoch has a fence before anything is read for the snapshot; who has installed a
//!   version, or met one without a stamp, has a fence before the current epoch is read for the stamp. So if a reader of the
//!   snapshot has missed the version, its stamp is of a later epoch.
//! - **P3, done.** A watch is taken off when all is done with what its epoch shows, and whoever finds it off has that behind it.
//!
//! # Linearization
//!
//! A snapshot takes place at the exchange that ends its epoch.

use crate::slab::{Index, Slab, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{CachePadded, fence_after_rmw, pause_point, planted, weaken};

/// The epoch of a snapshot, and its watch, which is taken off once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    epoch: u64,
    watch: Index,
}

impl Moment {
    pub(super) fn epoch(self) -> u64 {
        self.epoch
    }
}

/// A watch that is on, and the epoch of which it keeps what is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) watch: Index,
    epoch: u64,
}

/// Of which epoch somebody keeps what it shows.
#[derive(Default)]
struct Watch {
    /// 0: nobody.
    epoch: AtomicU64,
    link: AtomicU32,
}

impl Slot for Watch {
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
}

pub(super) struct Epochs {
    hot: CachePadded<Hot>,
    /// As many as there ever were snapshots at once.
    watches: Slab<Watch>,
}

/// What each lease reads.
struct Hot {
    /// The current epoch; the first is 1.
    now: AtomicU64,
    /// How many watches are on, at least.
    watching: AtomicU64,
    /// The latest epoch of which a version was installed.
    newest_stamp: AtomicU64,
}

impl Epochs {
    pub(super) fn new() -> Self {
        let hot =
            Hot { now: AtomicU64::new(1), watching: AtomicU64::new(0), newest_stamp: AtomicU64::new(0) };
        Epochs { hot: CachePadded::new(hot), watches: Slab::new() }
    }

    /// The current one.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        // Acquire: pairs with `begin` (Release); publishes that what has ended is watched (P1).
        self.hot.now.load(weaken("an epoch is read relaxed", Ordering::Acquire))
    }

    /// Ends the current epoch, and keeps what can be seen in it. Lock-free: repeats when another snapshot has begun, after it has told
    /// `moved` which watch is on a later epoch now.
    pub(super) fn begin(&self, mut moved: impl FnMut(Index)) -> Moment {
        let watch = self.watches.take();
        let watched = &self.watches.get(watch).epoch;
        // Relaxed: published by the exchange.
        self.hot.watching.fetch_add(1, Ordering::Relaxed);
        // Relaxed: the exchange says whether it is still so.
        let mut epoch = self.hot.now.load(Ordering::Relaxed);
        let (late, mut lost) = (planted("an epoch ends before it is watched"), false);
        loop {
            if !(late || lost && planted("who loses an epoch goes on watching it")) {
                // Release: pairs with `look_for_watch` (Acquire): passes on that those who had the watch before are done (P3).
                watched.store(epoch, weaken("a watch begins relaxed", Ordering::Release));
            }
            if lost {
                moved(watch);
            }
            pause_point("snapshot: registered");
            let publish = weaken("an epoch ends relaxed", Ordering::AcqRel);
            // AcqRel: Release pairs with `now` (Acquire): publishes the watch, also those of others before. What it acquires the
            // fence below does, too (P2); ThreadSanitizer sees no fences.
            match self.hot.now.compare_exchange(epoch, epoch + 1, publish, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => (epoch, lost) = (now, true),
            }
        }
        // P2. Pairs with the fences before a stamp.
        if !planted("no fence when an epoch ends") {
            fence_after_rmw();
        }
        if late {
            watched.store(epoch, Ordering::Release);
        }
        Moment { epoch, watch }
    }

    /// Nobody looks at this moment any more. What is kept for its watch is `left` to be looked at.
    pub(super) fn end(&self, moment: Moment, left: impl FnOnce(Index)) {
        let (done, none) = (
            weaken("a watch ends relaxed", Ordering::Release),
            weaken("watches are counted down relaxed", Ordering::Release),
        );
        // Release, both: pairs with `watched` (Acquire); P3.
        self.watches.get(moment.watch).epoch.store(0, done);
        self.hot.watching.fetch_sub(1, none);
        left(moment.watch);
        self.watches.give(moment.watch);
    }

    /// A watch on an epoch from `from` on, and before `until`, which has been the current one (P1). O(most snapshots that there ever
    /// were at once).
    #[inline(always)]
    pub(super) fn watched(&self, from: u64, until: u64) -> Option<Watched> {
        // Acquire: pairs with `end` (Release); P3. It was raised before `until` became the current epoch.
        match self.hot.watching.load(weaken("watches are counted relaxed", Ordering::Acquire)) {
            0 => None,
            _ if planted("nobody looks") => None,
            _ => self.look_for_watch(from, until),
        }
    }

    fn look_for_watch(&self, from: u64, until: u64) -> Option<Watched> {
        let mut watches =
            self.watches.stretches(usize::MAX).flat_map(|(first, watches)| watches.iter().zip(first..));
        watches.find_map(|(watch, number)| {
            // Acquire: pairs with `end` and `begin` (Release); P3.
            let epoch = watch.epoch.load(Ordering::Acquire);
            let watch = Index::new(number).filter(|_| (from..until).contains(&epoch))?;
            Some(Watched { watch, epoch })
        })
    }

    /// Whether it still is.
    pub(super) fn is_watched(&self, watched: Watched) -> bool {
        // Relaxed: ordered by the fences of those who ask.
        self.watches.get(watched.watch).epoch.load(Ordering::Relaxed) == watched.epoch
    }

    /// As many watches as there ever were.
    pub(super) fn watches(&self) -> u32 {
        self.watches.allocated()
    }

    /// A version was installed, and stamped.
    #[inline(always)]
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
