//! W6: a resync, and what it costs fresh changes.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Lists, Settings, VisitLists};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::resync::{self, Resync};
use hdrhistogram::Histogram;

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};
use crate::stats::median;

const MOST: &str = "extra pops before a fresh change, most";

pub(super) static TRIAL: Trial = Trial {
    id: "W6",
    about: "a resync of all known keys, with a second line for it or without; what a fresh change waits meanwhile",
    cases,
    rows,
    against: &["B1"],
    blocks: |size, _| {
        Blocks::Usually(match size {
            Size::Quick => 2,
            Size::Normal => 5,
            Size::Full => 30,
        })
    },
    counted: Counted::No,
    prepare,
    bars: &[Bar {
        number: 11,
        what: "pops before a fresh change during a resync of 1,000,000, more than without",
        case: &[("known", "1000000"), ("second line", "yes")],
        measure: MOST,
        value: Value::Itself,
        limit: Limit::AtMost(16.0),
    }],
};

fn cases(size: Size) -> Vec<Case> {
    let known = if size == Size::Quick { 20_000 } else { 1_000_000 };
    ["yes", "no"].map(|line| Case::new().with("known", known).with("second line", line)).into()
}

fn rows(case: &Case) -> Vec<&'static str> {
    // B1 has one line.
    if case.text("second line") == "yes" { vec!["sharded", "B0"] } else { vec!["sharded", "B0", "B1"] }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let quick = setting.size == Size::Quick;
    let known: usize = case.get("known");
    let bursts = if quick { 20 } else { 80 };
    let keys = KeySet::new(resync::keys(known, bursts), setting.seed);
    let resync = Resync {
        bursts,
        rate: 20_000.0,
        quiet: if quick { 500 } else { 5_000 },
        patience: Duration::from_secs(20),
    };
    let settings = Settings { background_resync: case.text("second line") == "yes", ..Settings::default() };
    Box::new(move |row: &str| {
        let run = Run { resync, keys: &keys, known, settings };
        peers::visit_lists(row, run).expect("only those that take lists have rows")
    })
}

struct Run<'a> {
    resync: Resync,
    keys: &'a KeySet,
    known: usize,
    settings: Settings,
}

impl VisitLists for Run<'_> {
    type Out = Sample;

    fn visit<P: Lists>(self) -> Sample {
        let Self { resync, keys, known, settings } = self;
        let peer = P::with(settings).expect("only those with a second line have rows where there is one");
        let found = resync::run(&peer, resync, keys, known);
        let extra: Vec<f64> =
            found.pops.iter().map(|(without, with)| *with as f64 - *without as f64).collect();
        let at = |waits: &Histogram<u64>, quantile| waits.value_at_quantile(quantile) as f64;
        let (p50, p999) = (at(&found.with, 0.5), at(&found.with, 0.999));
        Sample::new(found.violations)
            .lower("resync, per key", "ns", found.resync.as_nanos() as f64 / known as f64)
            .lower(MOST, "pops", extra.iter().copied().fold(f64::NEG_INFINITY, f64::max))
            .lower("extra pops before a fresh change, median", "pops", median(&extra).unwrap_or(f64::NAN))
            .lower("p50 of a fresh change's wait, without a resync", "ns", at(&found.without, 0.5))
            .lower("p50 of a fresh change's wait, with one in line", "ns", p50)
            .lower("p50 of it, longer by", "ns", p50 - at(&found.without, 0.5))
            .lower("p99.9 of a fresh change's wait, without a resync", "ns", at(&found.without, 0.999))
            .lower("p99.9 of a fresh change's wait, with one in line", "ns", p999)
            .lower("p99.9 of it, longer by", "ns", p999 - at(&found.without, 0.999))
    }
}
