//! `trial`: every workload but those that have a command of their own, by one and the same way.
//!
//! A [`Trial`] has cases, rows that run in each of them (peers, and what they are set against), and bars. All else is here:
//! blocks of all rows in random order, figures, the table, the verdicts, a process for each allocator.
//!
//! # Add a trial
//!
//! A file in `src/trials/` with a `pub(super) static TRIAL: Trial`, its `mod` line, and one line in [`ALL`].
//!
//! - [`cases`](Trial::cases): an ordered list of names and values ([`Case`]), for each [`Size`]; quick ones take less than a
//!   second each.
//! - [`rows`](Trial::rows): by id. One that `peers::by_id` knows is a peer (`--peers` chooses among those); anything else is
//!   a row that always runs, such as `nothing`.
//! - [`prepare`](Trial::prepare) makes what all runs of a case share (keys), and gives the function that runs one row:
//!   `case, row → Sample`. A workload is generic over its peer and lives in `src/workload/`; `peers::visit` finds the type of
//!   a row: `peers::visit(row, Run { … })`, where `Run` implements `peers::Visit`.
//! - A [`Sample`] has the same measures in the same order whenever a row runs in a case, and what was wrong: with one violation
//!   the run is void, and none of its values counts.
//! - [`counted`](Trial::counted): whether it runs in a process with the counting allocator too, or only there. Then [`Setting::counting`]
//!   says where it is: there it gives what is counted and nothing that is timed, else the other way round.
//! - [`bars`](Trial::bars): see [`Bar`]. Values of a bar's case that a trial of this size does not have are not measured.
//! - A test with a peer that is broken on purpose, beside the workload, and a section in the README.

mod bars;
pub(crate) mod client_go;
mod measure;
mod report;
#[cfg(test)]
mod tests;
mod w10;
mod w11;
mod w1c;
mod w1r;
mod w2;
mod w3;
mod w4;
mod w6;
mod w7;
mod w8;

use std::borrow::Cow;
use std::fmt;
use std::process::ExitCode;
use std::str::FromStr;

use crate::allocator::Allocator;
use crate::cli::trial::TrialOptions;
use crate::figures::Better;
use crate::process::{self, Result};

pub(crate) use bars::{Bar, Limit, Value};

/// In the order in which they run.
pub(crate) static ALL: &[&Trial] = &[
    &w1c::TRIAL,
    &w1r::TRIAL,
    &w2::TRIAL,
    &w3::TRIAL,
    &w4::FIRST,
    &w4::AGAIN,
    &w6::TRIAL,
    &w7::TRIAL,
    &w8::TRIAL,
    &w10::TRIAL,
    &w11::TRIAL,
];

/// One that builds programs outside has a command of its own, and is none of all; so are those of `informers`.
pub(crate) fn by_id(id: &str) -> Option<&'static Trial> {
    let found =
        ALL.iter().copied().chain([&client_go::TRIAL]).find(|trial| trial.id.eq_ignore_ascii_case(id));
    #[cfg(feature = "kube")]
    let found = found.or_else(|| crate::informers::by_id(id));
    found
}

pub(crate) struct Trial {
    /// As BENCH's tables number it: `W2`.
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    pub(crate) cases: fn(Size) -> Vec<Case>,
    /// Of this case, in the order of the table.
    pub(crate) rows: fn(&Case) -> Vec<&'static str>,
    /// The rows against which all are set: a column of the table for each.
    pub(crate) against: &'static [&'static str],
    /// Of this case; what is counted besides is so once.
    pub(crate) blocks: fn(Size, &Case) -> Blocks,
    pub(crate) counted: Counted,
    pub(crate) prepare: fn(&Case, &Setting) -> Box<dyn Runs>,
    pub(crate) bars: &'static [Bar],
}

/// Whether a trial runs in a process that counts what it asks of its allocator, and times nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    No,
    /// Its peers do, once, besides those that are timed; a reference has nothing to ask an allocator for.
    Too,
    /// All its rows do, and only there.
    Alone,
}

impl Counted {
    fn runs(self, counting: bool) -> bool {
        if counting { self != Self::No } else { self != Self::Alone }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// In seconds: says that all works.
    Quick,
    Normal,
    /// What BENCH asks for, however long it takes.
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// Unless the command line says how many.
    Usually(usize),
    /// Whatever it says: a run that takes minutes.
    Always(usize),
}

/// What a trial has to know besides its case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) size: Size,
    pub(crate) seed: u64,
    /// This process counts what it asks of its allocator.
    pub(crate) counting: bool,
}

/// Runs one row of a case. Any closure does.
pub(crate) trait Runs {
    fn run(&mut self, row: &str) -> Sample;
}

impl<F: FnMut(&str) -> Sample> Runs for F {
    fn run(&mut self, row: &str) -> Sample {
        self(row)
    }
}

/// What makes a case, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Case(pub(crate) Vec<(&'static str, String)>);

impl Case {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(other, _)| *other == name);
        &found.unwrap_or_else(|| panic!("a case without {name}")).1
    }

    pub(crate) fn get<T: FromStr>(&self, name: &str) -> T {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("{name} {text:?} is something else"))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// What one run of a row found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) values: Vec<Measured>,
    pub(crate) violations: Vec<String>,
    /// What is not what it seems, or not there; each is printed once.
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// `time per change`, `p99.9 of a call`.
    pub(crate) measure: Cow<'static, str>,
    /// `ns`, `bytes`, `%`.
    pub(crate) unit: Cow<'static, str>,
    pub(crate) better: Better,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn new(violations: Vec<String>) -> Self {
        Self { violations, ..Self::default() }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn lower(self, measure: &'static str, unit: &'static str, value: f64) -> Self {
        self.with(Measured { measure: measure.into(), unit: unit.into(), better: Better::Lower, value })
    }

    pub(crate) fn higher(self, measure: &'static str, unit: &'static str, value: f64) -> Self {
        self.with(Measured { measure: measure.into(), unit: unit.into(), better: Better::Higher, value })
    }

    fn with(mut self, measured: Measured) -> Self {
        self.values.push(measured);
        self
    }
}

pub(crate) fn run(options: &TrialOptions) -> Result<ExitCode> {
    let any = |counting| options.trials.iter().any(|trial| trial.counted.runs(counting));
    let timed = options.allocators.iter().copied().filter(|_| any(false));
    let allocators: Vec<Allocator> = timed.chain(any(true).then_some(Allocator::Counting)).collect();
    process::run(&allocators, options.json.as_ref(), options.budget, |notebook| {
        measure::measure(options, notebook)
    })
}
