//! The options of `compare`.

use std::time::Duration;

use lexopt::prelude::*;

use crate::allocator::Allocator;
use delta_fifo_perf::peers::{self, Entry};
use delta_fifo_perf::workload::floors::{self, Floor};

use super::{Command, Json, allocators, json, list, peer, positive, seconds};

pub(crate) struct Options {
    pub(crate) blocks: usize,
    pub(crate) changes: usize,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) peers: Vec<&'static Entry>,
    /// Rows of reference that are no queues.
    pub(crate) floors: Vec<&'static Floor>,
    /// The sharded queue with these numbers of shards too.
    pub(crate) shards: Vec<usize>,
    /// The same of lines.
    pub(crate) lines: Vec<usize>,
    pub(crate) references: Vec<String>,
    pub(crate) known: Vec<usize>,
    pub(crate) threads: Vec<(usize, usize)>,
    pub(crate) batches: Vec<usize>,
    pub(crate) seed: u64,
    pub(crate) json: Option<Json>,
    /// How long all may take; a block that has begun is ended.
    pub(crate) budget: Option<Duration>,
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let (mut quick, mut full, mut blocks, mut changes, mut references) = (false, false, None, None, None);
    let (mut known, mut threads_of, mut batches) = (None, None, None);
    let mut options = Options {
        blocks: 0,
        changes: 0,
        allocators: Allocator::ALL.to_vec(),
        peers: peers::ALL.iter().collect(),
        floors: floors::ALL.iter().collect(),
        shards: Vec::new(),
        lines: Vec::new(),
        references: Vec::new(),
        known: Vec::new(),
        threads: Vec::new(),
        batches: Vec::new(),
        seed: 1,
        json: None,
        budget: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("full") => full = true,
            Long("blocks") => blocks = Some(parser.value()?.parse_with(positive)?),
            Long("changes") => changes = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => options.allocators = parser.value()?.parse_with(allocators)?,
            Long("peers") => {
                let rows = parser.value()?.parse_with(|text| list(text, row))?;
                options.peers = rows.iter().filter_map(|row| row.ok()).collect();
                options.floors = rows.iter().filter_map(|row| row.err()).collect();
            }
            Long("lines") => options.lines = parser.value()?.parse_with(|text| list(text, lines))?,
            Long("shards") => options.shards = parser.value()?.parse_with(|text| list(text, shards))?,
            Long("reference") => references = Some(parser.value()?.parse_with(|text| list(text, peer))?),
            Long("known") => known = Some(parser.value()?.parse_with(|text| list(text, positive))?),
            Long("threads") => threads_of = Some(parser.value()?.parse_with(|text| list(text, threads))?),
            Long("batch") => batches = Some(parser.value()?.parse_with(|text| list(text, positive))?),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Long("resume") => options.json = Some(Json::Resume(parser.value()?.into())),
            Long("time-budget") => options.budget = Some(parser.value()?.parse_with(seconds)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.blocks = blocks.unwrap_or(if quick { 2 } else { 30 });
    options.changes = changes.unwrap_or(if quick { 30_000 } else { 300_000 });
    let all: &[usize] = match (full, quick) {
        (true, _) => &[1_000, 100_000, 1_000_000],
        (_, true) => &[1_000],
        _ => &[1_000, 100_000],
    };
    options.known = known.unwrap_or(all.to_vec());
    let all: &[(usize, usize)] = match (full, quick) {
        (true, _) => &[(1, 1), (2, 1), (1, 2), (2, 2), (4, 4), (8, 8)],
        (_, true) => &[(1, 1), (2, 2)],
        _ => &[(1, 1), (2, 2), (4, 4)],
    };
    options.threads = threads_of.unwrap_or(all.to_vec());
    options.batches = batches.unwrap_or(vec![1, 32]);
    options.references =
        references.as_ref().unwrap_or(&options.peers).iter().map(|peer| peer.id.into()).collect();
    options.check()?;
    Ok(Command::Compare(options))
}

impl Options {
    /// What can be said before anything runs should not be said by a run that hangs.
    fn check(&self) -> Result<(), String> {
        if let Some(missing) = self.references.iter().find(|id| self.peers.iter().all(|peer| peer.id != **id))
        {
            return Err(format!("the reference {missing} does not run"));
        }
        // Each producer makes the same number of changes; with none at all there is nothing to time.
        if let Some((producers, _)) = self.threads.iter().find(|(producers, _)| self.changes < *producers) {
            return Err(format!(
                "--changes {} is too few for {producers} producers: each must make at least one",
                self.changes
            ));
        }
        for &known in &self.known {
            for &(producers, _) in &self.threads {
                let keys = known / producers;
                if let Some(batch) = self.batches.iter().find(|&&batch| 2 * batch > keys) {
                    return Err(format!(
                        "a batch of {batch} needs a window of so many: 2 × {batch} × {producers} known keys"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn threads(text: &str) -> Result<(usize, usize), String> {
    let (producers, consumers) = text.split_once('x').ok_or(format!("{text:?} is not like 2x2"))?;
    Ok((positive(producers)?, positive(consumers)?))
}

/// A peer, or a row of reference that is none.
fn row(text: &str) -> Result<std::result::Result<&'static Entry, &'static Floor>, String> {
    floors::by_id(text).map_or_else(|| peer(text).map(Ok), |floor| Ok(Err(floor)))
}

/// As the queue takes them.
fn lines(text: &str) -> Result<usize, String> {
    let lines = positive(text)?;
    let is_possible = lines <= 64 && lines.is_power_of_two();
    if is_possible { Ok(lines) } else { Err(format!("{lines} lines: a power of two up to 64")) }
}

fn shards(text: &str) -> Result<usize, String> {
    let shards = positive(text)?;
    let is_possible = shards <= 256 && shards.is_power_of_two();
    if is_possible { Ok(shards) } else { Err(format!("{shards} shards: a power of two up to 256")) }
}
