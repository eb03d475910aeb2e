//! A controller's main loop on the recorded traffic of a real Kubernetes API server.
//!
//! ```text
//!  trace ─▶ Reflector ─▶ queue ─▶ N consumers ─▶ index
//!           list → replace          lease → index → done
//!           event → apply, delete
//!           resource version → mark
//! ```
//!
//! `cargo run --release --example controller -- --help` says what can be set.
//!
//! `cli` wires it up. In the order in which the data flows: `wire` reads a line of `json`, `rules` says what may follow what,
//! `trace` is the result; `replay` runs it through the queue, `consume` processes what comes out, for the `index`;
//! `ledger` checks the order meanwhile, `verdict` compares the end with what the server had; `report` puts all runs
//! together, for JSON or the `table`. Their unit tests run with `tests/traces.rs`.

mod cli;
mod consume;
mod fault;
mod index;
mod json;
mod ledger;
mod options;
mod replay;
mod report;
mod rules;
mod table;
mod trace;
mod verdict;
mod wire;

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let status = cli::main(std::env::args_os().skip(1), &mut io::stdout().lock(), &mut io::stderr());
    ExitCode::from(status as u8)
}
