//! The controller example on every trace of this repository, through every kind of queue. The unit tests of the
//! example's own modules run here too.

#[path = "../examples/controller/cli.rs"]
mod cli;
#[path = "../examples/controller/consume.rs"]
mod consume;
#[path = "../examples/controller/fault.rs"]
mod fault;
#[path = "../examples/controller/index.rs"]
mod index;
#[path = "../examples/controller/json.rs"]
mod json;
#[path = "../examples/controller/ledger.rs"]
mod ledger;
#[path = "../examples/controller/options.rs"]
mod options;
#[path = "../examples/controller/replay.rs"]
mod replay;
#[path = "../examples/controller/report.rs"]
mod report;
#[path = "../examples/controller/rules.rs"]
mod rules;
#[path = "../examples/controller/table.rs"]
mod table;
#[path = "../examples/controller/trace.rs"]
mod trace;
#[path = "../examples/controller/verdict.rs"]
mod verdict;
#[path = "../examples/controller/wire.rs"]
mod wire;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delta_fifo::baseline::MutexDeltaFifo;
use delta_fifo::{DeltaFifo, DeltaQueue};

use cli::Status;
use consume::Offered;
use fault::Fault;
use options::{Options, Speed};
use trace::{EMBEDDED, Key, Trace};
use verdict::Mismatch;

// Every trace, every queue ------------------------------------------------------------------------------------

#[test]
fn mutex_queue_matches_on_every_trace() {
    every_trace(MutexDeltaFifo::new);
}

#[test]
fn mutex_queue_that_differs_is_noticed() {
    differences_are_noticed(MutexDeltaFifo::new);
}

#[test]
fn mutex_queue_keeps_changes_among_initial_events() {
    changes_among_initial_events(MutexDeltaFifo::new);
}

#[test]
fn sharded_queue_matches_on_every_trace() {
    every_trace(DeltaFifo::new);
}

#[test]
fn sharded_queue_that_differs_is_noticed() {
    differences_are_noticed(DeltaFifo::new);
}

#[test]
fn sharded_queue_keeps_changes_among_initial_events() {
    changes_among_initial_events(DeltaFifo::new);
}

/// Replays every trace with few and with many consumers, and compares more than the program does.
fn every_trace<Q>(new_queue: impl Fn() -> Q)
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    for trace in embedded() {
        for consumers in [1, 4, 16] {
            let options = Options { consumers: NonZeroU32::new(consumers).unwrap(), ..Options::default() };
            let run = replay::run(&new_queue(), &trace, &options, |_| ());
            let name = format!("{} with {consumers} consumers", trace.name);
            assert_eq!(run.mismatches, [], "{name}");

            let (arrived, tally) = (&trace.arrived, &run.tally);
            assert_eq!(tally.replaced, arrived.listed(), "{name}");
            assert_eq!(tally.added, arrived.added - arrived.initial, "{name}");
            assert_eq!(tally.updated, arrived.modified, "{name}");
            assert_eq!(tally.deleted, arrived.deleted, "{name}");
            assert_eq!(tally.tombstones, arrived.vanished, "{name}");
            assert_eq!((tally.sync, run.merged), (0, 0), "{name}");
            assert_eq!(tally.latency.len(), arrived.changes() - arrived.vanished, "{name}");
            assert_eq!(run.known, trace.expected.len() as u64, "{name}");
        }
    }
}

/// A queue that does everything right does not match a final list that is wrong.
fn differences_are_noticed<Q>(new_queue: impl Fn() -> Q)
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let run = |trace: &Trace| replay::run(&new_queue(), trace, &Options::default(), |_| ()).mismatches;
    let mut trace = small();
    let (key, version) = trace.expected.pop().unwrap();
    assert_eq!(run(&trace), [Mismatch::Extra { objects: 1, such_as: key.clone() }]);

    trace.expected.push((key.clone(), "1".into()));
    let outdated =
        Mismatch::Outdated { objects: 1, such_as: key.clone(), known: version.clone(), expected: "1".into() };
    assert_eq!(run(&trace), [outdated]);

    trace.expected.pop();
    trace.expected.push((key, version));
    trace.expected.push(("red/b9".into(), "7".into()));
    assert_eq!(run(&trace), [Mismatch::Missing { objects: 1, such_as: "red/b9".into() }]);

    trace.expected.pop();
    trace.arrived.modified += 1;
    let changes = trace.arrived.changes();
    let count = Mismatch::Count { came_in: changes, handed_out: changes - 1, merged: 0 };
    assert_eq!(run(&trace), [count]);
}

/// Between the start of a WatchList and its end mark an object may change: that is newer than the list's item.
fn changes_among_initial_events<Q>(new_queue: impl Fn() -> Q)
where
    Q: DeltaQueue<Key = Key, Value = Offered>,
{
    let event = |kind: &str, name: &str, version: u32| {
        let metadata = format!(r#"{{"name":"{name}","resourceVersion":"{version}"}}"#);
        format!(r#"{{"t":1,"kind":"event","type":"{kind}","object":{{"metadata":{metadata}}}}}"#)
    };
    let bookmark = r#"{"t":2,"kind":"event","type":"BOOKMARK","object":{"metadata":{
        "resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let list = r#"{"t":0,"kind":"list","page":1,"resourceVersion":"3","last":true,"items":[
        {"metadata":{"name":"a","resourceVersion":"1"}},{"metadata":{"name":"b","resourceVersion":"2"}}]}"#;
    let lines = [
        &*list.replace('\n', ""),
        r#"{"t":1,"kind":"watch_open","resourceVersion":"","sendInitialEvents":true}"#,
        &event("ADDED", "a", 4),
        &event("MODIFIED", "a", 5),
        &event("ADDED", "c", 6),
        &event("DELETED", "c", 7),
        &event("ADDED", "c", 8),
        &bookmark.replace('\n', ""),
        r#"{"kind":"final","resourceVersion":"9","items":[["a","5"],["c","8"]]}"#,
    ];
    let trace = trace::decode("changes.jsonl", lines.join("\n").as_bytes()).unwrap();
    assert_eq!((trace.arrived.initial, trace.arrived.vanished), (2, 1));
    for _ in 0..50 {
        assert_eq!(replay::run(&new_queue(), &trace, &Options::default(), |_| ()).mismatches, []);
    }
}

#[test]
fn recorded_time_is_kept() {
    let mut trace = small();
    // The first list and what follows it within three recorded seconds.
    trace.steps.retain(|step| step.at < Duration::from_secs(3));
    let options = Options { speed: Speed::Times(10.0), ..Options::default() };
    let run = replay::run(&MutexDeltaFifo::new(), &trace, &options, |_| ());
    let last = trace.steps.last().unwrap().at;
    assert!(run.elapsed >= last / 10, "{:?} for {last:?} recorded", run.elapsed);
    assert_eq!(run.producer.len(), trace.steps.len() as u64);
}

#[test]
fn a_slow_handler_delays_leases_and_not_the_producer() {
    let handler_delay = Duration::from_millis(2);
    let options = Options { consumers: NonZeroU32::MIN, handler_delay, ..Options::default() };
    let run = replay::run(&MutexDeltaFifo::new(), &small(), &options, |_| ());
    // Each of the keys of the first list waits for those before it.
    let longest = Duration::from_nanos(run.tally.latency.max());
    assert!(longest >= 10 * handler_delay, "{longest:?}");
    let usual = Duration::from_nanos(run.producer.value_at_quantile(0.5));
    assert!(usual < handler_delay, "{usual:?}");
}

// The files ----------------------------------------------------------------------------------------------------

#[test]
fn all_files_of_the_folder_are_embedded() {
    let mut files: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    files.sort();
    let mut embedded: Vec<&str> = EMBEDDED.iter().map(|(file, _)| *file).collect();
    embedded.sort_unstable();
    assert_eq!(files, embedded);
}

#[test]
fn decoding_counts_what_was_recorded() {
    let traces = embedded();
    let facts: Vec<_> = traces
        .iter()
        .map(|trace| {
            let a = &trace.arrived;
            let events = (a.added, a.modified, a.deleted, a.bookmarks, a.errors);
            let lists = (a.lists, a.watch_lists, a.pages, a.vanished);
            (&*trace.name, lists, events, trace.keys.len(), trace.expected.len())
        })
        .collect();
    // As the recorder counted them.
    assert_eq!(
        facts,
        [
            ("mixed-namespaces-small", (3, 0, 5, 8), (27, 55, 29, 3, 1), 20, 8),
            ("pods-watchlist", (2, 2, 0, 202), (1771, 2183, 484, 4, 0), 1214, 587),
            ("leases", (1, 0, 2, 0), (105, 25005, 8, 2, 0), 1006, 998),
        ]
    );
}

#[test]
fn compression_is_told_by_content_or_name() {
    let (file, bytes) = EMBEDDED[1];
    assert!(file.ends_with(".zst"));
    assert_eq!(trace::decode("no-extension", bytes).unwrap().name, "no-extension");
    let damage = trace::decode("plain.jsonl.zst", SMALL.as_bytes()).unwrap_err();
    assert!(
        damage.to_string().starts_with("plain.jsonl.zst:1: the zstd stream is cut or damaged here: "),
        "{damage}"
    );
}

#[test]
fn a_cut_zstd_stream_is_told_with_its_line() {
    let (file, bytes) = EMBEDDED[1];
    let damage = trace::decode(file, &bytes[..bytes.len() / 2]).unwrap_err();
    assert!(matches!(damage.fault, Fault::Compression(_)), "{damage}");
    assert!(damage.line.is_some_and(|line| line > 100), "{damage}");
}

/// What serde alone would let pass. All other damages are told by the tests of `fault`.
#[test]
fn wrong_shapes_within_objects_are_told() {
    const ARRAY: &str = "invalid type: sequence, expected a JSON object";
    const ADDED: &str = r#""kind":"event","type":"ADDED","object""#;
    const LIST: &str = r#""kind":"list","page":1,"resourceVersion":"72","last":true,"items""#;
    let metadata = r#""metadata":{"name":"a5","resourceVersion":"73"}"#;
    // The third line's kind and value, with @ for a byte that is not UTF-8; the message.
    let cases = [
        (ADDED, r#"[["a5","green","u","73",null],null,null]"#, ARRAY),
        (ADDED, r#"{"metadata":["a5","green","u","73",null]}"#, ARRAY),
        (ADDED, r#"{"metadata":{"name":"a5","resourceVersion":"73","annotations":["true"]}}"#, ARRAY),
        (ADDED, &format!(r#"{{{metadata},"spec":["node"]}}"#), ARRAY),
        (ADDED, &format!(r#"{{{metadata},"status":["Running"]}}"#), ARRAY),
        (ADDED, &format!(r#"{{{metadata},"data":"@"}}"#), "not UTF-8 at column 107"),
        (r#""kind":"event","type":"ERROR","object""#, "[410]", ARRAY),
        (LIST, r#"[[["a0","blue","u","61",null],null,null]]"#, ARRAY),
        (LIST, &format!(r#"[{{{metadata},"data":"@"}}]"#), "not UTF-8 at column 135"),
    ];
    let lines: Vec<&str> = SMALL.lines().collect();
    for (kind, value, message) in cases {
        // The first two lines are one list.
        let text = format!("{}\n{}\n{{\"t\":5590,{kind}:{value}}}\n", lines[0], lines[1]);
        let text: Vec<u8> = text.bytes().map(|byte| if byte == b'@' { 0xff } else { byte }).collect();
        let damage = trace::decode("small", &*text).expect_err(value);
        assert_eq!(damage.to_string(), format!("small:3: {message}"), "{value}");
    }
}

// The program --------------------------------------------------------------------------------------------------

#[test]
fn json_has_the_promised_keys_in_order() {
    let (status, out, errors) = program(["--json", "--repeat=3", "--consumers", "2"]);
    assert_eq!((status, &*errors), (Status::Matches, ""));
    assert_eq!(out.lines().count(), EMBEDDED.len());
    const KEYS: &str = "trace queue consumers repeat lists events pops added updated replaced sync deleted \
        tombstones merged known expected order_violations double_leases matches first_sync_ms latency_p50_us \
        latency_p99_us latency_p999_us producer_p99_us elapsed_ms";
    for line in out.lines() {
        // Found in this order, and as many as there are.
        let found: Vec<usize> =
            KEYS.split(' ').map(|key| line.find(&format!("\"{key}\":")).expect(key)).collect();
        assert!(found.is_sorted(), "{line}");
        let values: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(values.as_object().unwrap().len(), found.len());
        assert_eq!((&values["repeat"], &values["consumers"]), (&3.into(), &2.into()));
        assert_eq!(values["matches"], true);
        assert_eq!(values["known"], values["expected"]);
    }
}

#[test]
fn the_table_ends_with_a_verdict() {
    let small = folder().join(EMBEDDED[0].0);
    let (status, out, errors) = program([small.as_os_str()]);
    assert_eq!((status, &*errors), (Status::Matches, ""));
    assert!(out.trim_end().lines().last().unwrap().starts_with("  OK "), "{out}");
    assert!(out.lines().all(|line| line.trim_end() == line), "no blanks at the ends of lines");
}

#[test]
fn a_trace_that_does_not_match_is_status_1() {
    let text = SMALL.replace(r#"["red/a4","225"]"#, r#"["red/a4","224"]"#);
    let file = Scratch::new("mismatch.jsonl", text.as_bytes());
    let (status, out, errors) = program([file.0.as_os_str()]);
    assert_eq!((status, &*errors), (Status::Differs, ""));
    assert!(out.contains("MISMATCH") && out.contains("such as red/a4: 225, not 224"), "{out}");

    let json = ["--json", "--repeat=12"].map(OsStr::new);
    let (status, out, errors) = program([json[0], json[1], file.0.as_os_str()]);
    assert_eq!((status, out.lines().count()), (Status::Differs, 1));
    assert!(out.contains(r#""matches":false"#), "{out}");
    let name = file.0.file_stem().unwrap().to_string_lossy();
    let told: Vec<&str> = errors.lines().collect();
    assert!(told[7].starts_with(&format!("{name}: run 8: ")), "{errors}");
    assert!(told[7].ends_with("such as red/a4: 225, not 224"), "{errors}");
    assert_eq!(told[8..], [format!("{name}: and 4 more")]);
}

#[test]
fn damage_is_status_2_and_nothing_is_told_as_a_result() {
    let good = folder().join(EMBEDDED[0].0);
    let cut = Scratch::new("cut.jsonl", &SMALL.as_bytes()[..SMALL.len() - 10]);
    let (status, out, errors) = program([good.as_os_str(), cut.0.as_os_str()]);
    assert_eq!((status, &*out), (Status::NoResult, ""));
    let expected = format!("{}:{}: the line is cut", cut.0.display(), SMALL.lines().count());
    assert!(errors.starts_with(&expected), "{errors}");

    let (status, out, errors) = program(["no/such/trace.jsonl"]);
    assert_eq!((status, &*out), (Status::NoResult, ""));
    assert!(errors.starts_with("no/such/trace.jsonl: cannot be read: "), "{errors}");
}

#[test]
fn usage_errors_are_status_2() {
    let (status, out, errors) = program(["--queue", "other"]);
    assert_eq!((status, &*out), (Status::NoResult, ""));
    assert!(errors.contains("--queue takes sharded or mutex, not \"other\""), "{errors}");
    let (status, out, _) = program(["--help"]);
    assert_eq!(status, Status::Matches);
    assert!(out.contains("Usage: controller"));
}

#[test]
fn output_that_cannot_be_written_is_status_2() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut errors = Vec::new();
    assert_eq!(cli::main(["--help".into()], &mut Full, &mut errors), Status::NoResult);
    assert!(errors.starts_with(b"standard output: "));
}

/// Runs the program within this process.
fn program<T: Into<OsString>>(arguments: impl IntoIterator<Item = T>) -> (Status, String, String) {
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let status = cli::main(arguments.into_iter().map(Into::into), &mut out, &mut errors);
    (status, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
}

// Helpers ------------------------------------------------------------------------------------------------------

const SMALL: &str = include_str!("data/traces/mixed-namespaces-small.jsonl");

fn small() -> Trace {
    trace::decode("small.jsonl", SMALL.as_bytes()).unwrap()
}

fn embedded() -> Vec<Trace> {
    EMBEDDED.iter().map(|(file, bytes)| trace::decode(file, *bytes).unwrap()).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/traces")
}

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file left behind harms nobody.
        let _ = fs::remove_file(&self.0);
    }
}
