//! What a handler would be told, as a stream.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::task::{Context, Poll};

use delta_fifo::{DeltaQueue, KnownObject, KnownView, OwnedLease};
use futures_util::Stream;
use futures_util::stream::unfold;

use super::distributor::{HandlerQueue, Start};
use super::registration::{Registration, Teller};
use crate::notification::Notification;
use crate::source::ListWatch;
use crate::synced::Synced;
use std::sync::Arc;

/// The item of a [`Subscription`].
type Item<L> = (<L as ListWatch>::Key, Notification<<L as ListWatch>::Object>);

/// What a handler would be told, as a stream: each key with one notification. Dropped, it is removed.
///
/// A notification counts as told when the next one is asked for.
pub struct Subscription<L: ListWatch> {
    registration: Registration<L>,
    stream: Pin<Box<dyn Stream<Item = Item<L>> + Send>>,
}

impl<L: ListWatch> Debug for Subscription<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.registration).finish()
    }
}

impl<L: ListWatch> Subscription<L> {
    pub(super) fn new(registration: Registration<L>, start: Start<L>) -> Self {
        let reading = Reading {
            teller: Teller(registration.telling()),
            start: Some(start),
            known: Vec::new().into_iter(),
            lease: None,
        };
        let next = |mut reading: Reading<L>| async move { reading.next().await.map(|item| (item, reading)) };
        Subscription { registration, stream: Box::pin(unfold(reading, next)) }
    }

    /// Whether all that was known at first has been read.
    pub fn synced(&self) -> Synced {
        self.registration.synced()
    }

    /// Keys of which there is something still to be read. O(shards).
    pub fn pending_len(&self) -> usize {
        self.registration.pending_len()
    }
}

impl<L: ListWatch> Stream for Subscription<L> {
    type Item = Item<L>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

/// Where a stream is.
struct Reading<L: ListWatch> {
    teller: Teller<L>,
    /// Until the distributor has come round.
    start: Option<Start<L>>,
    known: std::vec::IntoIter<KnownObject<L::Key, Arc<L::Object>>>,
    /// A key, and which of its notifications is next.
    lease: Option<(OwnedLease<HandlerQueue<L>>, usize)>,
}

impl<L: ListWatch> Reading<L> {
    async fn next(&mut self) -> Option<Item<L>> {
        if let Some(start) = &mut self.start {
            let snapshot = start.await.ok();
            self.start = None;
            self.known = snapshot?.iter().collect::<Vec<_>>().into_iter();
        }
        if let Some(known) = self.known.next() {
            let object = Arc::clone(known.object());
            return Some((known.key().clone(), Notification::Added { object, is_initial: true }));
        }
        self.teller.0.follows();
        loop {
            if let Some((lease, next)) = &mut self.lease {
                let notification = lease.deltas().iter().nth(*next).and_then(|delta| delta.object().cloned());
                *next += 1;
                if let Some(notification) = notification {
                    return Some((lease.key().clone(), notification));
                }
            }
            if let Some((lease, _)) = self.lease.take() {
                lease.done();
            }
            let lease = self.teller.0.queue.pop_async_owned().await.ok()?;
            self.lease = Some((lease, 0));
        }
    }
}
