//! Leases as a stream.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::error::Closed;
use crate::lease::Lease;
use crate::queue::DeltaQueue;
use crate::raw::{QueueRef, RawQueue};

type Held<Q> = <Q as RawQueue<<Q as DeltaQueue>::Key, <Q as DeltaQueue>::Value>>::Held;

/// A pop that waits. The futures of a queue's pops have no name, so it is boxed.
type Waiting<'q, Q> = Pin<Box<dyn Future<Output = Result<Held<Q>, Closed>> + Send + 'q>>;

/// The leases of a queue as a [`Stream`], on any executor: made by [`DeltaQueue::leases`] and
/// [`DeltaQueue::leases_owned`].
///
/// It ends when the queue is closed and everything has been handed out; should an open lease give its deltas back after
/// that, it goes on if polled again. Any number of streams and other consumers share a queue.
///
/// Cancel-safe: a key leaves the line only for a lease that is returned. A stream that was polled without success waits
/// for keys like any sleeping consumer until it is polled again or dropped, and the wake-up for a key may be its: poll it
/// when its task is woken, or drop it.
///
/// A lease that is there costs what [`pop_async`](DeltaQueue::pop_async) costs. Where it has to wait, it asks once
/// more and allocates once for that wait.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use delta_fifo::{DeltaQueue, baseline::MutexDeltaFifo};
/// use futures_util::StreamExt;
///
/// let queue = MutexDeltaFifo::<&str, u32>::new();
/// queue.replace([("a", 1), ("b", 2)]).unwrap();
/// queue.close();
///
/// let mut leases = queue.leases();
/// while let Some(lease) = leases.next().await {
///     println!("{}: {:?}", lease.key(), lease.deltas().newest().object());
///     lease.done();
/// }
/// assert!(queue.has_synced());
/// # }
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct Leases<'q, Q: DeltaQueue> {
    queue: QueueRef<'q, Q>,
    waiting: Option<Waiting<'q, Q>>,
}

impl<'q, Q: DeltaQueue> Leases<'q, Q> {
    pub(crate) fn new(queue: QueueRef<'q, Q>) -> Self {
        Leases { queue, waiting: None }
    }

    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Result<Held<Q>, Closed>> {
        // Taken out while it is polled: one that panics is not polled again.
        let mut waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => {
                // On the stack, for a key that is there already. If none is, dropping it loses nothing.
                if let Poll::Ready(popped) = pin!(self.queue.pop_raw_async()).poll(context) {
                    return Poll::Ready(popped);
                }
                let queue = self.queue.clone();
                Box::pin(async move { queue.pop_raw_async().await })
            }
        };
        let polled = waiting.as_mut().poll(context);
        self.waiting = polled.is_pending().then_some(waiting);
        polled
    }
}

impl<'q, Q: DeltaQueue> Stream for Leases<'q, Q> {
    type Item = Lease<'q, Q>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Lease<'q, Q>>> {
        let popped = ready!(self.poll_held(context));
        Poll::Ready(popped.ok().map(|held| Lease::new(self.queue.clone(), held)))
    }
}

impl<Q: DeltaQueue> fmt::Debug for Leases<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("is_waiting", &self.waiting.is_some()).finish_non_exhaustive()
    }
}
