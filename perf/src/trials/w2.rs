//! W2: one hot key.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Settings, Visit};
use delta_fifo_perf::workload::hot::{self, Hot};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};

const BARE: &str = "bare atomic";
const PRODUCING: &str = "changes while all produce";
const HANDLED: &str = "changes until all is handled";

pub(super) static TRIAL: Trial = Trial {
    id: "W2",
    about: "one hot key, one consumer; beside it as many threads that add to one shared word",
    cases,
    rows,
    against: &[BARE],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        bar("2 producers of one key, while they produce, as a part of 2 threads on one word", PRODUCING),
        bar("the same until all of it is handled", HANDLED),
    ],
};

const fn bar(what: &'static str, measure: &'static str) -> Bar {
    Bar {
        number: 9,
        what,
        case: &[("producers", "2"), ("compression", "default")],
        measure,
        value: Value::TimesAsGoodAs(BARE),
        limit: Limit::AtLeast(0.5),
    }
}

fn cases(size: Size) -> Vec<Case> {
    let producers: &[usize] = if size == Size::Quick { &[1, 2] } else { &[1, 2, 4, 8] };
    let with = |compression| {
        producers
            .iter()
            .map(move |producers| Case::new().with("producers", producers).with("compression", compression))
    };
    with("default").chain(with("latest")).collect()
}

fn rows(case: &Case) -> Vec<&'static str> {
    match case.text("compression") {
        // The others merge nothing.
        "latest" => vec![BARE, "sharded", "B0"],
        _ => vec![BARE, "sharded", "B0", "B1", "B2", "B3", "B4"],
    }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let time = Duration::from_millis(match setting.size {
        Size::Quick => 20,
        Size::Normal => 200,
        Size::Full => 1_000,
    });
    let hot = Hot {
        producers: case.get("producers"),
        time,
        least: 0,
        latest: case.text("compression") == "latest",
    };
    Box::new(move |row: &str| peers::visit(row, Run(hot)).unwrap_or_else(|| bare(hot)))
}

fn bare(hot: Hot) -> Sample {
    let (changes, time) = hot::bare(hot);
    let rate = changes as f64 / time.as_secs_f64();
    Sample::default().higher(PRODUCING, "changes/s", rate).higher(HANDLED, "changes/s", rate)
}

struct Run(Hot);

impl Visit for Run {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let settings = Settings { latest: self.0.latest, ..Settings::default() };
        let peer = P::with(settings).expect("only those that merge have rows where one has to");
        let heat = hot::run(&peer, self.0);
        let changes = heat.changes as f64;
        Sample::new(heat.violations)
            .higher(PRODUCING, "changes/s", changes / heat.producing.as_secs_f64())
            .higher(HANDLED, "changes/s", changes / heat.handled.as_secs_f64())
            .lower("changes in a lease, merged ones too", "changes", changes / heat.leases.max(1) as f64)
    }
}
