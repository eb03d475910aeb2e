//! `snapshots`: what it costs to look at all known objects as of one moment, and what that costs the writer.

mod bars;

use std::fmt::Write;
use std::process::ExitCode;

use delta_fifo_perf::stores::{Entry, Measured as OfStore, Plain, READINGS};
use delta_fifo_perf::workload::{KeySet, readers};
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::cli::SnapshotOptions;
use crate::client_go::{self, ClientGo, Figures};
use crate::machine::{Disturbance, Machine, Watch};
use crate::process::{self, Measured, Result};
use crate::report::{caveat, heading};
use crate::stats::Estimate;

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
    process::run(&options.allocators, options.json.as_ref(), || measure(options))
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
    /// What is not what it seems, or not there.
    notes: Vec<String>,
    void: Vec<String>,
}

/// What the program in Go prints. It has no drops.
#[derive(Deserialize)]
struct OfGo {
    snapshot: f64,
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
    ClientGo,
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

    fn add_go(&mut self, keys: usize, block: usize, run: Figures<OfGo>) {
        let Figures { figures: OfGo { snapshot, scan, hit, miss, written }, go, violations } = run;
        let figures = [(SNAPSHOT, snapshot), (SCAN, scan), (HIT, hit), (MISS, miss)];
        self.add_all(keys, block, client_go::ID, &figures, &written, &violations);
        let note = format!("{}: its thread-safe store, {go}; a snapshot is List().", client_go::ID);
        self.note(note);
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
    let client_go = ClientGo::build(options.client_go);
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
        notes: Vec::new(),
        void: Vec::new(),
    };
    if let Err(why) = &client_go {
        report.note(client_go::left_out(why));
    }
    for &count in &options.keys {
        let (keys, absent) = (KeySet::new(count, options.seed), KeySet::absent(count, options.seed));
        let elsewhere = Plain::filled(&keys);
        // So that rows stand in the order of the options, whatever the blocks'.
        let mut measured: Vec<Vec<OfStore>> = options.stores.iter().map(|_| Vec::new()).collect();
        let (mut plain, mut of_go) = (Vec::new(), Vec::new());
        let mut order: Vec<Place> = (0..options.stores.len()).map(Place::Store).collect();
        order.push(Place::Plain);
        order.extend(client_go.is_ok().then_some(Place::ClientGo));
        for _ in 0..options.blocks {
            order.shuffle(&mut random);
            for place in &order {
                match (*place, &client_go) {
                    (Place::Store(number), _) => {
                        let store: &Entry = options.stores[number];
                        progress.set_message(format!("{count} keys, {}", store.id));
                        measured[number].push((store.measure)(&options.plan, &keys, &absent, &elsewhere));
                    }
                    (Place::ClientGo, Ok(go)) => of_go.push(go.run(&arguments(options, count))),
                    _ => plain.push(readers::scan_ns(&Plain::filled(&keys), options.plan.scanned)),
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
        for (block, run) in of_go.into_iter().enumerate() {
            match run {
                Ok(run) => report.add_go(count, block, run),
                Err(why) => report.void.push(format!("{}, {count} keys: {why}", client_go::ID)),
            }
        }
    }
    progress.finish_and_clear();
    report.disturbance = watch.end();
    report
}

/// For the program in Go.
fn arguments(options: &SnapshotOptions, keys: usize) -> Vec<String> {
    let SnapshotOptions { plan, seed, .. } = options;
    let (snapshots, scanned, time) = (plan.snapshots, plan.scanned, plan.time.as_micros());
    let arguments =
        format!("store -keys {keys} -seed {seed} -snapshots {snapshots} -scanned {scanned} -time {time}us");
    arguments.split(' ').map(String::from).collect()
}

/// On standard error, and only where somebody watches.
fn progress(options: &SnapshotOptions) -> ProgressBar {
    let SnapshotOptions { keys, blocks, stores, .. } = options;
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} · {eta} left · {msg}");
    ProgressBar::new((keys.len() * blocks * (stores.len() + 1 + usize::from(options.client_go))) as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(Allocator::current().name())
}

impl Measured for Report {
    fn allocator(&self) -> Allocator {
        self.allocator
    }

    fn valid(&self) -> bool {
        self.void.is_empty()
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
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        text.push_str("kube-runtime's store is left out: see perf/README.md.\n");
        self.void.iter().for_each(|void| _ = writeln!(text, "VOID: {void}"));
        text.push_str(caveat(self.disturbance));
        text
    }

    fn conclusion(reports: &[Self]) -> String {
        bars::table(reports)
    }
}
