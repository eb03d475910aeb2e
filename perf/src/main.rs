//! The performance laboratory of `delta-fifo`: what may be concluded from the workloads of `src/lib.rs`.
//!
//! `cargo run --release -p delta-fifo-perf -- compare`; `--help` lists the options.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "a global allocator is unsafe to implement; nothing else here is")]
mod allocator;
mod bars;
mod cli;
mod compare;
mod figures;
#[cfg(feature = "kube")]
mod informers;
mod machine;
mod memory;
mod notebook;
mod output;
mod outside;
mod page;
mod process;
mod report;
mod snapshots;
mod soak;
mod stats;
mod tails;
mod trials;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match cli::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            return refuse(&format!("{error}\n\n{}", cli::HELP));
        }
    };
    let result = match &command {
        cli::Command::Report(options) => page::run(options),
        cli::Command::Compare(options) => compare::run(options),
        cli::Command::Tails(options) => tails::run(options),
        cli::Command::Memory(options) => memory::run(options),
        cli::Command::Snapshots(options) => snapshots::run(options),
        cli::Command::Soak(options) => soak::run(options),
        cli::Command::Trial(options) => trials::run(options),
        cli::Command::ClientGo(options) => trials::client_go::run(options),
        cli::Command::Help => output::say(cli::HELP).map(|()| ExitCode::SUCCESS).map_err(Into::into),
    };
    result.unwrap_or_else(|error| refuse(&error.to_string()))
}

fn refuse(message: &str) -> ExitCode {
    // Unlike `eprintln!` no panic if nobody listens: the status says it too.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(2)
}
