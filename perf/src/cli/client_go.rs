//! `client-go`: this crate's queue beside client-go, and how much of it.

use lexopt::prelude::*;

use super::trial::TrialOptions;
use super::{Command, Json, allocators, json, list, positive, seconds};
use crate::allocator::Allocator;
use crate::trials::{Size, client_go};

pub(crate) struct ClientGoOptions {
    pub(crate) trial: TrialOptions,
    /// `None`: what the size says.
    pub(crate) known: Option<Vec<usize>>,
    pub(crate) kube: bool,
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let trial = TrialOptions {
        trials: vec![&client_go::TRIAL],
        size: Size::Normal,
        blocks: None,
        allocators: Allocator::ALL.to_vec(),
        peers: None,
        seed: 1,
        json: None,
        budget: None,
    };
    let mut options = ClientGoOptions { trial, known: None, kube: false };
    let trial = &mut options.trial;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => trial.size = Size::Quick,
            Long("full") => trial.size = Size::Full,
            Long("known") => options.known = Some(parser.value()?.parse_with(|text| list(text, known))?),
            Long("kube") => options.kube = true,
            Long("blocks") => trial.blocks = Some(parser.value()?.parse_with(positive)?),
            Long("allocator") => trial.allocators = parser.value()?.parse_with(allocators)?,
            Long("seed") => trial.seed = parser.value()?.parse()?,
            Long("json") => trial.json = Some(json(parser)),
            Long("resume") => trial.json = Some(Json::Resume(parser.value()?.into())),
            Long("time-budget") => trial.budget = Some(parser.value()?.parse_with(seconds)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::ClientGo(options))
}

/// So many that a batch has its window.
fn known(text: &str) -> Result<usize, String> {
    let known = positive(text)?;
    if known < 2 * client_go::BATCH {
        return Err(format!(
            "a batch of {0} needs at least {1} known keys",
            client_go::BATCH,
            2 * client_go::BATCH
        ));
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &str) -> Result<ClientGoOptions, String> {
        match super::super::parse(lexopt::Parser::from_args(arguments.split_whitespace())) {
            Ok(Command::ClientGo(options)) => Ok(options),
            Ok(_) => Err("another command".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn known_keys_and_kube_are_its_own() {
        let asked = options("client-go --quick --known 1_000,5000 --blocks 3 --kube").unwrap();
        assert_eq!((asked.known, asked.kube), (Some(vec![1_000, 5_000]), true));
        assert_eq!((asked.trial.size, asked.trial.blocks), (Size::Quick, Some(3)));
        let usual = options("client-go").unwrap();
        assert_eq!((usual.known, usual.kube, usual.trial.size), (None, false, Size::Normal));
        for nonsense in ["client-go --known 10", "client-go --peers B1", "client-go --known 100,100"] {
            assert!(options(nonsense).is_err(), "{nonsense}");
        }
    }
}
