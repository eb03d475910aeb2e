//! How far a producer may run ahead, and how it waits: the same for every peer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::{Backoff, CachePadded};

use super::checks::Ledger;

/// How often who waits looks whether it waits in vain: so seldom that no sound run is disturbed.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What is waited for was lost, a wait has lasted longer than the run's patience, or another one has.
#[derive(Debug)]
pub(super) struct Stuck;

/// How many changes of each producer each consumer has completed. Every counter has a single writer and a line of its own;
/// a producer reads them only when it has used up what it last saw.
pub(super) struct DoneCounters {
    counters: Vec<CachePadded<AtomicU64>>,
    consumers: usize,
}

impl DoneCounters {
    pub(super) fn new(producers: usize, consumers: usize) -> Self {
        Self { counters: (0..producers * consumers).map(|_| CachePadded::default()).collect(), consumers }
    }

    #[inline]
    pub(super) fn publish(&self, producer: usize, consumer: usize, done: u64) {
        // Release: pairs with `of_producer`; what the consumer did before is over.
        self.counters[producer * self.consumers + consumer].store(done, Ordering::Release);
    }

    pub(super) fn of_producer(&self, producer: usize) -> u64 {
        let counters = &self.counters[producer * self.consumers..][..self.consumers];
        counters.iter().map(|counter| counter.load(Ordering::Acquire)).sum()
    }
}

/// The window of one producer.
pub(super) struct Window<'a> {
    /// Whether everything that had come in was handed out, and the counters say so. What they do not say afterwards is lost,
    /// however busy the machine is.
    is_drained: &'a dyn Fn() -> bool,
    done: &'a DoneCounters,
    ledger: &'a Ledger<'a>,
    producer: usize,
    width: u64,
    patience: Duration,
    issued: u64,
    /// Changes that may be issued as of the last look at the counters.
    allowed: u64,
}

impl<'a> Window<'a> {
    pub(super) fn new(
        is_drained: &'a dyn Fn() -> bool,
        done: &'a DoneCounters,
        ledger: &'a Ledger<'a>,
        producer: usize,
        width: usize,
        patience: Duration,
    ) -> Self {
        let width = width as u64;
        Self { is_drained, done, ledger, producer, width, patience, issued: 0, allowed: width }
    }

    /// Waits until `count` changes fit into the window.
    #[inline]
    pub(super) fn reserve(&mut self, count: usize) -> Result<(), Stuck> {
        self.issued += count as u64;
        if self.issued <= self.allowed {
            return Ok(());
        }
        // Goes on when half of it is free. Waiting for room for the next change alone would put a fast producer in step with
        // the consumer, and the line of the counters would be fetched once per change.
        self.wait_for_done(self.issued.saturating_sub((self.width / 2).max(count as u64)))
    }

    /// Waits until the change of this key before `seq` is completed. Counting alone would not do: a consumer may sit on one
    /// key while the others go round.
    #[inline]
    pub(super) fn wait_for_key(&self, key: usize, seq: u64) -> Result<(), Stuck> {
        if self.ledger.is_completed(key, seq - 1) {
            return Ok(());
        }
        self.wait_until(|| self.ledger.is_completed(key, seq - 1))
    }

    /// So many changes were made, whether there was room for them or not.
    #[cfg(feature = "program")]
    pub(super) fn issue(&mut self, count: u64) {
        self.issued += count;
    }

    /// Waits until everything that was issued is done.
    pub(super) fn drain(&mut self) -> Result<(), Stuck> {
        self.wait_for_done(self.issued)
    }

    #[cold]
    fn wait_for_done(&mut self, needed: u64) -> Result<(), Stuck> {
        let mut done = 0;
        let waited = self.wait_until(|| {
            done = self.done.of_producer(self.producer);
            done >= needed
        });
        self.allowed = done + self.width;
        waited
    }

    /// Spins, then yields, never sleeps: a producer that sleeps would have to be woken by the consumer.
    #[cold]
    fn wait_until(&self, mut condition: impl FnMut() -> bool) -> Result<(), Stuck> {
        let backoff = Backoff::new();
        let mut looks = None;
        while !condition() {
            if self.ledger.is_stopped() {
                return Err(Stuck);
            }
            if backoff.is_completed() {
                let looks = looks.get_or_insert_with(Looks::begin);
                // In this order: what was drained is done, if it ever will be.
                if looks.is_due() && (self.is_drained)() && !condition() {
                    self.stuck(format_args!("waits in vain, changes are lost"));
                    return Err(Stuck);
                }
                if looks.began.elapsed() > self.patience {
                    self.stuck(format_args!("has waited for {:?}", self.patience));
                    return Err(Stuck);
                }
            }
            backoff.snooze();
        }
        Ok(())
    }

    fn stuck(&self, what: fmt::Arguments<'_>) {
        self.ledger.stop(format_args!("stuck: producer {} {what}", self.producer));
    }
}

/// Of one wait: one in each [`LOOK`].
pub(super) struct Looks {
    pub(super) began: Instant,
    last: Instant,
}

impl Looks {
    pub(super) fn begin() -> Self {
        let began = Instant::now();
        Self { began, last: began }
    }

    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.last.elapsed() >= LOOK;
        if is_due {
            self.last = Instant::now();
        }
        is_due
    }
}
