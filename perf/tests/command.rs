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

#[test]
fn trials_are_printed_with_their_bars() {
    let (status, out, err) = run("trial w2,w4 --quick --blocks 1 --peers sharded,B1");
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    for text in ["producers 2 · compression default · 1 block", "bare atomic: 1", "claim nothing", "counting"]
    {
        assert!(out.contains(text), "{text}: {out}");
    }
    let bar = out.lines().find(|line| line.starts_with("9 ")).expect("a bar");
    assert!(bar.ends_with("met") || bar.ends_with("MISSED"), "{bar}");
    let (status, json, _) =
        run("trial W3 --quick --blocks 1 --peers sharded --allocator mimalloc --seed 7 --json");
    assert_eq!(status, Some(0), "{json}");
    let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (timed, counted) = (&reports[0], &reports[1]);
    assert_eq!((&timed["allocator"], &counted["allocator"]), (&"mimalloc".into(), &"counting".into()));
    for key in ["workload", "commit", "blocks", "seed", "figures", "void", "valid", "others_percent"] {
        assert!(timed.get(key).is_some(), "{key}");
    }
    let figure = &timed["figures"][1];
    assert_eq!((&figure["peer"], &figure["measure"]), (&"sharded".into(), &"time per change".into()));
    assert_eq!(figure["case"]["living keys"], "1000");
    assert!(figure["by_block"][0].as_f64().unwrap() > 0.0);
    assert!(counted["figures"][0]["unit"] == "calls", "{counted}");
}

#[test]
fn slow_idle_and_stopped_consumers_are_trials_too() {
    let (status, out, err) =
        run("trial W1c,W7,W8,W10 --quick --blocks 1 --peers sharded,B4 --allocator system");
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    for text in
        ["changes in a lease", "no queue: 1", "park/unpark: 1", "sleeps per thousand changes", "worst stop"]
    {
        assert!(out.contains(text), "{text}: {out}");
    }
    for bar in ["7 ", "8 ", "12 ", "13 "] {
        let found = out.lines().any(|line| line.starts_with(bar) && !line.ends_with("not measured"));
        assert!(found || (bar == "13 " && cfg!(not(target_os = "linux"))), "{bar}: {out}");
    }
}

#[test]
fn tails_are_printed_with_their_bars() {
    for (command, bar) in [
        (
            "latency --quick --seconds 0.02 --rate 5000 --peers sharded,B1,B0p",
            "p99.9 above an empty operation's",
        ),
        ("growth --quick --keys 500 --peers sharded,B1", "p99.99, µs: at most 1000"),
    ] {
        let (status, out, err) = run(command);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.contains("p99.99") && out.contains("nothing") && out.contains(bar), "{out}");
        let (json_status, json, _) = run(&format!("{command} --allocator system --json"));
        let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((json_status, reports[0]["bars"][0]["peer"].as_str()), (Some(0), Some("sharded")));
    }
}

#[test]
fn memory_is_counted_and_set_against_its_bars() {
    let (status, out, err) = run("memory --quick --peers sharded,B1");
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    for part in
        ["Left out: key text", "bytes per known key", "\nB1 ", "at most   128", "client-go is left out"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (status, json, _) = run("memory --quick --peers B1 --json");
    let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
    let row = &reports[0]["rows"][0];
    assert_eq!((status, reports[0]["allocator"].as_str()), (Some(0), Some("counting")));
    // The object's `Arc` is a call of its own; an entry is larger than its two handles.
    assert!(row["calls_per_change"].as_f64().unwrap() >= 1.0, "{row}");
    assert!(row["known"]["least"].as_f64().unwrap() > 24.0, "{row}");
}

#[test]
fn snapshots_are_set_against_maps_and_bars() {
    let command = "snapshots --quick --seconds 0.003 --blocks 1 --keys 50,500";
    let (status, out, err) = run(command);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    for part in
        ["write, 8 readers", "arcswap", "plain", "≤ 1000", "times imbl", "client-go is left out", "empty pop"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (status, json, _) = run(&format!("{command} --allocator system --stores sharded --json"));
    let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, reports[0]["rows"][0]["what"].as_str()), (Some(0), Some("snapshot()")));
    let drops = &reports[0]["sweeps"]["rows"][0];
    assert_eq!((drops["call"].as_str(), drops["calls"].as_u64()), (Some("drop"), Some(5)));
}

#[test]
fn without_go_the_others_run_and_a_line_says_so() {
    let mut command = perf("client-go --quick --blocks 1 --known 200 --allocator system");
    let Output { status, stdout, stderr } = command.env("PATH", "/nonexistent").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!((status.code(), &*err), (Some(0), ""), "{out}");
    for part in
        ["\nclient-go is left out: go is not installed.\n", "sharded", "p99 of a call", "not measured"]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("VOID"), "{out}");
}

#[test]
fn the_bars_follow_the_tables() {
    let (status, out, err) = run(&format!("{SHORT} --peers B1,sharded"));
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("Bars for sharded") && out.contains("not measured"), "{out}");
}

#[test]
fn a_soak_ends_with_a_line_of_json() {
    let (status, out, err) = run("soak --seconds 3 --every 1 --seed 7");
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(report["failed"].is_null(), "{report}");
    for what in ["configurations", "beats", "changes", "leases"] {
        assert!(report[what].as_u64().unwrap() > 0, "{what}: {report}");
    }
    assert_eq!(run("soak --seconds 0").0, Some(2));
}

/// A file of this test, which is not there yet.
fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_file(&path);
    path
}

fn reports(path: &PathBuf) -> Option<Vec<serde_json::Value>> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// All values of all figures of the first report, as text.
fn values(path: &PathBuf) -> Vec<Vec<serde_json::Value>> {
    let reports = reports(path).expect("a report");
    let figures = reports[0]["figures"].as_array().expect("figures").iter();
    figures.map(|figure| figure["by_block"].as_array().expect("blocks").clone()).collect()
}

#[test]
fn a_run_goes_on_where_it_was_cut_off() {
    let short = "--blocks 1 --changes 100 --known 100 --threads 1x1 --peers B1,F0 --allocator system";
    for (name, command) in [
        ("compare", format!("compare {short}")),
        ("trial", "trial W2,W3 --quick --blocks 1 --peers B1 --allocator system".to_owned()),
    ] {
        let path = fresh(&format!("resumed-{name}.json"));
        // There is nothing yet.
        let (status, out, err) = run(&format!("{command} --resume {}", path.display()));
        assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
        let before = values(&path);
        let more = command.replace("--blocks 1", "--blocks 3");
        let (status, out, err) = run(&format!("{more} --resume {}", path.display()));
        assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
        let after = values(&path);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            // Of W3's long run there is one block, whatever is asked for.
            assert!([1, 3].contains(&after.len()) && before[..] == after[..1], "{before:?} {after:?}");
        }
        assert!(after.iter().any(|blocks| blocks.len() == 3), "{after:?}");
        assert_eq!(reports(&path).unwrap()[0]["finished"], true);
        // Another seed is another run, and what there is stays.
        let (status, out, err) = run(&format!("{command} --seed 2 --resume {}", path.display()));
        assert_eq!((status, out.as_str()), (Some(2), ""));
        assert!(err.starts_with("cannot go on with ") && err.contains("its arguments: "), "{err}");
        assert_eq!(values(&path), after);
    }
}

#[test]
fn time_that_is_up_ends_a_run_after_a_block() {
    let path = fresh("budget.json");
    let command = "compare --blocks 1000000 --changes 1000 --known 100,200 --threads 1x1 --peers B1";
    let (status, out, err) = run(&format!("{command} --batch 1 --time-budget 0.5 --json {}", path.display()));
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("Not all blocks are done"), "{out}");
    let reports = reports(&path).expect("reports");
    assert_eq!(reports.len(), 2, "one for each allocator");
    for report in reports {
        assert_eq!((report["cases"].as_array().map(Vec::len), &report["finished"]), (Some(2), &false.into()));
        assert!((1..1_000_000).contains(&report["blocks"].as_u64().unwrap()), "{report}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_run_had_when_it_was_ended_is_in_its_file() {
    let path = fresh("ended.json");
    let command = "compare --blocks 1000000 --changes 1000 --known 100 --threads 1x1 --peers B1,sharded";
    let command = format!("{command} --batch 1 --allocator system --json {}", path.display());
    let mut child = perf(&command).stdout(std::process::Stdio::null()).spawn().expect("it starts");
    let blocks = || reports(&path).and_then(|reports| reports.first()?["blocks"].as_u64()).unwrap_or(0);
    while blocks() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let all = values(&path);
    assert!(all.len() == 2 && all.iter().all(|blocks| blocks.len() >= 3 && blocks.len() == all[0].len()));
    assert_eq!(reports(&path).unwrap()[0]["finished"], false);
    let (status, page, err) = run(&format!("report {}", path.display()));
    assert_eq!(status, Some(0), "{err}");
    assert!(page.contains("Cut off before all blocks were done"), "{page}");
}
