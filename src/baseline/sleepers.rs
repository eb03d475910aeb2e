//! Async sleepers. Wakers are user code, and `event-listener` wakes under a lock of its own: so it only gets to know
//! wakers of this crate, which note down whose turn it is; the user's are called when that lock is free.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use event_listener::{Event, EventListener};

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

impl AsyncSleepers {
    /// Somebody who is notified from now on, whether it waits already or not.
    pub(super) fn listen(&self) -> EventListener {
        self.event.listen()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.event.total_listeners() == 0
    }

    /// Wakes so many more sleepers; all of them if a waker panics, as one of them must take its place. Whether one did.
    pub(super) fn wake(&self, mut sleepers: usize) -> bool {
        let mut panicked = false;
        loop {
            if sleepers == 0 || self.event.notify_additional(sleepers) == 0 {
                return panicked;
            }
            let mut again = false;
            loop {
                let waker = lock(&self.due).pop();
                let Some(waker) = waker else { break };
                again |= catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err();
            }
            if !again {
                return panicked;
            }
            panicked = true;
            sleepers = usize::MAX;
        }
    }

    /// Waits to be notified. Whether that took any waiting.
    pub(super) async fn wait(&self, mut listener: EventListener) -> bool {
        let sleeper = Arc::new(Sleeper { waker: Mutex::new(None), due: Arc::clone(&self.due) });
        let waker = Waker::from(Arc::clone(&sleeper));
        let mut waited = false;
        poll_fn(|context| {
            // Cloned before the lock, the old one dropped after it.
            let new = context.waker().clone();
            let old = lock(&sleeper.waker).replace(new);
            drop(old);
            let polled = Pin::new(&mut listener).poll(&mut Context::from_waker(&waker));
            waited |= polled.is_pending();
            polled
        })
        .await;
        waited
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
