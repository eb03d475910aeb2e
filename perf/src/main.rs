//! The performance laboratory of `delta-fifo`: peers, workloads with their checks, and what may be concluded from them.
//!
//! `cargo run --release -p delta-fifo-perf -- compare`; `--help` lists the options.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "a global allocator is unsafe to implement; nothing else here is")]
mod allocator;
mod cli;
mod compare;
mod machine;
mod peers;
mod report;
mod stats;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match cli::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("{error}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    let result = match &command {
        cli::Command::Compare(options) => compare::run(options),
        cli::Command::Help => {
            print!("{}", cli::HELP);
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}
