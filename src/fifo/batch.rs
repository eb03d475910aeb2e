//! How much of one replace is not completed, and not delivered. The invariants are those of `replaces.rs`.

use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{pause_point, planted, weaken};

use super::debts::Debt;

#[cfg(all(test, delta_fifo_loom))]
mod models;

/// What one replace waits for.
pub(super) struct Batch {
    outstanding: AtomicU64,
    undelivered: AtomicU64,
    /// Some of it was discarded: it can no longer be completed.
    failed: AtomicBool,
}

/// The one that a replace has while it is open (I2).
pub(super) const BIAS: Debt = Debt { replace: 0, facts: 1, undelivered: 1 };

impl Batch {
    pub(super) fn new() -> Self {
        let bias = if planted("no bias") { 0 } else { 1 };
        Batch {
            outstanding: AtomicU64::new(bias),
            undelivered: AtomicU64::new(bias),
            failed: AtomicBool::new(false),
        }
    }

    pub(super) fn owe(&self) {
        // Relaxed: the push of the fact publishes both, to whoever takes them away.
        self.undelivered.fetch_add(1, Relaxed);
        pause_point("replaces: owing");
        self.outstanding.fetch_add(1, Relaxed);
    }

    /// Whether that was the last.
    pub(super) fn deliver(&self, facts: u64) -> bool {
        // Release: pairs with `is_delivered` (Acquire), as do the earlier ones, since all are read-modify-writes; publishes what
        // the consumers did. The last has nothing to do but to tell others, who ask for themselves.
        let publish = weaken("a delivery is counted relaxed", Release);
        facts > 0 && self.undelivered.fetch_sub(facts, publish) == facts
    }

    pub(super) fn is_delivered(&self) -> bool {
        // Acquire: pairs with `deliver` (Release).
        self.undelivered.load(weaken("deliveries are read relaxed", Acquire)) == 0
    }

    /// Whether that was the last.
    pub(super) fn discharge(&self, debt: &Debt) -> bool {
        self.deliver(debt.undelivered);
        pause_point("replaces: delivered");
        // AcqRel: pairs with itself; the last sees, and publishes, what all consumers did.
        self.outstanding.fetch_sub(debt.facts, weaken("a relaxed completion", AcqRel)) == debt.facts
    }

    pub(super) fn is_failed(&self) -> bool {
        // Relaxed: nothing but the flag is told. Who is woken for it sees it by the edge that woke them.
        self.failed.load(Relaxed)
    }

    pub(super) fn fail(&self) {
        // Relaxed: nothing but the flag is told.
        self.failed.store(true, Relaxed);
    }
}
