//! What trials found, as JSON and as tables.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{bars, by_id};
use crate::allocator::Allocator;
use crate::bars::BLOCKS;
use crate::figures::{Better, Figure};
use crate::machine::{Disturbance, Machine};
use crate::process::Measured;
use crate::report::{UNFINISHED, caveat, heading};
use crate::stats::Estimate;

/// One process, one allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// All trials that ran, with commas between them.
    pub(super) workload: String,
    pub(super) allocator: Allocator,
    #[serde(flatten)]
    pub(super) machine: Machine,
    #[serde(flatten)]
    pub(super) disturbance: Disturbance,
    /// Of the case with the fewest.
    pub(super) blocks: usize,
    pub(super) seed: u64,
    pub(super) trials: Vec<TrialReport>,
    pub(super) figures: Vec<Figure>,
    /// What is not what it seems, or not there.
    pub(super) notes: Vec<String>,
    pub(super) void: Vec<Void>,
    /// No run was void.
    pub(super) valid: bool,
    /// No case has fewer blocks than it was to have.
    pub(super) finished: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TrialReport {
    pub(super) id: String,
    pub(super) about: String,
    pub(super) cases: Vec<CaseReport>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CaseReport {
    /// In the trial's own order.
    pub(super) case: Vec<(String, String)>,
    /// That were done, of so many.
    pub(super) blocks: usize,
    pub(super) planned: usize,
    #[serde(flatten)]
    pub(super) disturbance: Disturbance,
}

/// A run that failed its checks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Void {
    pub(super) workload: String,
    pub(super) case: String,
    pub(super) peer: String,
    pub(super) block: usize,
    pub(super) violations: Vec<String>,
}

impl Figure {
    pub(super) fn is_of(&self, workload: &str, case: &[(String, String)]) -> bool {
        self.workload == workload
            && self.case.len() == case.len()
            && case.iter().all(|(name, value)| self.case.get(name) == Some(value))
    }

    pub(super) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.by_block.iter().copied().flatten().collect::<Vec<_>>())
    }

    /// Block by block; only blocks in which both were valid can be compared.
    pub(super) fn quotient(&self, by: &Self) -> Option<Estimate> {
        let both = self.by_block.iter().zip(&by.by_block);
        let quotients = both.filter_map(|(own, by)| Some((*own)? / (*by)?));
        Estimate::of(&quotients.filter(|quotient| quotient.is_finite()).collect::<Vec<_>>())
    }

    /// Above 1 is better.
    pub(super) fn times_as_good_as(&self, reference: &Self) -> Option<Estimate> {
        match self.better {
            Better::Lower => reference.quotient(self),
            Better::Higher => self.quotient(reference),
        }
    }
}

impl Report {
    pub(super) fn figure(
        &self,
        workload: &str,
        case: &[(String, String)],
        peer: &str,
        measure: &str,
    ) -> Option<&Figure> {
        let mut figures = self.figures.iter();
        figures
            .find(|figure| figure.is_of(workload, case) && figure.peer == peer && figure.measure == measure)
    }

    fn write_case(
        &self,
        trial: &TrialReport,
        CaseReport { case, blocks, planned, .. }: &CaseReport,
        text: &mut String,
    ) {
        case.iter().for_each(|(name, value)| _ = write!(text, "{name} {value} · "));
        let of = if blocks < planned { format!(" of {planned}") } else { String::new() };
        let _ = writeln!(text, "{blocks}{of} {}", if *planned == 1 { "block" } else { "blocks" });
        let against = by_id(&trial.id).map_or(&[][..], |trial| trial.against);
        let figures: Vec<&Figure> =
            self.figures.iter().filter(|figure| figure.is_of(&trial.id, case)).collect();
        let mut measures: Vec<&str> = Vec::new();
        for figure in &figures {
            if !measures.contains(&&*figure.measure) {
                measures.push(&figure.measure);
            }
        }
        for measure in measures {
            for figure in figures.iter().filter(|figure| figure.measure == measure) {
                let value = figure.estimate().map_or("void".into(), in_words);
                let what = format!("{measure}, {}", figure.unit);
                let _ = write!(text, "  {what:<54} {:<12} {value:>32}", figure.peer);
                for reference in against {
                    let other = self.figure(&trial.id, case, reference, measure);
                    let ratio = match other.and_then(|other| figure.times_as_good_as(other)) {
                        _ if figure.peer == *reference => "1".into(),
                        Some(estimate) => in_words(estimate),
                        None => "–".into(),
                    };
                    let _ = write!(text, "  {reference}: {ratio:<22}");
                }
                *text = text.trim_end().into();
                text.push('\n');
            }
        }
        text.push('\n');
    }
}

/// With as many digits as it takes to tell something.
pub(super) fn in_words(Estimate { median, low, high }: Estimate) -> String {
    let digits = match median.abs() {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 0.1 => 2,
        _ => 4,
    };
    let number = |value: f64| grouped(&format!("{value:.digits$}"));
    format!("{} [{}–{}]", number(median), number(low), number(high))
}

/// `1234567` as `1,234,567`; what has digits after the point is small.
fn grouped(text: &str) -> String {
    let whole = text.trim_start_matches('-').len();
    if text.contains('.') || whole <= 3 {
        return text.into();
    }
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && digit != '-' && (text.len() - place).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

impl Measured for Report {
    fn allocator(&self) -> Allocator {
        self.allocator
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn table(&self) -> String {
        let what = format!(
            "{} · {} allocator · median [95 % interval] of the blocks; after a row's name: how many times as good as it",
            self.workload, self.allocator
        );
        let mut text = heading(&what, &self.machine, self.disturbance);
        for trial in &self.trials {
            let _ = writeln!(text, "{} · {}\n", trial.id, trial.about);
            for case in &trial.cases {
                self.write_case(trial, case, &mut text);
            }
        }
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        for Void { workload, case, peer, block, violations } in &self.void {
            let _ =
                writeln!(text, "VOID: {workload}, {peer}, {case}, block {block}: {}", violations.join("; "));
        }
        let timed = self.allocator != Allocator::Counting;
        if timed && self.trials.iter().flat_map(|trial| &trial.cases).any(|case| case.blocks < BLOCKS) {
            let _ = writeln!(text, "Cases with fewer than {BLOCKS} blocks claim nothing.");
        }
        if !self.finished {
            text.push_str(UNFINISHED);
        }
        text.push_str(caveat(self.disturbance));
        text
    }

    fn conclusion(reports: &[Self]) -> String {
        bars::table(reports)
    }
}
