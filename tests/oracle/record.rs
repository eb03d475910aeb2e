//! Reading recorded runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// What recordings are called, sorted.
pub(crate) const NAMES: [&str; 8] = [
    "external-replaced",
    "external-requeue",
    "external-sync",
    "inside-replaced",
    "inside-requeue",
    "inside-sync",
    "none-replaced",
    "workqueue",
];

/// One file.
pub(crate) struct Recording {
    /// Without folder and ending.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) config: String,
    #[serde(default)]
    pub(crate) emit: Option<String>,
    #[serde(default)]
    pub(crate) known: Known,
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) final_known: Known,
}

/// Objects by key, or null where there are no known objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Known {
    Objects(BTreeMap<String, u32>),
    #[default]
    Null,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) op: String,
    pub(crate) k: Option<String>,
    pub(crate) v: Option<u32>,
    pub(crate) list: Option<Vec<(String, u32)>>,
    pub(crate) n: Option<usize>,
    #[serde(default)]
    pub(crate) requeue: bool,
    #[serde(default)]
    pub(crate) expect: Vec<Expect>,
    pub(crate) len: usize,
    pub(crate) synced: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) k: String,
    pub(crate) d: Vec<String>,
    pub(crate) prev: Option<u32>,
    #[serde(default)]
    pub(crate) initial: Option<bool>,
}

/// All recordings of a folder; other files are left alone.
pub(crate) fn load_folder(folder: &Path) -> Result<Vec<Recording>, String> {
    let say = |error| format!("{}: {error}", folder.display());
    let mut recordings = Vec::new();
    for entry in fs::read_dir(folder).map_err(say)? {
        let path = entry.map_err(say)?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            recordings.push(load_file(path)?);
        }
    }
    if recordings.is_empty() {
        return Err(format!("{}: no .jsonl files", folder.display()));
    }
    Ok(recordings)
}

fn load_file(path: PathBuf) -> Result<Recording, String> {
    let shown = path.display();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if !NAMES.contains(&name.as_str()) {
        return Err(format!("{shown}: no recording has this name (they are {})", NAMES.join(", ")));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let mut runs = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line_number = index + 1;
        let run: Run =
            serde_json::from_str(line).map_err(|error| format!("{shown}:{line_number}: {error}"))?;
        if run.config != name {
            return Err(format!("{shown}:{line_number}: a run of {:?}", run.config));
        }
        runs.push(run);
    }
    if runs.is_empty() {
        return Err(format!("{shown}: no runs"));
    }
    Ok(Recording { name, path, runs })
}
