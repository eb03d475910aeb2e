//! Barrier rounds: threads with random roles start at the same moment, make a bounded number of calls and stop; then
//! the queue comes to rest, and everything that was written down is checked.
//!
//! `DELTA_FIFO_STRESS_ROUNDS` says how many rounds each shape is run, `DELTA_FIFO_STRESS_SEED` with which first seed
//! (a failure names the one of its round), `DELTA_FIFO_STRESS_KEYS` only the shapes with so many keys.

mod common;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use common::{Family, for_each_queue};

#[path = "stress/chain.rs"]
mod chain;
#[path = "stress/check.rs"]
mod check;
#[path = "stress/consume.rs"]
mod consume;
#[path = "stress/produce.rs"]
mod produce;
#[path = "stress/record.rs"]
mod record;
#[path = "stress/round.rs"]
mod round;
#[path = "stress/shape.rs"]
mod shape;
#[path = "stress/watchdog.rs"]
mod watchdog;
#[path = "stress/worker.rs"]
mod worker;

use round::{Queue, Role, Round, check_round, oversee};
use shape::{Shape, Variant};
use watchdog::Doing;
use worker::Worker;

/// The threads live for all rounds of a shape and meet at a barrier before and after each round.
fn run<F: Family>(shape: Shape, rounds: u64, first_seed: u64) {
    let current: Mutex<Option<Arc<Round<F>>>> = Mutex::new(None);
    let (begin, end) = (Barrier::new(shape.threads + 1), Barrier::new(shape.threads + 1));
    let (watched, watching) = mpsc::channel();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (current, begin, end, over) = (&current, &begin, &end, &over);
        for index in 0..shape.threads {
            scope.spawn(move || {
                loop {
                    begin.wait();
                    let Some(round) = current.lock().unwrap().clone() else { return };
                    work::<F>(&round, index);
                    drop(round);
                    end.wait();
                }
            });
        }
        let dog = scope.spawn(move || watchdog::watch::<F>(&watching, over));
        for number in 0..rounds {
            let shards = [1, 2, 64][number as usize % 3];
            let round = Arc::new(Round::<F>::new(Shape { shards, ..shape }, first_seed + number));
            let title = round.title();
            watched.send(Arc::clone(&round)).unwrap();
            let result = catch_unwind(AssertUnwindSafe(|| {
                let mut first = Worker::new(&*round, shape.threads);
                if round.plan.first_list {
                    first.first_lists();
                }
                *current.lock().unwrap() = Some(Arc::clone(&round));
                begin.wait();
                let result = catch_unwind(AssertUnwindSafe(|| oversee(&round, first)));
                if result.is_err() {
                    round.fail();
                }
                end.wait();
                *current.lock().unwrap() = None;
                assert!(result.is_ok() && !round.failed.load(Ordering::SeqCst));
                check_round(round);
            }));
            if result.is_err() {
                *current.lock().unwrap() = None;
                over.store(true, Ordering::SeqCst);
                begin.wait();
                panic!("{title}");
            }
        }
        over.store(true, Ordering::SeqCst);
        dog.thread().unpark();
        begin.wait();
    });
}

fn work<F: Family>(round: &Round<F>, index: usize) {
    let role = round.roles[index];
    // The barrier lets the threads go one by one.
    round.arrived.fetch_add(1, Ordering::SeqCst);
    while round.arrived.load(Ordering::SeqCst) < round.shape.threads {
        thread::yield_now();
    }
    // A thread that fails must not keep the others waiting.
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = Worker::new(round, index);
        worker.work(role);
        worker.doing(Doing::Nothing);
        worker.finish();
    }));
    if result.is_err() {
        round.fail();
    }
    if !(role == Role::Consumer && round.plan.blocking) {
        round.busy.fetch_sub(1, Ordering::SeqCst);
    }
    round.running.fetch_sub(1, Ordering::SeqCst);
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

fn shapes<F: Family>(variant: Variant)
where
    Queue<F>: Debug,
{
    let rounds = number("DELTA_FIFO_STRESS_ROUNDS", 6);
    let only = number("DELTA_FIFO_STRESS_KEYS", 0);
    for keys in [1, 4, 256].into_iter().filter(|&keys| only == 0 || only == u64::from(keys)) {
        for threads in [2, 4, 16] {
            let first = number("DELTA_FIFO_STRESS_SEED", u64::from(keys) * 1_000_000);
            run::<F>(Shape { variant, keys, threads, shards: 1 }, rounds, first);
        }
    }
}

fn defaults<F: Family>() {
    shapes::<F>(Variant::Default);
}

fn latest<F: Family>() {
    shapes::<F>(Variant::Latest);
}

fn background<F: Family>() {
    shapes::<F>(Variant::Background);
}

fn no_store<F: Family>() {
    shapes::<F>(Variant::NoStore);
}

fn own_store<F: Family>() {
    shapes::<F>(Variant::OwnStore);
}

fn scopes<F: Family>() {
    shapes::<F>(Variant::Scopes);
}

for_each_queue!(defaults, latest, background, no_store, own_store, scopes);
