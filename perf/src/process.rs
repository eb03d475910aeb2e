//! A process of its own for each allocator: the program starts itself, the child measures and writes its report as JSON to
//! standard output, the parent prints what was asked for.

use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::allocator::{self, Allocator};
use crate::cli::Json;
use crate::machine::Machine;
use crate::notebook::{self, Notebook};
use crate::output::{self, JsonFile};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What a child tells its parent.
pub(crate) trait Measured: Serialize + DeserializeOwned {
    fn allocator(&self) -> Allocator;
    fn machine(&self) -> &Machine;
    /// No run was void.
    fn valid(&self) -> bool;
    fn table(&self) -> String;
    /// What follows from all of them together.
    fn conclusion(reports: &[Self]) -> String;
}

pub(crate) fn run<R: Measured>(
    allocators: &[Allocator],
    json: Option<&Json>,
    budget: Option<Duration>,
    measure: impl FnOnce(Notebook<R>) -> R,
) -> Result<ExitCode> {
    if is_child() {
        serde_json::to_writer(io::stdout().lock(), &measure(Notebook::open(json)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    // What cannot be gone on with, or written to, should be known before an hour of measuring, not after.
    let mut reports: Vec<R> = match json {
        Some(Json::Resume(path)) => notebook::read(path)?,
        _ => Vec::new(),
    };
    let file = json.and_then(Json::file).map(JsonFile::open).transpose()?;
    let mut goes_on = matches!(json, Some(Json::Resume(_)));
    let began = Instant::now();
    for (number, &allocator) in allocators.iter().enumerate() {
        // What one process leaves of its time the next ones have.
        let left = (allocators.len() - number) as u32;
        let time = budget.map(|budget| budget.saturating_sub(began.elapsed()) / left);
        let report: R = child(allocator, goes_on, time)?;
        match reports.iter_mut().find(|before| before.allocator() == allocator) {
            Some(before) => *before = report,
            None => reports.push(report),
        }
        // The next one finds what is there now.
        if let Some(file) = file.as_ref().filter(|file| file.is_file()) {
            file.write(&reports.iter().collect::<Vec<_>>())?;
            goes_on = true;
        }
    }
    let written = file.map_or(Ok(()), |file| file.write(&reports.iter().collect::<Vec<_>>()));
    let printed = print(&reports, matches!(json, Some(Json::Instead)));
    written?;
    printed?;
    // A void run is an error of the queue or of the harness, never a matter of noise. A missed bar may be one.
    Ok(if reports.iter().all(R::valid) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same program with the same arguments in place of this process, served by this allocator: returns in that one.
pub(crate) fn served_by(allocator: Allocator) -> io::Result<()> {
    if is_child() {
        return Ok(());
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(allocator::VARIABLE, allocator.name());
    #[cfg(unix)]
    return Err(std::os::unix::process::CommandExt::exec(&mut command));
    #[cfg(not(unix))]
    std::process::exit(command.status()?.code().unwrap_or(1))
}

fn is_child() -> bool {
    std::env::var_os(allocator::VARIABLE).is_some()
}

/// The same program with the same arguments, served by this allocator.
fn child<R: Measured>(allocator: Allocator, goes_on: bool, time: Option<Duration>) -> Result<R> {
    let mut command = Command::new(std::env::current_exe()?);
    notebook::tell(&mut command, goes_on, time);
    let output = command
        .args(std::env::args_os().skip(1))
        .env(allocator::VARIABLE, allocator.name())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the measuring process ended with {}", output.status).into());
    }
    let report: R = serde_json::from_slice(&output.stdout)?;
    if report.allocator() != allocator {
        return Err(format!("measured with {} instead of {allocator}", report.allocator()).into());
    }
    Ok(report)
}

fn print<R: Measured>(reports: &[R], as_json: bool) -> Result<()> {
    let text = if as_json {
        output::json(reports)?
    } else {
        let tables: String = reports.iter().map(|report| report.table() + "\n").collect();
        tables + &R::conclusion(reports)
    };
    Ok(output::say(&text)?)
}
