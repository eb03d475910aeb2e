//! A run's notebook: what it has measured so far, in the file of its report after each block, and what an earlier run of the
//! same command, on the same machine and of the same commit, has left there.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::allocator::Allocator;
use crate::cli::Json;
use crate::machine::Machine;
use crate::output::JsonFile;
use crate::process::Measured;

/// Tells a child that the file is of this run, and not one that is to be replaced.
const GOES_ON: &str = "DELTA_FIFO_PERF_GOES_ON";
/// Tells a child how many seconds it has.
const SECONDS: &str = "DELTA_FIFO_PERF_SECONDS";

pub(crate) struct Notebook<R> {
    file: Option<JsonFile>,
    /// Of other processes, in the file's order, and the place of this one's among them.
    others: Vec<R>,
    place: usize,
    before: Option<R>,
    deadline: Option<Instant>,
    parent: Option<u32>,
}

impl<R: Measured> Notebook<R> {
    /// Nothing was before, nothing is kept.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { file: None, others: Vec::new(), place: 0, before: None, deadline: None, parent: None }
    }

    /// Of a process that measures.
    pub(crate) fn open(json: Option<&Json>) -> Result<Self, String> {
        let path = json.and_then(Json::file);
        let mut others = match path {
            Some(path) if std::env::var_os(GOES_ON).is_some() => read(path)?,
            _ => Vec::new(),
        };
        let own = |report: &R| report.allocator() == Allocator::current();
        let place = others.iter().position(own);
        let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
        Ok(Self {
            before: place.map(|place| others.remove(place)),
            place: place.unwrap_or(others.len()),
            others,
            // A pipe or a device is written to once, at the end.
            file: path.map(JsonFile::open).transpose()?.filter(JsonFile::is_file),
            parent: parent(),
            deadline: seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds)),
        })
    }

    /// What this process's like had found when it was cut off.
    pub(crate) fn take_before(&mut self) -> Option<R> {
        self.before.take()
    }

    /// To be called between two blocks, when nothing is measured.
    pub(crate) fn save(&self, report: &R) {
        if self.parent != parent() && self.parent.is_some() {
            // It was ended: nobody waits for what is found, and somebody else may go on with the file.
            std::process::exit(1);
        }
        let Some(file) = &self.file else { return };
        let mut all: Vec<&R> = self.others.iter().collect();
        all.insert(self.place, report);
        // If it cannot be written, the report that is printed at the end is still one, and says so.
        _ = file.write(&all);
    }

    /// When the next one of so many parts, which may take equally long, has had its time. `None`: never.
    pub(crate) fn end_of_part(&self, parts: usize) -> Option<Instant> {
        let now = Instant::now();
        self.deadline.map(|deadline| now + deadline.saturating_duration_since(now) / parts.max(1) as u32)
    }
}

fn parent() -> Option<u32> {
    #[cfg(unix)]
    return Some(std::os::unix::process::parent_id());
    #[cfg(not(unix))]
    None
}

/// What a child's process is told besides its arguments.
pub(crate) fn tell(child: &mut std::process::Command, goes_on: bool, time: Option<Duration>) {
    child.env_remove(GOES_ON).env_remove(SECONDS);
    if goes_on {
        child.env(GOES_ON, "1");
    }
    if let Some(time) = time {
        child.env(SECONDS, time.as_secs_f64().to_string());
    }
}

/// The reports in this file, if it is there and has any; an error if this run is not one with them.
pub(crate) fn read<R: Measured>(path: &Path) -> Result<Vec<R>, String> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| format!("cannot read {}: {error}", path.display()))?,
    };
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let cannot = |why: &dyn std::fmt::Display| format!("cannot go on with {}: {why}", path.display());
    let reports: Vec<R> = serde_json::from_str(&text).map_err(|error| cannot(&error))?;
    let here = Machine::detect();
    match reports.iter().find_map(|report| difference(report.machine(), &here)) {
        Some(difference) => Err(cannot(&difference)),
        None => Ok(reports),
    }
}

fn difference(there: &Machine, here: &Machine) -> Option<String> {
    let of = |machine: &Machine| {
        let Machine { nproc, cpu, kernel, rustc, commit, arguments } = machine.clone();
        [
            ("processors", nproc.to_string()),
            ("processor", cpu),
            ("kernel", kernel),
            ("compiler", rustc),
            ("commit", commit),
            ("arguments", arguments.join(" ")),
        ]
    };
    let mut both = of(there).into_iter().zip(of(here));
    let ((what, there), (_, here)) = both.find(|(there, here)| there != here)?;
    Some(format!("its {what}: {there}, and here: {here}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let here = Machine::detect();
        assert_eq!(difference(&here, &here), None);
        let there = Machine { commit: "another".into(), ..here.clone() };
        assert!(difference(&there, &here).is_some_and(|text| text.starts_with("its commit: another, ")));
        let there = Machine { arguments: vec!["trial".into(), "W0".into()], ..here.clone() };
        assert!(difference(&there, &here).is_some_and(|text| text.starts_with("its arguments: trial W0, ")));
    }
}
