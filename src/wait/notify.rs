//! A notifier's side: whom it wakes, whom it helps, and the books. The invariants I1 to I8 are in [`wait`](super).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::cell::{Cell, Claim, Departure, Handle, Pinned};
use super::word::{State, Word};
use super::{Waiters, registry};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{fence_after_rmw, pause_point, planted};

/// So many spinning waiters are preferred to a sleeping one, one after the other.
const PREFERRED: u32 = 16;

/// A cell and what its word was.
type Seen<'a> = (&'a Cell, Word);

impl Waiters {
    /// Wakes `n` waiters more, or all there are. To be called after what they wait for has been published.
    ///
    /// A panicking waker is contained, and another waiter is woken in its place. Whether one panicked, here or in a wake
    /// that had nobody to tell.
    #[inline]
    pub(crate) fn notify(&self, n: usize) -> bool {
        if !planted("no notifier fence") {
            // SeqCst fence: pairs with that in register (I4). What was published before is seen by whoever is not
            // seen registered below.
            fence(Ordering::SeqCst);
        }
        self.notify_fenced(n)
    }

    /// The same for who has published by a read-modify-write, and has stored nothing since.
    #[inline(always)]
    pub(crate) fn notify_after_rmw(&self, n: usize) -> bool {
        if !planted("no notifier fence") {
            // As in `notify`, for less.
            fence_after_rmw();
        }
        self.notify_fenced(n)
    }

    #[inline(always)]
    fn notify_fenced(&self, n: usize) -> bool {
        if n == 0 || !self.anybody() {
            return false;
        }
        self.wake(n);
        self.has_panicked()
    }

    /// Wakes everybody who registered before. For what all must see, such as a close. Whether a waker panicked.
    #[inline]
    pub(crate) fn notify_all(&self) -> bool {
        if !planted("no notifier fence") {
            // SeqCst fence: as in `notify`.
            fence(Ordering::SeqCst);
        }
        if !self.anybody() {
            return false;
        }
        self.wake_all(usize::MAX);
        self.has_panicked()
    }

    fn has_panicked(&self) -> bool {
        // Relaxed: a hint for a report; each panic is told at least once with others.
        self.panicked.load(std::sync::atomic::Ordering::Relaxed)
            && self.panicked.swap(false, std::sync::atomic::Ordering::Relaxed)
    }

    #[inline(always)]
    fn anybody(&self) -> bool {
        pause_point("notify: fence");
        // Relaxed: ordered by the fence.
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wake(&self, n: usize) {
        // Relaxed: only decides how to look; I5 is kept either way.
        let mut left = n;
        if n > 1 && n >= self.sleepers.load(Ordering::Relaxed) {
            left -= self.wake_all(n);
        }
        while left > 0 {
            let Some((cell, seen)) = self.oldest() else {
                return self.help();
            };
            pause_point("notify: found");
            // A lost claim looks again: another notify has claimed that waiter or it has left, so one of them has
            // gone on. Each turn that claims counts down, but for panicking wakers, of which each is claimed once.
            if self.try_wake(cell, seen) {
                left -= 1;
            }
        }
    }

    /// One pass over all cells: claims up to `n` waiters, issues what others owe. Returns how many it woke.
    #[cold]
    fn wake_all(&self, n: usize) -> usize {
        let mut woken = 0;
        for cell in self.cells() {
            loop {
                let seen = cell.peek();
                if seen.is_open() && woken < n {
                    if self.try_wake(cell, seen) {
                        woken += 1;
                    } else if cell.peek().is_open() {
                        // Fails if the waiter went to sleep, or left and one registered here anew: they went on.
                        continue;
                    }
                } else if let Some(pinned) = cell.help() {
                    self.issue(pinned);
                }
                break;
            }
        }
        woken
    }

    /// The waiter to wake next: a spinning one within reason, else the oldest.
    fn oldest(&self) -> Option<Seen<'_>> {
        let (mut awake, mut asleep): (Option<Seen<'_>>, Option<Seen<'_>>) = (None, None);
        for cell in self.cells() {
            let seen = cell.peek();
            let best = match seen.state() {
                State::Spinning => &mut awake,
                State::Waiting => &mut asleep,
                State::Notified | State::Issued if planted("content with another's claim") => return None,
                _ => continue,
            };
            if best.is_none_or(|(_, best)| seen.is_before(best)) {
                *best = Some((cell, seen));
            }
        }
        let (Some(spinning), Some(sleeping)) = (awake, asleep) else {
            return awake.or(asleep);
        };
        // Relaxed: a hint; lost updates only shift who is preferred.
        let preferred = self.preferred.load(Ordering::Relaxed);
        let (next, found) = if preferred < PREFERRED { (preferred + 1, spinning) } else { (0, sleeping) };
        self.preferred.store(next, Ordering::Relaxed);
        Some(found)
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let first_only = planted("the first segment only");
        self.registry.cells().take(if first_only { registry::FIRST } else { usize::MAX })
    }

    /// Claims the waiter and wakes it. `false`: it was gone, or its waker panicked.
    fn try_wake(&self, cell: &Cell, seen: Word) -> bool {
        match cell.claim(seen) {
            Claim::Awake => {
                pause_point("notify: claimed a spinning one");
                self.uncount();
                true
            }
            Claim::Asleep(pinned) => {
                if planted("counted down with the claim") {
                    self.uncount();
                }
                pause_point("notify: claimed");
                self.issue(pinned)
            }
            Claim::Lost => false,
        }
    }

    /// Issues every wake that is owed (I6).
    fn help(&self) {
        if planted("no help") {
            return;
        }
        for cell in self.registry.cells() {
            if let Some(pinned) = cell.help() {
                pause_point("notify: helping");
                self.issue(pinned);
            }
        }
    }

    /// Wakes and unpins. Foreign code runs here; nobody waits for it, and its panics end here.
    fn issue(&self, pinned: Pinned<'_>) -> bool {
        let woken = contain(|| pinned.wake());
        if !woken {
            // Relaxed: as in `has_panicked`.
            self.panicked.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        pause_point("notify: woken");
        let cell = pinned.0;
        if planted("a pin is forgotten") {
            return woken;
        }
        let departure = pinned.unpin();
        pause_point("notify: unpinned");
        let handle = self.account(cell, departure);
        contain(|| drop(handle));
        woken
    }

    /// What a departure leaves to the books. The handle is the caller's to drop.
    pub(super) fn account(&self, cell: &Cell, departure: Departure) -> Option<Handle> {
        if departure.counted && !planted("counted down with the claim") {
            self.uncount();
        }
        if departure.freed {
            self.registry.freed(cell);
        }
        departure.handle
    }

    fn uncount(&self) {
        // Relaxed: I3 needs it only after the cell's CAS, and both are on the way of one thread. One that reads the
        // lower count early has read a count that no longer has to hold that cell.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs foreign code, a waker's, whose panics reach nobody. `false`: it panicked.
pub(super) fn contain(foreign: impl FnOnce()) -> bool {
    if cfg!(delta_fifo_loom) {
        foreign(); // loom reports by panicking
        return true;
    }
    match catch_unwind(AssertUnwindSafe(foreign)) {
        Ok(()) => true,
        Err(panic) => {
            // The drop of what was thrown may throw again.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(again);
            }
            false
        }
    }
}
