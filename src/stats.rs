//! What a queue says of itself.

use std::time::Duration;

/// A queue at a glance, as [`DeltaQueue::stats`](crate::DeltaQueue::stats) and [`WorkQueue::stats`](crate::WorkQueue::stats) say it.
///
/// Each figure is right when nothing runs; while something does they need not be of one moment.
///
/// ```
/// use std::time::Duration;
/// use delta_fifo::{Builder, DeltaFifo, DeltaQueue, ManualClock};
///
/// let clock = ManualClock::new();
/// let queue: DeltaFifo<&str, u32> = Builder::new().timer(clock.clone()).measure().build();
/// queue.add("a", 1)?;
/// queue.add("b", 1)?;
/// let lease = queue.pop()?;
/// clock.advance(Duration::from_secs(5));
/// let stats = queue.stats();
/// assert_eq!((stats.depth, stats.leased), (1, 1));
/// assert_eq!((stats.oldest_age, stats.high_water), (Some(Duration::from_secs(5)), Some(2)));
/// # drop(lease);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys in line, and those whose delay is over.
    pub depth: usize,
    /// Keys whose time has not come.
    pub delayed: usize,
    /// Keys that are leased.
    pub leased: usize,
    /// Leased keys for which something has come meanwhile.
    pub dirty: usize,
    /// Deltas that have been merged away so far.
    pub merged: u64,
    /// How long the key has waited that waits longest: since it went in line or became dirty, or its delay was over. None if nothing
    /// waits, or the queue does not [measure](crate::Builder::measure).
    pub oldest_age: Option<Duration>,
    /// The most keys that have been in line at once. None if the queue does not [measure](crate::Builder::measure).
    pub high_water: Option<usize>,
}

impl Stats {
    /// A key waits since `since`.
    pub(crate) fn waits(&mut self, age: Duration) {
        self.oldest_age = self.oldest_age.max(Some(age));
    }
}
