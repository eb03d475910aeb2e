//! Two runs of the same: did what was changed between them make it slower?
//!
//! Blocks of two runs are no pairs, so each side is resampled for itself. That the machine was the same all the while is not known:
//! the rivals, which nobody has changed, show how far it was.

use super::chart::{Axis, Group, Mark, Rows};
use super::input::{Measured, Run};
use super::model::gain;
use super::scale::Scale;
use super::table::Table;
use super::text;
use crate::bars::{BLOCKS, PEER};
use crate::figures::Figure;
use crate::stats::{Estimate, median};

/// An interval from fewer is none.
const FEWEST: usize = 5;
/// Changes that are drawn; the table has all.
const MOST: usize = 30;

/// A figure of both.
#[derive(Debug)]
pub(crate) struct Change<'r> {
    pub(crate) run: &'r Run,
    pub(crate) before: &'r Measured,
    pub(crate) after: &'r Measured,
    /// By what it has become worse: 1.1 is a tenth slower, or larger.
    pub(crate) worse: Estimate,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Worse,
    Better,
    TooFewBlocks,
    NoDifference,
}

#[derive(Debug)]
pub(crate) struct Difference<'r> {
    /// The worst first, then the best; what has not changed comes last.
    pub(crate) changes: Vec<Change<'r>>,
    /// Figures that only one side has, or whose runs were all void.
    pub(crate) unmatched: usize,
    pub(crate) caveats: Vec<String>,
}

impl Verdict {
    fn of(worse: Estimate, blocks: usize, is_counted: bool) -> Self {
        match worse {
            _ if !is_counted && blocks < FEWEST => Self::TooFewBlocks,
            Estimate { low, .. } if low > 1.0 => Self::Worse,
            Estimate { high, .. } if high < 1.0 => Self::Better,
            _ => Self::NoDifference,
        }
    }

    pub(crate) fn word(self, unit: &str) -> &'static str {
        match self {
            Self::Worse if text::is_speed(unit) => "slower",
            Self::Better if text::is_speed(unit) => "faster",
            Self::Worse => "worse",
            Self::Better => "better",
            Self::TooFewBlocks => "too few blocks",
            Self::NoDifference => "no difference",
        }
    }
}

fn sound(figure: &Figure) -> Vec<f64> {
    figure.by_block.iter().copied().flatten().collect()
}

fn change<'r>(run: &'r Run, before: &'r Measured, after: &'r Measured) -> Option<Change<'r>> {
    let (old, new) = (sound(before), sound(after));
    // As `gain` has it: how many times as good the old one is.
    let worse = Estimate::unpaired(&old, &new, |old, new| gain(old, new, after.better))?;
    let verdict = Verdict::of(worse, old.len().min(new.len()), run.is_counted());
    Some(Change { run, before, after, worse, verdict })
}

pub(crate) fn of<'r>(before: &'r [Run], after: &'r [Run]) -> Difference<'r> {
    let figures =
        |runs: &'r [Run]| runs.iter().flat_map(|run| run.figures.iter().map(move |figure| (run, figure)));
    let mut changes = Vec::new();
    let mut matched = 0;
    for (run, figure) in figures(after) {
        let is_same = |(old_run, old): &(&Run, &Measured)| {
            (&old_run.allocator, &old.workload, &old.case, &old.peer, &old.measure, &old.unit)
                == (
                    &run.allocator,
                    &figure.workload,
                    &figure.case,
                    &figure.peer,
                    &figure.measure,
                    &figure.unit,
                )
        };
        if let Some(change) = figures(before).find(is_same).and_then(|(_, old)| change(run, old, figure)) {
            changes.push(change);
            matched += 1;
        }
    }
    // How far from no change, up or down.
    let size = |change: &Change<'_>| change.worse.median.ln().abs();
    changes.sort_by(|a, b| a.verdict.cmp(&b.verdict).then(size(b).total_cmp(&size(a))));
    let unmatched = figures(after).count().abs_diff(matched) + figures(before).count().abs_diff(matched);
    let caveats = caveats(before, after, &changes);
    Difference { changes, unmatched, caveats }
}

fn caveats(before: &[Run], after: &[Run], changes: &[Change<'_>]) -> Vec<String> {
    let mut caveats = Vec::new();
    let machine = |run: &Run| {
        (run.machine.cpu.clone(), run.machine.nproc, run.machine.kernel.clone(), run.machine.rustc.clone())
    };
    if let Some(first) = before.first().map(machine)
        && before.iter().chain(after).any(|run| machine(run) != first)
    {
        caveats.push("Not the same machine, kernel or compiler on both sides: the difference is not the commit's alone.".into());
    }
    let rivals: Vec<f64> = changes
        .iter()
        .filter(|change| change.after.peer != PEER && !change.run.is_counted())
        .map(|change| change.worse.median)
        .collect();
    if let Some(median) = median(&rivals) {
        caveats.push(format!(
            "The other peers have changed by {:+.1} % in the median (above 0 is worse): where their code is the same, that much is the machine.",
            100.0 * (median - 1.0)
        ));
    }
    let timed = changes.iter().filter(|change| !change.run.is_counted()).count();
    if timed > 0 {
        caveats.push(format!(
            "An interval of 95 % misses one time in twenty: of {timed} figures some {} seem to differ by chance.",
            timed.div_ceil(20)
        ));
    }
    if before.iter().chain(after).any(|run| !run.is_counted() && run.blocks < BLOCKS) {
        caveats.push(format!("Fewer than {BLOCKS} blocks on one side or both: this claims nothing."));
    }
    caveats
}

impl Difference<'_> {
    pub(crate) fn summary(&self) -> String {
        let count = |peer: bool, verdict: Verdict| {
            let of = self.changes.iter().filter(|change| (change.after.peer == PEER) == peer);
            of.filter(|change| change.verdict == verdict).count()
        };
        let line = |peer: bool| {
            format!(
                "{} worse, {} better, {} without a difference, {} of too few blocks",
                count(peer, Verdict::Worse),
                count(peer, Verdict::Better),
                count(peer, Verdict::NoDifference),
                count(peer, Verdict::TooFewBlocks),
            )
        };
        format!(
            "{PEER}: {}. The others: {}. Without a counterpart: {}.",
            line(true),
            line(false),
            self.unmatched
        )
    }

    pub(crate) fn table(&self) -> Table {
        let rows = self.changes.iter().map(|change| {
            let Change { run, before, after, worse, verdict } = change;
            let value = |figure: &Measured| {
                Estimate::of(&sound(figure))
                    .map_or("–".into(), |value| text::with_unit(value, &figure.unit))
            };
            vec![
                verdict.word(&after.unit).into(),
                text::change(*worse),
                text::whole_name(after, run.machine.nproc),
                after.peer.clone(),
                run.label.clone(),
                format!("{} → {}", value(before), value(after)),
            ]
        });
        let head = ["verdict", "worse by", "where", "peer", "run", "before → after"];
        Table {
            about: "What has changed".into(),
            is_of_words: true,
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }

    /// The subject's, those that differ most.
    pub(crate) fn group(&self) -> Option<Group> {
        let of_subject =
            self.changes.iter().filter(|change| change.after.peer == PEER && change.worse.low > 0.0);
        let drawn: Vec<&Change<'_>> = of_subject.take(MOST).collect();
        let scale = Scale::logarithmic(drawn.iter().map(|change| change.worse), Some(1.0))?;
        let title = "times as much as before (log axis)".into();
        let groups = drawn.iter().map(|change| {
            let Change { run, after, worse, verdict, .. } = change;
            let about = format!("{}: {}", verdict.word(&after.unit), text::change(*worse));
            let name = format!("{} · {}", text::whole_name(after, run.machine.nproc), run.label);
            (name, vec![Mark { name: PEER.into(), estimate: *worse, about }])
        });
        let rows = Rows {
            caption: format!("The {} figures of {PEER} that differ most", drawn.len()),
            axis: Axis { title, scale },
            reference: Some(1.0),
            groups: groups.collect(),
        };
        let title = "What has changed: above 1 is worse".into();
        Some(Group { title, shows_values: false, series: Vec::new(), charts: rows.split() })
    }

    /// Whether the subject is for sure worse by more than that anywhere.
    pub(crate) fn exceeds(&self, percent: f64) -> bool {
        let of_subject = self.changes.iter().filter(|change| change.after.peer == PEER);
        of_subject
            .filter(|change| change.verdict == Verdict::Worse)
            .any(|change| 100.0 * (change.worse.low - 1.0) > percent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::tests::{figure, report, runs};
    use super::*;

    fn run(blocks: &[(&str, &str, f64)]) -> Vec<Run> {
        let figures = blocks.iter().map(|(peer, measure, base)| {
            let values: Vec<String> =
                (0..30).map(|block| (base + f64::from(block % 3)).to_string()).collect();
            figure("{}", peer, measure, &format!("[{}]", values.join(",")))
        });
        runs(&[report("system", 30, &figures.collect::<Vec<_>>().join(","))])
    }

    #[test]
    fn what_has_become_slower_comes_first_and_may_fail() {
        let before = run(&[
            ("sharded", "a", 100.0),
            ("sharded", "b", 100.0),
            ("sharded", "c", 100.0),
            ("B1", "a", 9.0),
        ]);
        let after = run(&[
            ("sharded", "c", 100.0),
            ("sharded", "a", 90.0),
            ("sharded", "b", 120.0),
            ("sharded", "d", 1.0),
        ]);
        let difference = of(&before, &after);
        let verdicts: Vec<(&str, Verdict)> =
            difference.changes.iter().map(|change| (&*change.after.measure, change.verdict)).collect();
        assert_eq!(verdicts, [("b", Verdict::Worse), ("a", Verdict::Better), ("c", Verdict::NoDifference)]);
        assert_eq!(difference.unmatched, 2);
        assert!(difference.exceeds(10.0) && !difference.exceeds(25.0));
        assert!(
            difference.summary().starts_with("sharded: 1 worse, 1 better, 1 without"),
            "{}",
            difference.summary()
        );
        assert_eq!(difference.table().rows[0][0], "slower");
    }

    #[test]
    fn higher_may_be_better() {
        let higher = |runs: Vec<Run>| {
            let mut runs = runs;
            runs[0].figures[0].figure.better = crate::figures::Better::Higher;
            runs
        };
        let (before, after) =
            (higher(run(&[("sharded", "rate", 100.0)])), higher(run(&[("sharded", "rate", 50.0)])));
        let difference = of(&before, &after);
        assert_eq!(difference.changes[0].verdict, Verdict::Worse);
        assert!(difference.changes[0].worse.median > 1.9);
    }

    #[test]
    fn few_blocks_decide_nothing_and_rivals_show_the_machine() {
        let few = |value: &str| runs(&[report("system", 2, &figure("{}", "sharded", "a", value))]);
        let (before, after) = (few("[1.0, 1.0]"), few("[9.0, 9.0]"));
        assert_eq!(of(&before, &after).changes[0].verdict, Verdict::TooFewBlocks);
        let counted = |value: &str| runs(&[report("counting", 1, &figure("{}", "sharded", "a", value))]);
        let (before, after) = (counted("[1.0]"), counted("[1.5]"));
        assert_eq!(of(&before, &after).changes[0].verdict, Verdict::Worse);
        let (before, after) = (run(&[("B1", "a", 100.0)]), run(&[("B1", "a", 120.0)]));
        let caveats = of(&before, &after).caveats.join("\n");
        assert!(caveats.contains("changed by +19.8 %"), "{caveats}");
    }
}
