//! `compare`: the same workload for every peer, in interleaved blocks.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::allocator::Allocator;
use crate::bars;
use crate::cli::Options;
use crate::machine::{Disturbance, Machine, Watch};
use crate::notebook::Notebook;
use crate::process::{self, Measured, Result};
use crate::report::{CaseReport, PeerReport, Report, Row, Void};
use delta_fifo_perf::workload::{Case, KeySet, Outcome, Parts};

/// No run takes that long without any progress, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    process::run(&options.allocators, options.json.as_ref(), options.budget, |notebook| {
        measure(options, notebook)
    })
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
        self.table()
    }

    fn conclusion(reports: &[Self]) -> String {
        // Who leaves the queue out does not ask for them.
        let has_peer = |report: &Self| report.peers.iter().any(|peer| peer.id == bars::PEER);
        if reports.iter().any(has_peer) { bars::table(reports) } else { String::new() }
    }
}

fn measure(options: &Options, mut notebook: Notebook<Report>) -> Report {
    let mut comparison = Comparison::new(options);
    if let Some(before) = notebook.take_before() {
        comparison.go_on_with(&before);
    }
    let progress = progress(comparison.runs_left());
    let mut keys = KeySet::new(1, 0);
    for place in 0..comparison.groups.len() {
        let until = notebook.end_of_part(comparison.groups.len() - place);
        let Group { known, done, .. } = comparison.groups[place];
        if done >= options.blocks {
            continue;
        }
        if keys.len() != known {
            keys = KeySet::new(known, options.seed);
        }
        comparison.measure(place, &keys, until, &progress, &notebook);
    }
    progress.finish_and_clear();
    comparison.report(true)
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

/// Cases that differ in their threads alone, and take turns.
struct Group {
    known: usize,
    cases: Vec<Case>,
    done: usize,
    /// By case and runner: nanoseconds per change in each block.
    times: Vec<Vec<Vec<Option<f64>>>>,
    /// By case.
    void: Vec<Vec<Void>>,
    disturbance: Disturbance,
}

struct Comparison<'o> {
    options: &'o Options,
    machine: Machine,
    watch: Watch,
    /// Of the run that this one goes on with.
    before: Option<Disturbance>,
    runners: Vec<Runner>,
    groups: Vec<Group>,
}

impl<'o> Comparison<'o> {
    fn new(options: &'o Options) -> Self {
        let Options { known, threads, batches, changes, .. } = options;
        let runners = runners(options);
        let group = |known: usize, batch: usize| {
            let case = |&(producers, consumers): &(usize, usize)| Case {
                producers,
                consumers,
                batch,
                changes: *changes,
                patience: PATIENCE,
                parts: Parts::default(),
            };
            Group {
                known,
                cases: threads.iter().map(case).collect(),
                done: 0,
                times: vec![vec![Vec::new(); runners.len()]; threads.len()],
                void: threads.iter().map(|_| Vec::new()).collect(),
                disturbance: Disturbance::default(),
            }
        };
        let groups = known.iter().flat_map(|&known| batches.iter().map(move |&batch| (known, batch)));
        Self {
            groups: groups.map(|(known, batch)| group(known, batch)).collect(),
            options,
            machine: Machine::detect(),
            watch: Watch::begin(),
            before: None,
            runners,
        }
    }

    fn go_on_with(&mut self, before: &Report) {
        self.before = Some(before.disturbance);
        for group in &mut self.groups {
            for (number, case) in group.cases.iter().enumerate() {
                let Some(found) = before.cases.iter().find(|it| it.is_of(group.known, case)) else {
                    continue;
                };
                group.done = found.rows.first().map_or(0, |row| row.by_block.len());
                group.disturbance = found.disturbance;
                group.void[number].clone_from(&found.void);
                for row in &found.rows {
                    if let Some(runner) = self.runners.iter().position(|runner| runner.id == row.peer) {
                        group.times[number][runner].clone_from(&row.by_block);
                    }
                }
            }
        }
    }

    /// Case and runner.
    fn runs(&self, group: &Group) -> Vec<(usize, usize)> {
        let all =
            (0..group.cases.len()).flat_map(|case| (0..self.runners.len()).map(move |runner| (case, runner)));
        all.filter(|&(case, runner)| self.runners[runner].runs_in(&group.cases[case])).collect()
    }

    fn runs_left(&self) -> usize {
        let left = |group: &Group| self.options.blocks.saturating_sub(group.done) * self.runs(group).len();
        self.groups.iter().map(left).sum()
    }

    /// Block after block, every peer with each number of threads once in each, in an order drawn anew: what disturbs the machine
    /// disturbs all alike, and one number of threads can be set against another.
    fn measure(
        &mut self,
        place: usize,
        keys: &KeySet,
        until: Option<Instant>,
        progress: &ProgressBar,
        notebook: &Notebook<Report>,
    ) {
        let watch = Watch::begin();
        let Group { done, disturbance, .. } = self.groups[place];
        let before = (done > 0).then_some(disturbance);
        let mut order = self.runs(&self.groups[place]);
        let mut random = SmallRng::seed_from_u64(self.options.seed ^ ((place as u64) << 32));
        // Who goes on goes on with the order too.
        (0..done).for_each(|_| order.shuffle(&mut random));
        for block in done..self.options.blocks {
            order.shuffle(&mut random);
            let group = &mut self.groups[place];
            for &(number, runner) in &order {
                let (case, times) = (&group.cases[number], &mut group.times[number][runner]);
                let runner = &self.runners[runner];
                announce(progress, case, keys, &runner.id);
                let outcome = (runner.run)(&Case { parts: runner.parts, ..case.clone() }, keys);
                let valid = outcome.violations.is_empty();
                times.push(valid.then(|| outcome.ns_per_change()));
                if !valid {
                    let peer = runner.id.clone();
                    group.void[number].push(Void { peer, block, violations: outcome.violations });
                }
                progress.inc(1);
            }
            (group.done, group.disturbance) = (block + 1, Disturbance::of_both(before, watch.now()));
            notebook.save(&self.report(false));
            if until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
        }
    }

    /// What is known by now. Nothing is concluded from it before the end: that takes its time.
    fn report(&self, is_over: bool) -> Report {
        let measured = || self.groups.iter().filter(|group| group.done > 0);
        let cases: Vec<CaseReport> = measured().flat_map(|group| self.cases(group, is_over)).collect();
        let peers = self.runners.iter();
        Report {
            workload: "W1 windowed".into(),
            allocator: Allocator::current(),
            machine: self.machine.clone(),
            disturbance: Disturbance::of_both(self.before, self.watch.now()),
            blocks: measured().map(|group| group.done).min().unwrap_or(0),
            seed: self.options.seed,
            peers: peers.map(|it| PeerReport { id: it.id.clone(), about: it.about.into() }).collect(),
            references: self.options.references.clone(),
            valid: cases.iter().all(|case| case.void.is_empty()),
            finished: self.groups.iter().all(|group| group.done >= self.options.blocks),
            figures: cases.iter().flat_map(CaseReport::figures).collect(),
            cases,
        }
    }

    fn cases(&self, group: &Group, is_over: bool) -> impl Iterator<Item = CaseReport> {
        let Group { known, cases, times, void, disturbance, .. } = group;
        cases.iter().zip(times).zip(void).map(move |((case, times), void)| CaseReport {
            known: *known,
            producers: case.producers,
            consumers: case.consumers,
            oversubscribed: case.producers + case.consumers > self.machine.nproc,
            batch: case.batch,
            changes: case.changes / case.producers * case.producers,
            disturbance: *disturbance,
            rows: self.rows(times, is_over),
            void: void.clone(),
        })
    }

    /// Of those that have run.
    fn rows(&self, times: &[Vec<Option<f64>>], is_over: bool) -> Vec<Row> {
        let row = if is_over { Row::of } else { Row::unfinished };
        let ran = self.runners.iter().zip(times).filter(|(_, times)| !times.is_empty());
        let mut rows: Vec<Row> = ran.map(|(runner, times)| row(&runner.id, times.clone())).collect();
        if !is_over {
            return rows;
        }
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

fn announce(progress: &ProgressBar, case: &Case, keys: &KeySet, peer: &str) {
    let Case { producers, consumers, batch, .. } = case;
    let known = keys.len();
    progress.set_message(format!("{known} known, ({producers},{consumers}), batch {batch}, {peer}"));
}

/// On standard error, and only where somebody watches.
fn progress(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new(runs as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(Allocator::current().name())
}

#[cfg(test)]
mod tests;
