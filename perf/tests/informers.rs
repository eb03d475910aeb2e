//! `informers` as it is called.

use std::process::Command;

#[test]
fn all_of_it_in_short() {
    let output = Command::new(env!("CARGO_BIN_EXE_delta-fifo-perf"))
        .args(["informers", "--quick", "--blocks", "1", "--allocator", "system", "--json"])
        .output()
        .expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*err), (Some(0), ""), "{out}");
    let reports: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let [timed, counted] = reports.as_array().expect("a list").as_slice() else { panic!("{out}") };
    assert_eq!((&timed["allocator"], &counted["allocator"]), (&"system".into(), &"counting".into()));
    for key in ["workload", "commit", "blocks", "seed", "figures", "void", "valid", "others_percent"] {
        assert!(timed.get(key).is_some(), "{key}");
    }
    let value = |report: &serde_json::Value, workload: &str, peer: &str, measure: &str| {
        let figures = report["figures"].as_array().expect("a list");
        let is = |figure: &&serde_json::Value| {
            figure["workload"] == workload && figure["peer"] == peer && figure["measure"] == measure
        };
        let found = figures.iter().find(is).unwrap_or_else(|| panic!("{workload}, {peer}, {measure}: {out}"));
        found["by_block"][0].as_f64().unwrap_or_else(|| panic!("{found}"))
    };
    for peer in ["sharded", "kube", "kube/alone", "kube/watcher"] {
        assert!(value(timed, "informers events", peer, "events") > 0.0);
    }
    assert_eq!(
        value(timed, "informers events", "sharded", "versions that a handler was told, of those written"),
        100.0
    );
    for peer in ["sharded", "kube"] {
        assert!(value(timed, "informers latency", peer, "p99") > 0.0);
    }
    for peer in ["sharded", "sharded/stream", "kube", "kube/stream"] {
        assert!(value(counted, "informers memory", peer, "known, per object") > 0.0);
    }
    for peer in ["sharded", "sharded/stream"] {
        assert_eq!(value(counted, "informers deletions", peer, "deletions missed"), 0.0);
        assert_eq!(value(counted, "informers deletions", peer, "handlers that got to the end"), 3.0);
    }
    // Its subscribers are told of no deletion; the books would be wrong if it seemed so.
    assert!(value(counted, "informers deletions", "kube", "deletions missed") > 0.0);
}

#[test]
fn what_is_not_there_is_refused() {
    for arguments in [["informers", "nothing"], ["informers", "--known"]] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_delta-fifo-perf")).args(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
