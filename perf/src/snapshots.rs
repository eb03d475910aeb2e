//! `snapshots`: what it costs to look at all known objects as of one moment, and what that costs the writer.

mod bars;
mod figures;
mod sweeps;

use std::fmt::Write;
use std::process::ExitCode;

use delta_fifo_perf::stores::{Entry, Measured as OfStore, Plain, READINGS};
use delta_fifo_perf::workload::description::{Description, Work};
use delta_fifo_perf::workload::{KeySet, readers};
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bars::PEER;
use crate::cli::SnapshotOptions;
use crate::figures::Figure;
use crate::machine::{Disturbance, Machine, Watch};
use crate::outside::{Figures, Outside};
use crate::process::{self, Measured, Result};
use crate::report::{caveat, heading};
use crate::stats::Estimate;

use sweeps::Sweeps;

/// Nobody's store: a plain hash map, scanned where nothing else goes on.
const PLAIN: &str = "plain";

/// The figures of a store, all in nanoseconds.
const SNAPSHOT: &str = "snapshot()";
const DROP: &str = "its drop";
const SCAN: &str = "scan, per object";
const HIT: &str = "get, hit";
const MISS: &str = "get, miss";

fn writing(with: &str) -> String {
    format!("write, {with}")
}

pub(crate) fn run(options: &SnapshotOptions) -> Result<ExitCode> {
    process::run(&options.allocators, options.json.as_ref(), None, |_| measure(options))
}

#[derive(Serialize, Deserialize)]
struct Report {
    workload: String,
    allocator: Allocator,
    #[serde(flatten)]
    machine: Machine,
    #[serde(flatten)]
    disturbance: Disturbance,
    blocks: usize,
    seed: u64,
    rows: Vec<Row>,
    /// Of the queue, if it runs.
    sweeps: Option<Sweeps>,
    figures: Vec<Figure>,
    /// What is not what it seems, or not there.
    notes: Vec<String>,
    void: Vec<String>,
    /// No run was void.
    valid: bool,
}

/// What a program outside prints.
#[derive(Deserialize)]
struct OfOutside {
    snapshot: f64,
    /// Nothing is dropped in Go.
    drop: Option<f64>,
    scan: f64,
    hit: f64,
    miss: f64,
    written: [f64; READINGS.len()],
}

/// Who is measured.
#[derive(Clone, Copy)]
enum Place {
    Store(usize),
    Plain,
    Outside(usize),
}

/// One figure of one store with so many keys.
#[derive(Serialize, Deserialize)]
struct Row {
    keys: usize,
    what: String,
    store: String,
    /// Nanoseconds, block by block; `None` is a void run.
    by_block: Vec<Option<f64>>,
}

impl Row {
    fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.by_block.iter().copied().flatten().collect::<Vec<_>>())
    }
}

impl Report {
    fn row(&self, keys: usize, what: &str, store: &str) -> Option<&Row> {
        self.rows.iter().find(|row| (row.keys, &*row.what, &*row.store) == (keys, what, store))
    }

    fn push(&mut self, keys: usize, what: &str, store: &str, figure: Option<f64>) {
        match self.rows.iter_mut().find(|row| (row.keys, &*row.what, &*row.store) == (keys, what, store)) {
            Some(row) => row.by_block.push(figure),
            None => {
                let (what, store) = (what.into(), store.into());
                self.rows.push(Row { keys, what, store, by_block: vec![figure] });
            }
        }
    }

    fn add(&mut self, keys: usize, block: usize, store: &str, measured: &OfStore) {
        let OfStore { times, hits, misses, written, violations } = measured;
        let figures = [
            (SNAPSHOT, times.snapshot),
            (DROP, times.drop),
            (SCAN, times.scan),
            (HIT, hits.ns),
            (MISS, misses.ns),
        ];
        self.add_all(keys, block, store, &figures, &written.each_ref().map(|it| it.ns), violations);
    }

    fn add_outside(&mut self, keys: usize, block: usize, id: &str, run: Figures<OfOutside>) {
        let Figures { figures, version, violations } = run;
        let OfOutside { snapshot, drop, scan, hit, miss, written } = figures;
        let figures = [
            (SNAPSHOT, Some(snapshot)),
            (DROP, drop),
            (SCAN, Some(scan)),
            (HIT, Some(hit)),
            (MISS, Some(miss)),
        ];
        let figures: Vec<_> = figures.into_iter().filter_map(|(what, ns)| Some((what, ns?))).collect();
        self.add_all(keys, block, id, &figures, &written, &violations);
        self.note(format!("{id}: the store of {version}, in a process of its own, with its own allocator."));
    }

    fn add_all(
        &mut self,
        keys: usize,
        block: usize,
        store: &str,
        figures: &[(&str, f64)],
        written: &[f64; READINGS.len()],
        violations: &[String],
    ) {
        let sound = |ns: f64| violations.is_empty().then_some(ns);
        for &(what, ns) in figures {
            self.push(keys, what, store, sound(ns));
        }
        for ((with, _), &ns) in READINGS.iter().zip(written) {
            self.push(keys, &writing(with), store, sound(ns));
        }
        if !violations.is_empty() {
            self.void.push(format!("{store}, {keys} keys, block {block}: {}", violations.join("; ")));
        }
    }

    /// Each once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// In the order of the rows, as below.
    fn stores(&self) -> Vec<&str> {
        let mut stores: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !stores.contains(&&*row.store) {
                stores.push(&row.store);
            }
        }
        stores
    }

    fn whats(&self) -> Vec<(usize, &str)> {
        let mut whats: Vec<(usize, &str)> = Vec::new();
        for row in &self.rows {
            if !whats.contains(&(row.keys, &row.what)) {
                whats.push((row.keys, &row.what));
            }
        }
        whats
    }
}

fn measure(options: &SnapshotOptions) -> Report {
    let built = [Outside::client_go(options.client_go), Outside::kube(options.kube)];
    let watch = Watch::begin();
    let mut random = SmallRng::seed_from_u64(options.seed);
    let progress = progress(options);
    let mut report = Report {
        workload: "snapshots".into(),
        allocator: Allocator::current(),
        machine: Machine::detect(),
        disturbance: Disturbance::default(),
        blocks: options.blocks,
        seed: options.seed,
        rows: Vec::new(),
        sweeps: None,
        figures: Vec::new(),
        notes: Vec::new(),
        void: Vec::new(),
        valid: true,
    };
    let mut outside = Vec::new();
    for built in built {
        match built {
            Ok(built) => outside.push(built),
            Err(why) => report.note(why),
        }
    }
    for &count in &options.keys {
        let (keys, absent) = (KeySet::new(count, options.seed), KeySet::absent(count, options.seed));
        let elsewhere = Plain::filled(&keys);
        // So that rows stand in the order of the options, whatever the blocks'.
        let mut measured: Vec<Vec<OfStore>> = options.stores.iter().map(|_| Vec::new()).collect();
        let mut plain = Vec::new();
        let mut of_outside: Vec<Vec<_>> = outside.iter().map(|_| Vec::new()).collect();
        let mut order: Vec<Place> = (0..options.stores.len()).map(Place::Store).collect();
        order.push(Place::Plain);
        order.extend((0..outside.len()).map(Place::Outside));
        for _ in 0..options.blocks {
            order.shuffle(&mut random);
            for place in &order {
                match *place {
                    Place::Store(number) => {
                        let store: &Entry = options.stores[number];
                        progress.set_message(format!("{count} keys, {}", store.id));
                        measured[number].push((store.measure)(&options.plan, &keys, &absent, &elsewhere));
                    }
                    Place::Plain => {
                        plain.push(readers::scan_ns(&Plain::filled(&keys), options.plan.scanned));
                    }
                    Place::Outside(number) => {
                        progress.set_message(format!("{count} keys, {}", outside[number].id));
                        of_outside[number].push(outside[number].run("store", &description(options, count)));
                    }
                }
                progress.inc(1);
            }
        }
        for (block, ns) in plain.into_iter().enumerate() {
            for (store, blocks) in options.stores.iter().zip(&measured) {
                report.add(count, block, store.id, &blocks[block]);
            }
            report.push(count, SCAN, PLAIN, Some(ns));
        }
        for (Outside { id, .. }, runs) in outside.iter().zip(of_outside) {
            for (block, run) in runs.into_iter().enumerate() {
                match run {
                    Ok(run) => report.add_outside(count, block, id, run),
                    Err(why) => report.void.push(format!("{id}, {count} keys, block {block}: {why}")),
                }
            }
        }
    }
    if options.stores.iter().any(|store| store.id == PEER) {
        let mut sweeps = Sweeps::new(options.known);
        for block in 0..options.blocks {
            progress.set_message(format!("a snapshot of {} keys is dropped", options.known));
            let wrong = sweeps.measure(options.seed);
            report
                .void
                .extend(wrong.into_iter().map(|wrong| format!("{PEER}, drops, block {block}: {wrong}")));
        }
        report.sweeps = Some(sweeps);
    }
    progress.finish_and_clear();
    report.figures = figures::of(&report);
    report.valid = report.void.is_empty();
    report.disturbance = watch.end();
    report
}

/// For a program outside.
fn description(options: &SnapshotOptions, known: usize) -> Description {
    Description { known, seed: options.seed, work: Work::Store(options.plan) }
}

/// On standard error, and only where somebody watches.
fn progress(options: &SnapshotOptions) -> ProgressBar {
    let SnapshotOptions { keys, blocks, stores, .. } = options;
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new(
        (keys.len()
            * blocks
            * (stores.len() + 1 + usize::from(options.client_go) + usize::from(options.kube))) as u64,
    )
    .with_style(style.expect("a valid template"))
    .with_prefix(Allocator::current().name())
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
            "snapshots · {} allocator · {} blocks · ns: medians; each block's stand in the JSON\n\
             A write is visible at once; a queue's is update, pop and done, a map's an insert. Readers scan snapshots of their own, over and over.",
            self.allocator, self.blocks
        );
        let mut text = heading(&what, &self.machine, self.disturbance);
        let stores = self.stores();
        let _ = write!(text, "{:>8}  {:<20}", "keys", "what");
        stores.iter().for_each(|store| _ = write!(text, " {store:>12}"));
        text.push('\n');
        for (keys, what) in self.whats() {
            let _ = write!(text, "{keys:>8}  {what:<20}");
            for store in &stores {
                let ns = match self.row(keys, what, store).map(Row::estimate) {
                    None => "–".into(),
                    Some(None) => "void".into(),
                    Some(Some(ns)) => format!("{:.1}", ns.median),
                };
                let _ = write!(text, " {ns:>12}");
            }
            text.push('\n');
        }
        self.sweeps.iter().for_each(|sweeps| text.push_str(&sweeps.table()));
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        self.void.iter().for_each(|void| _ = writeln!(text, "VOID: {void}"));
        text.push_str(caveat(self.disturbance));
        text
    }

    fn conclusion(reports: &[Self]) -> String {
        bars::table(reports)
    }
}
