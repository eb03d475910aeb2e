//! What was counted before, and what has moved since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::callgrind::Result;

/// Further than that is said, in percent.
const TOLD: f64 = 1.0;
/// Further than that fails.
const FAILS: f64 = 10.0;
/// The C library's part is not quite repeatable. It is said, and no more, when it moves by this much of the program's own.
const TOLD_OUTSIDE: f64 = 5.0;
/// Functions and files with less than this share of an operation are not kept.
const KEPT: f64 = 0.005;
/// So many of those that moved most are named.
const NAMED: usize = 6;

/// All per operation. Functions and files say where the instructions are: of those that are inlined, the function is that into which
/// they are, and the file is their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// Of the program itself.
    pub(crate) instructions: f64,
    /// Of the C library.
    pub(crate) outside: f64,
    /// Calls that ask for memory.
    pub(crate) allocations: f64,
    pub(crate) functions: BTreeMap<String, f64>,
    pub(crate) files: BTreeMap<String, f64>,
}

/// What the counts are of: with another compiler they are others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) compiler: String,
    pub(crate) valgrind: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub(crate) origin: Origin,
    pub(crate) counts: BTreeMap<String, Count>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    operation: String,
    #[serde(flatten)]
    count: Count,
}

impl Origin {
    pub(crate) fn here(valgrind: String) -> Self {
        Self { compiler: delta_fifo_perf::COMPILER.into(), valgrind }
    }
}

impl Count {
    /// As it is stored: without what is small, and with two decimals.
    fn rounded(mut self) -> Self {
        let round = |number: f64| (number * 100.0).round() / 100.0;
        let least = self.instructions * KEPT;
        for costs in [&mut self.functions, &mut self.files] {
            costs.retain(|_, cost| *cost >= least);
            costs.values_mut().for_each(|cost| *cost = round(*cost));
        }
        Self {
            instructions: round(self.instructions),
            outside: round(self.outside),
            allocations: round(self.allocations),
            ..self
        }
    }
}

impl Baseline {
    fn path() -> PathBuf {
        concat!(env!("CARGO_MANIFEST_DIR"), "/benches/track/baseline.jsonl").into()
    }

    /// One line says of what it is, then comes one for each operation: a change shows as the lines that it is of.
    pub(crate) fn save(origin: Origin, counts: Vec<(String, Count)>) -> Result<()> {
        let mut text = serde_json::to_string(&origin)? + "\n";
        for (operation, count) in counts {
            text += &serde_json::to_string(&Line { operation, count: count.rounded() })?;
            text.push('\n');
        }
        Ok(fs::write(Self::path(), text)?)
    }

    pub(crate) fn load() -> Result<Self> {
        let path = Self::path();
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut lines = text.lines();
        let origin = serde_json::from_str(lines.next().unwrap_or_default())?;
        let counts =
            lines.map(|line| serde_json::from_str(line).map(|line: Line| (line.operation, line.count)));
        Ok(Self { origin, counts: counts.collect::<std::result::Result<_, _>>()? })
    }
}

/// What has become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Same,
    Told,
    Failed,
}

/// Operations beside what they were.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) table: String,
    pub(crate) worst: Verdict,
}

impl Comparison {
    /// `all`: that there should be all operations of the baseline.
    pub(crate) fn new(baseline: &Baseline, counts: &[(String, Count)], all: bool) -> Self {
        let mut it = Self { table: String::new(), worst: Verdict::Same };
        for (operation, now) in counts {
            let now = now.clone().rounded();
            match baseline.counts.get(operation) {
                Some(before) => it.compare(operation, before, &now),
                None => it.say(Verdict::Failed, &format!("{operation}: not in the baseline")),
            }
        }
        let counted: BTreeSet<&String> = counts.iter().map(|(operation, _)| operation).collect();
        for gone in baseline.counts.keys().filter(|operation| all && !counted.contains(operation)) {
            it.say(Verdict::Failed, &format!("{gone}: in the baseline, and not counted"));
        }
        it
    }

    fn say(&mut self, verdict: Verdict, text: &str) {
        self.worst = self.worst.max(verdict);
        self.table += text;
        self.table.push('\n');
    }

    fn compare(&mut self, operation: &str, before: &Count, now: &Count) {
        let instructions = judge(before.instructions, now.instructions);
        let allocations = judge(before.allocations, now.allocations);
        let outside = (now.outside - before.outside) / before.instructions * 100.0;
        let outside = if outside.abs() > TOLD_OUTSIDE { Verdict::Told } else { Verdict::Same };
        let mut text = format!(
            "{operation:<34} {:>9.1} instructions {:>7.1} in the C library {:>6.2} allocations",
            now.instructions, now.outside, now.allocations
        );
        for (what, verdict, before, now) in [
            ("instructions", instructions, before.instructions, now.instructions),
            ("allocations", allocations, before.allocations, now.allocations),
            ("in the C library", outside, before.outside, now.outside),
        ] {
            if verdict > Verdict::Same {
                let _ = write!(text, "\n    {what}: {before:.2} → {now:.2} ({:+.2} %)", percent(before, now));
                text += if verdict == Verdict::Failed { ", too much" } else { "" };
            }
        }
        if instructions > Verdict::Same {
            moved(&mut text, "function", &before.functions, &now.functions);
            moved(&mut text, "file", &before.files, &now.files);
        }
        self.say(instructions.max(allocations).max(outside), &text);
    }
}

fn percent(before: f64, now: f64) -> f64 {
    if before == now { 0.0 } else { (now - before) / before * 100.0 }
}

/// What has become less fails nothing, but it is said: the baseline should be saved anew.
fn judge(before: f64, now: f64) -> Verdict {
    match percent(before, now) {
        percent if percent > FAILS => Verdict::Failed,
        percent if percent.abs() > TOLD => Verdict::Told,
        _ => Verdict::Same,
    }
}

/// What moved most.
fn moved(text: &mut String, what: &str, before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let of = |costs: &BTreeMap<String, f64>, name: &String| costs.get(name).copied().unwrap_or(0.0);
    let mut moved: Vec<(f64, &String)> =
        names.into_iter().map(|name| (of(now, name) - of(before, name), name)).collect();
    moved.sort_by(|one, other| other.0.abs().total_cmp(&one.0.abs()));
    for (by, name) in moved.into_iter().take(NAMED).filter(|(by, _)| *by != 0.0) {
        let _ = write!(text, "\n    {by:+9.2} {what} {name}");
    }
}
