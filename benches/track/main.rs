//! How many instructions each operation takes, as callgrind counts them, beside a stored baseline: a change that makes one dearer shows, on
//! any machine and however busy it is.
//!
//! `cargo bench --bench track` compares, and says what has moved by more than 1 % and where; more than 10 % dearer fails. `-- requeue` takes
//! those whose names contain that, `-- --save` rewrites the baseline (`benches/track/baseline.jsonl`). Both need valgrind. A baseline of
//! another compiler is compared with, but fails nothing: another compiler makes other code. `-- --test` runs all operations once, with
//! their checks, without counting.
//!
//! Instructions are not time: misses, contention and locked instructions are what takes most of it. What may be said about speed comes
//! from `perf/`. What callgrind wrote last is in the target folder, `release/deps/track-callgrind`, for `callgrind_annotate` and such.
//!
//! An own driver, not a library such as gungraun: that keeps its baselines in the target folder and needs a runner of exactly its
//! version installed.

mod allocations;
mod baseline;
mod callgrind;
mod operations;

use std::process::ExitCode;

use baseline::{Baseline, Comparison, Origin, Verdict};
use callgrind::{COUNTED, Result};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).map_or("", String::as_str);
    if has(COUNTED) || has("--test") || !has("--bench") {
        run(filter);
        return ExitCode::SUCCESS;
    }
    count(filter, has("--save")).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn run(filter: &str) {
    for operation in operations::all().iter().filter(|operation| operation.name.contains(filter)) {
        let counted = operation.run();
        println!("{} {} {}", operation.name, counted.times, counted.allocations);
    }
}

fn count(filter: &str, save: bool) -> Result<ExitCode> {
    let Some(valgrind) = callgrind::version() else {
        println!("valgrind is not installed: nothing is counted");
        return Ok(ExitCode::SUCCESS);
    };
    let origin = Origin::here(valgrind);
    if save && !filter.is_empty() {
        return Err("a baseline is saved as a whole".into());
    }
    let counts = callgrind::count(filter)?;
    if save {
        Baseline::save(origin.clone(), counts.clone())?;
    }
    let baseline = Baseline::load()?;
    let comparison = Comparison::new(&baseline, &counts, filter.is_empty());
    print!("{}", comparison.table);
    if baseline.origin.compiler != origin.compiler {
        println!(
            "The baseline is of {}, this of {}: nothing fails.",
            baseline.origin.compiler, origin.compiler
        );
        return Ok(ExitCode::SUCCESS);
    }
    Ok(match comparison.worst {
        Verdict::Failed => {
            println!("Too much. If it is meant: cargo bench --bench track -- --save");
            ExitCode::FAILURE
        }
        Verdict::Same | Verdict::Told => ExitCode::SUCCESS,
    })
}
