//! What the sharded queue has to reach. A bar is met if the end of the interval that is worse for the queue meets it, with the
//! allocator that is worse for it.

use std::fmt::Write;

use super::report::{Report, in_words};
use super::{Trial, by_id};
use crate::allocator::Allocator;
use crate::bars::{BLOCKS, PEER, caveat, verdict};
use crate::stats::Estimate;

/// One that cannot be measured with some size of a trial is not measured there.
pub(crate) struct Bar {
    /// Of the table of bars: 1 to 15.
    pub(crate) number: u32,
    pub(crate) what: &'static str,
    /// All values of its case.
    pub(crate) case: &'static [(&'static str, &'static str)],
    pub(crate) measure: &'static str,
    pub(crate) value: Value,
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// The measure itself.
    Itself,
    /// How many times as good as this row, block by block.
    TimesAsGoodAs(&'static str),
    /// Divided by this row's, block by block.
    DividedBy(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    pub(super) fn holds(self, Estimate { low, high, .. }: Estimate) -> bool {
        match self {
            Self::AtLeast(limit) => low >= limit,
            Self::AtMost(limit) => high <= limit,
        }
    }

    /// The further above zero the worse.
    fn badness(self, Estimate { low, high, .. }: Estimate) -> f64 {
        match self {
            Self::AtLeast(limit) => limit - low,
            Self::AtMost(limit) => high - limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!("at least {limit}"),
            Self::AtMost(limit) => format!("at most {limit}"),
        }
    }
}

impl Bar {
    fn is_of(&self, case: &[(String, String)]) -> bool {
        case.iter().map(|(name, value)| (&**name, &**value)).eq(self.case.iter().copied())
    }

    /// With the worse allocator, and that one's name.
    fn worst(&self, trial: &Trial, reports: &[Report]) -> Option<(Estimate, &'static str)> {
        let measured = reports
            .iter()
            .filter_map(|report| Some((self.measured(trial, report)?, report.allocator.name())));
        measured.max_by(|(a, _), (b, _)| self.limit.badness(*a).total_cmp(&self.limit.badness(*b)))
    }

    fn measured(&self, trial: &Trial, report: &Report) -> Option<Estimate> {
        let case: Vec<(String, String)> =
            self.case.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let figure = |peer| report.figure(trial.id, &case, peer, self.measure);
        let own = figure(PEER)?;
        match self.value {
            Value::Itself => own.estimate(),
            Value::TimesAsGoodAs(row) => own.times_as_good_as(figure(row)?),
            Value::DividedBy(row) => own.quotient(figure(row)?),
        }
    }
}

/// Of all trials that ran.
pub(super) fn table(reports: &[Report]) -> String {
    let mut trials: Vec<&'static Trial> = Vec::new();
    let mut few = false;
    for trial in reports.iter().flat_map(|report| &report.trials) {
        let Some(found) = by_id(&trial.id).filter(|found| !found.bars.is_empty()) else { continue };
        if !trials.iter().any(|other| other.id == found.id) {
            trials.push(found);
        }
    }
    let mut lines = String::new();
    for trial in trials {
        for bar in trial.bars {
            write_bar(bar, trial, reports, &mut lines);
        }
        few |= reports
            .iter()
            .filter(|report| report.allocator != Allocator::Counting)
            .flat_map(|report| &report.trials)
            .filter(|it| it.id == trial.id)
            .flat_map(|it| &it.cases)
            .any(|case| case.blocks < BLOCKS && trial.bars.iter().any(|bar| bar.is_of(&case.case)));
    }
    if lines.is_empty() {
        return lines;
    }
    let mut text = format!(
        "Bars for {PEER}: the worse end of the interval with the worse allocator\n\
         {:<3} {:<4} {:<78} {:>14}  {:>24}  {:<10} verdict\n{lines}",
        "bar", "", "what", "", "measured", "allocator"
    );
    if reports.iter().filter(|report| report.allocator != Allocator::Counting).count() < 2 {
        text.push_str("One allocator only: the other may be the worse.\n");
    }
    if few {
        let _ = writeln!(text, "Fewer than {BLOCKS} blocks: these verdicts claim nothing.");
    }
    text.push_str(caveat(reports.iter().map(|report| report.disturbance)));
    text
}

fn write_bar(bar: &Bar, trial: &Trial, reports: &[Report], text: &mut String) {
    let worst = bar.worst(trial, reports);
    let (measured, allocator) =
        worst.map_or(("–".into(), "–"), |(estimate, name)| (in_words(estimate), name));
    let _ = writeln!(
        text,
        "{:<3} {:<4} {:<78} {:>14}  {measured:>24}  {allocator:<10} {}",
        bar.number,
        trial.id,
        bar.what,
        bar.limit.text(),
        verdict(worst.map(|(estimate, _)| bar.limit.holds(estimate))),
    );
}
