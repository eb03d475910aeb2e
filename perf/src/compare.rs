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
use delta_fifo_perf::workload::{Case, KeySet};

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
    let mut comparison = Comparison {
        options,
        nproc: machine.nproc,
        random: SmallRng::seed_from_u64(options.seed),
        progress: progress(options),
    };
    let cases = comparison.cases();
    comparison.progress.finish_and_clear();
    Report {
        workload: "W1 windowed".into(),
        allocator: Allocator::current(),
        machine,
        disturbance: watch.end(),
        blocks: options.blocks,
        seed: options.seed,
        peers: options
            .peers
            .iter()
            .map(|peer| PeerReport { id: peer.id.into(), about: peer.about.into() })
            .collect(),
        references: options.references.clone(),
        valid: cases.iter().all(|case| case.void.is_empty()),
        cases,
    }
}

struct Comparison<'o> {
    options: &'o Options,
    nproc: usize,
    /// Draws the order of the runs.
    random: SmallRng,
    progress: ProgressBar,
}

impl Comparison<'_> {
    fn cases(&mut self) -> Vec<CaseReport> {
        let Options { known, threads, batches, changes, seed, .. } = self.options;
        let mut cases = Vec::new();
        for &known in known {
            let keys = KeySet::new(known, *seed);
            for &(producers, consumers) in threads {
                for &batch in batches {
                    let case = Case { producers, consumers, batch, changes: *changes, patience: PATIENCE };
                    cases.push(self.measure(&case, &keys));
                }
            }
        }
        cases
    }

    /// Block after block, every peer once in each, in an order drawn anew: what disturbs the machine disturbs all alike.
    fn measure(&mut self, case: &Case, keys: &KeySet) -> CaseReport {
        let watch = Watch::begin();
        let peers = &self.options.peers;
        let mut times: Vec<Vec<Option<f64>>> = vec![Vec::new(); peers.len()];
        let mut void = Vec::new();
        let mut order: Vec<usize> = (0..peers.len()).collect();
        for block in 0..self.options.blocks {
            order.shuffle(&mut self.random);
            for &number in &order {
                let peer = peers[number];
                self.announce(case, keys, peer.id);
                let outcome = (peer.run)(case, keys);
                let valid = outcome.violations.is_empty();
                times[number].push(valid.then(|| outcome.ns_per_change()));
                if !valid {
                    void.push(Void { peer: peer.id.into(), block, violations: outcome.violations });
                }
                self.progress.inc(1);
            }
        }
        CaseReport {
            known: keys.len(),
            producers: case.producers,
            consumers: case.consumers,
            oversubscribed: case.producers + case.consumers > self.nproc,
            batch: case.batch,
            changes: case.changes / case.producers * case.producers,
            disturbance: watch.end(),
            rows: rows(self.options, times),
            void,
        }
    }

    fn announce(&self, case: &Case, keys: &KeySet, peer: &str) {
        let Case { producers, consumers, batch, .. } = case;
        let known = keys.len();
        self.progress.set_message(format!("{known} known, ({producers},{consumers}), batch {batch}, {peer}"));
    }
}

fn rows(options: &Options, times: Vec<Vec<Option<f64>>>) -> Vec<Row> {
    let mut rows: Vec<Row> =
        options.peers.iter().zip(times).map(|(peer, times)| Row::of(peer.id, times)).collect();
    for own in 0..rows.len() {
        for reference in &options.references {
            let ratio =
                rows.iter().find(|row| row.peer == *reference).and_then(|row| rows[own].ratio_to(row));
            rows[own].times_as_fast_as.insert(reference.clone(), ratio);
        }
    }
    rows
}

/// On standard error, and only where somebody watches.
fn progress(options: &Options) -> ProgressBar {
    let cases = options.known.len() * options.threads.len() * options.batches.len();
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new((cases * options.blocks * options.peers.len()) as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(Allocator::current().name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use delta_fifo_perf::peers::{self, Entry, Parking, Peer};
    use delta_fifo_perf::workload::windowed;

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
        assert!(report.table().contains("VOID: BROKEN, 200 known"));
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
