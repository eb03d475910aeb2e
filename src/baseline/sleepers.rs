//! Async sleepers. Wakers are user code, and `event-listener` wakes under a lock of its own: so it only gets to know
//! wakers of this crate, which note down whose turn it is; the user's are called when that lock is free.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use event_listener::{Event, EventListener, Listener};

use crate::raw::Deadline;

use super::lock::lock;

#[derive(Default)]
pub(super) struct AsyncSleepers {
    event: Event,
    /// Whose turn it is.
    due: Arc<Mutex<Vec<Waker>>>,
}

/// Stands for a task in the list of those who sleep.
struct Sleeper {
    waker: Mutex<Option<Waker>>,
    due: Arc<Mutex<Vec<Waker>>>,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        let waker = lock(&self.waker).take();
        lock(&self.due).extend(waker);
    }
}

/// Somebody who is notified, whether it waits already or not. Dropped after that, it passes the notification on.
pub(super) struct Listening<'s> {
    sleepers: &'s AsyncSleepers,
    /// None only while it is dropped.
    listener: Option<EventListener>,
}

impl AsyncSleepers {
    pub(super) fn listen(&self) -> Listening<'_> {
        Listening { sleepers: self, listener: Some(self.event.listen()) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.event.total_listeners() == 0
    }

    /// Wakes so many more sleepers; all of them if a waker panics, as one of them must take its place. Whether one did.
    pub(super) fn wake(&self, sleepers: usize) -> bool {
        if sleepers == 0 || self.event.notify_additional(sleepers) == 0 {
            return false;
        }
        let mut panicked = false;
        while self.call_due() {
            panicked = true;
            self.event.notify_additional(usize::MAX);
        }
        panicked
    }

    /// Calls the wakers whose turn it is. Whether one panicked.
    fn call_due(&self) -> bool {
        let mut panicked = false;
        loop {
            let waker = lock(&self.due).pop();
            let Some(waker) = waker else { return panicked };
            panicked |= catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err();
        }
    }
}

impl Listening<'_> {
    /// Waits to be notified. Whether that took any waiting.
    pub(super) async fn wait(mut self) -> bool {
        let sleeper = Arc::new(Sleeper { waker: Mutex::new(None), due: Arc::clone(&self.sleepers.due) });
        let waker = Waker::from(Arc::clone(&sleeper));
        let mut waited = false;
        poll_fn(|context| {
            // Cloned before the lock, the old one dropped after it.
            let new = context.waker().clone();
            let old = lock(&sleeper.waker).replace(new);
            drop(old);
            let listener = self.listener.as_mut().expect("it listens");
            let polled = Pin::new(listener).poll(&mut Context::from_waker(&waker));
            waited |= polled.is_pending();
            polled
        })
        .await;
        waited
    }
}

impl Listening<'_> {
    /// The same for a thread, by the system's clock: it is woken by `event-listener` itself, as no user code is needed for that.
    pub(super) fn block(mut self, deadline: Deadline) {
        let listener = self.listener.take().expect("it listens");
        match deadline {
            Deadline::Now => {}
            Deadline::At(at) => _ = listener.wait_deadline(at),
            Deadline::Never => listener.wait(),
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        drop(self.listener.take());
        while self.sleepers.call_due() {
            self.sleepers.event.notify_additional(usize::MAX);
        }
    }
}

/// Lets others have a turn.
pub(super) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
