//! Block after block, every row of a case once in each, in an order drawn anew: what disturbs the machine disturbs all alike.

use std::collections::BTreeMap;

use delta_fifo_perf::peers;
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::report::{CaseReport, Report, TrialReport, Void};
use super::{Blocks, Case, Measured, Sample, Setting, Trial};
use crate::allocator::Allocator;
use crate::cli::trial::TrialOptions;
use crate::figures::Figure;
use crate::machine::{Machine, Watch};

pub(super) fn measure(options: &TrialOptions) -> Report {
    let watch = Watch::begin();
    let setting = Setting {
        size: options.size,
        seed: options.seed,
        counting: Allocator::current() == Allocator::Counting,
    };
    let trials = options.trials.iter().copied().filter(|trial| trial.counted || !setting.counting);
    let plans: Vec<Plan> = trials.map(|trial| Plan::of(trial, options, setting)).collect();
    let progress = progress(plans.iter().map(Plan::runs).sum());
    let mut random = SmallRng::seed_from_u64(options.seed);
    let mut report = Report {
        workload: plans.iter().map(|plan| plan.trial.id).collect::<Vec<_>>().join(","),
        allocator: Allocator::current(),
        machine: Machine::detect(),
        disturbance: watch.now(),
        blocks: plans.iter().flat_map(|plan| &plan.cases).map(|case| case.blocks).min().unwrap_or(0),
        seed: options.seed,
        trials: Vec::new(),
        figures: Vec::new(),
        notes: Vec::new(),
        void: Vec::new(),
        valid: false,
    };
    for plan in &plans {
        plan.measure(setting, &mut random, &progress, &mut report);
    }
    progress.finish_and_clear();
    report.disturbance = watch.end();
    report.valid = report.void.is_empty();
    report
}

/// What of a trial runs here.
struct Plan {
    trial: &'static Trial,
    cases: Vec<Planned>,
}

struct Planned {
    case: Case,
    rows: Vec<&'static str>,
    blocks: usize,
}

impl Plan {
    fn of(trial: &'static Trial, options: &TrialOptions, setting: Setting) -> Self {
        let runs = |row: &&'static str| match peers::by_id(row) {
            Some(peer) => options.peers.as_ref().is_none_or(|peers| peers.contains(&peer)),
            // A reference has nothing to ask an allocator for.
            None => !setting.counting,
        };
        let blocks = |case: &Case| match (trial.blocks)(setting.size, case) {
            _ if setting.counting => 1,
            Blocks::Usually(blocks) => options.blocks.unwrap_or(blocks),
            Blocks::Always(blocks) => blocks,
        };
        let cases = (trial.cases)(setting.size).into_iter();
        let cases = cases.map(|case| Planned {
            rows: (trial.rows)(&case).into_iter().filter(runs).collect(),
            blocks: blocks(&case),
            case,
        });
        Self { trial, cases: cases.collect() }
    }

    fn runs(&self) -> usize {
        self.cases.iter().map(|case| case.blocks * case.rows.len()).sum()
    }

    fn measure(&self, setting: Setting, random: &mut SmallRng, progress: &ProgressBar, report: &mut Report) {
        let id = self.trial.id;
        let mut cases = Vec::new();
        for Planned { case, rows, blocks } in &self.cases {
            let watch = Watch::begin();
            let mut runs = (self.trial.prepare)(case, &setting);
            let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); rows.len()];
            let mut order: Vec<usize> = (0..rows.len()).collect();
            for _ in 0..*blocks {
                order.shuffle(random);
                for &row in &order {
                    progress.set_message(format!("{id}, {case}, {}", rows[row]));
                    samples[row].push(runs.run(rows[row]));
                    progress.inc(1);
                }
            }
            for note in samples.iter().flatten().flat_map(|sample| &sample.notes) {
                if !report.notes.contains(note) {
                    report.notes.push(note.clone());
                }
            }
            for (&row, samples) in rows.iter().zip(&samples) {
                report.figures.extend(figures(id, case, row, samples));
                report.void.extend(void(id, case, row, samples));
            }
            let (case, blocks) = (names_and_values(case), *blocks);
            cases.push(CaseReport { case, blocks, disturbance: watch.end() });
        }
        report.trials.push(TrialReport { id: id.into(), about: self.trial.about.into(), cases });
    }
}

pub(super) fn names_and_values(case: &Case) -> Vec<(String, String)> {
    case.0.iter().map(|(name, value)| ((*name).into(), value.clone())).collect()
}

/// One for each measure of a row. Values of a void run are none.
pub(super) fn figures(workload: &str, case: &Case, row: &str, samples: &[Sample]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for (block, sample) in samples.iter().enumerate() {
        for Measured { measure, unit, better, value } in &sample.values {
            let place = figures.iter().position(|figure| figure.measure == *measure).unwrap_or_else(|| {
                figures.push(Figure {
                    workload: workload.into(),
                    case: BTreeMap::from_iter(names_and_values(case)),
                    peer: row.into(),
                    measure: (*measure).into(),
                    unit: (*unit).into(),
                    better: *better,
                    by_block: vec![None; samples.len()],
                });
                figures.len() - 1
            });
            let valid = sample.violations.is_empty() && value.is_finite();
            figures[place].by_block[block] = valid.then_some(*value);
        }
    }
    figures
}

fn void(workload: &str, case: &Case, row: &str, samples: &[Sample]) -> Vec<Void> {
    let void = samples.iter().enumerate().filter(|(_, sample)| !sample.violations.is_empty());
    void.map(|(block, sample)| Void {
        workload: workload.into(),
        case: case.to_string(),
        peer: row.into(),
        block,
        violations: sample.violations.clone(),
    })
    .collect()
}

/// On standard error, and only where somebody watches.
fn progress(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new(runs as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(Allocator::current().name())
}
