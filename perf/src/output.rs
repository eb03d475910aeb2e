//! Where results go: standard output, and the file of `--json FILE`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// To standard output. A reader who has gone (`| head`) has seen enough; that is no error.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

pub(crate) fn json(reports: &[impl Serialize]) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(reports)? + "\n")
}

/// Opened before anything is measured, written to when all is. What is in it stays until then.
pub(crate) struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let path = path.to_owned();
        match OpenOptions::new().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    pub(crate) fn write(mut self, reports: &[impl Serialize]) -> Result<(), String> {
        self.replace(reports).map_err(|error| failed(&self.path, &error))
    }

    fn replace(&mut self, reports: &[impl Serialize]) -> io::Result<()> {
        let text = json(reports)?;
        // A pipe or a device has no length to set.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
