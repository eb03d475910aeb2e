//! W3: keys that come, change and go.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Visit};
use delta_fifo_perf::workload::churn::{self, Churn, Churned};

use super::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};
use crate::allocator;
use crate::machine::resident_kib;

/// The same keys and objects without a queue.
const NOTHING: &str = "nothing";
const TIME: &str = "time per change";
/// Of the whole process, whatever ran in it before: what matters is whether it grows.
const RESIDENT: [&str; 5] = [
    "resident memory after a fifth of the run",
    "resident memory after two fifths",
    "resident memory after three fifths",
    "resident memory after four fifths",
    "resident memory at the end",
];
/// A case of these is about memory, and runs once.
const LONG: &str = "long";

pub(super) static TRIAL: Trial = Trial {
    id: "W3",
    about: "fresh keys: add, three updates, delete; one producer, one consumer, no change waits for one of its key",
    cases,
    rows: |_| vec![NOTHING, "sharded", "B0", "B1", "B2", "B3", "B4"],
    against: &["B1", "B3"],
    blocks: |size, case| match (case.text("run"), size) {
        (LONG, _) => Blocks::Always(1),
        (_, Size::Quick) => Blocks::Usually(2),
        _ => Blocks::Usually(30),
    },
    counted: Counted::Too,
    prepare,
    bars: &[],
};

fn cases(size: Size) -> Vec<Case> {
    let living: &[u64] = if size == Size::Quick { &[1_000] } else { &[1_000, 100_000] };
    let case = |run: &str, living: &u64| Case::new().with("living keys", living).with("run", run);
    living.iter().map(|living| case("short", living)).chain([case(LONG, &1_000)]).collect()
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let long = case.text("run") == LONG;
    let seconds = match (setting.size, long) {
        (Size::Quick, false) => 0.02,
        (Size::Quick, true) => 0.2,
        (_, false) => 0.5,
        (Size::Normal, true) => 10.0,
        (Size::Full, true) if setting.counting => 10.0,
        (Size::Full, true) => 600.0,
    };
    let churn = Churn {
        least: 0,
        living: case.get("living keys"),
        time: Duration::from_secs_f64(seconds),
        patience: Duration::from_secs(20),
    };
    let counting = setting.counting;
    Box::new(move |row: &str| {
        let looked = match (counting, long) {
            (true, _) => Look::Calls,
            (false, true) => Look::Resident,
            (false, false) => Look::Nothing,
        };
        peers::visit(row, Run { churn, look: looked })
            .unwrap_or_else(|| Sample::default().lower(TIME, "ns", churn::empty(churn).ns_per_change()))
    })
}

struct Run {
    churn: Churn,
    look: Look,
}

enum Look {
    Nothing,
    Resident,
    Calls,
}

impl Visit for Run {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let (peer, churn) = (P::new(), self.churn);
        match self.look {
            Look::Calls => counted(&peer, churn),
            Look::Nothing => timed(churn::run(&peer, churn, 0, || 0)),
            Look::Resident => {
                let run = churn::run(&peer, churn, RESIDENT.len(), || resident_kib().unwrap_or(0));
                let looks = run.looks.clone();
                let mut sample = timed(run);
                for (measure, kib) in RESIDENT.into_iter().zip(looks).filter(|(_, kib)| *kib > 0) {
                    sample = sample.lower(measure, "KiB", kib as f64);
                }
                sample
            }
        }
    }
}

fn timed(run: Churned) -> Sample {
    let time = run.ns_per_change();
    Sample::new(run.violations).lower(TIME, "ns", time)
}

/// The queue's own growth is in it, which a second makes small.
fn counted<P: Peer>(peer: &P, churn: Churn) -> Sample {
    (allocator::METER.forget_peak)();
    let before = allocator::counted();
    let run = churn::run(peer, churn, 0, || 0);
    let (changes, after) = (run.changes as f64, allocator::counted());
    let above = |bytes: u64| bytes.saturating_sub(before.live) as f64;
    Sample::new(run.violations)
        .lower("calls of the allocator per change", "calls", (after.calls - before.calls) as f64 / changes)
        .lower("most bytes at once", "bytes", above((allocator::METER.peak)()))
        .lower("bytes that are left of the queue", "bytes", above(after.live))
}
