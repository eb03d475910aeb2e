//! Where results go: standard output, and the file of `--json FILE`.

use std::fs::{self, File, OpenOptions};
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

/// Opened before anything is measured; what is in it stays until something is. A file is replaced as a whole, so whoever reads
/// it, or goes on with it after a crash, finds one report or the other.
pub(crate) struct JsonFile {
    path: PathBuf,
    /// What is no file, but a pipe or a device.
    device: Option<File>,
}

impl JsonFile {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let path = path.to_owned();
        Self::try_open(&path).map_err(|error| failed(&path, &error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        if !file.metadata()?.is_file() {
            return Ok(Self { path: path.into(), device: Some(file) });
        }
        // Where a link leads, the new one is to stand.
        let this = Self { path: path.canonicalize()?, device: None };
        File::create(this.beside())?;
        fs::remove_file(this.beside())?;
        Ok(this)
    }

    pub(crate) fn is_file(&self) -> bool {
        self.device.is_none()
    }

    pub(crate) fn write(&self, reports: &[impl Serialize]) -> Result<(), String> {
        self.replace(reports).map_err(|error| failed(&self.path, &error))
    }

    fn replace(&self, reports: &[impl Serialize]) -> io::Result<()> {
        let text = json(reports)?;
        match &self.device {
            Some(device) => (&*device).write_all(text.as_bytes()),
            None => {
                fs::write(self.beside(), text)?;
                fs::rename(self.beside(), &self.path)
            }
        }
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".part");
        name.into()
    }
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
