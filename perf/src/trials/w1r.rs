//! W1r: the highest rate that a queue sustains.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::sustained::{self, Search};

use super::{Bar, Blocks, Case, Limit, Runs, Sample, Setting, Size, Trial, Value};

const RATE: &str = "highest rate with p99 ≤ 1 ms";

pub(super) static TRIAL: Trial = Trial {
    id: "W1r",
    about: "updates of known keys at a fixed rate, (1,1): the highest at which p99 from the intended start to the lease is at \
            most 1 ms and the backlog does not grow",
    cases,
    rows: |_| vec!["sharded", "B0", "B1", "B2", "B3", "B4"],
    against: &["B1", "B3"],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: false,
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
        highest: 50e6,
        patience: Duration::from_secs(20),
    };
    let keys = KeySet::new(case.get("known"), setting.seed);
    Box::new(move |row: &str| peers::visit(row, Run(&search, &keys)).expect("all rows are peers"))
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
