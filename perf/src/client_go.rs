//! client-go's own queue and store, where Go is installed: a program in Go (`perf/go`) that is built and run from here.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) const ID: &str = "client-go";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

pub(crate) struct ClientGo {
    program: PathBuf,
}

/// What both workloads say besides their figures.
#[derive(Deserialize)]
pub(crate) struct Figures<T> {
    #[serde(flatten)]
    pub(crate) figures: T,
    pub(crate) go: String,
    pub(crate) violations: Vec<String>,
}

impl ClientGo {
    /// Or why it is left out.
    pub(crate) fn build(is_wanted: bool) -> Result<Self, String> {
        if !is_wanted {
            return Err("--quick does not build it".into());
        }
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = own.with_file_name("delta-fifo-perf-client-go");
        let mut go = Command::new("go");
        output(go.current_dir(SOURCES).args(["build", "-o"]).arg(&program).arg("."))?;
        Ok(Self { program })
    }

    pub(crate) fn run<T: DeserializeOwned>(&self, arguments: &[String]) -> Result<Figures<T>, String> {
        let output = output(Command::new(&self.program).args(arguments))?;
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }
}

/// If it succeeds. Otherwise the last that it has to say.
fn output(command: &mut Command) -> Result<Output, String> {
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err("Go is not installed".into()),
        result => result.map_err(|error| error.to_string())?,
    };
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("nothing said").trim();
    Err(format!("{} {}: {last}", command.get_program().display(), output.status))
}

/// The line that stands in the place of its figures.
pub(crate) fn left_out(why: &str) -> String {
    format!("client-go is left out: {why}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out() {
        let missing = output(&mut Command::new("delta-fifo-perf-no-such-program"));
        assert_eq!(missing.err().as_deref(), Some("Go is not installed"));
        let failed = output(Command::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"]));
        assert!(failed.err().is_some_and(|why| why.contains('3') && why.ends_with("last")));
    }

    #[test]
    fn figures_stand_beside_what_was_wrong() {
        #[derive(Deserialize)]
        struct Hits {
            hit: f64,
        }
        let json = r#"{"hit": 1.5, "go": "go1.26", "violations": ["one"]}"#;
        let Figures { figures, go, violations }: Figures<Hits> = serde_json::from_str(json).unwrap();
        assert_eq!((figures.hit, &*go, violations.len()), (1.5, "go1.26", 1));
    }
}
