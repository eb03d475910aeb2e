//! How long it takes until a quick handler is told, beside a slow one.

use std::time::{Duration, Instant};

use super::cluster::{PATIENCE, Plan, Write, stalled};
use super::rivals::{KUBE, OURS};
use super::told::Told;
use super::{Ready, is_ours};
use crate::trials::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};

const SLEEP: &str = "the other handler sleeps, ms";
const KNOWN: usize = 1_000;

pub(super) static TRIAL: Trial = Trial {
    id: "informers latency",
    about: "writes at a fixed rate, two handlers, one of which sleeps for each event: from the moment when a write was due until the \
            other was told",
    cases,
    rows: |_| vec![OURS, KUBE],
    against: &[KUBE],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[],
};

fn cases(_: Size) -> Vec<Case> {
    [0, 1, 10].map(|sleep| Case::new().with("writes/s", 1_000).with(SLEEP, sleep)).to_vec()
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let seconds = match setting.size {
        Size::Quick => 0.3,
        Size::Normal => 2.0,
        Size::Full => 10.0,
    };
    let rate: f64 = case.get("writes/s");
    let sleep = Some(Duration::from_millis(case.get(SLEEP))).filter(|sleep| !sleep.is_zero());
    let plan = Plan::updates(KNOWN, (seconds * rate) as usize);
    Box::new(move |row: &str| run(row, &plan, Duration::from_secs_f64(1.0 / rate), sleep))
}

fn run(row: &str, plan: &Plan, period: Duration, sleep: Option<Duration>) -> Sample {
    let (quick, slow) = (Told::new(&plan.keys, None), Told::new(&plan.keys, sleep));
    let both = [quick.clone(), slow.clone()];
    // Not for the first list, which it would be told for as many times that long.
    slow.hurry();
    let ready = match Ready::start(row, plan, &both) {
        Ok(ready) => ready,
        Err(why) => return Sample::new(vec![why]),
    };
    let finals = plan.finals(&ready.cluster);
    both.iter().for_each(|handler| handler.expect(finals.clone()));
    slow.take_your_time();

    let (start, base) = (Instant::now() + Duration::from_millis(5), ready.cluster.server.version() + 1);
    quick.pace(start, period, base, first_writes(plan));
    plan.write(&ready.cluster, |step| Some(start + period.mul_f64(step as f64)));
    // A handler that is not through then is cut off: what it still has to be told has waited until then.
    let limit = 2 * period.mul_f64(plan.writes.len() as f64);
    let is_late = !quick.wait(limit);
    let latencies = quick.latencies(plan.writes.len() as u64);

    slow.hurry();
    let mut violations = Vec::new();
    if stalled(&both, PATIENCE) > 0 {
        violations.push("not all handlers were told the last versions".into());
    }
    violations.extend(ready.violations(&both));
    if is_ours(row) {
        let all = (plan.first.len() + plan.writes.len()) as u64;
        let versions = both.each_ref().map(|handler| handler.counts().versions);
        if versions != [all; 2] {
            violations.push(format!("{all} versions, of which handlers were told {versions:?}"));
        }
    }
    let at = |quantile| latencies.value_at_quantile(quantile) as f64;
    let sample = Sample::new(violations)
        .lower("p50 until the quick handler is told", "ns", at(0.5))
        .lower("p99", "ns", at(0.99))
        .lower("p99.9", "ns", at(0.999))
        .lower("longest", "ns", latencies.max() as f64);
    if is_late {
        return sample.note(format!(
            "{row}: beside the slow handler the quick one was cut off, at three times the time of the writes, in one or more runs."
        ));
    }
    sample
}

/// By key: which of the first writes is its own.
fn first_writes(plan: &Plan) -> Vec<u64> {
    let mut first: Vec<u64> = vec![u64::MAX / 2; plan.keys.len()];
    for (step, write) in plan.writes.iter().enumerate().take(plan.keys.len()) {
        let Write::Put(number, _) = write else { unreachable!("updates alone") };
        first[*number] = step as u64;
    }
    first
}
