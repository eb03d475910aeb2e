//! What all runs of one trace came to, and its line of JSON.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::consume::{Tally, latencies};
use crate::options::Options;
use crate::replay::Run;
use crate::trace::Trace;
use crate::verdict::Mismatch;

/// Everything there is to say about a trace.
pub(crate) struct Report<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) options: &'a Options,
    /// Counts of the last run, violations and latencies of all.
    pub(crate) tally: Tally,
    pub(crate) merged: u64,
    pub(crate) known: u64,
    pub(crate) namespaces: usize,
    pub(crate) nodes: usize,
    pub(crate) phases: Vec<(String, i64)>,
    /// Medians.
    pub(crate) first_sync: Duration,
    pub(crate) elapsed: Duration,
    pub(crate) producer: Histogram<u64>,
    /// With the number of the run, from 1.
    pub(crate) mismatches: Vec<(usize, Mismatch)>,
}

/// One line of `--json`. The order of the fields is part of the format.
#[derive(Serialize)]
struct JsonLine<'a> {
    trace: &'a str,
    queue: &'a str,
    consumers: u32,
    repeat: u32,
    lists: u64,
    events: u64,
    pops: u64,
    added: u64,
    updated: u64,
    replaced: u64,
    sync: u64,
    deleted: u64,
    tombstones: u64,
    merged: u64,
    known: u64,
    expected: usize,
    order_violations: u64,
    double_leases: u64,
    matches: bool,
    first_sync_ms: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    latency_p999_us: f64,
    producer_p99_us: f64,
    elapsed_ms: f64,
}

impl<'a> Report<'a> {
    /// Puts the runs of a trace together. There is at least one.
    pub(crate) fn new(trace: &'a Trace, options: &'a Options, mut runs: Vec<Run>) -> Self {
        let first_sync = median(runs.iter().map(|run| run.first_sync));
        let elapsed = median(runs.iter().map(|run| run.elapsed));
        let mut mismatches = Vec::new();
        let mut producer = latencies();
        for (number, run) in (1..).zip(&mut runs) {
            producer += &run.producer;
            mismatches.extend(run.mismatches.drain(..).map(|mismatch| (number, mismatch)));
        }
        let last = runs.pop().expect("a trace is run at least once");
        let mut tally = last.tally;
        for run in &runs {
            tally.order_violations += run.tally.order_violations;
            tally.double_leases += run.tally.double_leases;
            tally.latency += &run.tally.latency;
        }
        Report {
            trace,
            options,
            tally,
            merged: last.merged,
            known: last.known,
            namespaces: last.index.namespaces(),
            nodes: last.index.nodes(),
            phases: last.index.phases().into_iter().map(|(phase, pods)| (phase.to_string(), pods)).collect(),
            first_sync,
            elapsed,
            producer,
            mismatches,
        }
    }

    pub(crate) fn matches(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// The line of `--json`, without a line feed.
    pub(crate) fn to_json(&self) -> String {
        let tally = &self.tally;
        let line = JsonLine {
            trace: &self.trace.name,
            queue: self.options.queue.name(),
            consumers: self.options.consumers.get(),
            repeat: self.options.repeat.get(),
            lists: self.trace.arrived.lists,
            events: self.trace.arrived.events(),
            pops: tally.pops,
            added: tally.added,
            updated: tally.updated,
            replaced: tally.replaced,
            sync: tally.sync,
            deleted: tally.deleted,
            tombstones: tally.tombstones,
            merged: self.merged,
            known: self.known,
            expected: self.trace.expected.len(),
            order_violations: tally.order_violations,
            double_leases: tally.double_leases,
            matches: self.matches(),
            first_sync_ms: rounded(self.first_sync.as_secs_f64() * 1e3),
            latency_p50_us: microseconds(&tally.latency, 0.5),
            latency_p99_us: microseconds(&tally.latency, 0.99),
            latency_p999_us: microseconds(&tally.latency, 0.999),
            producer_p99_us: microseconds(&self.producer, 0.99),
            elapsed_ms: rounded(self.elapsed.as_secs_f64() * 1e3),
        };
        serde_json::to_string(&line).expect("numbers and strings are JSON")
    }
}

/// The upper one of the two in the middle, if there are two.
fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn microseconds(nanoseconds: &Histogram<u64>, quantile: f64) -> f64 {
    rounded(nanoseconds.value_at_quantile(quantile) as f64 / 1e3)
}

/// Three digits after the point are more than any clock here tells.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
