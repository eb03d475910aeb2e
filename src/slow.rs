//! Leases that were held for long.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A lease has ended that was held for longer than [`Builder::on_slow`](crate::Builder::on_slow) allows.
///
/// ```
/// use std::time::Duration;
/// use delta_fifo::{Builder, DeltaFifo, DeltaQueue};
///
/// // As client-go warns: longer than 100 ms, while more than ten keys wait.
/// let queue: DeltaFifo<String, u32> = Builder::new()
///     .on_slow(Duration::from_millis(100), |slow| {
///         if slow.depth > 10 {
///             eprintln!("{} took {:?}, and {} keys wait", slow.key, slow.time, slow.depth);
///         }
///     })
///     .build();
/// # let _ = queue;
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowEvent<'a, K> {
    /// Its key.
    pub key: &'a K,
    /// How many keys were pending when it ended: in line, delayed, or dirty, as it may be itself.
    pub depth: usize,
    /// How long it was held, by the queue's clock.
    pub time: Duration,
}

type SlowHook<K> = Box<dyn Fn(&SlowEvent<'_, K>) + Send + Sync>;

/// Whom to tell, and of what.
pub(crate) struct OnSlow<K> {
    pub(crate) threshold: Duration,
    pub(crate) hook: SlowHook<K>,
}

impl<K> OnSlow<K> {
    /// The hook's panics end here.
    pub(crate) fn tell(&self, key: &K, depth: usize, time: Duration) {
        let _ = catch_unwind(AssertUnwindSafe(|| (self.hook)(&SlowEvent { key, depth, time })));
    }
}

impl<K> fmt::Debug for OnSlow<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnSlow").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}
