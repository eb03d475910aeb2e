//! How much memory a relist takes, counted.

use std::sync::Arc;

use super::Ready;
use super::cluster::{PATIENCE, Plan, Write, object, stalled, until};
use super::rivals::{KUBE, KUBE_ALONE, KUBE_STREAM, OURS, OURS_STREAM, WATCHER};
use super::told::Told;
use crate::allocator::METER;
use crate::trials::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};

pub(super) static TRIAL: Trial = Trial {
    id: "informers memory",
    about: "the version is gone, and all is listed again: bytes at once beyond those before, and those for what is known",
    cases,
    rows: |case| match case.text("handlers") {
        "1" => vec![OURS, OURS_STREAM, KUBE, KUBE_STREAM, KUBE_ALONE, WATCHER],
        _ => vec![OURS, OURS_STREAM, KUBE, KUBE_STREAM],
    },
    against: &[KUBE],
    // How far handlers lag behind differs a little from run to run.
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 1 } else { 5 }),
    counted: Counted::Alone,
    prepare,
    bars: &[],
};

fn cases(size: Size) -> Vec<Case> {
    let known = if size == Size::Quick { 2_000 } else { 100_000 };
    let handlers: &[usize] = if size == Size::Quick { &[1] } else { &[1, 3] };
    handlers.iter().map(|handlers| Case::new().with("known", known).with("handlers", handlers)).collect()
}

fn prepare(case: &Case, _: &Setting) -> Box<dyn Runs> {
    let (plan, handlers) = (Plan::updates(case.get("known"), 0), case.get("handlers"));
    Box::new(move |row: &str| run(row, &plan, handlers))
}

fn run(row: &str, plan: &Plan, handlers: usize) -> Sample {
    let handlers: Vec<Arc<Told>> = (0..handlers).map(|_| Told::new(&plan.keys, None)).collect();
    let cluster = super::Cluster::new(&plan.first);
    let alone = (METER.live)();
    let start = |cluster: &super::Cluster| super::rivals::start(row, cluster, &handlers);
    let ready = match Ready::of(cluster, &handlers, start, plan) {
        Ok(ready) => ready,
        Err(why) => return Sample::new(vec![why]),
    };
    settle();
    let known = (METER.live)();

    // One write that nobody can have seen.
    let cluster = &ready.cluster;
    cluster.server.stop();
    cluster.write(&Write::Put(0, object(0, 1)));
    cluster.server.compact();
    let all = plan.keys.len() as u64;
    let events =
        || handlers.iter().map(|handler| handler.counts()).map(|counts| counts.versions + counts.again);
    let before: Vec<u64> = events().collect();
    handlers.iter().for_each(|handler| handler.expect(cluster.now(&plan.keys)));
    (METER.forget_peak)();
    cluster.server.start();
    let told = stalled(&handlers, PATIENCE) == 0
        && until(PATIENCE, || events().zip(&before).all(|(now, before)| now - before >= all));
    let mut violations = ready.violations(&handlers);
    if !told {
        violations.push("not all handlers were told all of the second list".into());
    }
    let peak = (METER.peak)();
    let more = |bytes: u64, than: u64| bytes as f64 - than as f64;
    Sample::new(violations)
        .lower("most at once during a relist, beyond that before", "bytes", more(peak, known))
        .lower("known, per object", "bytes", more(known, alone) / all as f64)
}

/// What has been told is dropped a moment later.
fn settle() {
    let mut before = (METER.live)();
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        if std::mem::replace(&mut before, (METER.live)()) == before {
            return;
        }
    }
}
