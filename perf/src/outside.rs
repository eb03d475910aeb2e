//! Programs of their own that measure what this one cannot have inside, built and run from here: client-go's queue and store
//! (`perf/client_go`), where Go is installed, and kube-runtime's store (`perf/kube`), whose crates take long to build.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use delta_fifo_perf::workload::description::Description;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) const CLIENT_GO: &str = "client-go";
pub(crate) const KUBE: &str = "kube";

pub(crate) struct Outside {
    pub(crate) id: &'static str,
    program: PathBuf,
}

/// What a program says besides its figures.
#[derive(Deserialize)]
pub(crate) struct Figures<T> {
    #[serde(flatten)]
    pub(crate) figures: T,
    /// Of what it has measured.
    pub(crate) version: String,
    pub(crate) violations: Vec<String>,
}

impl Outside {
    /// Or the line that stands in the place of its figures.
    pub(crate) fn client_go(is_wanted: bool) -> Result<Self, String> {
        Self::new(CLIENT_GO, is_wanted, "--quick does not build it, --client-go does", |beside| {
            let program = beside.join("delta-fifo-perf-client-go");
            let mut go = Command::new("go");
            output(go.current_dir(sources("client_go")).args(["build", "-o"]).arg(&program).arg("."), "")?;
            Ok(program)
        })
    }

    /// The same.
    pub(crate) fn kube(is_wanted: bool) -> Result<Self, String> {
        Self::new(KUBE, is_wanted, "--kube builds it", |beside| {
            let target = beside.join("kube");
            let mut cargo = Command::new("cargo");
            // Optimized if this program is.
            let (profile, folder) =
                if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
            cargo.current_dir(sources("kube")).args(["build", "--locked", "--profile", profile]);
            output(cargo.arg("--target-dir").arg(&target), "")?;
            Ok(target.join(folder).join("delta-fifo-perf-kube"))
        })
    }

    /// Built beside this program.
    fn new(
        id: &'static str,
        is_wanted: bool,
        otherwise: &str,
        build: impl FnOnce(&Path) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let built = || {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            build(own.parent().unwrap_or(Path::new(".")))
        };
        match if is_wanted { built() } else { Err(otherwise.into()) } {
            Ok(program) => Ok(Self { id, program }),
            Err(why) => Err(format!("{id} is left out: {why}.")),
        }
    }

    /// `what` it has to measure, by what it calls it.
    pub(crate) fn run<T: DeserializeOwned>(
        &self,
        what: &str,
        description: &Description,
    ) -> Result<Figures<T>, String> {
        let description = serde_json::to_string(description).map_err(|error| error.to_string())?;
        let output = output(Command::new(&self.program).arg(what), &description)?;
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }
}

fn sources(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

/// If it succeeds. Otherwise the last that it has to say.
fn output(command: &mut Command, input: &str) -> Result<Output, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("{} is not installed", command.get_program().display()));
        }
        result => result.map_err(|error| error.to_string())?,
    };
    // A few hundred bytes, which fit into any pipe. Who does not read them says why by the way in which it ends.
    let _ = child.stdin.take().expect("it was asked for").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("nothing said").trim();
    Err(format!("{} {}: {last}", command.get_program().display(), output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out() {
        let missing = output(&mut Command::new("delta-fifo-perf-no-such-program"), "");
        assert_eq!(missing.err().as_deref(), Some("delta-fifo-perf-no-such-program is not installed"));
        let failed = output(Command::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"]), "");
        assert!(failed.err().is_some_and(|why| why.contains('3') && why.ends_with("last")));
    }

    #[test]
    fn a_program_is_told_what_to_do() {
        let said = output(&mut Command::new("cat"), "so much").expect("it is everywhere");
        assert_eq!(said.stdout, b"so much");
    }

    #[test]
    fn what_is_not_wanted_is_not_built() {
        assert!(Outside::client_go(false).is_err_and(|why| why.starts_with("client-go is left out: ")));
        assert!(Outside::kube(false).is_err_and(|why| why.starts_with("kube is left out: ")));
    }

    #[test]
    fn figures_stand_beside_what_was_wrong() {
        #[derive(Deserialize)]
        struct Hits {
            hit: f64,
        }
        let json = r#"{"hit": 1.5, "version": "go1.26", "violations": ["one"]}"#;
        let Figures { figures, version, violations }: Figures<Hits> = serde_json::from_str(json).unwrap();
        assert_eq!((figures.hit, &*version, violations.len()), (1.5, "go1.26", 1));
    }
}
