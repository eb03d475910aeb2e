//! `soak`: everything at once, for as long as asked, with another configuration every few seconds; stopped and checked
//! again and again.

mod changers;
mod leases;
mod plan;
mod readers;
mod things;
mod world;

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use delta_fifo::DeltaQueue;
use indicatif::{ProgressBar, ProgressStyle};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::allocator::{self, Allocator};
use crate::cli::SoakOptions;
use crate::machine::{Machine, resident_kib};
use crate::output;
use crate::process::{self, Result};

use changers::Worker;
use plan::{Beat, End, Plan};
use things::{Key, Object, Truth};
use world::{Totals, World, lock};

/// A beat that has not come to rest by then hangs.
const LONG: Duration = Duration::from_secs(60);
/// Between two queues this process has no more than so much: what the collector has not freed yet, and its own.
const KEPT: u64 = 4 << 20;
/// What the resident memory may grow by, from the second quarter of all configurations to the last by their medians, is
/// a half of it and so much more: what the allocator keeps of what was freed comes and goes, and first of all comes.
const SLACK_KIB: u64 = 16 << 10;
/// With fewer configurations there is no saying.
const ENOUGH: usize = 16;

#[derive(Serialize)]
struct Report {
    seed: u64,
    seconds: f64,
    configurations: usize,
    beats: u64,
    #[serde(flatten)]
    totals: Totals,
    /// Memory between two configurations, in each quarter of them: the median, and the most.
    allocated_bytes: Vec<[u64; 2]>,
    resident_kib: Vec<[u64; 2]>,
    #[serde(flatten)]
    machine: Machine,
    failed: Option<String>,
}

pub(crate) fn run(options: &SoakOptions) -> Result<ExitCode> {
    process::served_by(Allocator::Counting)?;
    let start = Instant::now();
    let bar = progress(options);
    let (mut totals, mut beats, mut failed) = (Totals::default(), 0, None);
    let (mut allocated, mut residents) = (Vec::new(), Vec::new());
    for number in 0.. {
        let left = options.time.saturating_sub(start.elapsed());
        if left.is_zero() || failed.is_some() {
            break;
        }
        let plan = Plan::new(options.seed.wrapping_add(number), options.every.min(left));
        bar.set_position(start.elapsed().as_secs());
        bar.set_message(format!("{} keys, configuration {number}", plan.keys));
        let title = format!("{plan:?}");
        match catch_unwind(AssertUnwindSafe(|| configuration(plan, &bar, start))) {
            Ok(done) => {
                totals += done.0;
                beats += done.1;
                allocated.push(allocator::counted().live);
                residents.push(resident_kib());
            }
            Err(panic) => failed = Some(format!("{}: {title}", text(&*panic))),
        }
    }
    bar.finish_and_clear();
    let configurations = residents.len();
    let residents: Option<Vec<u64>> = residents.into_iter().collect();
    let resident_kib = quarters(residents.as_deref().unwrap_or_default());
    let leaked = allocated.last().filter(|left| **left > KEPT).map(|left| format!("{left} bytes are left"));
    let grown = grown(&resident_kib).filter(|_| residents.as_ref().is_some_and(|all| all.len() >= ENOUGH));
    let report = Report {
        seed: options.seed,
        seconds: start.elapsed().as_secs_f64(),
        configurations,
        beats,
        totals,
        allocated_bytes: quarters(&allocated),
        resident_kib,
        machine: Machine::detect(),
        failed: failed.or(leaked).or(grown),
    };
    output::say(&(serde_json::to_string(&report)? + "\n"))?;
    Ok(if report.failed.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One queue from its beginning to its end, and whether anything is left of it.
fn configuration(plan: Plan, bar: &ProgressBar, start: Instant) -> (Totals, u64) {
    let world = World::new(plan);
    let random = &mut SmallRng::seed_from_u64(!world.plan.seed);
    let begun = Instant::now();
    let mut beats = 0;
    first_list(&world);
    while begun.elapsed() < world.plan.time {
        beat(&world, Beat::new(&world.plan, random, false), random);
        world.check();
        beats += 1;
        bar.set_position(start.elapsed().as_secs());
    }
    beat(&world, Beat::new(&world.plan, random, true), random);
    if world.plan.end == End::Drained {
        world.check();
    }
    let mut totals = world.counters.totals();
    totals.merged = world.queue.merged();
    lock(&world.held).iter().for_each(world::Held::check);
    lock(&world.shelf).clear();
    let World { queue, held, store, .. } = world;
    // Snapshots outlive their queue.
    drop((queue, store));
    lock(&held).iter().for_each(world::Held::check);
    drop(held);
    assert_eq!(things::alive(), (0, 0), "keys and objects that are left of a queue");
    (totals, beats + 1)
}

fn first_list(world: &World) {
    let items: Vec<_> = (0..world.plan.keys)
        .map(|key| {
            world.subject(key).set(Truth { state: 1, exists: true });
            (Key::new(key), Object::new(key, 1))
        })
        .collect();
    world.counters.items.fetch_add(items.len() as u64, SeqCst);
    world.queue.replace(items).expect("the first");
}

type Role = fn(&mut Worker<'_>, u32);

fn beat(world: &World, beat: Beat, random: &mut SmallRng) {
    let changers: [(u32, Role); 5] = [
        (beat.producers, |worker, number| worker.produce(number)),
        (beat.replacers, |worker, _| worker.replace()),
        (u32::from(beat.resyncer), |worker, _| worker.resync()),
        (beat.markers, |worker, _| worker.mark()),
        (u32::from(beat.closes), |worker, _| worker.close()),
    ];
    let others: [(u32, Role); 2] =
        [(beat.consumers, |worker, _| worker.consume()), (beat.readers, |worker, _| worker.read())];
    world.stop.store(false, SeqCst);
    world.changing.store(changers.iter().map(|(count, _)| count).sum(), SeqCst);
    let (over, watched) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(|| watch(world, beat, watched));
        let threads: Vec<_> = changers
            .into_iter()
            .map(|role| (true, role))
            .chain(others.into_iter().map(|role| (false, role)))
            .flat_map(|(changes, (count, role))| (0..count).map(move |number| (changes, number, role)))
            .map(|(changes, number, role)| {
                let random = SmallRng::seed_from_u64(random.random());
                scope.spawn(move || work(world, beat, random, changes, number, role))
            })
            .collect();
        let end = Instant::now() + beat.time;
        while Instant::now() < end && !world.failed.load(SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        world.stop.store(true, SeqCst);
        let results: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        drop(over);
        let failed: Vec<String> =
            results.into_iter().filter_map(std::result::Result::err).map(|panic| text(&*panic)).collect();
        if !failed.is_empty() {
            panic::resume_unwind(Box::new(format!("{} in {beat:?}", failed.join("; "))));
        }
    });
}

fn work(world: &World, beat: Beat, random: SmallRng, changes: bool, number: u32, role: Role) {
    let mut worker = Worker { world, queue: &world.queue, beat, random };
    let result = catch_unwind(AssertUnwindSafe(|| role(&mut worker, number)));
    if changes {
        world.changing.fetch_sub(1, SeqCst);
    }
    if let Err(panic) = result {
        // The others would wait for what this thread has in hand.
        world.fail();
        panic::resume_unwind(panic);
    }
}

/// Nobody can end a thread that hangs: it is told, and the process ends.
#[expect(clippy::needless_pass_by_value, reason = "a receiver belongs to one thread")]
fn watch(world: &World, beat: Beat, over: mpsc::Receiver<()>) {
    if over.recv_timeout(beat.time + LONG) == Err(mpsc::RecvTimeoutError::Timeout) {
        let failed = format!("hangs: {beat:?} of {:?}\n{:#?}", world.plan, world.queue);
        let _ = output::say(&(serde_json::json!({ "failed": failed }).to_string() + "\n"));
        std::process::exit(1);
    }
}

/// The median and the most of each.
fn quarters(measured: &[u64]) -> Vec<[u64; 2]> {
    let quarters = measured.chunks(measured.len().div_ceil(4).max(1));
    quarters
        .map(|quarter| {
            let mut sorted = quarter.to_vec();
            sorted.sort_unstable();
            [sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
        })
        .collect()
}

fn grown(quarters: &[[u64; 2]]) -> Option<String> {
    let &[_, [early, _], _, [late, _]] = quarters else { return None };
    let grown = late > early + early / 2 + SLACK_KIB;
    grown.then(|| format!("resident memory grew from {early} to {late} KiB"))
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into())).unwrap_or_else(|| "a panic".into())
}

/// On standard error, and only where somebody watches.
fn progress(options: &SoakOptions) -> ProgressBar {
    let style = ProgressStyle::with_template("soak {wide_bar} {pos}/{len} s · {msg}");
    ProgressBar::new(options.time.as_secs()).with_style(style.expect("a valid template"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_what_comes_and_goes() {
        let coming_and_going: Vec<u64> = (0..40).map(|number| 50_000 + number % 7 * 10_000).collect();
        let of_both = quarters(&coming_and_going);
        assert_eq!((of_both.len(), of_both[0]), (4, [70_000, 110_000]));
        assert_eq!(grown(&of_both), None);
        let growing: Vec<u64> = (0..40).map(|number| 50_000 + number * 5_000).collect();
        assert!(grown(&quarters(&growing)).is_some());
        assert_eq!((quarters(&[]).len(), quarters(&[1]).len(), grown(&quarters(&[1]))), (0, 1, None));
    }
}
