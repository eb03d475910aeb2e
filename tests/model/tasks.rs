//! Wakers for tests of waiting without blocking.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::fuse::Boom;

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Panics when it is woken.
#[derive(Default)]
pub(crate) struct Panics(AtomicUsize);

impl Panics {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new(Boom));
    }
}

pub(crate) fn poll<T: ?Sized + Future>(future: Pin<&mut T>, waker: &Waker) -> Poll<T::Output> {
    future.poll(&mut Context::from_waker(waker))
}
