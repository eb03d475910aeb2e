//! How long it pays to stay awake: a learned time, in nanoseconds, of one eventcount.
//!
//! A wake costs its caller 10 to 80 µs and a spinning waiter nothing, so short gaps between items are worth a waiter's
//! time; long ones are not, and an idle queue must burn nothing. Nor is a gap that is short only when the waiter
//! sleeps, because whoever would end it needs the processor: a spin in vain makes the next waits sleep at once, twice
//! as many each time. What is learned is only ever a hint: every interleaving is right with any value of it.

use std::time::Duration;

use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::hint::spin_loop;
use crate::sync::{CachePadded, now};

/// No spin is longer.
const LONGEST: u32 = 40_000;
/// No spin is shorter: a shorter one that was learned is none.
const SHORTEST: u32 = 1_000;
/// However often spinning was in vain, one wait in so many tries again.
const MOST_MUTED: u32 = 512;
/// A sleep that ends sooner, the wake included, would have been caught, or nearly, by the longest spin.
const SHORT_SLEEP: Duration = Duration::from_micros(60);

pub(super) struct Spin {
    /// Nanoseconds; below `SHORTEST` none.
    learned: CachePadded<AtomicU32>,
    /// So many waits more sleep at once.
    muted: AtomicU32,
    /// How many the next spin in vain will mute.
    vain: AtomicU32,
    spinners: AtomicUsize,
}

/// One waiter that may stay awake for a while.
pub(super) struct Spinner<'a> {
    spin: &'a Spin,
    budget: u32,
}

impl Spin {
    pub(super) fn new() -> Self {
        Spin {
            learned: CachePadded::new(AtomicU32::new(LONGEST / 2)),
            muted: AtomicU32::new(0),
            vain: AtomicU32::new(1),
            spinners: AtomicUsize::new(0),
        }
    }

    /// `None` where a spin would not pay: with one processor, on an idle queue, or when others spin already, half as
    /// many as there are processors.
    pub(super) fn begin(&self) -> Option<Spinner<'_>> {
        if processors() == 1 {
            return None;
        }
        // Relaxed, here and below: hints.
        let budget = self.learned.load(Ordering::Relaxed);
        if budget < SHORTEST {
            return None;
        }
        let muted = self.muted.load(Ordering::Relaxed);
        if muted > 0 {
            self.muted.store(muted - 1, Ordering::Relaxed);
            return None;
        }
        if self.spinners.fetch_add(1, Ordering::Relaxed) >= processors() / 2 {
            self.spinners.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Spinner { spin: self, budget })
    }

    /// A waiter slept for so long. Short sleeps bring the spinning back, long ones end it.
    pub(super) fn slept(&self, time: Duration) {
        if processors() == 1 {
            return;
        }
        self.learn(|learned| if time < SHORT_SLEEP { learned * 2 + SHORTEST * 2 } else { learned / 2 });
    }

    fn learn(&self, next: impl Fn(u32) -> u32) {
        // Not one RMW: an update lost to another waiter's is no worse than the order in which they come.
        let learned = self.learned.load(Ordering::Relaxed);
        let next = next(learned).min(LONGEST);
        if next != learned {
            self.learned.store(next, Ordering::Relaxed);
        }
    }
}

impl Spinner<'_> {
    /// Asks until the answer is something or the time is up.
    pub(super) fn until<T>(self, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
        let started = now();
        let budget = Duration::from_nanos(self.budget.into());
        let mut pauses = 1;
        loop {
            for _ in 0..4 {
                if let Some(answer) = ask() {
                    let took = (now() - started).as_nanos().min(LONGEST.into()) as u32;
                    // Towards twice the time that was needed.
                    self.spin.learn(|learned| learned - learned / 8 + (2 * took + 2 * SHORTEST) / 8);
                    let vain = self.spin.vain.load(Ordering::Relaxed);
                    if vain > 1 {
                        self.spin.vain.store((vain / 8).max(1), Ordering::Relaxed);
                    }
                    return Some(answer);
                }
                for _ in 0..pauses {
                    spin_loop();
                }
            }
            if now() - started >= budget {
                self.spin.learn(|learned| learned - learned / 4);
                let vain = self.spin.vain.load(Ordering::Relaxed);
                self.spin.muted.store(vain, Ordering::Relaxed);
                self.spin.vain.store((vain * 2).min(MOST_MUTED), Ordering::Relaxed);
                return None;
            }
            // No yield: on a busy machine it costs a time slice of somebody else's, which no short gap is worth.
            pauses = (pauses * 2).min(16);
        }
    }
}

impl Drop for Spinner<'_> {
    fn drop(&mut self) {
        self.spin.spinners.fetch_sub(1, Ordering::Relaxed);
    }
}

fn processors() -> usize {
    if cfg!(delta_fifo_loom) {
        return 1; // a model has no time to spin
    }
    if cfg!(delta_fifo_shuttle) {
        return 2; // one spins
    }
    // Not a `OnceLock`, whose initializer others would wait for. std's atomic, since loom's live in one execution.
    static PROCESSORS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    match PROCESSORS.load(Ordering::Relaxed) {
        0 => {
            let found = std::thread::available_parallelism().map_or(1, usize::from);
            PROCESSORS.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}
