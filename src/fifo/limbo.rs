//! Slots that nobody can reach any more wait here until nobody can be reading them either, and are then recycled.
//!
//! Whoever retires slots hands a batch to the epoch collector now and then, and recycles one whose grace
//! period is over. The collector's callback sets a flag and touches nothing else: neither slots, which may be gone with the
//! queue, nor user code.
//!
//! # Invariants
//!
//! - **L1** A slot comes here once for each time it was unlinked, under a guard from before that.
//! - **L2** The phase goes Idle → Claimed → Waiting → Ripe → Claimed → Idle. Who made it Claimed is the only one that
//!   touches `waiting` until it stores the next phase. A thread that is stopped there keeps what the shard retires from
//!   being recycled: memory, nobody's progress.
//! - **L3** The callback of a batch runs when every guard that was alive when it was deferred has ended, and everything in
//!   the batch was retired before that. So what is recycled from a Ripe batch is read by nobody.

use crate::slab::{Index, Slab, Slot};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::{Arc, CHECKED, CachePadded, pause_point, planted, weaken};

use super::panics::Panics;

/// So many slots go through one grace period together.
const BATCH: u32 = if CHECKED { 1 } else { 64 };

const IDLE: u32 = 0;
const CLAIMED: u32 = 1;
const WAITING: u32 = 2;
const RIPE: u32 = 3;

pub(super) struct Limbo {
    /// Slots linked by `Slot::link`: the first, and above it how many there are.
    retired: CachePadded<AtomicU64>,
    /// The batch that waits for its grace period (L2).
    waiting: AtomicU32,
    phase: Arc<AtomicU32>,
}

impl Limbo {
    pub(super) fn new() -> Self {
        Limbo {
            retired: CachePadded::new(AtomicU64::new(0)),
            waiting: AtomicU32::new(0),
            phase: Arc::new(AtomicU32::new(IDLE)),
        }
    }

    /// L1. The caller asks [`recycle`](Self::recycle) soon after.
    pub(super) fn retire<T: Slot>(&self, slots: &Slab<T>, index: Index, guard: &Guard) {
        // Relaxed: the exchange below says whether it is still so.
        let mut head = self.retired.load(Ordering::Relaxed);
        let count = loop {
            // Relaxed: published by the exchange.
            slots.get(index).link().store(head as u32, Ordering::Relaxed);
            let count = (head >> 32) + 1;
            // Release: pairs with the swap in `collect` (Acquire); publishes the link. So does the end of the guard (L1, L3), and no
            // model misses this. It fails when another consumer has retired or collected, which is its progress.
            match self.retired.compare_exchange_weak(
                head,
                count << 32 | u64::from(index.get()),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break count as u32,
                Err(seen) => head = seen,
            }
        };
        pause_point("limbo: retired");
        if count >= BATCH {
            self.collect(guard);
        }
    }

    /// Hands what is retired to the collector, unless an earlier batch is still on its way.
    fn collect(&self, guard: &Guard) {
        if !self.claim(IDLE) {
            return;
        }
        pause_point("limbo: claimed");
        // Acquire: pairs with `retire` (Release); this thread passes the links on. As there.
        let first = self.retired.swap(0, Ordering::Acquire) as u32;
        // Relaxed: published by the phase.
        self.waiting.store(first, Ordering::Relaxed);
        // Release: pairs with `claim` (Acquire); publishes the batch to who finds it Ripe. So does the end of this guard, after
        // which it ripens, and no model misses this.
        self.phase.store(WAITING, Ordering::Release);
        pause_point("limbo: waiting");
        let phase = Arc::clone(&self.phase);
        let ripen = move || {
            // AcqRel: what was done under the guards that have ended happens before the recycling (L3), and the batch
            // stays published. Fails never: only this callback leaves Waiting.
            let hand_over = weaken("the retired ripen relaxed", Ordering::AcqRel);
            let _ = phase.compare_exchange(WAITING, RIPE, hand_over, Ordering::Relaxed);
        };
        if planted("slots are recycled without a grace period") {
            ripen();
        } else {
            guard.defer(ripen);
            // At once: each thread keeps a few dozen to itself otherwise, and each of these holds a batch up.
            guard.flush();
        }
    }

    fn claim(&self, from: u32) -> bool {
        // Acquire: pairs with the stores of the phase; L2.
        let acquire = weaken("a limbo is claimed relaxed", Ordering::Acquire);
        // Relaxed: only spares the exchange.
        self.phase.load(Ordering::Relaxed) == from
            && self.phase.compare_exchange(from, CLAIMED, acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether there is something to recycle.
    #[inline(always)]
    pub(super) fn is_ripe(&self) -> bool {
        // Relaxed: a hint.
        self.phase.load(Ordering::Relaxed) == RIPE
    }

    /// Gives every slot of a batch whose grace period is over to `recycle`, which may run user code and must not be under a
    /// guard for that reason. If it panics, the others are recycled all the same.
    pub(super) fn recycle<T: Slot>(&self, slots: &Slab<T>, recycle: impl FnMut(Index)) {
        if !self.claim(RIPE) {
            return;
        }
        // Relaxed: published by the phase.
        let first = Index::new(self.waiting.load(Ordering::Relaxed));
        pause_point("limbo: ripe");
        // Release: pairs with `claim` (Acquire); the load above comes before the next batch is written. No model misses it, since
        // in loom nobody reads what is not written yet.
        self.phase.store(IDLE, Ordering::Release);
        pause_point("limbo: recycling");
        recycle_all(slots, first, recycle);
    }

    /// The same with all of them, when the queue is dropped.
    pub(super) fn recycle_rest<T: Slot>(&mut self, slots: &Slab<T>, mut recycle: impl FnMut(Index)) {
        // Relaxed, all: the caller has everything to itself.
        let phase = self.phase.load(Ordering::Relaxed);
        let waiting = (phase == WAITING || phase == RIPE).then(|| self.waiting.load(Ordering::Relaxed));
        let retired = self.retired.swap(0, Ordering::Relaxed) as u32;
        for first in [waiting.unwrap_or(0), retired] {
            recycle_all(slots, Index::new(first), &mut recycle);
        }
    }
}

fn recycle_all<T: Slot>(slots: &Slab<T>, first: Option<Index>, mut recycle: impl FnMut(Index)) {
    let mut panics = Panics::default();
    let mut next = first;
    while let Some(index) = next {
        // Relaxed: this thread has the batch.
        next = Index::new(slots.get(index).link().load(Ordering::Relaxed));
        panics.contain(|| recycle(index));
    }
    panics.go_on();
}
