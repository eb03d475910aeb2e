//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::allocator::Allocator;
use delta_fifo_perf::peers::{self, Entry};

pub(crate) const HELP: &str = "\
The performance laboratory of delta-fifo.

cargo run --release -p delta-fifo-perf -- compare [options]
    W1 windowed (steady updates of known keys, every change one pop) for all peers:
    ns per change, and per-block ratios with their 95 % intervals. Every run checks
    what it was handed; a run that fails is void and the exit status is 1.
    Figures are worth something on a machine that does nothing else: on a busy one the
    threads take turns, and what contention costs does not show.

  --quick                 few short blocks, a minute in all: says that all works, not how fast
  --blocks N              runs of each peer in each case (30; with --quick 3)
  --changes N             timed changes in a run (300000; with --quick 60000)
  --allocator WHICH       system, mimalloc or both (both)
  --peers A,B             which ones (all)
  --reference A,B         against which the others are set (all that run)
  --known N,N             known keys (1000,100000)
  --threads PxC,PxC       producers x consumers (1x1,2x2,4x4)
  --batch N,N             changes in a call and keys in a pop (1,32)
  --seed N                of the permutation of keys and the order of runs (1)
  --json [FILE]           JSON instead of the table, or into FILE beside it
  --help

cargo run --release -p delta-fifo-perf -- latency [options]
    How long a producer's calls take while handlers do nothing, and while every one sleeps: at
    fixed rates, from the moment when a call is due (so one that waits for the call before it
    has waited too). `nothing` is the same without a queue.

  --keys N                so few that changes gather (64)
  --consumers N           (4)
  --handler-us N          how long a handler sleeps, in microseconds (1000)
  --load P,P              calls in a second, in percent of what the slowest peer manages (25,50,75)
  --rate N,N              or as a number
  --seconds S             of a run (1; with --quick 0.1)
  --blocks N              (15; with --quick 2)
  --quick, --allocator, --peers, --seed, --json   as above; there is one more peer, B0p: B0 with
                          its handlers under the lock, as client-go has it

cargo run --release -p delta-fifo-perf -- growth [options]
    How long each of a producer's adds of fresh keys takes while the tables grow.

  --keys N                (1000000; with --quick 20000)
  --blocks N              (10; with --quick 2)
  --quick, --allocator, --peers, --seed, --json   as above
";

pub(crate) enum Command {
    Compare(Options),
    Tails(TailOptions),
    Help,
}

pub(crate) struct Options {
    pub(crate) blocks: usize,
    pub(crate) changes: usize,
    pub(crate) allocators: Vec<Allocator>,
    pub(crate) peers: Vec<&'static Entry>,
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

pub(crate) enum Json {
    Instead,
    File(PathBuf),
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    match parser.next()? {
        Some(Value(name)) if name == "compare" => compare(&mut parser),
        Some(Value(name)) if name == "latency" => tails(&mut parser, Tails::Latency),
        Some(Value(name)) if name == "growth" => tails(&mut parser, Tails::Growth),
        None | Some(Short('h') | Long("help")) => Ok(Command::Help),
        Some(other) => Err(other.unexpected()),
    }
}

fn compare(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let (mut quick, mut blocks, mut changes, mut references) = (false, None, None, None);
    let mut options = Options {
        blocks: 0,
        changes: 0,
        allocators: Allocator::ALL.to_vec(),
        peers: peers::ALL.iter().collect(),
        references: Vec::new(),
        known: vec![1_000, 100_000],
        threads: vec![(1, 1), (2, 2), (4, 4)],
        batches: vec![1, 32],
        seed: 1,
        json: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => quick = true,
            Long("blocks") => blocks = Some(parser.value()?.parse_with(positive)?),
            Long("changes") => changes = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => options.allocators = parser.value()?.parse_with(allocators)?,
            Long("peers") => options.peers = parser.value()?.parse_with(|text| list(text, peer))?,
            Long("reference") => references = Some(parser.value()?.parse_with(|text| list(text, peer))?),
            Long("known") => options.known = parser.value()?.parse_with(|text| list(text, positive))?,
            Long("threads") => options.threads = parser.value()?.parse_with(|text| list(text, threads))?,
            Long("batch") => options.batches = parser.value()?.parse_with(|text| list(text, positive))?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.blocks = blocks.unwrap_or(if quick { 3 } else { 30 });
    options.changes = changes.unwrap_or(if quick { 60_000 } else { 300_000 });
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
        peers: peers::ALL.iter().chain(latency.then_some(&peers::CLIENT_GO)).collect(),
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

fn threads(text: &str) -> Result<(usize, usize), String> {
    let (producers, consumers) = text.split_once('x').ok_or(format!("{text:?} is not like 2x2"))?;
    Ok((positive(producers)?, positive(consumers)?))
}

fn peer(text: &str) -> Result<&'static Entry, String> {
    peers::by_id(text).ok_or(format!("there is no peer {text:?}"))
}

fn allocators(text: &str) -> Result<Vec<Allocator>, String> {
    match text {
        "both" => Ok(Allocator::ALL.to_vec()),
        one => Ok(vec![Allocator::by_name(one).ok_or(format!("there is no allocator {one:?}"))?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Result<Options, String> {
        match parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
            Ok(Command::Compare(options)) => Ok(options),
            Ok(Command::Tails(_)) => Err("another command".into()),
            Ok(Command::Help) => Err("help".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn defaults() {
        let options = options("compare").unwrap();
        assert_eq!((options.blocks, options.changes), (30, 300_000));
        assert_eq!(options.allocators, Allocator::ALL);
        assert_eq!(options.references.len(), options.peers.len());
    }

    #[test]
    fn quick_leaves_the_last_word_to_the_others() {
        let options =
            options("compare --blocks 7 --quick --peers b1,B3 --reference B1 --threads 1x1,4x4").unwrap();
        assert_eq!(options.blocks, 7);
        assert_eq!(options.changes, 60_000);
        assert_eq!(options.peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), ["B1", "B3"]);
        assert_eq!(options.references, ["B1"]);
        assert_eq!(options.threads, [(1, 1), (4, 4)]);
    }

    #[test]
    fn tails_have_options_of_their_own() {
        let tails = |arguments: &str| match parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
            Ok(Command::Tails(options)) => Some(options),
            _ => None,
        };
        let options = tails("latency --quick --rate 20_000 --handler-us 250 --peers sharded,b0p").unwrap();
        assert_eq!((options.blocks, options.keys, options.seconds), (2, 64, 0.1));
        assert_eq!((options.rates, options.handler), (Some(vec![20_000.0]), Duration::from_micros(250)));
        assert_eq!(options.peers.iter().map(|peer| peer.id).collect::<Vec<_>>(), ["sharded", "B0p"]);
        let options = tails("growth").unwrap();
        assert_eq!((options.blocks, options.keys, options.peers.len()), (10, 1_000_000, peers::ALL.len()));
        for nonsense in ["growth --rate 5", "latency --rate 0", "latency --seconds nan", "growth --known 5"] {
            assert!(tails(nonsense).is_none(), "{nonsense}");
        }
    }

    #[test]
    fn json_with_and_without_a_file() {
        assert!(options("compare").unwrap().json.is_none());
        assert!(matches!(options("compare --json --quick").unwrap().json, Some(Json::Instead)));
        assert!(matches!(options("compare --json").unwrap().json, Some(Json::Instead)));
        for with_file in ["compare --json x.json --quick", "compare --quick --json=x.json"] {
            assert!(
                matches!(options(with_file).unwrap().json, Some(Json::File(path)) if path.ends_with("x.json"))
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in [
            "compete",
            "compare --blocks 0",
            "compare --threads 2",
            "compare --allocator jemalloc",
            "compare --peers B9",
        ] {
            assert!(options(nonsense).is_err(), "{nonsense}");
        }
        assert!(options("compare --peers B1 --reference B3").is_err());
        assert!(options("compare --known 100 --threads 4x4").is_err());
    }

    #[test]
    fn every_producer_has_something_to_do() {
        assert!(options("compare --quick --changes 4").is_ok());
        for (arguments, producers) in [("--changes 1", 2), ("--changes 3 --threads 1x1,4x1", 4)] {
            let error = options(&format!("compare {arguments}")).err().expect("too few changes");
            assert!(error.contains(&format!("too few for {producers} producers")), "{error}");
        }
    }

    #[test]
    fn nothing_is_measured_twice() {
        for list in [
            "--peers B1,B3,b1",
            "--reference B1,B1",
            "--known 1000,1_000",
            "--threads 1x1,2x2,1x1",
            "--batch 1,32,32",
        ] {
            let error = options(&format!("compare {list}")).err().expect(list);
            assert!(error.contains("is there twice"), "{error}");
        }
    }
}
