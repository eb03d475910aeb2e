//! `replay`: W11 as a command of its own, with the options of a trial.

use super::{Command, trial};
use crate::trials;

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    trial::parse_options(parser, vec![trials::by_id("W11").expect("it is among them")])
}
