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
    /// Nanoseconds of the producer's steps in all runs.
    pub(crate) producer: Histogram<u64>,
    /// The first ones, each with the number of its run, from 1.
    mismatches: Vec<(usize, Mismatch)>,
    /// How many there are beyond those.
    more_mismatches: usize,
    /// Of each run, for the medians. All else is put together run by run, so that many need no more memory.
    first_syncs: Vec<Duration>,
    elapsed: Vec<Duration>,
}

/// Mismatches told in full; more of them rarely say more.
const MISMATCHES_TOLD: usize = 8;

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
    /// Says nothing until it is given a run.
    pub(crate) fn new(trace: &'a Trace, options: &'a Options) -> Self {
        Report {
            trace,
            options,
            tally: Tally::default(),
            merged: 0,
            known: 0,
            namespaces: 0,
            nodes: 0,
            phases: Vec::new(),
            producer: latencies(),
            mismatches: Vec::new(),
            more_mismatches: 0,
            first_syncs: Vec::new(),
            elapsed: Vec::new(),
        }
    }

    /// Takes the next run of the trace.
    pub(crate) fn add(&mut self, run: Run) {
        let before = std::mem::replace(&mut self.tally, run.tally);
        self.tally.order_violations += before.order_violations;
        self.tally.double_leases += before.double_leases;
        self.tally.latency += &before.latency;
        self.producer += &run.producer;
        self.merged = run.merged;
        self.known = run.known;
        self.namespaces = run.index.namespaces();
        self.nodes = run.index.nodes();
        let phases = run.index.phases().into_iter();
        self.phases = phases.map(|(phase, pods)| (phase.to_string(), pods)).collect();
        self.first_syncs.push(run.first_sync);
        self.elapsed.push(run.elapsed);
        let number = self.elapsed.len();
        for mismatch in run.mismatches {
            if self.mismatches.len() < MISMATCHES_TOLD {
                self.mismatches.push((number, mismatch));
            } else {
                self.more_mismatches += 1;
            }
        }
    }

    pub(crate) fn matches(&self) -> bool {
        self.mismatches.is_empty()
    }

    /// What does not match, one line each.
    pub(crate) fn mismatches(&self) -> impl Iterator<Item = String> {
        let told = self.mismatches.iter().map(|(run, mismatch)| format!("run {run}: {mismatch}"));
        told.chain((self.more_mismatches > 0).then(|| format!("and {} more", self.more_mismatches)))
    }

    /// The median of all runs.
    pub(crate) fn first_sync(&self) -> Duration {
        median(&self.first_syncs)
    }

    /// The median of all runs.
    pub(crate) fn elapsed(&self) -> Duration {
        median(&self.elapsed)
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
            first_sync_ms: rounded(self.first_sync().as_secs_f64() * 1e3),
            latency_p50_us: microseconds(&tally.latency, 0.5),
            latency_p99_us: microseconds(&tally.latency, 0.99),
            latency_p999_us: microseconds(&tally.latency, 0.999),
            producer_p99_us: microseconds(&self.producer, 0.99),
            elapsed_ms: rounded(self.elapsed().as_secs_f64() * 1e3),
        };
        serde_json::to_string(&line).expect("numbers and strings are JSON")
    }
}

/// The upper one of the two in the middle, if there are two.
fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
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
