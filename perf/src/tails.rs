//! `latency` and `growth`: how long a producer's calls take, up to the slowest.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use delta_fifo_perf::peers::Entry;
use delta_fifo_perf::workload::paced::{self, Pace};
use delta_fifo_perf::workload::{KeySet, growth};
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::allocator::Allocator;
use crate::bars::{self, PEER, verdict};
use crate::cli::{TailOptions, Tails};
use crate::figures::{Better, Figure};
use crate::machine::{Disturbance, Machine, Watch};
use crate::process::{self, Measured, Result};
use crate::report::{caveat, heading, with_interval};
use crate::stats::{Estimate, median};

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
const P99: usize = 2;
const P999: usize = 3;
const P9999: usize = 4;

/// p99 with handlers that sleep, divided by p99 without: at most this.
const MOST_TIMES: f64 = 1.1;
/// p99.99 while the tables grow: at most this.
const MOST_NS: f64 = 1e6;
/// p99.9, at half load and while the tables grow, less that of the same calls without a queue: at most this.
const MOST_ABOVE_NS: f64 = 2e3;
/// The rival whose p99.9 it must not exceed.
const RIVAL: &str = "B3";

/// What stands in the place of a peer: the same calls without a queue.
const NOTHING: &str = "nothing";

pub(crate) fn run(options: &TailOptions) -> Result<ExitCode> {
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
    rows: Vec<Row>,
    bars: Vec<Bar>,
    figures: Vec<Figure>,
    void: Vec<String>,
    /// No run was void.
    valid: bool,
}

/// One peer in one case.
#[derive(Serialize, Deserialize)]
struct Row {
    case: String,
    peer: String,
    /// Nanoseconds at the [`QUANTILES`] of each block.
    blocks: Vec<[u64; QUANTILES.len()]>,
    /// Calls that could not be made in time, in all blocks.
    owed: usize,
}

#[derive(Serialize, Deserialize)]
struct Bar {
    what: String,
    case: String,
    peer: String,
    measured: Option<Estimate>,
    met: Option<bool>,
}

impl Bar {
    fn at_most(limit: f64, what: &str, row: &Row, values: &[f64]) -> Self {
        let measured = Estimate::of(values);
        let (what, case, peer) = (what.into(), row.case.clone(), row.peer.clone());
        Self { what, case, peer, measured, met: measured.map(|it| it.high <= limit) }
    }
}

impl Row {
    /// The median of the blocks; of the maxima the largest.
    fn quantile(&self, number: usize) -> u64 {
        let values = self.blocks.iter().map(|block| block[number]);
        if number == QUANTILES.len() - 1 {
            return values.max().unwrap_or(0);
        }
        median(&values.map(|ns| ns as f64).collect::<Vec<_>>()).map_or(0, |ns| ns as u64)
    }
}

struct Measurement<'o> {
    options: &'o TailOptions,
    random: SmallRng,
    rows: Vec<Row>,
    figures: Vec<Figure>,
    void: Vec<String>,
}

fn measure(options: &TailOptions) -> Report {
    let watch = Watch::begin();
    let machine = Machine::detect();
    let random = SmallRng::seed_from_u64(options.seed);
    let mut all = Measurement { options, random, rows: Vec::new(), figures: Vec::new(), void: Vec::new() };
    let (workload, bars) = match options.tails {
        Tails::Latency => all.latency(),
        Tails::Growth => all.growth(),
    };
    Report {
        workload,
        allocator: Allocator::current(),
        machine,
        disturbance: watch.end(),
        blocks: options.blocks,
        rows: all.rows,
        bars,
        figures: all.figures,
        valid: all.void.is_empty(),
        void: all.void,
    }
}

/// What the calls are made in.
struct Case {
    name: String,
    workload: &'static str,
    /// As figures have it.
    key: BTreeMap<String, String>,
}

impl Case {
    fn new(name: String, workload: &'static str, key: [(&str, String); 2]) -> Self {
        Self { name, workload, key: key.map(|(key, value)| (key.into(), value)).into() }
    }

    /// A figure for each quantile; `sound` says of each block whether it counts.
    fn figures(&self, row: &Row, sound: &[bool]) -> impl Iterator<Item = Figure> {
        QUANTILES.iter().enumerate().map(move |(number, (quantile, _))| Figure {
            workload: self.workload.into(),
            case: self.key.clone(),
            peer: row.peer.clone(),
            measure: format!("{quantile} of a call"),
            unit: "ns".into(),
            better: Better::Lower,
            by_block: row
                .blocks
                .iter()
                .zip(sound)
                .map(|(block, sound)| sound.then_some(block[number] as f64))
                .collect(),
        })
    }
}

/// What one run gives: its latencies, what was owed, and what was wrong.
type Run = (Histogram<u64>, usize, Vec<String>);

impl Measurement<'_> {
    /// Block after block, each peer in each case once, in an order drawn anew.
    fn interleave(&mut self, cases: &[Case], run: impl Fn(usize, Option<&Entry>) -> Run) {
        let peers: Vec<Option<&Entry>> =
            [None].into_iter().chain(self.options.peers.iter().copied().map(Some)).collect();
        let base = self.rows.len();
        let mut order = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            for peer in &peers {
                let name = peer.map_or(NOTHING, |peer| peer.id).into();
                order.push((self.rows.len() - base, number, *peer));
                self.rows.push(Row { case: case.name.clone(), peer: name, blocks: Vec::new(), owed: 0 });
            }
        }
        let mut sound = vec![Vec::new(); order.len()];
        for block in 0..self.options.blocks {
            order.shuffle(&mut self.random);
            for &(row, case, peer) in &order {
                let (latencies, owed, violations) = run(case, peer);
                sound[row].push(violations.is_empty());
                let row = &mut self.rows[base + row];
                row.blocks.push(QUANTILES.map(|(_, quantile)| latencies.value_at_quantile(quantile)));
                row.owed += owed;
                if !violations.is_empty() {
                    let Row { case, peer, .. } = row;
                    self.void.push(format!("{peer}, {case}, block {block}: {}", violations.join("; ")));
                }
            }
        }
        for (number, row) in self.rows[base..].iter().enumerate() {
            self.figures.extend(cases[number / peers.len()].figures(row, &sound[number]));
        }
    }

    /// For every peer's row of which there is such a value.
    fn bars(&self, limit: f64, what: &str, of: impl Fn(&Row) -> Option<Vec<f64>>) -> Vec<Bar> {
        let rows = self.rows.iter().filter(|row| row.peer != NOTHING);
        rows.filter_map(|row| Some(Bar::at_most(limit, what, row, &of(row)?))).collect()
    }

    /// Of the queue in these cases: p99.9 set against that of an empty operation and of the rival, block by block.
    fn bars_of_calls(&self, is_asked: impl Fn(&str) -> bool) -> Vec<Bar> {
        let mut bars = Vec::new();
        for row in self.rows.iter().filter(|row| row.peer == PEER && is_asked(&row.case)) {
            let mut against = |peer, limit, what, value: fn(f64, f64) -> f64| {
                let other = self.rows.iter().find(|other| other.peer == peer && other.case == row.case);
                let blocks = row.blocks.iter().zip(other.map_or(&[][..], |other| &other.blocks));
                let values: Vec<f64> =
                    blocks.map(|(own, other)| value(own[P999] as f64, other[P999] as f64)).collect();
                bars.push(Bar::at_most(limit, what, row, &values));
            };
            let above = format!("p99.9 above an empty operation's, µs: at most {}", MOST_ABOVE_NS / 1e3);
            against(NOTHING, MOST_ABOVE_NS / 1e3, &above, |own, empty| (own - empty) / 1e3);
            against(RIVAL, 1.0, &format!("p99.9 divided by {RIVAL}'s: at most 1"), |own, other| own / other);
        }
        bars.sort_by(|a, b| a.what.cmp(&b.what));
        bars
    }

    fn latency(&mut self) -> (String, Vec<Bar>) {
        let options = self.options;
        let (keys, consumers, sleep) =
            (KeySet::new(options.keys, options.seed), options.consumers, options.handler);
        let free = |rate: f64| format!("{rate:.0}/s");
        let slow = |rate: f64| format!("{rate:.0}/s, handlers {sleep:?}");
        let rates = options.rates.clone().unwrap_or_else(|| self.rates(&keys));
        for (number, &rate) in rates.iter().enumerate() {
            let pace = |handler| Pace {
                consumers,
                handler,
                rate: Some(rate),
                calls: (rate * options.seconds).ceil() as usize,
                pending: false,
                limit: Duration::from_secs_f64(3.0 * options.seconds),
            };
            let paces = [pace(Duration::ZERO), pace(sleep)];
            // A share of what the slowest manages is the same case on the next run, though that number of calls is not.
            let key = match options.rates {
                Some(_) => format!("{rate:.0}/s"),
                None => format!("{} %", options.loads[number]),
            };
            let case = |name: String, handlers: String| {
                Case::new(name, "W7", [("rate", key.clone()), ("handlers", handlers)])
            };
            let cases = [case(free(rate), "do nothing".into()), case(slow(rate), format!("sleep {sleep:?}"))];
            self.interleave(&cases, |case, peer| match peer {
                None => (paced::empty(&paces[case]), 0, Vec::new()),
                Some(peer) => {
                    let calls = (peer.paced)(&paces[case], &keys);
                    (calls.latencies, calls.owed, calls.violations)
                }
            });
        }
        let ratio = |row: &Row| {
            let rate = rates.iter().find(|rate| slow(**rate) == row.case)?;
            let without =
                self.rows.iter().find(|other| other.peer == row.peer && other.case == free(*rate))?;
            let blocks = row.blocks.iter().zip(&without.blocks);
            Some(blocks.map(|(with, without)| with[P99] as f64 / without[P99] as f64).collect())
        };
        let what = format!("p99 divided by that without handlers: at most {MOST_TIMES}");
        let mut bars = self.bars(MOST_TIMES, &what, ratio);
        // Half of what the slowest manages; a rate that was asked for is taken to be it.
        let half = rates.iter().enumerate().filter(|(number, _)| {
            options.rates.is_some() || options.loads.get(*number).is_some_and(|load| *load == 50.0)
        });
        let half: Vec<String> = half.map(|(_, rate)| free(*rate)).collect();
        bars.extend(self.bars_of_calls(|case| half.iter().any(|half| half == case)));
        let what = format!(
            "a producer's call, open loop, from the moment it is due · {} keys · {consumers} consumers",
            keys.len()
        );
        (what, bars)
    }

    /// The same for all: shares of what the slowest manages call after call.
    fn rates(&mut self, keys: &KeySet) -> Vec<f64> {
        let pace = Pace {
            consumers: self.options.consumers,
            handler: Duration::ZERO,
            rate: None,
            calls: 50_000,
            pending: false,
            limit: Duration::MAX,
        };
        let saturation = self.options.peers.iter().map(|peer| {
            let calls = (peer.paced)(&pace, keys);
            pace.calls as f64 / calls.elapsed.as_secs_f64()
        });
        let slowest = saturation.fold(f64::INFINITY, f64::min);
        self.options.loads.iter().map(|load| (slowest * load / 100.0).round()).collect()
    }

    fn growth(&mut self) -> (String, Vec<Bar>) {
        let keys = KeySet::new(self.options.keys, self.options.seed);
        let cases = ["nobody pops", "one consumer"].map(|who| {
            Case::new(who.into(), "W4 growth", [("keys", keys.len().to_string()), ("consumers", who.into())])
        });
        self.interleave(&cases, |case, peer| match peer {
            None => (growth::empty(&keys), 0, Vec::new()),
            Some(peer) => {
                let growth = (peer.growth)(case == 1, &keys);
                (growth.latencies, 0, growth.violations)
            }
        });
        let tail = |row: &Row| Some(row.blocks.iter().map(|block| block[P9999] as f64 / 1e3).collect());
        let mut bars = self.bars(MOST_NS / 1e3, &format!("p99.99, µs: at most {}", MOST_NS / 1e3), tail);
        bars.extend(self.bars_of_calls(|_| true));
        (format!("a producer's add of {} fresh keys, call after call", keys.len()), bars)
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
        let Self { workload, allocator, blocks, .. } = self;
        let what = format!(
            "{workload} · {allocator} allocator · {blocks} blocks · µs: medians of the blocks, the largest maximum"
        );
        let mut text = heading(&what, &self.machine, self.disturbance);
        let _ = write!(text, "{:<28} {:<8}", "case", "peer");
        QUANTILES.iter().for_each(|(name, _)| _ = write!(text, " {name:>10}"));
        text.push('\n');
        for row in &self.rows {
            let _ = write!(text, "{:<28} {:<8}", row.case, row.peer);
            for number in 0..QUANTILES.len() {
                let _ = write!(text, " {:>10.2}", row.quantile(number) as f64 / 1e3);
            }
            if row.owed > 0 {
                let _ = write!(text, "  cannot keep up: {} calls never made", row.owed);
            }
            text.push('\n');
        }
        self.void.iter().for_each(|void| _ = writeln!(text, "VOID: {void}"));
        text.push_str(caveat(self.disturbance));
        text
    }

    fn conclusion(reports: &[Self]) -> String {
        let Some(first) = reports.first() else { return String::new() };
        let mut text = format!(
            "Bars for {PEER}, the upper end of the interval with the worse allocator; the others for comparison\n"
        );
        let mut what = "";
        for (number, bar) in first.bars.iter().enumerate() {
            if what != bar.what {
                what = &bar.what;
                let _ = writeln!(text, "{what}");
            }
            let all = reports.iter().filter_map(|report| {
                let other = report.bars.get(number)?;
                // Rates are measured by each process for itself, so cases go by their number.
                Some((other.measured?, other.met?, report.allocator.name()))
            });
            let worst = all.max_by(|(a, ..), (b, ..)| a.high.total_cmp(&b.high));
            let _ = writeln!(
                text,
                "  {:<28} {:<8} {:>26}  {:<9} {}",
                bar.case,
                bar.peer,
                worst.map_or("–".into(), |(measured, ..)| with_interval(measured, 2)),
                worst.map_or("–", |(_, _, allocator)| allocator),
                verdict(worst.map(|(_, met, _)| met)),
            );
        }
        if reports.iter().any(|report| report.blocks < bars::BLOCKS) {
            let _ = writeln!(text, "Fewer than {} blocks: these verdicts claim nothing.", bars::BLOCKS);
        }
        text.push_str(bars::caveat(reports.iter().map(|report| report.disturbance)));
        text
    }
}
