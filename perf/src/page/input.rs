//! What is read: any array of reports that have a heading and figures, whichever command has written it.

use std::fs;
use std::ops::Deref;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bars::PEER;
use crate::figures::Figure;
use crate::machine::{Disturbance, Machine};
use crate::stats::Estimate;

/// One process: one command with one allocator.
#[derive(Debug)]
pub(crate) struct Run {
    /// What tells it from the others that have measured the same: the allocator, and the file where that is not enough.
    pub(crate) label: String,
    file: String,
    pub(crate) workload: String,
    pub(crate) allocator: String,
    pub(crate) machine: Machine,
    pub(crate) disturbance: Disturbance,
    pub(crate) blocks: usize,
    /// No run of a peer was void.
    pub(crate) valid: bool,
    /// It was not cut off.
    pub(crate) finished: bool,
    pub(crate) figures: Vec<Measured>,
}

/// A figure with what its blocks say together, which is worth finding out once.
/// Into what the subject may be divided.
pub(crate) const PARTS: [&str; 2] = ["shards", "lines"];

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) figure: Figure,
    /// `None`: every block is void.
    pub(crate) estimate: Option<Estimate>,
}

impl Measured {
    fn of(mut figure: Figure) -> Self {
        // `sharded/16` is the subject with so many shards, `sharded in 4` in so many lines: neither is a rival of it.
        for (parts, mark) in PARTS.into_iter().zip(["/", " in "]) {
            let number = figure.peer.strip_prefix(PEER).and_then(|rest| rest.strip_prefix(mark));
            if let Some(number) = number.map(str::to_owned) {
                figure.case.insert(parts.into(), number);
                figure.peer = PEER.into();
            }
        }
        let sound: Vec<f64> = figure.by_block.iter().copied().flatten().collect();
        Self { estimate: Estimate::of(&sound), figure }
    }
}

impl Deref for Measured {
    type Target = Figure;

    fn deref(&self) -> &Figure {
        &self.figure
    }
}

impl Run {
    /// What is counted and not timed needs no second block.
    pub(crate) fn is_counted(&self) -> bool {
        self.allocator == "counting"
    }

    fn of(report: &Map<String, Value>, file: &str) -> Result<Self, String> {
        let allocator: String = field(report, "allocator")?;
        Ok(Self {
            label: allocator.clone(),
            file: file.into(),
            workload: field(report, "workload")?,
            allocator,
            machine: Machine {
                nproc: field(report, "nproc")?,
                cpu: field(report, "cpu")?,
                kernel: field(report, "kernel")?,
                rustc: field(report, "rustc")?,
                commit: field(report, "commit")?,
                arguments: optional(report, "arguments")?.unwrap_or_default(),
            },
            disturbance: Disturbance {
                load_before: field(report, "load_before")?,
                load_after: field(report, "load_after")?,
                steal_percent: field(report, "steal_percent")?,
                others_percent: field(report, "others_percent")?,
            },
            blocks: field(report, "blocks")?,
            valid: field(report, "valid")?,
            finished: optional(report, "finished")?.unwrap_or(true),
            figures: field::<Vec<Figure>>(report, "figures")?.into_iter().map(Measured::of).collect(),
        })
    }
}

/// A field that may be null must be there all the same: a file of another form should not pass for a machine that tells nothing.
fn field<T: DeserializeOwned>(report: &Map<String, Value>, name: &str) -> Result<T, String> {
    let value = report.get(name).ok_or(format!("has no field `{name}`"))?;
    T::deserialize(value).map_err(|error| format!("field `{name}`: {error}"))
}

/// One that not every command writes, nor did every version.
fn optional<T: DeserializeOwned>(report: &Map<String, Value>, name: &str) -> Result<Option<T>, String> {
    if report.contains_key(name) { field(report, name).map(Some) } else { Ok(None) }
}

/// All runs of all files, in their order.
pub(crate) fn read(files: &[impl AsRef<Path>]) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for file in files {
        let file = file.as_ref();
        let text =
            fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        runs.extend(parse(&text, &stem).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    tell_apart(&mut runs);
    Ok(runs)
}

fn parse(text: &str, file: &str) -> Result<Vec<Run>, String> {
    let reports: Vec<Map<String, Value>> =
        serde_json::from_str(text).map_err(|error| format!("not an array of reports: {error}"))?;
    let runs = reports.iter().enumerate();
    runs.map(|(number, report)| {
        Run::of(report, file).map_err(|error| format!("report {}: {error}", number + 1))
    })
    .collect()
}

/// A label is the allocator's name, unless another run has measured the same with it.
fn tell_apart(runs: &mut [Run]) {
    let twins = |a: &Run, b: &Run| {
        let same = |a: &Figure, b: &Figure| (&a.workload, &a.measure) == (&b.workload, &b.measure);
        a.allocator == b.allocator
            && a.figures.iter().any(|own| b.figures.iter().any(|other| same(own, other)))
    };
    let labels: Vec<String> = (0..runs.len())
        .map(|number| {
            let own = &runs[number];
            let alike: Vec<usize> =
                (0..runs.len()).filter(|&other| other == number || twins(own, &runs[other])).collect();
            let files = alike.iter().filter(|&&other| runs[other].file == own.file);
            let place = files.clone().position(|&other| other == number).unwrap_or(0);
            match (alike.len(), files.count()) {
                (1, _) => own.allocator.clone(),
                (_, 1) => format!("{}, {}", own.allocator, own.file),
                _ => format!("{}, {} ({})", own.allocator, own.file, place + 1),
            }
        })
        .collect();
    for (run, label) in runs.iter_mut().zip(labels) {
        run.label = label;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn report(allocator: &str, blocks: usize, figures: &str) -> String {
        format!(
            r#"{{"workload": "W", "allocator": "{allocator}", "nproc": 2, "cpu": "c", "kernel": "k", "rustc": "r",
                "commit": "abc", "load_before": null, "load_after": 1.0, "steal_percent": 0.0, "others_percent": 0.0,
                "blocks": {blocks}, "valid": true, "more": [], "figures": [{figures}]}}"#
        )
    }

    pub(crate) fn figure(case: &str, peer: &str, measure: &str, by_block: &str) -> String {
        format!(
            r#"{{"workload": "W1", "case": {case}, "peer": "{peer}", "measure": "{measure}", "unit": "ns",
                "better": "Lower", "by_block": {by_block}}}"#
        )
    }

    pub(crate) fn runs(reports: &[String]) -> Vec<Run> {
        let mut runs = parse(&format!("[{}]", reports.join(",")), "file").unwrap();
        tell_apart(&mut runs);
        runs
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let good = report("system", 2, &figure("{}", "B1", "time", "[1.0, null]"));
        assert_eq!(runs(std::slice::from_ref(&good))[0].figures[0].by_block, [Some(1.0), None]);
        for (from, to, message) in [
            (r#""steal_percent": 0.0, "#, "", "report 2: has no field `steal_percent`"),
            (r#""nproc": 2"#, r#""nproc": "two""#, "report 2: field `nproc`: invalid type"),
            (r#""peer": "B1", "#, "", "report 2: field `figures`: missing field `peer`"),
        ] {
            let bad = good.replace(from, to);
            let error = parse(&format!("[{good}, {bad}]"), "file").unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(parse(&good, "file").unwrap_err().starts_with("not an array of reports"));
        let error = read(&["/nonexistent/run.json"]).unwrap_err();
        assert!(error.starts_with("cannot read /nonexistent/run.json: "), "{error}");
    }

    #[test]
    fn runs_that_measure_the_same_are_told_apart() {
        let time = figure("{}", "B1", "time", "[1.0]");
        let bytes = figure("{}", "B1", "bytes", "[1.0]");
        let runs = runs(&[
            report("system", 1, &time),
            report("mimalloc", 1, &time),
            report("mimalloc", 1, &time),
            report("system", 1, &bytes),
        ]);
        let labels: Vec<&str> = runs.iter().map(|run| &*run.label).collect();
        assert_eq!(labels, ["system", "mimalloc, file (1)", "mimalloc, file (2)", "system"]);
    }
}
