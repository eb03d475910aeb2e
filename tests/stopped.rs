//! Stopped participants, in builds without pause points: a thread is stopped by a signal at any instruction of a call, and
//! the others must complete all that `src/fifo/progress.md` promises; then it goes on, and everything must add up.
//!
//! `DELTA_FIFO_SIGNAL_STOPS` says how often a thread is stopped in each call, `DELTA_FIFO_STRESS_SEED` when.
//! `cargo test --release --test stopped -- --nocapture` prints at how many instructions.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

#[path = "stopped/calls.rs"]
mod calls;
#[path = "stopped/ledger.rs"]
mod ledger;
#[path = "stopped/others.rs"]
mod others;
#[path = "stopped/signal.rs"]
mod signal;
#[path = "stopped/watchdog.rs"]
mod watchdog;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use delta_fifo::{Builder, DeltaQueue};

use calls::{Call, drain, perform};
use common::Random;
use ledger::{Queue, begin_queue, check_all_handed_out, check_gone_and_begin, check_known, is_nearly_full};
use others::Sleeper;
use signal::{go_on, offset};
use watchdog::Watchdog;

#[global_allocator]
static ALLOCATOR: signal::Marked = signal::Marked;

/// One at a time: only one thread can be stopped, and there is one ledger.
static ALONE: Mutex<()> = Mutex::new(());

/// After so many stops the queue comes to rest, and everything is counted.
const STOPS_IN_A_ROUND: u64 = 16;
/// Instructions.
const LONG_CALL: u64 = 2048;
/// A queue is closed once.
const QUEUES_TO_CLOSE: usize = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// What the threads of a round share.
struct Round {
    call: Call,
    seed: u64,
    queues: Vec<Queue>,
    /// The queue with which the one that is stopped has to do.
    at: AtomicUsize,
    enough: AtomicBool,
    /// It makes no call any more, and waits to be let go.
    has_ended: AtomicBool,
}

impl Round {
    fn new(call: Call, seed: u64) -> Self {
        let queues = if call == Call::Close { QUEUES_TO_CLOSE } else { 1 };
        let shards = [1, 2, 64][seed as usize % 3];
        Round {
            call,
            seed,
            queues: (0..queues)
                .map(|_| Builder::new().shards(shards).lines((shards / 16).max(1)).build())
                .collect(),
            at: AtomicUsize::new(0),
            enough: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> &Queue {
        &self.queues[self.at.load(SeqCst)]
    }

    /// The one that is stopped: makes the call again and again.
    fn make_calls(&self, started: mpsc::Sender<()>) {
        let _ended = Ended(self);
        let mut random = Random::new(self.seed);
        // What is made once in each thread is made before the first stop.
        perform(self.call, &Builder::new().build(), &mut random);
        check_gone_and_begin();
        started.send(()).expect("somebody stops it");
        drop(started);
        let mut calls = 0;
        while !self.enough.load(SeqCst) && !is_nearly_full() {
            perform(self.call, self.queue(), &mut random);
            calls += 1;
            match self.call {
                Call::Close if calls == self.queues.len() => break,
                Call::Close => {
                    self.at.store(calls, SeqCst);
                    begin_queue();
                }
                _ if calls % 8 == 0 => drain(self.queue()),
                _ => {}
            }
        }
    }

    /// The others. Returns where the thread was stopped.
    fn stop_and_go_on(&self, stops: u64, watchdog: &Watchdog) -> Vec<usize> {
        let mut random = Random::new(!self.seed);
        let mut sleeper = Sleeper::default();
        let mut places = Vec::new();
        if self.call != Call::Close {
            sleeper.lie_down(self.queue());
        }
        while (places.len() as u64) < stops {
            let Some(place) = self.stop(&mut random) else { break };
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                others::go_on(self.call, self.queue(), &mut sleeper, &mut random, watchdog);
            }));
            go_on();
            let waited = watchdog.rest();
            let stood = || format!("stopped in {:?}, at {:#x}, seed {}", self.call, offset(place), self.seed);
            assert!(waited.is_none(), "{} waited for a thread {}", waited.unwrap_or_default(), stood());
            if let Err(panic) = answer {
                eprintln!("while a thread was {}", stood());
                std::panic::resume_unwind(panic);
            }
            places.push(place);
        }
        places
    }

    /// Stops it a few instructions on, or many, and says at which it stands; unless it has ended.
    fn stop(&self, random: &mut Random) -> Option<usize> {
        // Most calls are short; in the others each instruction has its turn too.
        let most = if random.one_in(4) { LONG_CALL } else { 16 << random.below(9) };
        signal::ask(1 + random.below(most) as usize);
        loop {
            match signal::place() {
                None if self.has_ended.load(SeqCst) => {
                    go_on();
                    return None;
                }
                None => thread::yield_now(),
                place => return place,
            }
        }
    }

    /// Nobody is stopped any more, and nobody makes calls.
    fn check(self) {
        for queue in &self.queues {
            if self.call == Call::Close {
                begin_queue();
            }
            drain(queue);
            assert_eq!((queue.pending_len(), queue.leased_len()), (0, 0));
        }
        check_all_handed_out();
        if let [queue] = &self.queues[..] {
            check_known(&queue.known());
            check_known(&queue.snapshot());
        }
        drop(self.queues);
        check_gone_and_begin();
    }
}

/// Says that the one that is stopped has ended, also by a panic, and keeps it until nobody stops it any more.
struct Ended<'r>(&'r Round);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, SeqCst);
        while !self.0.enough.load(SeqCst) {
            thread::yield_now();
        }
    }
}

fn run_round(call: Call, seed: u64, most: u64, watchdog: &Watchdog) -> Vec<usize> {
    let round = Round::new(call, seed);
    let places = thread::scope(|scope| {
        let (started, start) = mpsc::channel();
        let thread = scope.spawn(|| round.make_calls(started));
        start.recv().expect("it starts");
        let places =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round.stop_and_go_on(most, watchdog)));
        round.enough.store(true, SeqCst);
        thread.join().expect("what it asserts holds");
        places.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    round.check();
    places
}

fn stop_in(call: Call) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    signal::install();
    let stops = number("DELTA_FIFO_SIGNAL_STOPS", 80);
    let first = number("DELTA_FIFO_STRESS_SEED", 1);
    let (start, watchdog) = (Instant::now(), Watchdog::default());
    let (mut places, mut made) = (HashSet::new(), 0);
    thread::scope(|scope| {
        scope.spawn(|| watchdog.watch());
        for seed in first.. {
            let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run_round(call, seed, STOPS_IN_A_ROUND.min(stops - made), &watchdog)
            }));
            let all = all.unwrap_or_else(|panic| {
                watchdog.end();
                std::panic::resume_unwind(panic)
            });
            made += all.len() as u64;
            places.extend(all);
            if made >= stops {
                break;
            }
        }
        watchdog.end();
    });
    println!("{call:?}: {made} stops at {} instructions, {:.2?}", places.len(), start.elapsed());
}

macro_rules! calls {
    ($($name:ident $call:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                stop_in(Call::$call);
            }
        )*
    };
}

/// Nobody waits for a thread that is stopped in:
mod nobody_waits_for {
    use super::{Call, stop_in};

    calls!(
        add Add,
        update Update,
        apply Apply,
        delete Delete,
        change_all ChangeAll,
        replace Replace,
        resync Resync,
        mark Mark,
        pop Pop,
        pop_batch PopBatch,
        done Done,
        requeue Requeue,
        get Get,
        snapshot Snapshot,
        close Close,
    );
}
