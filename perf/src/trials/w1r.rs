//! W1r: the highest rate that a queue sustains.

use std::collections::BTreeMap;
use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::sustained::{self, Search};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};

/// Changes per second: tried first in the first block, and the most that is tried.
const FIRST: f64 = 100e3;
const HIGHEST: f64 = 50e6;

const RATE: &str = "highest rate with p99 ≤ 1 ms";

pub(super) static TRIAL: Trial = Trial {
    id: "W1r",
    about: "updates of known keys at a fixed rate, (1,1): the highest at which p99 from the intended start to the lease is at \
            most 1 ms and the backlog does not grow",
    cases,
    rows: |_| vec!["sharded", "B0", "B1", "B2", "B3", "B4"],
    against: &["B1", "B3"],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        bar("100,000 keys: the highest rate, times B1's", "B1", 2.0),
        bar("100,000 keys: the highest rate, times B3's", "B3", 1.2),
    ],
};

const fn bar(what: &'static str, against: &'static str, at_least: f64) -> Bar {
    Bar {
        number: 5,
        what,
        case: &[("known", "100000")],
        measure: RATE,
        value: Value::TimesAsGoodAs(against),
        limit: Limit::AtLeast(at_least),
    }
}

fn cases(size: Size) -> Vec<Case> {
    let known: &[usize] = match size {
        Size::Quick => &[1_000],
        Size::Normal => &[100_000],
        Size::Full => &[1_000, 100_000, 1_000_000],
    };
    known.iter().map(|known| Case::new().with("known", known)).collect()
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let (short, long) = match setting.size {
        Size::Quick => (5, 20),
        Size::Normal => (100, 500),
        Size::Full => (200, 2_000),
    };
    let search = Search {
        consumers: 1,
        limit: Duration::from_millis(1),
        short: Duration::from_millis(short),
        long: Duration::from_millis(long),
        first: FIRST,
        highest: HIGHEST,
        patience: Duration::from_secs(20),
    };
    let keys = KeySet::new(case.get("known"), setting.seed);
    // What each row has reached: the next block looks there first, and not on a long way up.
    let mut reached: BTreeMap<String, f64> = BTreeMap::new();
    Box::new(move |row: &str| {
        let first =
            reached.get(row).map_or(FIRST, |rate| (rate / 1.4).clamp(sustained::LOWEST, HIGHEST / 2.0));
        let sample = peers::visit(row, Run(&Search { first, ..search }, &keys)).expect("all rows are peers");
        if let Some(rate) = sample.values.iter().find(|measured| measured.measure == RATE) {
            reached.insert(row.into(), rate.value);
        }
        sample
    })
}

struct Run<'a>(&'a Search, &'a KeySet);

impl Visit for Run<'_> {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let Self(search, keys) = self;
        let found = sustained::run(&P::set_up(&Setup::of(keys)), search, keys);
        let Some(best) = found.best else { return Sample::new(found.violations) };
        let sample = Sample::new(found.violations).higher(RATE, "changes/s", best.rate).lower(
            "p99 there",
            "µs",
            best.p99.as_nanos() as f64 / 1e3,
        );
        match best.cpu_per_million {
            Some(cpu) => sample.lower("processor time per million there", "s", cpu.as_secs_f64()),
            None => sample,
        }
    }
}
