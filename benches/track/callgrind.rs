//! Runs this program under callgrind and reads what it has written.
//!
//! What is counted are the instructions of the program itself. Those of the C library are counted apart: what `malloc` takes depends on
//! what was freed before, and `memcpy` is another function on another processor.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::baseline::Count;
use super::operations::{COUNTED_FUNCTION, END_FUNCTION};

/// By which the program knows that it is the one that is counted.
pub(crate) const COUNTED: &str = "--counted";

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the installed one calls itself; `None`: there is none.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The counts of all operations whose names contain the filter, in their order.
pub(crate) fn count(filter: &str) -> Result<Vec<(String, Count)>> {
    let program = std::env::current_exe()?;
    // Beside the program: in the target folder, so that it is there to be looked at.
    let folder = program.with_file_name("track-callgrind");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(format!("--toggle-collect={COUNTED_FUNCTION}"))
        .arg(format!("--dump-before={END_FUNCTION}"))
        .arg(&program)
        .args([COUNTED, filter])
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind: {}\n{said}", output.status).into());
    }
    let said = String::from_utf8(output.stdout)?;
    let counts = said.lines().enumerate().map(|(number, line)| {
        let told: Vec<&str> = line.split(' ').collect();
        let [name, times, allocations] = told[..] else { return Err(format!("{line:?} was said").into()) };
        let (times, allocations): (f64, f64) = (times.parse()?, allocations.parse()?);
        let path = folder.join(format!("out.{}", number + 1));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((name.to_owned(), Costs::read(&text, &program)?.per_operation(times, allocations)))
    });
    counts.collect()
}

/// Of one file of callgrind's.
#[derive(Default)]
struct Costs {
    own: u64,
    outside: u64,
    functions: BTreeMap<String, u64>,
    files: BTreeMap<String, u64>,
}

impl Costs {
    /// Lines are `key=value`, which holds until the next, or a line number with its own cost; but behind `calls=` comes what the
    /// called function cost, which is counted where it stands.
    fn read(text: &str, program: &Path) -> Result<Self> {
        let mut costs = Self::default();
        let (mut object, mut function, mut file) = (PathBuf::new(), String::new(), String::new());
        let mut is_of_a_call = false;
        let mut total = None;
        for line in text.lines() {
            if let Some((position, cost)) = line.split_once(' ') {
                if position.bytes().all(|byte| byte.is_ascii_digit()) && !std::mem::take(&mut is_of_a_call) {
                    costs.add(cost.trim().parse()?, (object == program).then_some((&function, &file)));
                }
                if position == "totals:" {
                    total = Some(cost.trim().parse::<u64>()?);
                }
            }
            match line.split_once('=') {
                Some(("ob", value)) => object = value.into(),
                Some(("fn", value)) => value.clone_into(&mut function),
                Some(("fl" | "fi" | "fe", value)) => file = short(value),
                Some(("calls", _)) => is_of_a_call = true,
                _ => {}
            }
        }
        if total != Some(costs.own + costs.outside) || costs.own == 0 {
            return Err("callgrind's sum is another: its format has changed".into());
        }
        Ok(costs)
    }

    fn add(&mut self, cost: u64, place: Option<(&String, &String)>) {
        let Some((function, file)) = place else {
            self.outside += cost;
            return;
        };
        self.own += cost;
        *self.functions.entry(function.clone()).or_default() += cost;
        *self.files.entry(file.clone()).or_default() += cost;
    }

    fn per_operation(self, times: f64, allocations: f64) -> Count {
        let each = |cost: u64| cost as f64 / times;
        let all = |costs: BTreeMap<String, u64>| costs.into_iter().map(|(name, cost)| (name, each(cost)));
        Count {
            instructions: each(self.own),
            outside: each(self.outside),
            allocations: allocations / times,
            functions: all(self.functions).collect(),
            files: all(self.files).collect(),
        }
    }
}

/// A source file without the folders that are this machine's: `src/fifo/push.rs`, `core/src/ptr/mod.rs`, `ahash-0.8.12/src/lib.rs`.
fn short(path: &str) -> String {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    if let Some(path) = path.strip_prefix(own) {
        return path.to_owned();
    }
    match path.split_once("/library/") {
        Some((compiler, path)) if compiler.starts_with("/rustc/") || compiler.contains("/rustlib/") => {
            return path.to_owned();
        }
        _ => {}
    }
    // REGISTRY/src/INDEX/CRATE/…
    match path.split_once("/registry/src/").and_then(|(_, path)| path.split_once('/')) {
        Some((_, path)) => path.to_owned(),
        None => path.to_owned(),
    }
}
