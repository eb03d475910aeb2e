//! How many events a second.

use std::sync::Arc;
use std::time::Instant;

use super::cluster::{Plan, Write, stalled, until};
use super::rivals::{KUBE, KUBE_ALONE, KUBE_STREAM, OURS, OURS_STREAM, WATCHER};
use super::told::{Counts, Told};
use super::{Ready, is_ours, patience, trace};
use crate::trials::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};

const WRITES: &str = "writes";
const UPDATES: &str = "updates";

pub(super) static TRIAL: Trial = Trial {
    id: "informers events",
    about: "a first list, then writes at full speed: until all handlers were told the last version of every object",
    cases,
    rows,
    against: &[KUBE, KUBE_ALONE],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[],
};

fn cases(size: Size) -> Vec<Case> {
    let known: &[usize] = if size == Size::Quick { &[1_000] } else { &[1_000, 10_000] };
    let case = |writes, known: usize, handlers: usize| {
        Case::new().with(WRITES, writes).with("known", known).with("handlers", handlers)
    };
    let updates = known.iter().flat_map(|&known| [1, 3].map(|handlers| case(UPDATES, known, handlers)));
    // As many as the recording begins with.
    updates.chain([1, 3].map(|handlers| case(trace::NAME, trace::FIRST, handlers))).collect()
}

fn rows(case: &Case) -> Vec<&'static str> {
    match (case.text("handlers"), case.text(WRITES)) {
        // Lists as streams differ in the first list alone.
        ("1", UPDATES) => vec![OURS, OURS_STREAM, KUBE, KUBE_STREAM, KUBE_ALONE, WATCHER],
        ("1", _) => vec![OURS, KUBE, KUBE_ALONE, WATCHER],
        (_, UPDATES) => vec![OURS, OURS_STREAM, KUBE, KUBE_STREAM],
        _ => vec![OURS, KUBE],
    }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let (size, handlers) = (setting.size, case.get("handlers"));
    let most = match size {
        Size::Quick => 2_000,
        Size::Normal => 20_000,
        Size::Full => 100_000,
    };
    let plan = match case.text(WRITES) {
        UPDATES => Plan::updates(case.get("known"), most),
        _ => trace::plan(most),
    };
    Box::new(move |row: &str| run(row, &plan, handlers, size))
}

/// So many are put, and so many deleted.
fn kinds(writes: &[Write]) -> (u64, u64) {
    let puts = writes.iter().filter(|write| matches!(write, Write::Put(..))).count();
    (puts as u64, (writes.len() - puts) as u64)
}

fn run(row: &str, plan: &Plan, handlers: usize, size: Size) -> Sample {
    let handlers: Vec<Arc<Told>> = (0..handlers).map(|_| Told::new(&plan.keys, None)).collect();
    let ready = match Ready::start(row, plan, &handlers) {
        Ok(ready) => ready,
        Err(why) => return Sample::new(vec![why]),
    };
    let finals = plan.finals(&ready.cluster);
    let before: Vec<Counts> = handlers.iter().map(|handler| handler.counts()).collect();
    handlers.iter().for_each(|handler| handler.expect(finals.clone()));

    let began = Instant::now();
    plan.write(&ready.cluster, |_| None);
    let written = began.elapsed();
    let stalled = stalled(&handlers, patience(row, size));
    let told = began.elapsed();

    let (puts, deletions) = kinds(&plan.writes);
    let counts = || handlers.iter().zip(&before).map(|(handler, before)| handler.counts() - *before);
    let all = |counts: Counts| (counts.versions, counts.again, counts.deletions) == (puts, 0, deletions);
    let mut violations = Vec::new();
    // What is told after the last version of what stays: deletions.
    if is_ours(row) && !until(patience(row, size), || counts().all(all)) {
        let told = counts().find(|counts| !all(*counts));
        violations.push(format!("{puts} put and {deletions} deleted, and one handler was told {told:?}"));
    }
    let versions: u64 = counts().map(|counts| counts.versions).sum();
    if stalled == 0 || is_ours(row) {
        violations.extend(ready.violations(&handlers));
    }
    if stalled > 0 && is_ours(row) {
        violations.push(format!("{stalled} handlers were not told all"));
    }
    let rate = |events: usize, time: std::time::Duration| events as f64 / time.as_secs_f64();
    let percent = |part: f64, whole: f64| 100.0 * part / whole;
    let mut sample = Sample::new(violations).higher(
        "objects of the first list",
        "objects/s",
        rate(plan.first.len(), ready.listed),
    );
    if stalled > 0 {
        let note = format!(
            "{row}: of its subscribers some never got to the end in one or more runs of {WRITES} with deletions: such a run has no rate."
        );
        return sample.note(note);
    }
    sample = sample.higher("events", "events/s", rate(plan.writes.len(), told));
    let whole = (puts * handlers.len() as u64) as f64;
    sample
        .higher("versions that a handler was told, of those written", "%", percent(versions as f64, whole))
        .lower(
            "time until all was written, of all the time",
            "%",
            percent(written.as_secs_f64(), told.as_secs_f64()),
        )
}
