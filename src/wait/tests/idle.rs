//! What those who wait cost while nothing happens.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use super::*;

/// What this thread is called under `/proc`.
fn this_task() -> PathBuf {
    PathBuf::from("/proc").join(std::fs::read_link("/proc/thread-self").expect("a task"))
}

/// CPU time of one thread, in ticks: 100 a second wherever Linux runs today.
fn ticks(task: &Path) -> u64 {
    let text = std::fs::read_to_string(task.join("stat")).expect("a task");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

/// Counts the waiting threads' own time, whatever else this process does meanwhile.
#[test]
fn idle_waiters_burn_nothing() {
    const WAITING: usize = 16;
    let waiters = Waiters::new();
    let closed = AtomicBool::new(false);
    let look = || closed.load(Ordering::SeqCst).then_some(());
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for waiter in 0..WAITING {
            let (waiters, tell) = (&waiters, tell.clone());
            scope.spawn(move || {
                tell.send(this_task()).expect("the test listens");
                match waiter % 2 {
                    0 => waiters.wait_until(Deadline::Never, look).expect("no deadline"),
                    _ => block_on(waiters.wait_for(look)),
                }
            });
        }
        let tasks: Vec<PathBuf> = told.iter().take(WAITING).collect();
        let asleep = || waiters.registry.cells().filter(|cell| cell.peek().state() == State::Waiting).count();
        while asleep() < WAITING {
            thread::yield_now();
        }
        let burnt = || tasks.iter().map(|task| ticks(task)).sum::<u64>();
        let before = burnt();
        thread::sleep(Duration::from_millis(500));
        let after = burnt();
        closed.store(true, Ordering::SeqCst);
        waiters.notify_all();
        // Two: what was burnt before is counted late, if the kernel counts by ticks.
        assert!(after - before <= 2, "16 idle waiters burnt {} ticks in half a second", after - before);
    });
}
