//! Waiting for the queue: an eventcount with its own registry of waiters, threads and tasks in one.
//!
//! ```text
//! waiter                                          notifier
//!   look: nothing                                   publish an item
//!   spin a while, looking                           fence(SeqCst)
//!   count += 1; take a cell; write the handle       count == 0? done
//!   cell := Waiting                                 find the oldest Waiting cell
//!   fence(SeqCst)                                   CAS it to Notified, pinned     (the wake-up)
//!   look again: nothing                             unpark or Waker::wake, outside everything
//!   park, or return Pending                         CAS it to Issued, unpinned; count -= 1
//!   leave the cell: CAS to Held, or Left if pinned
//!   look: this look spends the wake-up
//! ```
//!
//! # Invariants
//!
//! - **I1, owner.** From the CAS that takes it over from Free until it is stored Free again or becomes Left, a cell
//!   belongs to one waiter; a cell that is Left belongs to the last notifier that unpins it.
//! - **I2, handle.** A handle is written and dropped only by the owner of a Held cell without pins. It is read by its
//!   owner, and under a pin. A pin is got only by a CAS from Waiting or Notified, and a pinned cell does not become
//!   Held. So nobody reads a handle while it changes, and nobody waits for anybody: an owner that finds pins goes
//!   away (Left), and the last reader cleans up.
//! - **I3, count.** `sleepers` is never less than the number of cells that are Spinning, Waiting or Notified: it is
//!   raised before a cell becomes one of these and lowered after it no longer is.
//! - **I4, look after.** A waiter sleeps only after: cell stored, `fence(SeqCst)`, a look that found nothing.
//! - **I5, additional.** Each registration is claimed at most once. `notify(n)` returns when it has claimed n, or
//!   after it has seen every cell, later than its fence, claimed by others or not registered.
//! - **I6, no wake is left to a stopped thread.** A notify that finds fewer than n to claim issues every wake that it
//!   sees owed (Notified) before it returns. So when `notify(n)` has returned, n more waiters have been woken, or all.
//! - **I7, spent by a look.** A wake-up is spent by a look that begins after the waiter has left its cell and found
//!   the wake-up there; by nothing else. A waiter that does not look then (cancelled, its closure panicked, or it took
//!   an item before it knew) hands the wake-up on: it notifies one.
//! - **I8, memory.** A cell is a cell until the eventcount is dropped.
//!
//! # Why no wake-up is lost
//!
//! *One item, one sleeper (store buffering).* The waiter stores its cell, fences (F_W) and looks; the notifier
//! publishes, fences (F_N) and reads the count and the cells. The two fences have one order. If F_N comes first, the
//! look sees the item. If F_W comes first, the notifier sees the count raised (I3: raised before the store, and
//! whatever it reads instead is newer), the segment of the cell, and the cell Waiting or in a later state. Without
//! either fence both can miss the other. Fences, not SeqCst accesses: loom judges fences rightly.
//!
//! *Many.* Say that in the end waiter W sleeps though k items were published after W's last look and only j < k of
//! them were taken. Each of the k publications was followed by a notify that saw W Waiting (F_W before its fence, or
//! W's look would have seen the item), so each claimed a waiter other than W, and no two the same registration (I5).
//! Each of these k wake-ups was spent by a look or handed on to another claim, whose fence is later still (I7). A
//! spending look that found nothing found the line empty after W's look: begin again at that moment. So all k looks
//! found an item, and j ≥ k: contradiction. The closures must be linearizable with the publications, and all waiters
//! of one eventcount must wait for the same thing; for conditions that differ there is [`Waiters::notify_all`].
//!
//! # Linearization points
//!
//! A registration: the store of Waiting (or Spinning). A wake-up: the claim. A departure: the CAS in `leave`. These
//! three are on one word, so each registration is either claimed or left first, never both unknown to each other.
//!
//! # Progress
//!
//! - No lock, and no call waits for another. `notify` fails a CAS only where another notify claimed or a waiter left.
//!   Its cost is linear in the most waiters that there ever were at once.
//! - A thread stopped anywhere inside `notify` has at most one waiter claimed and not woken, which any later notify
//!   that finds nobody else wakes (I6); it keeps at most one cell from being used again.
//! - A *waiter* stopped after it was claimed keeps that one wake-up, as any woken thread does that is not scheduled.
//!   Nobody else waits for it. A forgotten future (`mem::forget`) keeps its cell and at most one wake-up.
//!
//! # Fairness
//!
//! A notify claims the oldest registration that is Waiting when it looks: a waiter that slept before a notify began
//! is passed over only for older ones. A fruitless wake-up keeps its ticket, so bad luck does not send a waiter to
//! the tail. Two things come first: a waiter that has not gone to sleep yet takes what it finds; and a registered
//! waiter that is still spinning is claimed before sleepers, since that costs no wake, 16 times in a row at most.

use crate::raw::Deadline;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{CHECKED, CachePadded, pause_point, planted, thread};
use cell::{Cell, Handle};
use place::Place;
pub(crate) use place::WaitFor;
use registry::Registry;
use spin::Spin;
use word::{State, Word};

mod cell;
#[cfg(all(test, delta_fifo_loom))]
mod models;
mod notify;
mod place;
mod registry;
mod spin;
#[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
mod tests;
mod word;

/// How often a waiter gives way before it sleeps.
const YIELDS: usize = 3;

/// All who wait for one thing.
pub(crate) struct Waiters {
    /// I3. Alone on its line: every notify reads it, and it changes only when somebody sleeps.
    sleepers: CachePadded<AtomicUsize>,
    tickets: CachePadded<AtomicU64>,
    /// Spinning waiters preferred since a sleeping one was claimed. Only a hint, and not a subject of the models.
    preferred: std::sync::atomic::AtomicU32,
    /// A waker has panicked, and nobody was told. Not a subject of the models either.
    panicked: std::sync::atomic::AtomicBool,
    registry: Registry,
    spin: Spin,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Waiters {
            sleepers: CachePadded::new(AtomicUsize::new(0)),
            tickets: CachePadded::new(AtomicU64::new(0)),
            preferred: std::sync::atomic::AtomicU32::new(0),
            panicked: std::sync::atomic::AtomicBool::new(false),
            registry: Registry::new(),
            spin: Spin::new(),
        }
    }

    /// Whether somebody sleeps, and does not spin.
    #[cfg(all(test, not(any(delta_fifo_loom, delta_fifo_shuttle))))]
    pub(crate) fn has_sleeping(&self) -> bool {
        self.registry.cells().any(|cell| cell.peek().state() == State::Waiting)
    }

    /// Registers a waiter, with its old ticket if it has one.
    fn register(&self, handle: Handle, ticket: Option<u64>, state: State) -> Place<'_> {
        // Relaxed: tickets are told apart and ordered by the RMWs on this one counter.
        let ticket = ticket.unwrap_or_else(|| self.tickets.fetch_add(1, Ordering::Relaxed));
        // Relaxed: I3 by the fence below, and the claim's count comes after the cell's store.
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        pause_point("register: counted");
        let cell = self.registry.take_over();
        cell.register(ticket, state, handle);
        pause_point("register: registered");
        if !planted("no waiter fence") {
            // SeqCst fence: pairs with that in notify (I4).
            fence(Ordering::SeqCst);
        }
        Place { waiters: self, cell, ticket }
    }

    /// Blocks until a look finds something, or until the deadline.
    pub(crate) fn wait_until<T>(&self, deadline: Deadline, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        match (look(), deadline) {
            (None, Deadline::Now) => None,
            (None, _) => self.wait_with(|| park(deadline), look),
            (found, _) => found,
        }
    }

    /// `park` blocks until it is unparked, or for no reason; `false`: the time is up.
    fn wait_with<T>(&self, mut park: impl FnMut() -> bool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        // While nobody sleeps, items cost their producers no wake: spin without a cell.
        // Relaxed, twice: only decides how to wait.
        let spinner = self.spin.begin().filter(|_| self.sleepers.load(Ordering::Relaxed) == 0);
        if let Some(item) = spinner.and_then(|spinner| spinner.until(&mut look)) {
            return Some(item);
        }
        if let Some(item) = self.give_way(&mut look) {
            return Some(item);
        }
        let mut ticket = None;
        loop {
            // While others sleep, spin on a cell: who is claimed awake spares a sleeper's wake.
            let spinner = self.spin.begin().filter(|_| self.sleepers.load(Ordering::Relaxed) != 0);
            let state = if spinner.is_some() { State::Spinning } else { State::Waiting };
            let place = self.register(Handle::Thread(thread::current()), ticket, state);
            if let Some(item) = self.second(&mut look) {
                return Some(item); // I7: dropping the place hands a wake-up on
            }
            let in_time = place.sleep(spinner, &mut park);
            ticket = Some(place.ticket);
            // A time-out that finds itself claimed looks once more; one that does not, need not, but may.
            let item = if planted("no last look") && !in_time {
                std::mem::forget(place.leave());
                None
            } else {
                place.leave_and(&mut look)
            };
            if item.is_some() || !in_time {
                return item;
            }
        }
    }

    /// Before a sleep, which will cost somebody a wake-up: lets go first whoever may be waiting for this processor to bring
    /// the very item. A thread that has been woken often stands in the way of the one that woke it.
    fn give_way<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if CHECKED {
            return None; // a checker has no processors
        }
        (0..YIELDS).find_map(|_| {
            thread::yield_now();
            look()
        })
    }

    /// The look after the registration's fence (I4).
    fn second<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        if planted("no second look") { None } else { look() }
    }

    /// Waits until a look finds something. Cancel-safe: dropped, it hands on a wake-up that it has not spent.
    pub(crate) fn wait_for<T, F: FnMut() -> Option<T>>(&self, look: F) -> WaitFor<'_, F> {
        WaitFor { waiters: self, look, place: None }
    }
}

impl std::fmt::Debug for Waiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cells: Vec<Word> =
            self.registry.cells().map(Cell::peek).filter(|word| *word != Word::FREE).collect();
        f.debug_struct("Waiters").field("sleepers", &*self.sleepers).field("cells", &cells).finish()
    }
}

/// Blocks until it is unparked or the deadline has come (`false`).
fn park(deadline: Deadline) -> bool {
    match deadline {
        Deadline::Now => return false,
        Deadline::Never => thread::park(),
        #[cfg(delta_fifo_loom)]
        Deadline::At(_) => unreachable!("models bring their own time"),
        #[cfg(not(delta_fifo_loom))]
        Deadline::At(at) => {
            let left = at.saturating_duration_since(crate::sync::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }
    true
}
