//! Which thread runs at each step of an execution: written down, kept in a file, and followed again.

use std::cell::RefCell;
use std::fmt::Write;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// Threads are numbers in the order in which they were spawned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Of what the scenario does.
    pub(crate) seed: u64,
    /// Thread, and for how many steps.
    pub(crate) runs: Vec<(usize, u32)>,
}

impl Recorded {
    fn push(&mut self, thread: usize) {
        match self.runs.last_mut() {
            Some((last, steps)) if *last == thread => *steps += 1,
            _ => self.runs.push((thread, 1)),
        }
    }

    pub(crate) fn steps(&self) -> usize {
        self.runs.iter().map(|run| run.1 as usize).sum()
    }

    /// The first steps, about so many.
    pub(crate) fn first(&self, most: usize) -> Self {
        let mut steps = 0;
        let runs = self.runs.iter().copied().take_while(|run| {
            steps += run.1 as usize;
            steps <= most
        });
        Recorded { seed: self.seed, runs: runs.collect() }
    }

    /// `3` is a step of thread 3, `3x17` are seventeen.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut column = 0;
        for &(thread, steps) in &self.runs {
            let run = if steps == 1 { thread.to_string() } else { format!("{thread}x{steps}") };
            let end = if column + run.len() > 110 { '\n' } else { ' ' };
            column = if end == '\n' { 0 } else { column + run.len() + 1 };
            write!(text, "{run}{end}").expect("a string takes everything");
        }
        text
    }

    pub(crate) fn of_text(seed: u64, text: &str) -> Self {
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let run = |run: &str| match run.split_once('x') {
            Some((thread, steps)) => (number(thread) as usize, number(steps)),
            None => (number(run) as usize, 1),
        };
        Recorded { seed, runs: text.split_whitespace().map(run).collect() }
    }
}

// An execution runs on the thread that called for it.
thread_local! {
    static CURRENT: RefCell<Recorded> = RefCell::default();
}

/// The execution that runs, or has failed.
pub(crate) fn current() -> Recorded {
    CURRENT.with_borrow(Recorded::clone)
}

pub(crate) fn seed() -> u64 {
    CURRENT.with_borrow(|current| current.seed)
}

/// Another scheduler, and what it decides written down. Each execution has a seed of its own.
#[derive(Debug)]
pub(crate) struct Recorder<S> {
    pub(crate) scheduler: S,
    pub(crate) next_seed: u64,
}

impl<S: Scheduler> Scheduler for Recorder<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        let schedule = self.scheduler.new_execution()?;
        CURRENT.set(Recorded { seed: self.next_seed, runs: Vec::new() });
        self.next_seed += 1;
        Some(schedule)
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let next = self.scheduler.next_task(runnable, current, is_yielding)?;
        CURRENT.with_borrow_mut(|current| current.push(next.into()));
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}

/// Follows what was written down as long as it can; then each thread runs until it gives way. So it always comes to an end,
/// also where the code has changed since.
#[derive(Debug)]
pub(crate) struct Follower {
    runs: Vec<(usize, u32)>,
    at: usize,
    started: bool,
}

impl Follower {
    pub(crate) fn new(recorded: &Recorded) -> Self {
        Follower { runs: recorded.runs.clone(), at: 0, started: false }
    }

    /// The thread that had the next step, if it can make one.
    fn follow(&mut self, runnable: &[&Task]) -> Option<TaskId> {
        while let Some((thread, left)) = self.runs.get_mut(self.at) {
            let found = runnable.iter().map(|task| task.id()).find(|id| usize::from(*id) == *thread);
            match found {
                Some(id) if *left > 0 => {
                    *left -= 1;
                    return Some(id);
                }
                // Used up; or it waits here and did not then, and what it did cannot be done.
                _ => self.at += 1,
            }
        }
        None
    }
}

impl Scheduler for Follower {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.started, true)).then(|| Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if let Some(next) = self.follow(runnable) {
            return Some(next);
        }
        let mut ids = runnable.iter().map(|task| task.id());
        let first = ids.clone().next();
        let stays = !is_yielding && ids.any(|id| Some(id) == current);
        let after = || runnable.iter().map(|task| task.id()).find(|id| Some(*id) > current);
        if stays { current } else { after().or(first) }
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
