//! Runs a scenario under the schedulers, and keeps the schedule that failed.

use std::fmt::{Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use delta_fifo::scheduled;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::schedule::{self, Follower, Recorded, Recorder};

/// An execution of more steps does not end. Most have 2,000 to 60,000.
const MOST_STEPS: usize = 300_000;
/// So many are kept of one that does not end: by then everybody turns in a circle.
const KEPT_STEPS: usize = 20_000;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// It is given a seed, and nothing else decides what it does.
    pub(crate) body: fn(u64),
    /// Panics are a part of it.
    pub(crate) panics: bool,
}

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Random,
    /// Uniform over all orders of steps.
    Walk,
    /// Priorities that change so often.
    Pct(usize),
}

pub(crate) const ALL: [Luck; 5] = [Luck::Random, Luck::Walk, Luck::Pct(2), Luck::Pct(4), Luck::Pct(12)];

impl Display for Luck {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Luck::Random => f.write_str("random"),
            Luck::Walk => f.write_str("walk"),
            Luck::Pct(changes) => write!(f, "pct{changes}"),
        }
    }
}

impl Luck {
    pub(crate) fn of(name: &str) -> Self {
        *ALL.iter().find(|luck| luck.to_string() == name).expect("the name of a scheduler")
    }

    fn scheduler(self, seed: u64, executions: usize) -> Box<dyn Scheduler + Send> {
        match self {
            Luck::Random => Box::new(RandomScheduler::new_from_seed(seed, executions)),
            Luck::Walk => Box::new(UrwRandomScheduler::new_from_seed(seed, executions)),
            Luck::Pct(changes) => Box::new(PctScheduler::new_from_seed(seed, changes, executions)),
        }
    }
}

/// An execution that failed.
pub(crate) struct Failure {
    pub(crate) schedule: Recorded,
    /// So many came before.
    pub(crate) after: usize,
    /// What it panicked with. The panic of a thread is printed above.
    pub(crate) says: String,
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// The bug that is planted, or "".
pub(crate) fn planted() -> String {
    std::env::var("DELTA_FIFO_MUTANT").unwrap_or_default()
}

impl Scenario {
    /// How many executions there were, and of how many steps the last was.
    fn run<S: Scheduler + 'static>(
        &self,
        scheduler: impl FnOnce() -> S + Send + 'static,
    ) -> Result<(usize, usize), Failure> {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
        config.silence_warnings = true;
        // A thread that has failed unwinds no further than to its next step: others that fail meanwhile would abort.
        config.ungraceful_shutdown_config.immediately_return_on_panic = !self.panics;
        let body = self.body;
        // A thread that is left unwinding is of no more use.
        let runner = std::thread::spawn(move || {
            let done = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&done);
            let run = catch_unwind(AssertUnwindSafe(|| {
                Runner::new(scheduler(), config).run(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    scheduled::begin();
                    body(schedule::seed());
                })
            }));
            let executions = done.load(Ordering::Relaxed);
            match run {
                Ok(_) => Ok((executions, schedule::current().steps())),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let says = text.or(panic.downcast_ref::<&str>().copied());
                    let says = says.unwrap_or("something else").to_owned();
                    Err(Failure { schedule: schedule::current(), after: executions - 1, says })
                }
            }
        });
        runner.join().expect("panics are caught")
    }

    pub(crate) fn search(&self, luck: Luck, seed: u64, executions: usize) -> Result<(usize, usize), Failure> {
        self.run(move || Recorder { scheduler: luck.scheduler(seed, executions), next_seed: seed })
    }

    /// Whether it ends well.
    pub(crate) fn follow(&self, recorded: &Recorded) -> Result<(usize, usize), Failure> {
        let (follower, next_seed) = (Follower::new(recorded), recorded.seed);
        self.run(move || Recorder { scheduler: follower, next_seed })
    }

    /// Under all schedulers, or one.
    pub(crate) fn check(&self) {
        let executions = number("DELTA_FIFO_SHUTTLE_ITERATIONS", 200) as usize;
        let seed = number("DELTA_FIFO_SHUTTLE_SEED", 1);
        let only = std::env::var("DELTA_FIFO_SHUTTLE_SCHEDULER").ok().map(|name| Luck::of(&name));
        for luck in ALL.into_iter().filter(|luck| only.is_none_or(|only| only == *luck)) {
            let start = Instant::now();
            match self.search(luck, seed, executions) {
                Ok((executions, steps)) => println!(
                    "{} {luck}: {executions} executions, the last of {steps} steps, {:.2?}",
                    self.name,
                    start.elapsed()
                ),
                Err(failure) => panic!(
                    "{} {luck}: failed after {} executions in {:.2?}: {}\nThe schedule of {} steps is in\n{}\n\
                     Once the bug is fixed, put it into tests/data/schedules/{}/ under the name of the bug.",
                    self.name,
                    failure.after,
                    start.elapsed(),
                    failure.says,
                    failure.schedule.steps(),
                    self.store(luck, &failure.schedule).display(),
                    self.name,
                ),
            }
        }
    }

    /// The file of a schedule that has failed.
    pub(crate) fn store(&self, luck: Luck, recorded: &Recorded) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schedules").join(self.name);
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let bug = planted();
        let seed = recorded.seed;
        let name =
            format!("{}-{luck}-{seed}.txt", if bug.is_empty() { "failed" } else { &bug }).replace(' ', "-");
        let bug = if bug.is_empty() { bug } else { format!("bug: {bug}\n") };
        let ends = recorded.steps() < MOST_STEPS;
        let steps = if ends { recorded.to_text() } else { recorded.first(KEPT_STEPS).to_text() };
        let text = format!("{bug}scheduler: {luck}\nseed: {seed}\n\n{}\n", steps.trim_end());
        let path = folder.join(name);
        std::fs::write(&path, text).expect("the target folder can be written");
        path
    }
}
