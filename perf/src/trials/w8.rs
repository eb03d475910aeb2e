//! W8: wake-ups.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::system::Usage;
use delta_fifo_perf::workload::wake::{self, Gaps, Woken};
use delta_fifo_perf::workload::{self, KeySet, windowed};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};

const BARE: &str = "park/unpark";
const P50: &str = "p50 from the call to the lease";
const IDLE: &str = "processor time while they wait";
const SLEEPS: &str = "sleeps per thousand changes";

const GAP: &str = "after";
const SIXTEEN: &str = "16 consumers wait";
const SATURATION: &str = "saturation";

pub(super) static TRIAL: Trial = Trial {
    id: "W8",
    about: "wake-up: one event after an idle gap; 16 consumers of an idle queue; W1 windowed, (1,1), at saturation. Who goes to \
            sleep has to be woken by a system call: so these are counted as sleeps",
    cases,
    rows,
    against: &[BARE],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        gap("p50 after 10 µs, by that of bare park/unpark", &[(GAP, "10 µs")]),
        gap("p50 after 100 µs, by that of bare park/unpark", &[(GAP, "100 µs")]),
        gap("p50 after 1 ms, by that of bare park/unpark", &[(GAP, "1000 µs")]),
        gap("p50 after 10 ms, by that of bare park/unpark", &[(GAP, "10000 µs")]),
        Bar {
            number: 12,
            what: "an idle queue with 16 waiting consumers: percent of a processor",
            case: &[(GAP, SIXTEEN)],
            measure: IDLE,
            value: Value::Itself,
            limit: Limit::AtMost(0.1),
        },
        Bar {
            number: 12,
            what: "at saturation: wake-up system calls per thousand changes",
            case: &[(GAP, SATURATION)],
            measure: SLEEPS,
            value: Value::Itself,
            limit: Limit::AtMost(1.0),
        },
    ],
};

const fn gap(what: &'static str, case: &'static [(&'static str, &'static str)]) -> Bar {
    Bar { number: 12, what, case, measure: P50, value: Value::DividedBy(BARE), limit: Limit::AtMost(1.2) }
}

fn cases(_: Size) -> Vec<Case> {
    let gaps = [10, 100, 1_000, 10_000].map(|gap| format!("{gap} µs"));
    let others = [SIXTEEN, SATURATION].map(String::from);
    gaps.into_iter().chain(others).map(|value| Case::new().with(GAP, value)).collect()
}

fn rows(case: &Case) -> Vec<&'static str> {
    let peers = ["sharded", "B0", "B1", "B2", "B3", "B4"];
    // A thread that parks has no changes to make.
    let bare = (case.text(GAP) != SATURATION).then_some(BARE);
    bare.into_iter().chain(peers).collect()
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let (quick, what) = (setting.size == Size::Quick, case.text(GAP).to_owned());
    let keys = |count| KeySet::new(count, setting.seed);
    match &*what {
        SIXTEEN => {
            let (keys, time) = (keys(16), Duration::from_millis(if quick { 20 } else { 300 }));
            Box::new(move |row: &str| {
                let (percent, violations) = peers::visit(row, Idle(time, &keys))
                    .unwrap_or_else(|| (wake::idle_bare(16, time), Vec::new()));
                let sample = Sample::new(violations);
                match percent {
                    Some(percent) => sample.lower(IDLE, "%", percent),
                    None => sample,
                }
            })
        }
        SATURATION => {
            let (keys, changes) = if quick { (keys(1_000), 20_000) } else { (keys(100_000), 1_000_000) };
            Box::new(move |row: &str| {
                peers::visit(row, Saturated(changes, &keys)).expect("all rows are peers")
            })
        }
        gap => {
            let micros: u64 = gap.trim_end_matches(" µs").parse().expect("a gap in µs");
            let (time, most) = if quick { (5_000, 20) } else { (500_000, 5_000) };
            let gaps = Gaps {
                gap: Duration::from_micros(micros),
                events: (time / (micros + 10)).clamp(5, most) as usize,
                patience: Duration::from_secs(20),
            };
            let keys = keys(1_000);
            Box::new(move |row: &str| {
                let woken = peers::visit(row, Wake(&gaps, &keys));
                sample(woken.unwrap_or_else(|| wake::bare(&gaps)), gaps.events)
            })
        }
    }
}

fn sample(Woken { latencies, sleeps, violations }: Woken, events: usize) -> Sample {
    let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    let sample = Sample::new(violations).lower(P50, "µs", at(0.5)).lower(
        "p99 from the call to the lease",
        "µs",
        at(0.99),
    );
    match sleeps {
        Some(sleeps) => sample.lower("sleeps per event", "sleeps", sleeps as f64 / events as f64),
        None => sample,
    }
}

struct Wake<'a>(&'a Gaps, &'a KeySet);

impl Visit for Wake<'_> {
    type Out = Woken;

    fn visit<P: Peer>(self) -> Woken {
        wake::run(&P::set_up(&Setup::of(self.1)), self.0, self.1)
    }
}

struct Idle<'a>(Duration, &'a KeySet);

impl Visit for Idle<'_> {
    type Out = (Option<f64>, Vec<String>);

    fn visit<P: Peer>(self) -> Self::Out {
        wake::idle(&P::set_up(&Setup::of(self.1)), 16, self.0, self.1)
    }
}

struct Saturated<'a>(usize, &'a KeySet);

impl Visit for Saturated<'_> {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let Self(changes, keys) = self;
        let case = workload::Case {
            producers: 1,
            consumers: 1,
            batch: 1,
            changes,
            patience: Duration::from_secs(20),
            parts: delta_fifo_perf::workload::Parts::default(),
        };
        let before = Usage::now();
        let outcome = windowed::run(&P::set_up(&Setup::of(keys)), &case, keys);
        let used = Usage::now().zip(before).map(|(now, before)| now.since(before));
        let sample = Sample::new(outcome.violations);
        match used {
            // The keys are made known in the same way.
            Some(used) => {
                sample.lower(SLEEPS, "sleeps", 1e3 * used.sleeps as f64 / (changes + keys.len()) as f64)
            }
            None => sample,
        }
    }
}
