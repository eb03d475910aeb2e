//! A waiter's side: its place among those who wait, the wake-up it may find there, and the future of a task's wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Waiters;
use super::cell::{Cell, Handle};
use super::notify::contain;
use super::spin::Spinner;
use super::word::State;
use crate::sync::{now, pause_point, planted};

/// A registered waiter.
pub(super) struct Place<'a> {
    pub(super) waiters: &'a Waiters,
    pub(super) cell: &'a Cell,
    pub(super) ticket: u64,
}

impl<'a> Place<'a> {
    /// Until it is claimed, or the time is up (`false`).
    pub(super) fn sleep(&self, spinner: Option<Spinner<'_>>, mut park: impl FnMut() -> bool) -> bool {
        if let Some(spinner) = spinner {
            let claimed = spinner.until(|| self.cell.is_notified().then_some(()));
            if claimed.is_some() || !self.cell.sleep(self.ticket) {
                return true;
            }
            pause_point("wait: asleep after a spin");
        }
        let began = now();
        while !self.cell.is_notified() {
            if !park() {
                return false;
            }
        }
        self.waiters.spin.slept(now() - began);
        true
    }

    /// Whether a task that is polled with this waker has to register anew: it has been claimed, or it is another task.
    fn is_over(&self, waker: &Waker) -> bool {
        if !self.cell.is_notified() && planted("a waker is replaced in place") {
            self.cell.overwrite(Handle::Task(waker.clone()));
        }
        self.cell.is_notified() || !(self.cell.will_wake(waker) || planted("the old waker is kept"))
    }

    /// Ends the registration. Returns the wake-up, if a notifier has claimed it.
    pub(super) fn leave(self) -> Option<WakeUp<'a>> {
        let (wake_up, handle) = self.end();
        std::mem::forget(self);
        contain(|| drop(handle));
        wake_up
    }

    /// Leaves, then looks, which spends a wake-up (I7).
    pub(super) fn leave_and<T>(self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let wake_up = self.leave();
        let item = look();
        if let Some(wake_up) = wake_up {
            wake_up.spent();
        }
        item
    }

    fn end(&self) -> (Option<WakeUp<'a>>, Option<Handle>) {
        let departure = self.cell.leave();
        // Not `then_some`, which would make a wake-up, and drop it, where there is none.
        let wake_up = departure.notified.then(|| WakeUp { waiters: self.waiters });
        (wake_up, self.waiters.account(self.cell, departure))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (wake_up, handle) = self.end();
        contain(|| drop(handle));
        match wake_up {
            Some(wake_up) if planted("a wake-up is spent unseen") => wake_up.spent(),
            wake_up => drop(wake_up),
        }
    }
}

/// A wake-up in a waiter's hands (I7).
#[must_use = "dropped, it goes to the next waiter"]
pub(super) struct WakeUp<'a> {
    waiters: &'a Waiters,
}

impl WakeUp<'_> {
    /// By a look that began after it was found.
    fn spent(self) {
        std::mem::forget(self);
    }
}

impl Drop for WakeUp<'_> {
    fn drop(&mut self) {
        if !planted("a wake-up is kept") {
            self.waiters.notify(1);
        }
    }
}

/// The future of [`Waiters::wait_for`].
#[must_use = "futures do nothing unless polled"]
pub(crate) struct WaitFor<'a, F> {
    pub(super) waiters: &'a Waiters,
    pub(super) look: F,
    pub(super) place: Option<Place<'a>>,
}

// The closure is never pinned.
impl<F> Unpin for WaitFor<'_, F> {}

impl<T, F: FnMut() -> Option<T>> Future for WaitFor<'_, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut ticket = None;
        if let Some(place) = this.place.take_if(|place| place.is_over(cx.waker())) {
            ticket = Some(place.ticket);
            if let Some(item) = place.leave_and(&mut this.look) {
                return Poll::Ready(item);
            }
        } else if let Some(item) = (this.look)() {
            this.place = None; // I7: hands a wake-up on
            return Poll::Ready(item);
        } else if this.place.is_some() {
            return Poll::Pending; // polled for another's sake; I4 still holds
        }
        let handle = Handle::Task(cx.waker().clone());
        let place = this.waiters.register(handle, ticket, State::Waiting);
        if let Some(item) = this.waiters.second(&mut this.look) {
            return Poll::Ready(item); // I7: dropping the place hands a wake-up on
        }
        this.place = Some(place);
        Poll::Pending
    }
}
