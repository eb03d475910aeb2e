//! Waiting for what must come, with a limit that only a bug reaches.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::{DeltaQueue, Lease};

use super::threads::{self, Thread};

/// Long enough for anything that comes at all, on a busy machine too.
pub(crate) const LONG: Duration = Duration::from_secs(if cfg!(delta_fifo_mutants) { 10 } else { 60 });

/// Runs `f` in a thread of its own and returns its result; panics if it does not end.
pub(crate) fn finishes<T: Send + 'static>(what: &str, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = sender.send(f());
    });
    match receiver.recv_timeout(LONG) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} does not end"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the result was sent"),
        },
    }
}

/// The smallest executor; panics if the future does not end. Polls only when woken.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let woken = Woken::new();
    let waker = Waker::from(Arc::clone(&woken));
    let limit = Instant::now() + LONG;
    loop {
        let seen = woken.count();
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        woken.wait_until(limit, |count| count > seen);
    }
}

/// One poll of `future`, whose waker counts in `woken`.
pub(crate) fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>, woken: &Arc<Woken>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
}

/// A waker that counts, for the thread that made it.
pub(crate) struct Woken {
    count: AtomicUsize,
    thread: Thread,
}

impl Woken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Woken { count: AtomicUsize::new(0), thread: threads::current() })
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Blocks until it was woken.
    pub(crate) fn wait(&self) {
        self.wait_until(Instant::now() + LONG, |count| count > 0);
    }

    fn wait_until(&self, limit: Instant, reached: impl Fn(usize) -> bool) {
        while !reached(self.count()) {
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the future was never woken");
            threads::park_timeout(left);
        }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Rounds in which all `sides` start at the same moment, in threads that last: `set_up` makes what a round is
/// about from its number, `check` looks at it when all sides have returned. Most rounds start the sides a little
/// apart.
pub(crate) fn race<T: Send + Sync>(
    rounds: usize,
    set_up: impl Fn(usize) -> T,
    sides: &[&(dyn Fn(&T) + Sync)],
    check: impl Fn(T),
) {
    let gate = Gate::default();
    thread::scope(|scope| {
        let (results, finished) = mpsc::channel();
        let mut starts = Vec::new();
        for (index, side) in sides.iter().enumerate() {
            let (start, started) = mpsc::channel::<(usize, Arc<T>)>();
            starts.push(start);
            let (gate, results) = (&gate, results.clone());
            scope.spawn(move || {
                for (round, about) in started {
                    gate.pass(round * sides.len());
                    for _ in 0..(round / 2 * (index + 1) * 7) % 97 {
                        std::hint::spin_loop();
                    }
                    side(&about);
                    drop(about);
                    if results.send(()).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for round in 1..=rounds {
            let about = Arc::new(set_up(round));
            for start in &starts {
                let _ = start.send((round, Arc::clone(&about)));
            }
            for _ in sides {
                if let Err(error) = finished.recv_timeout(LONG) {
                    // The gate stays shut for nobody: a side that panicked says why when the scope ends.
                    gate.open();
                    panic!("round {round} does not end: {error}");
                }
            }
            check(Arc::into_inner(about).expect("every side has returned"));
        }
    });
}

/// Lets threads pass when enough of them have come.
#[derive(Default)]
struct Gate {
    arrived: AtomicUsize,
}

impl Gate {
    fn pass(&self, enough: usize) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < enough {
            thread::yield_now();
        }
    }

    fn open(&self) {
        self.arrived.store(usize::MAX / 2, Ordering::SeqCst);
    }
}

/// The next lease, which must come in time: a lost wake-up does not go unnoticed because the limit finds the
/// key.
pub(crate) fn pop_soon<Q: DeltaQueue>(queue: &Q) -> Lease<'_, Q> {
    let start = Instant::now();
    let lease = queue.pop_timeout(LONG).unwrap_or_else(|error| panic!("the pop said {error:?}"));
    assert!(start.elapsed() < LONG, "nobody woke the pop");
    lease
}
