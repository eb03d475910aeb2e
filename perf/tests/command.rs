//! The program as it is called: what it prints where, and its exit status.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

/// One short case.
const SHORT: &str =
    "compare --blocks 1 --changes 100 --known 100 --threads 1x1 --batch 1 --peers B1 --allocator system";

fn perf(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delta-fifo-perf"));
    command.args(arguments.split_whitespace());
    command
}

fn run(arguments: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = perf(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn too_few_changes_are_refused() {
    let (status, out, err) = run("compare --quick --changes 1");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("--changes 1 is too few for 2 producers"), "{err}");
}

#[test]
fn a_file_that_cannot_be_made_is_refused_before_anything_runs() {
    // As many blocks as this would take days.
    let (status, out, err) = run("compare --blocks 100000 --json /nonexistent/x.json");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("cannot write /nonexistent/x.json: "), "{err}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_costs_no_figures() {
    let (status, out, err) = run(&format!("{SHORT} --json /dev/full"));
    assert_eq!(status, Some(2));
    assert!(out.contains("ns per change"), "{out}");
    assert!(err.contains("cannot write /dev/full: "), "{err}");
}

#[test]
fn a_report_replaces_an_older_and_longer_one() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report.json");
    fs::write(&path, "old ".repeat(100_000)).unwrap();
    let (status, out, err) = run(&format!("{SHORT} --json {}", path.display()));
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("ns per change"), "{out}");
    let reports: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(reports[0]["cases"][0]["changes"], 100);
}

#[test]
fn a_reader_who_has_gone_is_no_error() {
    for arguments in ["--help", SHORT] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = perf(arguments).stdout(writer).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*err), (Some(0), ""), "{arguments}");
    }
}
