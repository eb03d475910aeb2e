//! `trial`: which workloads, and how much of them.

use std::time::Duration;

use lexopt::prelude::*;

use super::{Command, Json, allocators, json, list, peer, positive, seconds};
use crate::allocator::Allocator;
use crate::trials::{self, Size, Trial};
use delta_fifo_perf::peers::Entry;

pub(crate) struct TrialOptions {
    pub(crate) trials: Vec<&'static Trial>,
    pub(crate) size: Size,
    /// `None`: each trial's own number.
    pub(crate) blocks: Option<usize>,
    pub(crate) allocators: Vec<Allocator>,
    /// `None`: all.
    pub(crate) peers: Option<Vec<&'static Entry>>,
    pub(crate) seed: u64,
    pub(crate) json: Option<Json>,
    /// How long all may take; a block that has begun is ended.
    pub(crate) budget: Option<Duration>,
}

/// The name says which.
impl PartialEq for Trial {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    parse_options(parser, Vec::new())
}

/// Of these trials; if there are none, they are to be named.
pub(super) fn parse_options(
    parser: &mut lexopt::Parser,
    trials: Vec<&'static Trial>,
) -> Result<Command, lexopt::Error> {
    let (mut quick, mut full) = (false, false);
    let mut options = TrialOptions {
        trials,
        size: Size::Normal,
        blocks: None,
        allocators: Allocator::ALL.to_vec(),
        peers: None,
        seed: 1,
        json: None,
        budget: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Value(names) if options.trials.is_empty() => options.trials = names.parse_with(chosen)?,
            Long("quick") => quick = true,
            Long("full") => full = true,
            Long("blocks") => options.blocks = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => options.allocators = parser.value()?.parse_with(allocators)?,
            Long("peers") => options.peers = Some(parser.value()?.parse_with(|text| list(text, peer))?),
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("json") => options.json = Some(json(parser)),
            Long("resume") => options.json = Some(Json::Resume(parser.value()?.into())),
            Long("time-budget") => options.budget = Some(parser.value()?.parse_with(seconds)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    options.size = match (quick, full) {
        (true, true) => return Err("--quick or --full".into()),
        (true, false) => Size::Quick,
        (false, true) => Size::Full,
        (false, false) => Size::Normal,
    };
    if options.trials.is_empty() {
        return Err(format!("which trial? all, or some of {}", names()).into());
    }
    Ok(Command::Trial(options))
}

fn chosen(text: &str) -> Result<Vec<&'static Trial>, String> {
    if text == "all" {
        return Ok(trials::ALL.to_vec());
    }
    list(text, |id| trials::by_id(id).ok_or(format!("there is no trial {id:?}, but {}", names())))
}

fn names() -> String {
    trials::ALL.iter().map(|trial| trial.id).collect::<Vec<_>>().join(", ")
}
