//! What `compare` found, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use delta_fifo_perf::workload::Case;

use crate::allocator::Allocator;
use crate::figures::{Better, Figure};
use crate::machine::{Disturbance, Machine, Verdict};
use crate::stats::Estimate;

/// One process, one allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) workload: String,
    pub(crate) allocator: Allocator,
    #[serde(flatten)]
    pub(crate) machine: Machine,
    #[serde(flatten)]
    pub(crate) disturbance: Disturbance,
    pub(crate) blocks: usize,
    pub(crate) seed: u64,
    pub(crate) peers: Vec<PeerReport>,
    /// The peers against which the others are set.
    pub(crate) references: Vec<String>,
    pub(crate) cases: Vec<CaseReport>,
    /// No run was void.
    pub(crate) valid: bool,
    /// No case has fewer blocks than it was to have.
    pub(crate) finished: bool,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerReport {
    pub(crate) id: String,
    pub(crate) about: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CaseReport {
    pub(crate) known: usize,
    pub(crate) producers: usize,
    pub(crate) consumers: usize,
    /// More threads than processors.
    pub(crate) oversubscribed: bool,
    pub(crate) batch: usize,
    /// Timed changes in a run.
    pub(crate) changes: usize,
    #[serde(flatten)]
    pub(crate) disturbance: Disturbance,
    pub(crate) rows: Vec<Row>,
    pub(crate) void: Vec<Void>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) peer: String,
    /// `None`: every run was void, or not all have been done.
    pub(crate) ns_per_change: Option<Estimate>,
    /// By reference: how many times as fast as it this peer is, estimated from the ratio in each block.
    pub(crate) times_as_fast_as: BTreeMap<String, Option<Estimate>>,
    /// Nanoseconds per change, block by block; `None` is a void run.
    pub(crate) by_block: Vec<Option<f64>>,
}

/// A run that failed its checks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Void {
    pub(crate) peer: String,
    pub(crate) block: usize,
    pub(crate) violations: Vec<String>,
}

impl Row {
    pub(crate) fn of(peer: &str, by_block: Vec<Option<f64>>) -> Self {
        let valid: Vec<f64> = by_block.iter().copied().flatten().collect();
        Self {
            peer: peer.into(),
            ns_per_change: Estimate::of(&valid),
            times_as_fast_as: BTreeMap::new(),
            by_block,
        }
    }

    /// When more blocks follow, nothing is concluded.
    pub(crate) fn unfinished(peer: &str, by_block: Vec<Option<f64>>) -> Self {
        Self { peer: peer.into(), ns_per_change: None, times_as_fast_as: BTreeMap::new(), by_block }
    }

    /// Only blocks in which both were valid can be compared.
    pub(crate) fn ratio_to(&self, reference: &Self) -> Option<Estimate> {
        let both = reference.by_block.iter().zip(&self.by_block);
        let ratios: Vec<f64> = both.filter_map(|(reference, own)| Some((*reference)? / (*own)?)).collect();
        Estimate::of(&ratios)
    }
}

impl Report {
    pub(crate) fn table(&self) -> String {
        let Self { workload, allocator, blocks, .. } = self;
        let what = format!(
            "{workload} · {allocator} allocator · {blocks} blocks · median [95 % interval]; times X = as fast as X"
        );
        let mut text = heading(&what, &self.machine, self.disturbance);
        let _ = write!(
            text,
            "{:>8}  {:<7} {:>5}  {:<7} {:>20}",
            "known", "threads", "batch", "peer", "ns per change"
        );
        for reference in &self.references {
            let _ = write!(text, "  {:>20}", format!("times {reference}"));
        }
        text.push('\n');
        for case in &self.cases {
            case.write_rows(&self.references, &mut text);
        }
        for case in &self.cases {
            case.write_void(&mut text);
        }
        if !self.finished {
            text.push_str(UNFINISHED);
        }
        text.push_str(caveat(self.disturbance));
        text
    }
}

pub(crate) const UNFINISHED: &str = "Not all blocks are done; the same command with --resume FILE goes on, if --json or --resume named a FILE.\n";

/// What was measured on what, and what else happened there.
pub(crate) fn heading(what: &str, machine: &Machine, disturbance: Disturbance) -> String {
    let Machine { nproc, cpu, kernel, rustc, commit, .. } = machine;
    let Disturbance { load_before, load_after, steal_percent, others_percent } = disturbance;
    let load = |value: Option<f64>| value.map_or("unknown".into(), |value| format!("{value:.2}"));
    let share =
        |value: Option<f64>| value.map_or("could not be measured".into(), |value| format!("{value:.2} %"));
    format!(
        "{what}\n\
         {nproc} × {cpu} · Linux {kernel} · load {before} → {after} · steal {steal} · others {others} · {rustc} · commit {commit}\n\n",
        before = load(load_before),
        after = load(load_after),
        steal = share(steal_percent),
        others = share(others_percent),
    )
}

/// What that means for the figures.
pub(crate) fn caveat(disturbance: Disturbance) -> &'static str {
    match disturbance.verdict() {
        Verdict::Quiet => "",
        Verdict::Busy => {
            "The machine was busy with something else: these figures say that all works, not how fast.\n"
        }
        Verdict::Unknown => {
            "Whether the machine was busy with something else is not known: nor is what these figures are worth.\n"
        }
    }
}

impl CaseReport {
    pub(crate) fn is_of(&self, known: usize, case: &Case) -> bool {
        (self.known, self.producers, self.consumers, self.batch)
            == (known, case.producers, case.consumers, case.batch)
    }

    pub(crate) fn figures(&self) -> impl Iterator<Item = Figure> {
        let case = [
            ("known", self.known.to_string()),
            ("threads", format!("({},{})", self.producers, self.consumers)),
            ("batch", self.batch.to_string()),
        ];
        self.rows.iter().map(move |row| Figure {
            workload: "W1".into(),
            case: case.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            peer: row.peer.clone(),
            measure: "time per change".into(),
            unit: "ns".into(),
            better: Better::Lower,
            by_block: row.by_block.clone(),
        })
    }

    fn write_rows(&self, references: &[String], text: &mut String) {
        let threads = format!("({},{})", self.producers, self.consumers);
        let mark = if self.oversubscribed { "*" } else { "" };
        for row in &self.rows {
            let time = row.ns_per_change.map_or("void".into(), |e| with_interval(e, 0));
            let (known, batch) = (self.known, self.batch);
            let _ = write!(
                text,
                "{known:>8}  {:<7} {batch:>5}  {:<7} {time:>20}",
                threads.clone() + mark,
                row.peer
            );
            for reference in references {
                let ratio = row.times_as_fast_as.get(reference).copied().flatten();
                let ratio = match ratio {
                    _ if row.peer == *reference => "1".into(),
                    Some(estimate) => with_interval(estimate, 2),
                    None => "–".into(),
                };
                let _ = write!(text, "  {ratio:>20}");
            }
            text.push('\n');
        }
        text.push('\n');
    }

    fn write_void(&self, text: &mut String) {
        let Self { known, producers, consumers, batch, .. } = self;
        for Void { peer, block, violations } in &self.void {
            let _ = writeln!(
                text,
                "VOID: {peer}, {known} known, ({producers},{consumers}), batch {batch}, block {block}: {}",
                violations.join("; "),
            );
        }
    }
}

pub(crate) fn with_interval(Estimate { median, low, high }: Estimate, digits: usize) -> String {
    format!("{median:.digits$} [{low:.digits$}–{high:.digits$}]")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_block_by_block() {
        let slow = Row::of("slow", vec![Some(200.0), Some(2_000.0), None, Some(300.0)]);
        let fast = Row::of("fast", vec![Some(100.0), Some(1_000.0), Some(1.0), None]);
        let ratio = fast.ratio_to(&slow).unwrap();
        assert_eq!((ratio.low, ratio.median, ratio.high), (2.0, 2.0, 2.0));
        assert_eq!(slow.ns_per_change.unwrap().median, 300.0);
    }

    #[test]
    fn a_report_says_what_the_machine_did_besides() {
        let busy = "was busy with something else:";
        let unknown = "Whether the machine was busy";
        let unmeasured = "steal could not be measured · others could not be measured";
        let quiet = report(Some(0.5), Some(1.25)).table();
        assert!(quiet.contains("steal 0.50 % · others 1.25 %"), "{quiet}");
        assert!(!quiet.contains(busy) && !quiet.contains(unknown), "{quiet}");
        assert!(report(Some(0.0), Some(9.0)).table().contains(busy));
        let table = report(None, None).table();
        assert!(table.contains(unmeasured) && table.contains(unknown) && !table.contains(busy), "{table}");
    }

    fn report(steal_percent: Option<f64>, others_percent: Option<f64>) -> Report {
        Report {
            workload: "none".into(),
            allocator: Allocator::System,
            machine: Machine::detect(),
            disturbance: Disturbance { load_before: None, load_after: None, steal_percent, others_percent },
            blocks: 1,
            seed: 1,
            peers: Vec::new(),
            references: Vec::new(),
            cases: Vec::new(),
            valid: true,
            finished: true,
            figures: Vec::new(),
        }
    }

    /// A report of one case, (1,1) and one by one: nanoseconds per change by peer and block; B1 is the reference.
    pub(crate) fn report_of(allocator: Allocator, known: usize, times: &[(&str, [f64; 3])]) -> Report {
        let mut rows: Vec<Row> =
            times.iter().map(|(peer, times)| Row::of(peer, times.map(Some).to_vec())).collect();
        let reference = Row::of("B1", times[1].1.map(Some).to_vec());
        for row in &mut rows {
            row.times_as_fast_as.insert("B1".into(), row.ratio_to(&reference));
        }
        let mut report = report(Some(0.0), Some(0.0));
        report.allocator = allocator;
        report.cases = vec![CaseReport {
            known,
            producers: 1,
            consumers: 1,
            oversubscribed: false,
            batch: 1,
            changes: 1,
            disturbance: report.disturbance,
            rows,
            void: Vec::new(),
        }];
        report
    }

    #[test]
    fn nothing_valid_gives_no_figure() {
        let void = Row::of("void", vec![None, None]);
        let good = Row::of("good", vec![Some(1.0), Some(1.0)]);
        assert!(void.ns_per_change.is_none());
        assert!(good.ratio_to(&void).is_none());
    }
}
