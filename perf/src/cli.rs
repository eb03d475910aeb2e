//! The command line.

mod client_go;
mod compare;
mod informers;
mod replay;
mod report;
pub(crate) mod trial;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::prelude::*;

use crate::allocator::Allocator;
use delta_fifo_perf::peers::{self, Entry};
use delta_fifo_perf::stores::{self, Plan};

pub(crate) use client_go::ClientGoOptions;
pub(crate) use compare::Options;
pub(crate) use report::ReportOptions;

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
    /// One that may have something of the same run.
    Resume(PathBuf),
}

impl Json {
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Instead => None,
            Self::File(path) | Self::Resume(path) => Some(path),
        }
    }
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    match parser.next()? {
        Some(Value(name)) if name == "report" => report::parse(&mut parser),
        Some(Value(name)) if name == "compare" => compare::parse(&mut parser),
        Some(Value(name)) if name == "latency" => tails(&mut parser, Tails::Latency),
        Some(Value(name)) if name == "growth" => tails(&mut parser, Tails::Growth),
        Some(Value(name)) if name == "memory" => memory(&mut parser),
        Some(Value(name)) if name == "snapshots" => snapshots(&mut parser),
        Some(Value(name)) if name == "soak" => soak(&mut parser),
        Some(Value(name)) if name == "client-go" => client_go::parse(&mut parser),
        Some(Value(name)) if name == "trial" => trial::parse(&mut parser),
        Some(Value(name)) if name == "informers" => informers::parse(&mut parser),
        Some(Value(name)) if name == "replay" => replay::parse(&mut parser),
        None | Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(other) => Err(other.unexpected()),
    }
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

fn peer(text: &str) -> Result<&'static Entry, String> {
    peers::by_id(text).ok_or(format!("there is no peer {text:?}"))
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

#[cfg(test)]
mod tests;
