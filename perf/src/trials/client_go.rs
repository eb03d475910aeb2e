//! `client-go`: this crate's queue beside what runs today: what you get, not the same language.
//!
//! The rows in Go are a program of its own (`client_go/`), the one of kube-runtime another (`kube/`): a process for each run,
//! which reads the same description of the workload as is run here, gets warm by one run that does not count, and measures
//! inside. Without Go, or where nobody asks for kube-runtime, a line says so, and the others run.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Slow, Visit};
use delta_fifo_perf::workload::description::{Description, Work};
use delta_fifo_perf::workload::paced::Pace;
use delta_fifo_perf::workload::{self, KeySet, windowed};
use serde::Deserialize;

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};
use crate::cli::ClientGoOptions;
use crate::outside::{Figures, Outside};
use crate::process::Result;

/// In one call, and keys in a pop: but of RealFIFO's, which takes what there is.
pub(crate) const BATCH: usize = 32;
const WORKERS: usize = 8;
/// No run takes that long without any progress, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Its store and its queue that merges.
const DELTA: &str = "G1";
/// Its queue that merges nothing, which its informer has today.
const REAL: &str = "G2";
/// Its informer, with a work queue.
const INFORMER: &str = "G3";
/// kube-runtime's store and scheduler, in Rust.
const KUBE: &str = "K1";

const TIME: &str = "time per change";

pub(crate) static TRIAL: Trial = Trial {
    id: "client-go",
    about: "beside client-go: its DeltaFIFO (G1), RealFIFO (G2), informer and work queue (G3); what you get, not the same language",
    cases,
    rows,
    against: &[DELTA, REAL, INFORMER],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        bar("W1, one by one, DeltaFIFO", ONE_BY_ONE, DELTA, 5.0),
        bar("W1, one by one, RealFIFO's Pop", ONE_BY_ONE, REAL, 4.0),
        bar("W1, batches, RealFIFO's PopBatch and a transaction of its store", IN_BATCHES, REAL, 2.0),
        bar("W7, 8 workers, handlers that do nothing, informer and work queue", NO_TIME, INFORMER, 5.0),
        bar("W7, 8 workers, handlers that sleep 10 µs, informer and work queue", SOME_TIME, INFORMER, 5.0),
    ],
};

const ONE_BY_ONE: &[(&str, &str)] =
    &[("workload", "W1"), ("known", "100000"), ("threads", "(1,1)"), ("batch", "1")];
const IN_BATCHES: &[(&str, &str)] =
    &[("workload", "W1"), ("known", "100000"), ("threads", "(1,1)"), ("batch", "32")];
const NO_TIME: &[(&str, &str)] =
    &[("workload", "W7"), ("known", "1000"), ("threads", "(1,8)"), ("handlers sleep, µs", "0")];
const SOME_TIME: &[(&str, &str)] =
    &[("workload", "W7"), ("known", "1000"), ("threads", "(1,8)"), ("handlers sleep, µs", "10")];

const fn bar(
    what: &'static str,
    case: &'static [(&'static str, &'static str)],
    against: &'static str,
    at_least: f64,
) -> Bar {
    let (value, limit) = (Value::TimesAsGoodAs(against), Limit::AtLeast(at_least));
    Bar { number: 15, what, case, measure: TIME, value, limit }
}

/// What the command line has said besides: trials have no options of their own.
static ASKED: OnceLock<Asked> = OnceLock::new();

struct Asked {
    known: Option<Vec<usize>>,
    kube: bool,
}

pub(crate) fn run(options: &ClientGoOptions) -> Result<ExitCode> {
    ASKED.get_or_init(|| Asked { known: options.known.clone(), kube: options.kube });
    super::run(&options.trial)
}

fn cases(size: Size) -> Vec<Case> {
    let asked = ASKED.get().and_then(|asked| asked.known.clone());
    let known = asked.unwrap_or_else(|| match size {
        Size::Quick => vec![2_000],
        Size::Normal => vec![100_000],
        Size::Full => vec![1_000, 100_000, 1_000_000],
    });
    let (handlers, rates): (&[u64], &[u64]) = match size {
        Size::Quick => (&[0, 10], &[1_000]),
        _ => (&[0, 10, 1_000], &[500, 5_000]),
    };
    let case = |workload, known, threads| {
        Case::new().with("workload", workload).with("known", known).with("threads", threads)
    };
    let mut cases = Vec::new();
    for known in known {
        for batch in [1, BATCH] {
            cases.push(case("W1", known, "(1,1)").with("batch", batch));
        }
    }
    for handler in handlers {
        cases.push(case("W7", 1_000, "(1,8)").with("handlers sleep, µs", handler));
    }
    for rate in rates {
        for handler in [0, 1_000] {
            let case = case("W7", 64, "(1,8)").with("calls in a second", rate);
            cases.push(case.with("handlers sleep, µs", handler));
        }
    }
    cases
}

fn rows(case: &Case) -> Vec<&'static str> {
    match Shape::of(case) {
        Shape::OneByOne => vec!["sharded", DELTA, REAL, INFORMER, KUBE],
        Shape::InBatches => vec!["sharded", REAL],
        Shape::Workers => vec!["sharded", INFORMER],
        // Where handlers run inside the queue, B0p is client-go's structure in Rust.
        Shape::Paced => vec!["sharded", "B0p", DELTA, INFORMER],
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    OneByOne,
    InBatches,
    Workers,
    /// How long a producer's calls take.
    Paced,
}

impl Shape {
    fn of(case: &Case) -> Self {
        let has = |name| case.0.iter().any(|(other, _)| *other == name);
        match case.text("workload") {
            "W1" if case.text("batch") == "1" => Self::OneByOne,
            "W1" => Self::InBatches,
            _ if has("calls in a second") => Self::Paced,
            _ => Self::Workers,
        }
    }
}

fn describe(case: &Case, setting: &Setting) -> Description {
    let (known, seed, quick) = (case.get("known"), setting.seed, setting.size == Size::Quick);
    let handler = || Duration::from_micros(case.get("handlers sleep, µs"));
    let windowed = |consumers, batch, changes, handler| {
        let case = workload::Case {
            producers: 1,
            consumers,
            batch,
            changes,
            patience: PATIENCE,
            parts: workload::Parts::default(),
        };
        Description::windowed(known, seed, case, handler)
    };
    match Shape::of(case) {
        Shape::OneByOne | Shape::InBatches => {
            windowed(1, case.get("batch"), if quick { 10_000 } else { 300_000 }, Duration::ZERO)
        }
        Shape::Workers => {
            let changes = match handler().as_micros() {
                _ if quick => 2_000,
                0 => 100_000,
                10 => 40_000,
                _ => 4_000,
            };
            windowed(WORKERS, 1, changes, handler())
        }
        Shape::Paced => {
            let rate: f64 = case.get("calls in a second");
            let seconds = if quick { 0.1 } else { 1.0 };
            let pace = Pace {
                consumers: WORKERS,
                handler: handler(),
                rate: Some(rate),
                calls: (rate * seconds) as usize,
                pending: false,
                limit: Duration::from_secs_f64(3.0 * seconds),
            };
            Description { known, seed, work: Work::Paced(pace) }
        }
    }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let description = describe(case, setting);
    let keys = description.keys();
    // A process for each run gets warm by itself: here each row does once.
    let mut warm: Vec<String> = Vec::new();
    Box::new(move |row: &str| match row {
        DELTA | REAL | INFORMER => outside(go(), row, &description),
        KUBE => outside(kube(), row, &description),
        _ => {
            let peer = || peers::visit(row, Here(&description, &keys)).expect("rows are peers or outside");
            if !warm.iter().any(|other| other == row) {
                warm.push(row.into());
                peer();
            }
            peer()
        }
    })
}

/// Built once, or why not.
type Built = std::result::Result<Outside, String>;

fn go() -> &'static Built {
    static GO: OnceLock<Built> = OnceLock::new();
    GO.get_or_init(|| Outside::client_go(true))
}

fn kube() -> &'static Built {
    static KUBE: OnceLock<Built> = OnceLock::new();
    KUBE.get_or_init(|| Outside::kube(ASKED.get().is_some_and(|asked| asked.kube)))
}

/// The workload with a peer of this process.
struct Here<'a>(&'a Description, &'a KeySet);

impl Visit for Here<'_> {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let Self(description, keys) = self;
        match &description.work {
            Work::Windowed { case, handler, .. } => {
                let outcome = if handler.is_zero() {
                    windowed::run(&P::new(), case, keys)
                } else {
                    windowed::run(&Slow::of(P::new(), *handler), case, keys)
                };
                of_changes(outcome.elapsed, outcome.changes, outcome.violations)
            }
            Work::Paced(pace) => {
                let calls = workload::paced::run(&P::new(), pace, keys);
                let ns = |quantile| calls.latencies.value_at_quantile(quantile) as f64;
                let quantiles = [ns(0.5), ns(0.99), ns(0.999), ns(1.0)];
                of_calls(quantiles, calls.owed, calls.violations)
            }
            Work::Memory(_) | Work::Store(_) => unreachable!("they have commands of their own"),
        }
    }
}

fn of_changes(elapsed: Duration, changes: usize, violations: Vec<String>) -> Sample {
    Sample::new(violations).lower(TIME, "ns", elapsed.as_nanos() as f64 / changes as f64)
}

const QUANTILES: [(&str, &str); 4] = [
    ("p50", "p50 of a call"),
    ("p99", "p99 of a call"),
    ("p99.9", "p99.9 of a call"),
    ("max", "longest call"),
];

fn of_calls(ns: [f64; QUANTILES.len()], owed: usize, violations: Vec<String>) -> Sample {
    let sample = QUANTILES
        .iter()
        .zip(ns)
        .fold(Sample::new(violations), |sample, ((_, measure), ns)| sample.lower(measure, "ns", ns));
    sample.lower("calls that could not be made in time", "calls", owed as f64)
}

/// What the programs print.
#[derive(Deserialize)]
#[serde(untagged)]
enum OfOutside {
    Changes { elapsed: u64, changes: usize },
    Calls { quantiles: BTreeMap<String, f64>, owed: usize },
}

fn outside(program: &'static Built, row: &str, description: &Description) -> Sample {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Sample::default().note(why),
    };
    let Figures { figures, version, violations } = match program.run(row, description) {
        Ok(run) => run,
        Err(why) => return Sample::new(vec![why]),
    };
    let sample = match figures {
        OfOutside::Changes { elapsed, changes } => {
            of_changes(Duration::from_nanos(elapsed), changes, violations)
        }
        OfOutside::Calls { quantiles, owed } => {
            let ns = QUANTILES.map(|(name, _)| quantiles.get(name).copied().unwrap_or(f64::NAN));
            of_calls(ns, owed, violations)
        }
    };
    sample.note(format!("{}: {version}; a process of its own, with its own allocator.", program.id))
}
