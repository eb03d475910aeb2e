//! Real threads and tasks at one line, in rounds.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Barrier, Mutex};

use super::*;
use crate::sync::stopped::stumble;

/// A queue whose lock is the test's own: what is under test is who wakes for its items.
struct Line {
    items: Mutex<VecDeque<u64>>,
    waiters: Waiters,
}

impl Line {
    fn take(&self) -> Option<u64> {
        self.items.lock().expect("no panics").pop_front()
    }
}

/// Persistent threads in rounds: every item of a round is taken by somebody in that round, or the round hangs, which
/// the watchdog tells. Between the rounds all is quiet, and the books must be even.
fn stress(rounds: u64, producers: usize, threads: usize, tasks: usize, others: usize) {
    let line = Line { items: Mutex::default(), waiters: Waiters::new() };
    let total = (threads + tasks) as u64 * 8;
    let (taken, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let round_over = AtomicBool::new(false);
    let barrier = Barrier::new(producers + threads + tasks + others + 1);
    // `None`: the round is over.
    let look = || match line.take() {
        Some(item) => Some(Some(item)),
        None => round_over.load(Ordering::SeqCst).then_some(None),
    };
    let note = |item: u64| {
        sum.fetch_add(item, Ordering::SeqCst);
        if taken.fetch_add(1, Ordering::SeqCst) + 1 == total {
            round_over.store(true, Ordering::SeqCst);
            line.waiters.notify_all();
        }
    };
    let (line, barrier, look, note, done) = (&line, &barrier, &look, &note, &AtomicU64::new(0));
    thread::scope(|scope| {
        for producer in 0..producers {
            scope.spawn(move || {
                stumble(1 + producer as u64);
                for round in 0..rounds {
                    barrier.wait();
                    let mut mine: Vec<u64> =
                        (0..total).filter(|n| *n as usize % producers == producer).collect();
                    while !mine.is_empty() {
                        // One by one, or several at once; with a pause now and then, so that the line runs empty.
                        let n = (round as usize + mine.len()) % 4 % mine.len() + 1;
                        line.items.lock().expect("no panics").extend(mine.drain(..n));
                        line.waiters.notify(n);
                        if (round + mine.len() as u64) % 5 == 0 {
                            thread::yield_now();
                        }
                    }
                    barrier.wait();
                }
            });
        }
        for thread in 0..threads {
            scope.spawn(move || {
                stumble(1_000 + thread as u64);
                for round in 0..rounds {
                    barrier.wait();
                    loop {
                        let deadline = match (thread as u64 + round) % 3 {
                            0 => Deadline::At(Instant::now() + Duration::from_micros(50)),
                            _ => Deadline::Never,
                        };
                        match line.waiters.wait_until(deadline, look) {
                            Some(Some(item)) => note(item),
                            Some(None) => break,
                            None => {} // the time was up
                        }
                    }
                    barrier.wait();
                }
            });
        }
        for task in 0..tasks {
            scope.spawn(move || {
                stumble(2_000 + task as u64);
                for round in 0..rounds {
                    barrier.wait();
                    loop {
                        let mut wait = line.waiters.wait_for(look);
                        // Some are polled once or twice by others and then dropped.
                        let polled = (0..(task as u64 + round) % 3)
                            .map(|_| poll(&mut wait, &Arc::new(Flag::default())))
                            .find(Poll::is_ready);
                        let found = match polled {
                            Some(Poll::Ready(found)) => found,
                            _ if (task as u64 + round) % 3 == 1 => {
                                drop(wait);
                                block_on(line.waiters.wait_for(look))
                            }
                            _ => block_on(wait),
                        };
                        match found {
                            Some(item) => note(item),
                            None => break,
                        }
                    }
                    barrier.wait();
                }
            });
        }
        for _ in 0..others {
            // Notify for nothing.
            scope.spawn(move || {
                for _ in 0..rounds {
                    barrier.wait();
                    for n in 0..20 {
                        line.waiters.notify(n % 3);
                        thread::yield_now();
                    }
                    barrier.wait();
                }
            });
        }
        scope.spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while done.load(Ordering::SeqCst) < rounds {
                thread::sleep(Duration::from_millis(50));
                let now = done.load(Ordering::SeqCst);
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if since.elapsed() > Duration::from_secs(30) {
                    eprintln!("round {now} hangs: {:?}, {:?}", line.waiters, line.items);
                    std::process::abort();
                }
            }
        });
        for _ in 0..rounds {
            barrier.wait();
            barrier.wait();
            // All are between the rounds now; nobody starts the next before this thread does.
            assert_eq!(taken.swap(0, Ordering::SeqCst), total);
            assert_eq!(sum.swap(0, Ordering::SeqCst), total * (total - 1) / 2);
            assert_eq!(line.waiters.sleepers.load(Ordering::SeqCst), 0);
            assert!(
                line.waiters.registry.cells().all(|cell| cell.peek() == Word::FREE),
                "{:?}",
                line.waiters
            );
            round_over.store(false, Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// More for a long run: `DELTA_FIFO_ROUNDS=100000`.
fn rounds(usual: u64) -> u64 {
    std::env::var("DELTA_FIFO_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

#[test]
fn stress_one_producer_one_thread() {
    stress(rounds(300), 1, 1, 0, 0);
}

#[test]
fn stress_two_producers_two_threads_two_tasks() {
    stress(rounds(300), 2, 2, 2, 0);
}

#[test]
fn stress_oversubscribed() {
    stress(rounds(100), 3, 6, 6, 2);
}

#[test]
fn stress_beyond_the_first_segment() {
    stress(rounds(30), 2, 12, 12, 1);
}
