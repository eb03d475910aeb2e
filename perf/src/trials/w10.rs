//! W10: a participant that stands still.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::stopped::{self, Found, Stops, Who};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};

const PART: &str = "while a third stands still, by alone";
const STOPPED: &str = "stopped";

pub(super) static TRIAL: Trial = Trial {
    id: "W10",
    about: "one producer and one consumer, and a third participant that a signal stops at any instruction of its call, over and \
            over: what the two reach meanwhile, by what they reach alone",
    cases: |_| ["producer", "consumer"].map(|who| Case::new().with(STOPPED, who)).to_vec(),
    rows: |_| vec!["sharded", "B0", "B1", "B2", "B3", "B4"],
    against: &[],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        bar("a producer stands still: what the others reach, by alone", &[(STOPPED, "producer")]),
        bar("a consumer stands still: what the others reach, by alone", &[(STOPPED, "consumer")]),
    ],
};

const fn bar(what: &'static str, case: &'static [(&'static str, &'static str)]) -> Bar {
    Bar { number: 13, what, case, measure: PART, value: Value::Itself, limit: Limit::AtLeast(0.9) }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let (stops, time) = match setting.size {
        Size::Quick => (3, 10),
        Size::Normal => (10, 30),
        Size::Full => (5, 1_000),
    };
    let who = if case.text(STOPPED) == "producer" { Who::Producer } else { Who::Consumer };
    let mut stops = Stops {
        who,
        stops,
        time: Duration::from_millis(time),
        seed: setting.seed,
        patience: Duration::from_secs(20),
    };
    let keys = KeySet::new(20_000, setting.seed);
    Box::new(move |row: &str| {
        stops.seed += 1;
        let found = peers::visit(row, Run(&stops, &keys)).expect("all rows are peers");
        found.map_or_else(Sample::default, |found| sample(&found))
    })
}

fn sample(found: &Found) -> Sample {
    let Found { alone, beside, growth, violations } = found;
    let mean = beside.iter().sum::<f64>() / beside.len() as f64;
    let worst = beside.iter().copied().fold(f64::INFINITY, f64::min);
    let sample = Sample::new(violations.clone())
        .higher(PART, "times", mean / alone)
        .higher("the same in the worst stop", "times", worst / alone)
        .higher("changes in a second, alone", "1/s", *alone);
    match growth {
        Some(bytes) => sample.lower("memory grown by in a stop, at most", "KiB", *bytes as f64 / 1024.0),
        None => sample,
    }
}

struct Run<'a>(&'a Stops, &'a KeySet);

impl Visit for Run<'_> {
    type Out = Option<Found>;

    fn visit<P: Peer>(self) -> Self::Out {
        stopped::run(|| P::set_up(&Setup::of(self.1)), self.0, self.1)
    }
}
