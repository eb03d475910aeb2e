//! The command line.

mod client_go;
mod replay;
pub(crate) mod trial;

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::allocator::Allocator;
use delta_fifo_perf::peers::{self, Entry};
use delta_fifo_perf::stores::{self, Plan};
use delta_fifo_perf::workload::floors::{self, Floor};

pub(crate) use report::ReportOptions;

pub(crate) use client_go::ClientGoOptions;

pub(crate) const HELP: &str = include_str!("cli/help.txt");

pub(crate) enum Command {
    Report(ReportOptions),
    Compare(Options),
    Tails(TailOptions),
    Memory(MemoryOptions),
    Snapshots(SnapshotOptions),
    Soak(SoakOptions),
    Trial(trial::TrialOptions),
    ClientGo(ClientGoOptions),
    Help,
}

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
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tails {
    Latency,
    Growth,
}

pub(crate) struct TailOptions {
    pub(crate) tails: Tails,
    pub(crate) blocks: usize,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) peers: Vec<&'static Entry>,
    pub(crate) keys: usize,
    pub(crate) seed: u64,
    pub(crate) json: Option<Json>,
    // Of `latency` alone.
    pub(crate) consumers: usize,
    pub(crate) handler: Duration,
    /// Percent of the slowest peer's saturation.
    pub(crate) loads: Vec<f64>,
    /// Calls in a second, instead.
    pub(crate) rates: Option<Vec<f64>>,
    pub(crate) seconds: f64,
}

pub(crate) struct MemoryOptions {
    pub(crate) peers: Vec<&'static Entry>,
    pub(crate) keys: usize,
    pub(crate) quick: bool,
    pub(crate) client_go: bool,
    pub(crate) seed: u64,
    pub(crate) json: Option<Json>,
}

pub(crate) struct SnapshotOptions {
    pub(crate) blocks: usize,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) stores: Vec<&'static stores::Entry>,
    pub(crate) keys: Vec<usize>,
    /// Of the snapshot whose drop is looked at.
    pub(crate) known: usize,
    pub(crate) plan: Plan,
    pub(crate) client_go: bool,
    pub(crate) kube: bool,
    pub(crate) seed: u64,
    pub(crate) json: Option<Json>,
}

pub(crate) struct SoakOptions {
    pub(crate) time: Duration,
    /// The most that one configuration lasts.
    pub(crate) every: Duration,
    pub(crate) seed: u64,
}

pub(crate) enum Json {
    Instead,
    File(PathBuf),
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    match parser.next()? {
        Some(Value(name)) if name == "report" => report::parse(&mut parser),
        Some(Value(name)) if name == "compare" => compare(&mut parser),
        Some(Value(name)) if name == "latency" => tails(&mut parser, Tails::Latency),
        Some(Value(name)) if name == "growth" => tails(&mut parser, Tails::Growth),
        Some(Value(name)) if name == "memory" => memory(&mut parser),
        Some(Value(name)) if name == "snapshots" => snapshots(&mut parser),
        Some(Value(name)) if name == "soak" => soak(&mut parser),
        Some(Value(name)) if name == "client-go" => client_go::parse(&mut parser),
        Some(Value(name)) if name == "trial" => trial::parse(&mut parser),
        Some(Value(name)) if name == "replay" => replay::parse(&mut parser),
        None | Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(other) => Err(other.unexpected()),
    }
}

fn compare(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
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
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.blocks = blocks.unwrap_or(if quick { 3 } else { 30 });
    options.changes = changes.unwrap_or(if quick { 60_000 } else { 300_000 });
    let all: &[usize] = if full { &[1_000, 100_000, 1_000_000] } else { &[1_000, 100_000] };
    options.known = known.unwrap_or(all.to_vec());
    let all: &[(usize, usize)] =
        if full { &[(1, 1), (2, 1), (1, 2), (2, 2), (4, 4), (8, 8)] } else { &[(1, 1), (2, 2), (4, 4)] };
    options.threads = threads_of.unwrap_or(all.to_vec());
    options.batches = batches.unwrap_or(vec![1, 32]);
    options.references =
        references.as_ref().unwrap_or(&options.peers).iter().map(|peer| peer.id.into()).collect();
    options.check()?;
    Ok(Command::Compare(options))
}

fn tails(parser: &mut lexopt::Parser, tails: Tails) -> Result<Command, lexopt::Error> {
    let latency = tails == Tails::Latency;
    let (mut quick, mut blocks, mut keys, mut seconds) = (false, None, None, None);
    let mut options = TailOptions {
        tails,
        blocks: 0,
        allocators: Allocator::ALL.to_vec(),
        peers: if latency { peers::gathering() } else { peers::ALL.iter().collect() },
        keys: 0,
        seed: 1,
        json: None,
        consumers: 4,
        handler: Duration::from_millis(1),
        loads: vec![25.0, 50.0, 75.0],
        rates: None,
        seconds: 0.0,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("blocks") => blocks = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => options.allocators = parser.value()?.parse_with(allocators)?,
            Long("peers") => options.peers = parser.value()?.parse_with(|text| list(text, peer))?,
            Long("keys") => keys = Some(parser.value()?.parse_with(positive)?),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Long("consumers") if latency => options.consumers = parser.value()?.parse_with(positive)?,
            Long("handler-us") if latency => {
                options.handler = Duration::from_micros(parser.value()?.parse_with(positive)? as u64);
            }
            Long("load") if latency => {
                options.loads = parser.value()?.parse_with(|text| list(text, above_zero))?
            }
            Long("rate") if latency => {
                options.rates = Some(parser.value()?.parse_with(|text| list(text, above_zero))?);
            }
            Long("seconds") if latency => seconds = Some(parser.value()?.parse_with(above_zero)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.blocks = blocks.unwrap_or(match (quick, latency) {
        (true, _) => 2,
        (false, true) => 15,
        (false, false) => 10,
    });
    options.keys = keys.unwrap_or(match (latency, quick) {
        (true, _) => 64,
        (false, true) => 20_000,
        (false, false) => 1_000_000,
    });
    options.seconds = seconds.unwrap_or(if quick { 0.1 } else { 1.0 });
    Ok(Command::Tails(options))
}

fn memory(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut keys = None;
    let mut options = MemoryOptions {
        peers: peers::ALL.iter().collect(),
        keys: 0,
        quick: false,
        client_go: false,
        seed: 1,
        json: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => options.quick = true,
            Long("client-go") => options.client_go = true,
            Long("peers") => options.peers = parser.value()?.parse_with(|text| list(text, peer))?,
            Long("keys") => keys = Some(parser.value()?.parse_with(positive)?),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.client_go |= !options.quick;
    options.keys = keys.unwrap_or(if options.quick { 4_000 } else { 200_000 });
    if options.keys < 2 {
        return Err("half of one key is none".into());
    }
    Ok(Command::Memory(options))
}

fn snapshots(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let (mut quick, mut blocks, mut keys, mut known, mut seconds) = (false, None, None, None, None);
    let mut options = SnapshotOptions {
        blocks: 0,
        allocators: Allocator::ALL.to_vec(),
        stores: stores::ALL.iter().collect(),
        keys: Vec::new(),
        known: 0,
        plan: Plan { snapshots: 1_001, scanned: 2_000_000, time: Duration::ZERO },
        client_go: false,
        kube: false,
        seed: 1,
        json: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("client-go") => options.client_go = true,
            Long("kube") => options.kube = true,
            Long("blocks") => blocks = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => options.allocators = parser.value()?.parse_with(allocators)?,
            Long("stores") => options.stores = parser.value()?.parse_with(|text| list(text, store))?,
            Long("keys") => keys = Some(parser.value()?.parse_with(|text| list(text, positive))?),
            Long("known") => known = Some(parser.value()?.parse_with(positive)?),
            Long("seconds") => seconds = Some(parser.value()?.parse_with(above_zero)?),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.blocks = blocks.unwrap_or(if quick { 2 } else { 30 });
    options.keys = keys.unwrap_or(if quick { vec![1_000, 20_000] } else { vec![1_000, 100_000, 1_000_000] });
    options.known = known.unwrap_or(if quick { 5_000 } else { 100_000 });
    options.plan.time = Duration::from_secs_f64(seconds.unwrap_or(if quick { 0.02 } else { 0.2 }));
    options.client_go |= !quick;
    if quick {
        options.plan.snapshots = 101;
        options.plan.scanned = 20_000;
    }
    Ok(Command::Snapshots(options))
}

fn soak(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut options = SoakOptions { time: Duration::from_secs(60), every: Duration::from_secs(5), seed: 1 };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => options.time = parser.value()?.parse_with(seconds)?,
            Long("every") => options.every = parser.value()?.parse_with(seconds)?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Soak(options))
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

/// The file name may be missing.
fn json(parser: &mut lexopt::Parser) -> Json {
    if let Some(file) = parser.optional_value() {
        return Json::File(file.into());
    }
    match parser
        .try_raw_args()
        .and_then(|mut arguments| arguments.next_if(|argument| !argument.to_string_lossy().starts_with('-')))
    {
        Some(file) => Json::File(file.into()),
        None => Json::Instead,
    }
}

/// Nothing may be there twice: it would run twice, and be found once.
fn list<T: PartialEq>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut items = Vec::new();
    for part in text.split(',') {
        let item = item(part.trim())?;
        if items.contains(&item) {
            return Err(format!("{:?} is there twice", part.trim()));
        }
        items.push(item);
    }
    Ok(items)
}

fn positive(text: &str) -> Result<usize, String> {
    text.replace('_', "")
        .parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or(format!("{text:?} is not a positive number"))
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.replace('_', "").parse().ok();
    number
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
        .ok_or(format!("{text:?} is not a number above zero"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(above_zero(text)?).map_err(|error| format!("{text:?}: {error}"))
}

fn threads(text: &str) -> Result<(usize, usize), String> {
    let (producers, consumers) = text.split_once('x').ok_or(format!("{text:?} is not like 2x2"))?;
    Ok((positive(producers)?, positive(consumers)?))
}

fn peer(text: &str) -> Result<&'static Entry, String> {
    peers::by_id(text).ok_or(format!("there is no peer {text:?}"))
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

fn store(text: &str) -> Result<&'static stores::Entry, String> {
    stores::by_id(text).ok_or(format!("there is no store {text:?}"))
}

fn allocators(text: &str) -> Result<Vec<Allocator>, String> {
    match text {
        "both" => Ok(Allocator::ALL.to_vec()),
        one => Ok(vec![Allocator::by_name(one).ok_or(format!("there is no allocator {one:?}"))?]),
    }
}

mod report;
#[cfg(test)]
mod tests;
