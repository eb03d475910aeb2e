//! Arguments in, tables or JSON out.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{DeltaFifo, DeltaQueue};
use indicatif::{ProgressBar, ProgressStyle};

use crate::consume::Offered;
use crate::fault::Damage;
use crate::options::{Command, HELP, Options, QueueKind, UsageError};
use crate::replay;
use crate::report::Report;
use crate::table::Table;
use crate::trace::{self, EMBEDDED, Key, Trace};

/// Why there is no result.
enum Failure {
    Usage(UsageError),
    Damage(Damage),
    Output(io::Error),
}

/// What the program says to who started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Matches = 0,
    Differs = 1,
    NoResult = 2,
}

/// The program, apart from the process it runs in.
pub(crate) fn main(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> Status {
    match run(arguments, out, errors) {
        Ok(true) => Status::Matches,
        Ok(false) => Status::Differs,
        Err(failure) => {
            // Nobody is left to tell if this fails.
            let _ = writeln!(errors, "{failure}");
            Status::NoResult
        }
    }
}

/// Whether everything matches.
fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> Result<bool, Failure> {
    let options = match Command::parse(arguments).map_err(Failure::Usage)? {
        Command::Help => return print(out, HELP).map(|()| true),
        Command::Replay(options) => options,
    };
    // All of them first: a damaged one must not be noticed only after results of others.
    let traces = load(&options).map_err(Failure::Damage)?;
    let mut matches = true;
    for (number, trace) in traces.iter().enumerate() {
        let report = match options.queue {
            QueueKind::Sharded => run_all(trace, &options, DeltaFifo::new),
            QueueKind::Mutex => run_all(trace, &options, MutexDeltaFifo::new),
        };
        matches &= report.matches();
        if options.json {
            print(out, &format!("{}\n", report.to_json()))?;
            // The keys of that line are fixed, and none of them has room for a reason.
            for mismatch in report.mismatches() {
                // The exit status tells it too.
                let _ = writeln!(errors, "{}: {mismatch}", trace.name);
            }
        } else {
            print(out, &format!("{}{}", if number > 0 { "\n\n" } else { "" }, Table(&report)))?;
        }
    }
    Ok(matches)
}

fn load(options: &Options) -> Result<Vec<Trace>, Damage> {
    if options.traces.is_empty() {
        EMBEDDED.iter().map(|(file, bytes)| trace::decode(file, *bytes)).collect()
    } else {
        options.traces.iter().map(|path| trace::load(path)).collect()
    }
}

/// All runs of one trace, each through a queue of its own.
fn run_all<'a, Q>(trace: &'a Trace, options: &'a Options, new_queue: impl Fn() -> Q) -> Report<'a>
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let bar = progress_bar(trace);
    let mut report = Report::new(trace, options);
    for run in 1..=options.repeat.get() {
        bar.set_message(format!("{run}/{}", options.repeat));
        bar.set_position(0);
        report.add(replay::run(&new_queue(), trace, options, |deltas| bar.set_position(deltas)));
    }
    bar.finish_and_clear();
    report
}

/// On standard error, and only if that is a terminal.
fn progress_bar(trace: &Trace) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix}  run {msg}  {wide_bar}  {human_pos} of {human_len} changes")
            .expect("the template is one");
    let bar = ProgressBar::new(trace.arrived.changes());
    bar.with_style(style).with_prefix(trace.name.clone())
}

/// Unlike `print!` survives a reader that has gone away.
fn print(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(error) => write!(f, "{error}\nTry --help."),
            Failure::Damage(damage) => damage.fmt(f),
            Failure::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}
