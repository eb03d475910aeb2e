//! Random histories of both queues, short enough to decide whether each can have been: up to four threads, 30 to 60 calls, on
//! one to four keys; checked by the search of `tests/history` against the sequential model of `tests/model`.
//!
//! `DELTA_FIFO_HISTORIES` says how many are made of each kind, `DELTA_FIFO_STRESS_SEED` with which first seed.

mod common;
#[path = "history/mod.rs"]
mod history;
mod model;

use std::cell::Cell;

use delta_fifo::{Builder, Compression};

use common::{Family, with_shards};
use history::calls::{History, Key};
use history::search::{Verdict, search};
use history::shrink::{explain, smallest};
use history::spec::QueueSpec;
use history::split::{Split, View};
use history::threads::{Plan, Round};
use model::config::Config;

type Queue<F> = <F as Family>::Queue<Key, u32>;

const THREADS: usize = 4;

struct Made<F: Family> {
    round: Round<Queue<F>>,
    config: Config,
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

fn make<F: Family>(seed: usize, plan: Plan) -> Made<F> {
    let config = Config { latest: seed % 4 == 3, ..Config::default() };
    let compression = if config.latest { Compression::Latest } else { Compression::Deletions };
    // A seed says all, also which keys share a bucket.
    let hasher = ahash::RandomState::with_seeds(seed as u64, 2, 3, 4);
    let builder = Builder::with_hasher(hasher).on_abandon(config.on_abandon).compression(compression);
    let queue: Queue<F> = with_shards(builder, 1 + seed / 4 % 2).build();
    Made { round: Round::new(queue, plan, seed as u64), config }
}

/// The verdict of one view, and what to say of it.
fn judge(history: &History, view: View, keys: u8, config: &Config, joint: bool) -> (Verdict, String) {
    let spec = QueueSpec { config: config.clone(), lined: view == View::Line };
    let events = Split { history, view, keys, joint }.events();
    let verdict = search(&spec, &events);
    let text = if verdict.is_wrong() { explain(&spec, history, &events, &verdict) } else { String::new() };
    (verdict, text)
}

/// By the number of keys.
type Views = fn(u8) -> Vec<View>;

const PLAN: Plan = Plan { threads: THREADS, calls: 0, keys: 0, pops: 4, ends: 4, lists: 1, reads: 1 };

/// What is made, and how it is looked at: many of the first, fewest of the second, which takes longest to decide.
const CONTENTS: (Plan, Views) =
    (Plan { lists: 2, reads: 2, ..PLAN }, |keys| (0..keys).map(View::Contents).collect());
const LINE: (Plan, Views) = (Plan { reads: 0, ..PLAN }, |_| vec![View::Line]);
const KNOWN: (Plan, Views) = (Plan { reads: 5, ends: 3, ..PLAN }, |_| vec![View::Known]);

/// What was made and judged.
#[derive(Default)]
struct Tally {
    histories: Cell<usize>,
    calls: Cell<usize>,
    /// Calls that were made before the one before them had returned.
    overlapping: Cell<usize>,
    verdicts: Cell<usize>,
    undecided: Cell<usize>,
}

fn count(of: &Cell<usize>, more: usize) {
    of.set(of.get() + more);
}

fn check<F: Family>(made: Made<F>, views: Views, tally: &Tally) {
    let Made { round, config } = made;
    let (seed, plan) = (round.seed, round.plan);
    let history = round.history();
    let overlap = history.windows(2).filter(|two| two[0].returned > Some(two[1].called)).count();
    count(&tally.histories, 1);
    count(&tally.calls, history.len());
    count(&tally.overlapping, overlap);
    for view in views(plan.keys) {
        let judge = |history: &History| judge(history, view, plan.keys, &config, F::IS_JOINT);
        let (verdict, _) = judge(&history);
        count(&tally.verdicts, 1);
        count(&tally.undecided, usize::from(verdict == Verdict::Unknown));
        if verdict.is_wrong() {
            let history = smallest(&history, plan.keys, |history| judge(history).0.is_wrong());
            panic!(
                "seed {seed}, {plan:?}, {config:?}, {view:?}: this cannot have been:\n{}",
                judge(&history).1
            );
        }
    }
}

/// On threads of the system.
#[cfg(not(delta_fifo_shuttle))]
mod on_threads {
    use std::time::Instant;

    use super::*;
    use common::{for_each_queue, race};

    /// What one thread does.
    type Side<F> = dyn Fn(&Made<F>) + Sync;

    /// Makes histories by this plan, of two to four threads and with one to four keys, and judges each in every one of the views.
    fn histories<F: Family>(default: usize, (plan, views): (Plan, Views)) {
        let first = number("DELTA_FIFO_STRESS_SEED", 0);
        let (start, tally) = (Instant::now(), Tally::default());
        let sides: [&Side<F>; THREADS] =
            [&|made| made.round.side(0), &|made| made.round.side(1), &|made| made.round.side(2), &|made| {
                made.round.side(3);
            }];
        for threads in 2..=THREADS {
            let set_up = |round| {
                let seed = first + round;
                // As many calls whoever makes them.
                make(seed, Plan { threads, calls: 36 / threads, keys: 1 + (seed / 8 % 4) as u8, ..plan })
            };
            let rounds = number("DELTA_FIFO_HISTORIES", default).div_ceil(THREADS - 1);
            race(rounds, set_up, &sides[..threads], |made| check(made, views, &tally));
        }
        let Tally { histories, calls, overlapping, verdicts, undecided } = &tally;
        println!(
            "{} histories of {} calls, {} overlapping, in {:?}: {} verdicts, {} undecided",
            histories.get(),
            calls.get(),
            overlapping.get(),
            start.elapsed(),
            verdicts.get(),
            undecided.get(),
        );
        assert!(undecided.get() * 100 <= verdicts.get(), "too many are undecided");
    }

    fn contents<F: Family>() {
        histories::<F>(1200, CONTENTS);
    }

    fn line<F: Family>() {
        histories::<F>(600, LINE);
    }

    fn known<F: Family>() {
        histories::<F>(1500, KNOWN);
    }

    for_each_queue!(contents, line, known);
}

/// On threads inside shuttle, which decides who has the next turn: at each call of the clock, in the queue's own steps, and
/// where it hashes and compares keys. The mutex queue's lock is not shuttle's.
#[cfg(delta_fifo_shuttle)]
mod inside_shuttle {
    use shuttle::scheduler::RandomScheduler;

    use super::*;
    use common::ShardedQueues;

    /// Schedules of each plan.
    const SCHEDULES: usize = 20;

    fn histories((plan, views): (Plan, Views)) {
        let first = number("DELTA_FIFO_STRESS_SEED", 0);
        for seed in first..first + number("DELTA_FIFO_HISTORIES", 400).div_ceil(SCHEDULES) {
            let (threads, keys) = (2 + seed % 3, 1 + (seed / 8 % 4) as u8);
            let body = move || {
                let made = make::<ShardedQueues>(seed, Plan { threads, calls: 24 / threads, keys, ..plan });
                made.round.run_sides();
                check(made, views, &Tally::default());
            };
            // The search runs in there too.
            let mut config = shuttle::Config::new();
            config.stack_size = 1 << 20;
            shuttle::Runner::new(RandomScheduler::new_from_seed(seed as u64, SCHEDULES), config).run(body);
        }
    }

    #[test]
    fn contents() {
        histories(CONTENTS);
    }

    #[test]
    fn line() {
        histories(LINE);
    }

    #[test]
    fn known() {
        histories(KNOWN);
    }
}
