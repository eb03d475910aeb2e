//! `memory`: bytes for each key, and calls to the allocator, of every peer.

use std::fmt::Write;
use std::process::ExitCode;

use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::description::{Description, Work};
use delta_fifo_perf::workload::memory::{Memory, OBJECT, Shape};
use serde::{Deserialize, Serialize};

use crate::allocator::{self, Allocator};
use crate::bars::{PEER, verdict};
use crate::cli::MemoryOptions;
use crate::figures::{Better, Figure};
use crate::machine::{Disturbance, Machine, Watch};
use crate::outside::{CLIENT_GO, Outside};
use crate::process::{self, Measured, Result};
use crate::report::heading;

/// At most so many bytes for each known key.
const KNOWN: f64 = 128.0;
/// At most so many more for each pending key.
const PENDING: f64 = 96.0;
/// With fewer keys there is no claim.
const WORTH: usize = 100_000;

pub(crate) fn run(options: &MemoryOptions) -> Result<ExitCode> {
    process::run(&[Allocator::Counting], options.json.as_ref(), None, |_| measure(options))
}

#[derive(Serialize, Deserialize)]
struct Report {
    workload: String,
    allocator: Allocator,
    #[serde(flatten)]
    machine: Machine,
    #[serde(flatten)]
    disturbance: Disturbance,
    /// Counted once: the next would be the same.
    blocks: usize,
    keys: usize,
    rows: Vec<Row>,
    figures: Vec<Figure>,
    /// What is not what it seems, or not there.
    notes: Vec<String>,
    void: Vec<String>,
    /// No run was void.
    valid: bool,
}

#[derive(Serialize, Deserialize)]
struct Row {
    peer: String,
    known: Extremes,
    pending: Extremes,
    calls_per_change: f64,
    calls_per_pop: f64,
    /// Changes, and as many pops, behind these.
    counted: u64,
}

/// Bytes for each key, where it is least and where it is most.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Extremes {
    least: f64,
    at_least: usize,
    most: f64,
    at_most: usize,
}

impl Extremes {
    fn of(samples: &[(usize, f64)]) -> Self {
        let by_bytes = |(_, a): &&(usize, f64), (_, b): &&(usize, f64)| a.total_cmp(b);
        let least = samples.iter().min_by(by_bytes).expect("there are samples");
        let most = samples.iter().max_by(by_bytes).expect("there are samples");
        Self { least: least.1, at_least: least.0, most: most.1, at_most: most.0 }
    }
}

impl Row {
    fn of(peer: &str, memory: &Memory) -> Self {
        let per = |calls: u64| calls as f64 / memory.counted as f64;
        Self {
            peer: peer.into(),
            known: Extremes::of(&memory.known),
            pending: Extremes::of(&memory.pending),
            calls_per_change: per(memory.calls_of_changes),
            calls_per_pop: per(memory.calls_of_pops),
            counted: memory.counted,
        }
    }

    /// At both load factors. A peer whose run was void has no value.
    fn figures(&self, keys: usize, sound: bool) -> impl Iterator<Item = Figure> {
        let bytes = [("bytes per known key", self.known), ("more bytes per pending key", self.pending)];
        let bytes = bytes.into_iter().flat_map(|(measure, Extremes { least, most, .. })| {
            [("best", least), ("worst", most)].map(|(load, bytes)| (measure, Some(load), "bytes", bytes))
        });
        let calls = [
            ("allocator calls per change", self.calls_per_change),
            ("allocator calls per pop", self.calls_per_pop),
        ];
        bytes.chain(calls.map(|(measure, calls)| (measure, None, "calls", calls))).map(
            move |(measure, load, unit, value)| Figure {
                workload: "memory".into(),
                case: [("keys", Some(keys.to_string())), ("load factor", load.map(str::to_owned))]
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                    .collect(),
                peer: self.peer.clone(),
                measure: measure.into(),
                unit: unit.into(),
                better: Better::Lower,
                by_block: vec![sound.then_some(value)],
            },
        )
    }
}

/// What the program in Go prints.
#[derive(Deserialize)]
struct OfGo {
    known: Vec<(usize, f64)>,
    pending: Vec<(usize, f64)>,
    calls_of_changes: u64,
    calls_of_pops: u64,
    counted: u64,
}

/// With a note of what its figures are.
fn client_go(options: &MemoryOptions, shape: &Shape) -> std::result::Result<(Memory, String), String> {
    let go = Outside::client_go(options.client_go)?;
    let description = Description { known: options.keys, seed: options.seed, work: Work::Memory(*shape) };
    let run = go.run::<OfGo>("G1", &description).map_err(|why| format!("{CLIENT_GO} is left out: {why}."))?;
    let OfGo { known, pending, calls_of_changes, calls_of_pops, counted } = run.figures;
    let violations = run.violations;
    let note = format!(
        "{CLIENT_GO}: DeltaFIFO with its store, {}. Its bytes are what is left after a collection, rounded up to size classes.",
        run.version
    );
    Ok((Memory { known, pending, counted, calls_of_changes, calls_of_pops, violations }, note))
}

fn measure(options: &MemoryOptions) -> Report {
    let watch = Watch::begin();
    let keys = KeySet::new(options.keys, options.seed);
    let shape =
        Shape { samples: if options.quick { 21 } else { 101 }, burst: options.keys / 10, warm: 3, bursts: 5 };
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    let (mut notes, mut void) = (Vec::new(), Vec::new());
    let mut add = |id: &str, memory: &Memory| {
        let row = Row::of(id, memory);
        figures.extend(row.figures(keys.len(), memory.violations.is_empty()));
        rows.push(row);
        if !memory.violations.is_empty() {
            void.push(format!("{id}: {}", memory.violations.join("; ")));
        }
    };
    for peer in &options.peers {
        add(peer.id, &(peer.memory)(&shape, &keys, allocator::counted));
    }
    match client_go(options, &shape) {
        Ok((memory, note)) => {
            add(CLIENT_GO, &memory);
            notes.push(note);
        }
        Err(why) => notes.push(why),
    }
    Report {
        workload: "memory".into(),
        allocator: Allocator::current(),
        machine: Machine::detect(),
        disturbance: watch.end(),
        blocks: 1,
        keys: keys.len(),
        rows,
        figures,
        notes,
        valid: void.is_empty(),
        void,
    }
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
            "memory · {} allocator, over the system's · bytes that were asked for; what the allocator adds is not in them\n\
             Left out: key text (the workload has it, the queue a handle, which counts) and {OBJECT} bytes for each object that has to\n\
             be kept: the known one of each key, and the new one of each pending key. All else counts: an `Arc`'s counters, free\n\
             room for objects, memory that waits to be given back.\n\
             Least and most on the way from {} to {} keys: each table doubles once. Pending keys are known, one delta each.",
            self.allocator,
            self.keys / 2,
            self.keys,
        );
        let mut text = heading(&what, &self.machine, self.disturbance);
        let _ = writeln!(
            text,
            "{:<9} {:>36}  {:>36}  {:>16}  {:>16}",
            "peer", "bytes per known key", "more per pending key", "calls per change", "calls per pop"
        );
        let range = |Extremes { least, at_least, most, at_most }: Extremes| {
            format!("{least:.1} ({at_least}) – {most:.1} ({at_most})")
        };
        for row in &self.rows {
            let _ = writeln!(
                text,
                "{:<9} {:>36}  {:>36}  {:>16.4}  {:>16.4}",
                row.peer,
                range(row.known),
                range(row.pending),
                row.calls_per_change,
                row.calls_per_pop,
            );
        }
        self.notes.iter().for_each(|note| _ = writeln!(text, "{note}"));
        self.void.iter().for_each(|void| _ = writeln!(text, "VOID: {void}"));
        text
    }

    fn conclusion(reports: &[Self]) -> String {
        let Some(report) = reports.first() else { return String::new() };
        let Some(row) = report.rows.iter().find(|row| row.peer == PEER) else { return String::new() };
        let valid = report.valid();
        let mut text = format!("Bars for {PEER}, at the worse load factor\n");
        for (what, measured, at_most) in [
            ("bytes per known key", row.known.most, KNOWN),
            ("more per pending key", row.pending.most, PENDING),
            ("calls per change, warm", row.calls_per_change, 0.0),
            ("calls per pop", row.calls_per_pop, 0.0),
        ] {
            let _ = writeln!(
                text,
                "{what:<24} at most {at_most:>5}  {measured:>9.4}  {}",
                verdict(valid.then_some(measured <= at_most))
            );
        }
        if report.keys < WORTH {
            let _ = writeln!(
                text,
                "Fewer than {WORTH} keys: what there is once weighs; these verdicts claim nothing."
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_are_found_with_their_places() {
        let Extremes { least, at_least, most, at_most } = Extremes::of(&[(10, 5.0), (15, 3.0), (20, 9.0)]);
        assert_eq!((least, at_least, most, at_most), (3.0, 15, 9.0, 20));
    }
}
