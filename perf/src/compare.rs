//! `compare`: the same workload for every peer, in interleaved blocks.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::allocator::Allocator;
use crate::bars;
use crate::cli::Options;
use crate::machine::{Machine, Watch};
use crate::process::{self, Measured, Result};
use crate::report::{CaseReport, PeerReport, Report, Row, Void};
use delta_fifo_perf::workload::{Case, KeySet, Outcome, Parts};

/// No run takes that long without any progress, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    process::run(&options.allocators, options.json.as_ref(), || measure(options))
}

impl Measured for Report {
    fn allocator(&self) -> Allocator {
        self.allocator
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn table(&self) -> String {
        self.table()
    }

    fn conclusion(reports: &[Self]) -> String {
        // Who leaves the queue out does not ask for them.
        let has_peer = |report: &Self| report.peers.iter().any(|peer| peer.id == bars::PEER);
        if reports.iter().any(has_peer) { bars::table(reports) } else { String::new() }
    }
}

fn measure(options: &Options) -> Report {
    let watch = Watch::begin();
    let machine = Machine::detect();
    let runners = runners(options);
    let mut comparison = Comparison {
        options,
        nproc: machine.nproc,
        random: SmallRng::seed_from_u64(options.seed),
        progress: progress(options, &runners),
        runners,
    };
    let cases = comparison.cases();
    comparison.progress.finish_and_clear();
    let peers = comparison.runners.iter();
    Report {
        workload: "W1 windowed".into(),
        allocator: Allocator::current(),
        machine,
        disturbance: watch.end(),
        blocks: options.blocks,
        seed: options.seed,
        peers: peers.map(|it| PeerReport { id: it.id.clone(), about: it.about.into() }).collect(),
        references: options.references.clone(),
        valid: cases.iter().all(|case| case.void.is_empty()),
        figures: cases.iter().flat_map(CaseReport::figures).collect(),
        cases,
    }
}

/// What has a row of its own.
struct Runner {
    id: String,
    about: &'static str,
    run: fn(&Case, &KeySet) -> Outcome,
    parts: Parts,
    /// It has one thread, whatever the case says.
    is_floor: bool,
}

impl Runner {
    /// A row of reference stands where there is least to do for threads: beside (1,1).
    fn runs_in(&self, case: &Case) -> bool {
        !self.is_floor || (case.producers, case.consumers) == (1, 1)
    }
}

fn runners(options: &Options) -> Vec<Runner> {
    let mut runners = Vec::new();
    for peer in &options.peers {
        let mut add = |id, parts| {
            runners.push(Runner { id, about: peer.about, run: peer.run, parts, is_floor: false });
        };
        add(peer.id.into(), Parts::default());
        if peer.id == bars::PEER {
            for &shards in &options.shards {
                add(format!("{}/{shards}", peer.id), Parts { shards: Some(shards), lines: None });
            }
            for &lines in &options.lines {
                // As many shards as the most lines, so that it is the lines that differ.
                add(format!("{} in {lines}", peer.id), Parts { shards: Some(64), lines: Some(lines) });
            }
        }
    }
    let floors = options.floors.iter();
    runners.extend(floors.map(|floor| Runner {
        id: floor.id.into(),
        about: floor.about,
        run: floor.run,
        parts: Parts::default(),
        is_floor: true,
    }));
    runners
}

/// By case and runner: nanoseconds per change in each block.
type Times = Vec<Vec<Vec<Option<f64>>>>;

struct Comparison<'o> {
    options: &'o Options,
    nproc: usize,
    /// Draws the order of the runs.
    random: SmallRng,
    progress: ProgressBar,
    runners: Vec<Runner>,
}

impl Comparison<'_> {
    fn cases(&mut self) -> Vec<CaseReport> {
        let Options { known, threads, batches, changes, seed, .. } = self.options;
        let mut reports = Vec::new();
        for &known in known {
            let keys = KeySet::new(known, *seed);
            for &batch in batches {
                let cases: Vec<Case> = threads
                    .iter()
                    .map(|&(producers, consumers)| Case {
                        producers,
                        consumers,
                        batch,
                        changes: *changes,
                        patience: PATIENCE,
                        parts: Parts::default(),
                    })
                    .collect();
                reports.extend(self.measure(&cases, &keys));
            }
        }
        reports
    }

    /// Block after block, every peer with each number of threads once in each, in an order drawn anew: what disturbs the machine
    /// disturbs all alike, and one number of threads can be set against another.
    fn measure(&mut self, cases: &[Case], keys: &KeySet) -> Vec<CaseReport> {
        let watch = Watch::begin();
        let mut times: Times = vec![vec![Vec::new(); self.runners.len()]; cases.len()];
        let mut void: Vec<Vec<Void>> = cases.iter().map(|_| Vec::new()).collect();
        let all = (0..cases.len()).flat_map(|case| (0..self.runners.len()).map(move |runner| (case, runner)));
        let mut order: Vec<_> =
            all.filter(|&(case, runner)| self.runners[runner].runs_in(&cases[case])).collect();
        for block in 0..self.options.blocks {
            order.shuffle(&mut self.random);
            for &(case, number) in &order {
                let runner = &self.runners[number];
                self.announce(&cases[case], keys, &runner.id);
                let outcome = (runner.run)(&Case { parts: runner.parts, ..cases[case].clone() }, keys);
                let valid = outcome.violations.is_empty();
                times[case][number].push(valid.then(|| outcome.ns_per_change()));
                if !valid {
                    let peer = runner.id.clone();
                    void[case].push(Void { peer, block, violations: outcome.violations });
                }
                self.progress.inc(1);
            }
        }
        let disturbance = watch.end();
        let reports = cases.iter().zip(times).zip(void);
        reports
            .map(|((case, times), void)| CaseReport {
                known: keys.len(),
                producers: case.producers,
                consumers: case.consumers,
                oversubscribed: case.producers + case.consumers > self.nproc,
                batch: case.batch,
                changes: case.changes / case.producers * case.producers,
                disturbance,
                rows: self.rows(times),
                void,
            })
            .collect()
    }

    fn announce(&self, case: &Case, keys: &KeySet, peer: &str) {
        let Case { producers, consumers, batch, .. } = case;
        let known = keys.len();
        self.progress.set_message(format!("{known} known, ({producers},{consumers}), batch {batch}, {peer}"));
    }

    /// Of those that have run.
    fn rows(&self, times: Vec<Vec<Option<f64>>>) -> Vec<Row> {
        let ran = self.runners.iter().zip(times).filter(|(_, times)| !times.is_empty());
        let mut rows: Vec<Row> = ran.map(|(runner, times)| Row::of(&runner.id, times)).collect();
        for own in 0..rows.len() {
            for reference in &self.options.references {
                let ratio =
                    rows.iter().find(|row| row.peer == *reference).and_then(|row| rows[own].ratio_to(row));
                rows[own].times_as_fast_as.insert(reference.clone(), ratio);
            }
        }
        rows
    }
}

/// On standard error, and only where somebody watches.
fn progress(options: &Options, runners: &[Runner]) -> ProgressBar {
    let floors = runners.iter().filter(|runner| runner.is_floor).count();
    let single = options.threads.contains(&(1, 1));
    let runs = options.threads.len() * (runners.len() - floors) + usize::from(single) * floors;
    let runs = options.known.len() * options.batches.len() * options.blocks * runs;
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new(runs as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(Allocator::current().name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use delta_fifo_perf::peers::{self, Entry, Parking, Peer};
    use delta_fifo_perf::workload::{floors, windowed};

    /// As if its checks had found something; that they find each thing is tested where they are.
    static BROKEN: Entry = Entry {
        id: "BROKEN",
        about: "said to be wrong",
        run: |case, keys| {
            let mut outcome = windowed::run(&Parking::new(), case, keys);
            outcome.violations.push("said to be wrong".into());
            outcome
        },
        ..Entry::new::<Parking>("", "")
    };

    fn options(peers: Vec<&'static Entry>) -> Options {
        Options {
            blocks: 2,
            changes: 2_000,
            allocators: vec![Allocator::System],
            references: vec!["B1".into()],
            peers,
            floors: Vec::new(),
            shards: Vec::new(),
            lines: Vec::new(),
            known: vec![200],
            threads: vec![(1, 1)],
            batches: vec![1, 8],
            seed: 1,
            json: None,
        }
    }

    #[test]
    fn a_void_run_has_no_figure_and_spoils_the_report() {
        let report = measure(&options(vec![peers::by_id("B1").unwrap(), &BROKEN]));
        assert!(!report.valid);
        for case in &report.cases {
            let [sound, broken] = &case.rows[..] else { panic!("two peers, two rows") };
            assert!(sound.by_block.iter().all(Option::is_some) && sound.ns_per_change.is_some());
            assert!(broken.by_block.iter().all(Option::is_none) && broken.ns_per_change.is_none());
            assert_eq!(broken.times_as_fast_as["B1"], None);
            assert_eq!(case.void.len(), 2);
        }
        let of = |peer: &str| report.figures.iter().find(|figure| figure.peer == peer).unwrap();
        assert_eq!((of("BROKEN").by_block.as_slice(), of("B1").by_block.len()), (&[None, None][..], 2));
        assert!(report.table().contains("VOID: BROKEN, 200 known"));
    }

    #[test]
    fn shards_and_floors_have_rows_of_their_own() {
        let mut options = options(vec![peers::by_id("sharded").unwrap()]);
        options.threads.push((2, 1));
        options.batches = vec![1];
        options.shards = vec![1, 16];
        options.floors = floors::ALL.iter().collect();
        options.references = Vec::new();
        let report = measure(&options);
        assert!(report.valid);
        let rows = |case: &CaseReport| case.rows.iter().map(|row| row.peer.clone()).collect::<Vec<_>>();
        assert_eq!(rows(&report.cases[0]), ["sharded", "sharded/1", "sharded/16", "F0", "F1"]);
        assert_eq!(rows(&report.cases[1]), ["sharded", "sharded/1", "sharded/16"]);
        assert_eq!(report.figures.len(), 8);
    }

    #[test]
    fn a_report_survives_the_way_from_child_to_parent() {
        let report = measure(&options(vec![peers::by_id("b1").unwrap(), peers::by_id("b3").unwrap()]));
        assert!(report.valid);
        assert_eq!(report.cases.len(), 2);
        let json = serde_json::to_value(&report).unwrap();
        for key in [
            "nproc",
            "cpu",
            "kernel",
            "rustc",
            "commit",
            "load_before",
            "load_after",
            "steal_percent",
            "others_percent",
            "allocator",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back.table(), report.table());
    }
}
