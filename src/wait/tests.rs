//! What a model cannot show: real threads, real time, many waiters, foreign code that panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::*;

#[cfg(target_os = "linux")]
mod idle;
mod stress;

/// Counts its wakes, and unparks a thread if it has one.
#[derive(Default)]
struct Flag {
    wakes: AtomicUsize,
    thread: Option<Thread>,
}

impl Flag {
    fn of_this_thread() -> Arc<Self> {
        Arc::new(Flag { wakes: AtomicUsize::new(0), thread: Some(thread::current()) })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, flag: &Arc<Flag>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(flag));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let flag = Flag::of_this_thread();
    loop {
        let before = flag.wakes();
        if let Poll::Ready(output) = poll(&mut future, &flag) {
            return output;
        }
        while flag.wakes() == before {
            thread::park();
        }
    }
}

fn nothing() -> Option<()> {
    None
}

/// Registered tasks that find nothing, and what wakes them, oldest first.
fn tasks(waiters: &Waiters, n: usize) -> Vec<(impl Future<Output = ()> + Unpin + '_, Arc<Flag>)> {
    let new = || {
        let mut task = waiters.wait_for(nothing);
        let flag = Arc::new(Flag::default());
        assert!(poll(&mut task, &flag).is_pending());
        (task, flag)
    };
    std::iter::repeat_with(new).take(n).collect()
}

fn woken<F>(tasks: &[(F, Arc<Flag>)]) -> Vec<usize> {
    tasks.iter().map(|(_, flag)| flag.wakes()).collect()
}

#[test]
fn what_is_there_is_taken_without_waiting() {
    let waiters = Waiters::new();
    assert_eq!(waiters.wait_until(Deadline::Never, || Some(1)), Some(1));
    assert_eq!(waiters.wait_until(Deadline::Now, nothing), None);
    assert_eq!(block_on(waiters.wait_for(|| Some(2))), 2);
    assert_eq!(waiters.sleepers.load(Ordering::SeqCst), 0);
}

#[test]
fn a_deadline_is_kept() {
    let waiters = Waiters::new();
    let began = Instant::now();
    assert_eq!(waiters.wait_until(Deadline::At(began + Duration::from_millis(20)), nothing), None);
    assert!(began.elapsed() >= Duration::from_millis(20));
    assert_eq!(waiters.wait_until(Deadline::At(began), nothing), None);
}

#[test]
#[cfg_attr(delta_fifo_narrow, ignore = "two bits do not tell forty tickets apart")]
fn the_oldest_are_woken_first() {
    let waiters = Waiters::new();
    let mut tasks = tasks(&waiters, 40);
    waiters.notify(0);
    waiters.notify(1);
    waiters.notify(2);
    assert_eq!(woken(&tasks)[..4], [1, 1, 1, 0]);

    // A fruitless wake-up does not cost the place.
    let (first, flag) = &mut tasks[0];
    assert!(poll(first, flag).is_pending());
    waiters.notify(1);
    assert_eq!(woken(&tasks)[..4], [2, 1, 1, 0]);

    waiters.notify(1000);
    assert_eq!(woken(&tasks).iter().sum::<usize>(), 41);
    drop(tasks);
    assert_eq!(waiters.sleepers.load(Ordering::SeqCst), 0);
}

#[test]
fn a_cancelled_task_hands_on_what_it_was_given_and_nothing_else() {
    let waiters = Waiters::new();
    let mut tasks = tasks(&waiters, 3);
    let unclaimed = tasks.remove(1);
    drop(unclaimed);
    assert_eq!(woken(&tasks), [0, 0]);
    waiters.notify(1);
    drop(tasks.remove(0));
    assert_eq!(woken(&tasks), [1]);
}

#[test]
fn another_waker_takes_the_place_of_the_first() {
    let waiters = Waiters::new();
    let mut tasks = tasks(&waiters, 2);
    let other = Arc::new(Flag::default());
    assert!(poll(&mut tasks[0].0, &other).is_pending());
    waiters.notify(1);
    assert_eq!((woken(&tasks), other.wakes()), (vec![0, 0], 1));
}

#[test]
fn cells_are_used_again() {
    let waiters = Waiters::new();
    for _ in 0..10_000 {
        drop(tasks(&waiters, 5));
    }
    assert_eq!(waiters.registry.cells().count(), registry::FIRST);
    drop(tasks(&waiters, 100));
    let cells = waiters.registry.cells().count();
    for _ in 0..100 {
        drop(tasks(&waiters, 100));
    }
    assert_eq!(waiters.registry.cells().count(), cells);
    assert!(waiters.registry.cells().all(|cell| cell.peek() == Word::FREE));
}

#[test]
fn a_panicking_waker_stops_nobody() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker's own trouble");
        }
    }
    let waiters = Waiters::new();
    let mut bomb = waiters.wait_for(nothing);
    assert!(Pin::new(&mut bomb).poll(&mut Context::from_waker(&Waker::from(Arc::new(Bomb)))).is_pending());
    let tasks = tasks(&waiters, 2);
    waiters.notify(1);
    assert_eq!(woken(&tasks), [1, 0]);
    waiters.notify_all();
    assert_eq!(woken(&tasks), [1, 1]);
    drop((bomb, tasks));
    assert_eq!(waiters.sleepers.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panicking_look_hands_on() {
    let waiters = Waiters::new();
    let flag = Arc::new(Flag::default());
    let armed = AtomicBool::new(false);
    let mut task = waiters.wait_for(|| {
        assert!(!armed.load(Ordering::SeqCst), "the closure's own trouble");
        nothing()
    });
    assert!(poll(&mut task, &flag).is_pending());
    let other = tasks(&waiters, 1);
    waiters.notify(1);
    assert_eq!((flag.wakes(), woken(&other)), (1, vec![0]));
    armed.store(true, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut task, &flag))).is_err());
    assert_eq!(woken(&other), [1]);
}

#[test]
fn a_waker_is_dropped_with_its_wait() {
    let waiters = Waiters::new();
    let tasks = tasks(&waiters, 3);
    let flags: Vec<_> = tasks.iter().map(|(_, flag)| Arc::clone(flag)).collect();
    assert!(flags.iter().all(|flag| Arc::strong_count(flag) == 3));
    waiters.notify(2);
    drop(tasks);
    assert!(flags.iter().all(|flag| Arc::strong_count(flag) == 1));
}

#[test]
fn futures_can_be_sent() {
    fn sent<T: Send>(_: T) {}
    let waiters = Waiters::new();
    sent(waiters.wait_for(nothing));
    fn shared<T: Send + Sync>() {}
    shared::<Waiters>();
}
