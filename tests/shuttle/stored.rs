//! The schedules of `data/schedules/`: each is followed, with the bug that it is of and without.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Luck, Scenario, number, planted};
use crate::scenarios;
use crate::schedule::Recorded;

/// What is searched where a schedule no longer leads to its bug.
const SEARCHES: u64 = 400;
/// Names the file that `followed_with_its_bug` is to follow.
const FILE: &str = "DELTA_FIFO_SHUTTLE_FILE";

struct Stored {
    path: PathBuf,
    scenario: &'static Scenario,
    /// The planted bug that it shows; none if the bug was real.
    bug: Option<String>,
    luck: Luck,
    recorded: Recorded,
}

impl Stored {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a file");
        let (head, steps) = text.split_once("\n\n").expect("a head, an empty line, the steps");
        let field = |name: &str| {
            head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
        };
        let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let seed = field("seed").and_then(|seed| seed.parse().ok()).expect("a seed");
        Stored {
            scenario: scenarios::of(folder.expect("the folder has the name of its scenario")),
            bug: field("bug"),
            luck: Luck::of(&field("scheduler").expect("a scheduler")),
            recorded: Recorded::of_text(seed, steps),
            path: path.to_owned(),
        }
    }

    fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schedules");
        let files = |folder: &Path| {
            let entries = std::fs::read_dir(folder).expect("a folder");
            let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
            paths.sort();
            paths
        };
        let folders = files(&root).into_iter().filter(|path| path.is_dir());
        folders.flat_map(|folder| files(&folder)).map(|path| Stored::read(&path)).collect()
    }
}

/// Whatever has become of the code, a schedule is a schedule: it must end well.
#[test]
fn stored_schedules_end_well() {
    assert_eq!(planted(), "", "a bug is planted");
    let all = Stored::all();
    for stored in &all {
        let followed = stored.scenario.follow(&stored.recorded);
        assert!(followed.is_ok(), "{} fails again", stored.path.display());
        // The steps of a bug that was real may have moved since: its neighbours are tried as well.
        if stored.bug.is_none() {
            let searched = stored.scenario.search(stored.luck, stored.recorded.seed, SEARCHES as usize / 10);
            assert!(searched.is_ok(), "neighbours of {} fail", stored.path.display());
        }
    }
    assert!(all.len() >= 3, "{} schedules are stored", all.len());
}

/// The bug is planted in a process of its own, which it may take down.
#[test]
fn stored_schedules_find_their_bugs() {
    for stored in Stored::all() {
        let Some(bug) = &stored.bug else { continue };
        let output = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "stored::followed_with_its_bug", "--ignored", "--nocapture"])
            .env("DELTA_FIFO_MUTANT", bug)
            .env(FILE, &stored.path)
            .output()
            .expect("this test runs again");
        let text = String::from_utf8_lossy(&output.stderr);
        let found = text.lines().find(|line| line.starts_with("bug: "));
        // Taken down by a signal, it has no code.
        let aborted = output.status.code().is_none().then_some("bug: found, and the process aborted");
        let found = found.or(aborted);
        println!("{}: {}", stored.path.display(), found.unwrap_or("not found"));
        assert!(
            found.is_some(),
            "with the bug {bug:?}, {} ends well, and so do {SEARCHES} others",
            stored.path.display()
        );
    }
}

#[test]
#[ignore = "`stored_schedules_find_their_bugs` runs it, and it fails"]
fn followed_with_its_bug() {
    let stored = Stored::read(Path::new(&std::env::var(FILE).expect("a file to follow")));
    assert!(stored.scenario.follow(&stored.recorded).is_ok(), "bug: found by the stored schedule");
    let searches = number("DELTA_FIFO_SHUTTLE_ITERATIONS", SEARCHES) as usize;
    if let Err(failure) = stored.scenario.search(stored.luck, 1, searches) {
        let path = stored.scenario.store(stored.luck, &failure.schedule);
        panic!(
            "bug: not found by the stored schedule, but after {} others. Replace it by {}",
            failure.after,
            path.display()
        );
    }
}
