//! Block after block, every row of a case once in each, in an order drawn anew: what disturbs the machine disturbs all alike.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use delta_fifo_perf::peers;
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::report::{CaseReport, Report, TrialReport, Void};
use super::{Blocks, Case, Counted, Measured, Sample, Setting, Trial};
use crate::allocator::Allocator;
use crate::cli::trial::TrialOptions;
use crate::figures::Figure;
use crate::machine::{Disturbance, Machine, Watch};
use crate::notebook::Notebook;

pub(super) fn measure(options: &TrialOptions, mut notebook: Notebook<Report>) -> Report {
    let setting = Setting {
        size: options.size,
        seed: options.seed,
        counting: Allocator::current() == Allocator::Counting,
    };
    let trials = options.trials.iter().copied().filter(|trial| trial.counted.runs(setting.counting));
    let mut run = Run {
        watch: Watch::begin(),
        machine: Machine::detect(),
        seed: options.seed,
        before: None,
        cases: trials.flat_map(|trial| Planned::of(trial, options, setting)).collect(),
        notes: Vec::new(),
    };
    if let Some(before) = notebook.take_before() {
        run.go_on_with(before);
    }
    let progress = progress(run.cases.iter().map(Planned::runs_left).sum());
    for place in 0..run.cases.len() {
        let until = notebook.end_of_part(run.cases.len() - place);
        run.measure(place, setting, until, &progress, &notebook);
    }
    progress.finish_and_clear();
    run.report()
}

/// All that is measured here.
struct Run {
    watch: Watch,
    machine: Machine,
    seed: u64,
    /// Of the run that this one goes on with.
    before: Option<Disturbance>,
    cases: Vec<Planned>,
    notes: Vec<String>,
}

/// A case of a trial, and what is known of it.
struct Planned {
    trial: &'static Trial,
    case: Case,
    rows: Vec<&'static str>,
    blocks: usize,
    done: usize,
    /// By row, and by block.
    samples: Vec<Vec<Sample>>,
    disturbance: Disturbance,
}

impl Planned {
    fn of(
        trial: &'static Trial,
        options: &TrialOptions,
        setting: Setting,
    ) -> impl Iterator<Item = Self> + use<> {
        let (only, asked) = (options.peers.clone(), options.blocks);
        let runs = move |row: &&'static str| match peers::by_id(row) {
            Some(peer) => only.as_ref().is_none_or(|peers| peers.contains(&peer)),
            // A reference has nothing to ask an allocator for.
            None => !setting.counting || trial.counted == Counted::Alone,
        };
        let blocks = move |case: &Case| match (trial.blocks)(setting.size, case) {
            _ if setting.counting && trial.counted == Counted::Too => 1,
            Blocks::Usually(blocks) => asked.unwrap_or(blocks),
            Blocks::Always(blocks) => blocks,
        };
        (trial.cases)(setting.size).into_iter().map(move |case| {
            let rows: Vec<&'static str> = (trial.rows)(&case).into_iter().filter(&runs).collect();
            let samples = vec![Vec::new(); rows.len()];
            let (blocks, done, disturbance) = (blocks(&case), 0, Disturbance::default());
            Self { trial, case, rows, blocks, done, samples, disturbance }
        })
    }

    fn is_finished(&self) -> bool {
        self.done >= self.blocks
    }

    fn runs_left(&self) -> usize {
        self.blocks.saturating_sub(self.done) * self.rows.len()
    }

    /// What an earlier run has measured of it.
    fn take(&mut self, before: &Report) {
        let id = self.trial.id;
        let names = names_and_values(&self.case);
        let of_trial = before.trials.iter().filter(|trial| trial.id == id);
        let Some(found) = of_trial.flat_map(|trial| &trial.cases).find(|it| it.case == names) else { return };
        (self.done, self.disturbance) = (found.blocks, found.disturbance);
        for (row, samples) in self.rows.iter().zip(&mut self.samples) {
            *samples = vec![Sample::default(); found.blocks];
            let of_row = |figure: &&Figure| figure.is_of(id, &names) && figure.peer == *row;
            for figure in before.figures.iter().filter(of_row) {
                for (sample, value) in samples.iter_mut().zip(&figure.by_block) {
                    sample.values.push(Measured {
                        measure: Cow::Owned(figure.measure.clone()),
                        unit: Cow::Owned(figure.unit.clone()),
                        better: figure.better,
                        value: value.unwrap_or(f64::NAN),
                    });
                }
            }
            let case = self.case.to_string();
            let is_of_row = |void: &&Void| void.workload == id && void.case == case && void.peer == *row;
            for void in before.void.iter().filter(is_of_row) {
                samples[void.block].violations.clone_from(&void.violations);
            }
        }
    }
}

impl Run {
    fn go_on_with(&mut self, before: Report) {
        self.cases.iter_mut().for_each(|planned| planned.take(&before));
        (self.before, self.notes) = (Some(before.disturbance), before.notes);
    }

    fn measure(
        &mut self,
        place: usize,
        setting: Setting,
        until: Option<Instant>,
        progress: &ProgressBar,
        notebook: &Notebook<Report>,
    ) {
        let planned = &self.cases[place];
        if planned.is_finished() {
            return;
        }
        let (trial, case, rows) = (planned.trial, planned.case.clone(), planned.rows.clone());
        let before = (planned.done > 0).then_some(planned.disturbance);
        let watch = Watch::begin();
        let mut runs = (trial.prepare)(&case, &setting);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let mut random = SmallRng::seed_from_u64(self.seed ^ ((place as u64) << 32));
        // Who goes on goes on with the order too.
        (0..self.cases[place].done).for_each(|_| order.shuffle(&mut random));
        while !self.cases[place].is_finished() {
            order.shuffle(&mut random);
            for &row in &order {
                progress.set_message(format!("{}, {case}, {}", trial.id, rows[row]));
                let sample = runs.run(rows[row]);
                for note in &sample.notes {
                    if !self.notes.contains(note) {
                        self.notes.push(note.clone());
                    }
                }
                self.cases[place].samples[row].push(sample);
                progress.inc(1);
            }
            let planned = &mut self.cases[place];
            planned.disturbance = Disturbance::of_both(before, watch.now());
            planned.done += 1;
            notebook.save(&self.report());
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
    }

    /// What is known by now.
    fn report(&self) -> Report {
        let measured = || self.cases.iter().filter(|planned| planned.done > 0);
        let mut report = Report {
            workload: String::new(),
            allocator: Allocator::current(),
            machine: self.machine.clone(),
            disturbance: Disturbance::of_both(self.before, self.watch.now()),
            blocks: measured().map(|planned| planned.done).min().unwrap_or(0),
            seed: self.seed,
            trials: Vec::new(),
            figures: Vec::new(),
            notes: self.notes.clone(),
            void: Vec::new(),
            valid: false,
            finished: self.cases.iter().all(Planned::is_finished),
        };
        for Planned { trial, case, rows, blocks, done, samples, disturbance } in &self.cases {
            let id = trial.id;
            if report.trials.last().is_none_or(|last| last.id != id) {
                report.trials.push(TrialReport {
                    id: id.into(),
                    about: trial.about.into(),
                    cases: Vec::new(),
                });
            }
            if *done == 0 {
                continue;
            }
            for (row, samples) in rows.iter().zip(samples) {
                report.figures.extend(figures(id, case, row, samples));
                report.void.extend(void(id, case, row, samples));
            }
            let cases = &mut report.trials.last_mut().expect("there is one").cases;
            let (case, disturbance) = (names_and_values(case), *disturbance);
            cases.push(CaseReport { case, blocks: *done, planned: *blocks, disturbance });
        }
        report.workload = report.trials.iter().map(|trial| &*trial.id).collect::<Vec<_>>().join(",");
        report.valid = report.void.is_empty();
        report
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
                    measure: measure.clone().into_owned(),
                    unit: unit.clone().into_owned(),
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
