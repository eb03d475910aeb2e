//! What the drop of a snapshot costs, call by call.

use std::fmt::Write;

use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::sweep::{self, CALLS, Sweep};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::bars::PEER;
use crate::figures::{Better, Figure};
use crate::stats::median;

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99.9", 0.999), ("max", 1.0)];

/// Snapshots in each block.
const SNAPSHOTS: usize = 5;

#[derive(Serialize, Deserialize)]
pub(super) struct Sweeps {
    known: usize,
    rows: Vec<Row>,
}

/// Nanoseconds at the [`QUANTILES`], block by block.
#[derive(Default, Serialize, Deserialize)]
struct Row {
    call: String,
    /// Of all blocks, with a sweep and without one.
    calls: u64,
    with: Vec<[u64; QUANTILES.len()]>,
    without: Vec<[u64; QUANTILES.len()]>,
    /// Of each block, whether it counts.
    sound: Vec<bool>,
}

impl Sweeps {
    pub(super) fn new(known: usize) -> Self {
        let rows = CALLS.iter().map(|&call| Row { call: call.into(), ..Row::default() });
        Sweeps { known, rows: rows.collect() }
    }

    /// One block more; what was wrong with it.
    pub(super) fn measure(&mut self, seed: u64) -> Vec<String> {
        let Sweep { with, without, violations } = sweep::run(&KeySet::new(self.known, seed), SNAPSHOTS);
        for (row, (with, without)) in self.rows.iter_mut().zip(with.iter().zip(&without)) {
            row.calls += with.len();
            row.with.push(quantiles(with));
            row.without.push(quantiles(without));
            row.sound.push(violations.is_empty());
        }
        violations
    }

    /// Each call's quantiles, with what a snapshot has left and without.
    pub(super) fn figures(&self) -> impl Iterator<Item = Figure> {
        let columns =
            self.rows.iter().flat_map(|row| [("left", row, &row.with), ("none", row, &row.without)]);
        columns.flat_map(move |(versions, row, blocks)| {
            QUANTILES.iter().enumerate().map(move |(number, (quantile, _))| Figure {
                workload: "W9".into(),
                case: [
                    ("known", self.known.to_string()),
                    ("call", row.call.clone()),
                    ("old versions", versions.into()),
                ]
                .map(|(key, value)| (key.into(), value))
                .into(),
                peer: PEER.into(),
                measure: format!("{quantile} of a call after a snapshot"),
                unit: "ns".into(),
                better: Better::Lower,
                by_block: blocks
                    .iter()
                    .zip(&row.sound)
                    .map(|(block, sound)| sound.then_some(block[number] as f64))
                    .collect(),
            })
        })
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "\n{PEER}: a snapshot of {} keys, all of which have changed, is dropped · µs: medians of the blocks, the largest maximum\n\
             Then consumers' calls until no old version is left, and as many when there is none.\n{:<10} {:>10}",
            self.known, "call", "calls"
        );
        for with in ["", "without "] {
            QUANTILES.iter().for_each(|(name, _)| _ = write!(text, " {:>14}", format!("{with}{name}")));
        }
        text.push('\n');
        for row in &self.rows {
            let _ = write!(text, "{:<10} {:>10}", row.call, row.calls);
            for blocks in [&row.with, &row.without] {
                (0..QUANTILES.len())
                    .for_each(|number| _ = write!(text, " {:>14.2}", of_blocks(blocks, number) / 1e3));
            }
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

fn quantiles(calls: &Histogram<u64>) -> [u64; QUANTILES.len()] {
    QUANTILES.map(|(_, quantile)| calls.value_at_quantile(quantile))
}

/// The median of the blocks; of the maxima the largest.
fn of_blocks(blocks: &[[u64; QUANTILES.len()]], number: usize) -> f64 {
    let values = blocks.iter().map(|block| block[number] as f64);
    match number == QUANTILES.len() - 1 {
        true => values.fold(0.0, f64::max),
        false => median(&values.collect::<Vec<_>>()).unwrap_or(0.0),
    }
}
