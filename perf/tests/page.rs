//! `report`: what it makes of recorded runs, seen in a browser.
//!
//! Without Chromium what needs it is left out, and says so; where `DELTA_FIFO_BROWSER` names one, it must be there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;
use serde_json::{Value, json};

const VARIABLE: &str = "DELTA_FIFO_BROWSER";
const DESKTOP: u32 = 1280;
const PHONE: u32 = 360;

fn data(name: &str) -> String {
    format!("{}/tests/data/report/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// A folder of its own for each test.
fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page").join(test);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn report(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delta-fifo-perf"));
    let Output { status, stdout, stderr } =
        command.arg("report").args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (status.code(), text(stdout), text(stderr))
}

fn browser() -> Option<OsString> {
    if let Some(named) = env::var_os(VARIABLE) {
        return Some(named);
    }
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().find(|name| env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    if found.is_none() {
        // Past the test harness, which keeps what a passing test prints.
        let _ = writeln!(
            io::stderr(),
            "NOT CHECKED: how the page looks in a browser. There is no Chromium; {VARIABLE} may name one."
        );
    }
    found.map(|name| (*name).into())
}

/// What `page/checks.js` finds.
#[derive(Debug, Deserialize)]
struct Seen {
    plots: usize,
    width: u32,
    wrong: Vec<String>,
}

/// Looks at all these pages, each in a frame so wide: windows of a phone's width cannot be had. And what was logged.
fn look(browser: &OsString, folder: &Path, pages: &[(&str, u32)]) -> (Vec<Seen>, Vec<String>) {
    let mut around = String::from(
        r#"<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="seen"></pre><script>
        const seen = [];
        addEventListener('message', (event) => {
            seen[[...document.querySelectorAll('iframe')].findIndex((frame) => frame.contentWindow === event.source)] = event.data;
            document.getElementById('seen').textContent = JSON.stringify(seen).replace(/[<>&]/g, ' ');
        });</script>"#,
    );
    for (number, (page, width)) in pages.iter().enumerate() {
        let checked = format!("{page}<script>{}</script>", include_str!("page/checks.js"));
        fs::write(folder.join(format!("{number}.html")), checked).unwrap();
        around += &format!(
            r#"<iframe src="{number}.html" style="border: 0; width: {width}px; height: 800px"></iframe>"#
        );
    }
    let file = folder.join("around.html");
    fs::write(&file, around).unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--window-size=1400,900"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", browser.display()));
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let seen = dom.split_once(r#"<pre id="seen">"#).and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) =
        seen.filter(|(seen, _)| !seen.is_empty()).unwrap_or_else(|| panic!("nothing was seen:\n{log}"));
    // A page that said nothing is null.
    let seen: Vec<Seen> = serde_json::from_str(seen).unwrap_or_else(|error| panic!("{error}: {seen}\n{log}"));
    assert_eq!(seen.len(), pages.len(), "{log}");
    (seen, log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect())
}

/// At both widths, so many plots are drawn, and nothing is wrong or logged.
fn must_be_fine(page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    let plots = text.matches("<svg class=\"plot\"").count();
    assert!(plots > 0);
    // Nothing is fetched: what stands in attributes leads nowhere but into the page.
    assert!(
        !text.contains("<script") && !text.contains("src=") && !text.contains("url("),
        "not self-contained"
    );
    assert!(!text.contains("http"), "not self-contained");
    let Some(browser) = browser() else { return };
    let widths = [DESKTOP, PHONE];
    let (seen, logged) = look(&browser, page.parent().unwrap(), &widths.map(|width| (&*text, width)));
    for (Seen { plots: drawn, width: seen, wrong }, width) in seen.into_iter().zip(widths) {
        assert_eq!((drawn, seen), (plots, width));
        let some = &wrong[..wrong.len().min(20)];
        assert!(wrong.is_empty(), "at {width}: {} things, such as\n{}", wrong.len(), some.join("\n"));
    }
    assert!(logged.is_empty(), "{logged:?}");
}

#[test]
fn recorded_runs_make_a_page_that_can_be_read() {
    let page = folder("recorded").join("report.html");
    let files = ["compare", "latency", "growth", "memory", "snapshots"].map(data);
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    let before = data("before");
    arguments.extend(["--against", &before, "--html", page.to_str().unwrap()]);
    assert_eq!(report(&arguments), (Some(0), String::new(), String::new()));
    let text = fs::read_to_string(&page).unwrap();
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing"));
    assert!(place("Where it loses") < place("<svg class=\"plot\""));
    for part in [
        "W1: time per change",
        "W7: latency of a call",
        "memory: bytes per known key",
        "Against the number of keys",
        "Scaling with threads",
        "Percentiles",
        "known keys (number, log axis)",
        "Compared with what was before",
        "The machine was busy with something else",
        "Fewer than 30 blocks",
        "used by others",
    ] {
        place(part);
    }
    must_be_fine(&page);
}

/// Many peers with long names, cases of long names, values of every size, zeros, runs that were all void.
fn demanding() -> Value {
    let peers = [
        "sharded",
        "client-go DeltaFIFO, Pop",
        "client-go RealFIFO, PopBatch + Transaction",
        "F1",
        "B0",
        "B1",
        "B2",
    ];
    let peers = peers.into_iter().chain([
        "B3",
        "B4",
        "parking_lot, fair",
        "std mutex",
        "kube-runtime's scheduler",
        "<&\">",
    ]);
    let mut figures = Vec::new();
    for (number, peer) in peers.enumerate() {
        let mut add = |case: Value, measure: &str, unit: &str, better: &str, value: f64| {
            let by_block: Vec<Option<f64>> = (0..5)
                .map(|block| (number != 7 || block > 0).then(|| value * (1.0 + f64::from(block) * 0.2)))
                .map(|value| value.filter(|_| number != 8))
                .collect();
            figures
                .push(json!({"workload": "W2", "case": case, "peer": peer, "measure": measure, "unit": unit,
                "better": better, "by_block": by_block}));
        };
        let size = 3f64.powi(number as i32);
        for shards in ["1", "4", "16", "64", "256", "1000000"] {
            for threads in ["(1,0)", "(1,1)", "(2,1)", "(1,2)", "(2,2)", "(4,4)", "(8,8)", "(16,16)"] {
                let case = json!({"shards": shards, "threads": threads, "a key with a long name": "a value that is long as well"});
                add(case, "changes in a second", "changes/s", "Higher", 1e7 / size);
            }
        }
        for handlers in ["do nothing at all for the whole time", "sleep 1ms"] {
            for quantile in ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"] {
                add(
                    json!({"handlers": handlers}),
                    &format!("{quantile} of a producer's call"),
                    "ns",
                    "Lower",
                    40.0 * size,
                );
            }
        }
        add(json!({}), "share of the processor", "%", "Lower", if number == 3 { 0.0 } else { size / 1e4 });
        add(json!({"gap": "10µs"}), "all the same", "ns", "Lower", 0.0);
    }
    json!([{"workload": "W2, a description of some length of what is done here", "allocator": "system", "nproc": 2,
        "cpu": "A Processor With A Long Name @ 2.50GHz", "kernel": "6.18", "rustc": "rustc 1.95.0", "commit": "abc-dirty", "load_before": null,
        "load_after": null, "steal_percent": null, "others_percent": null, "blocks": 5, "valid": false, "figures": figures}])
}

#[test]
fn the_longest_names_and_the_widest_ranges_have_room() {
    let folder = folder("demanding");
    let (json, page) = (folder.join("runs.json"), folder.join("report.html"));
    fs::write(&json, demanding().to_string()).unwrap();
    let paths = [&json, &page].map(|path| path.to_str().unwrap());
    assert_eq!(report(&[paths[0], "--html", paths[1]]), (Some(0), String::new(), String::new()));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Void runs") && text.contains("&lt;&amp;") && text.contains("Scaling with shards"));
    must_be_fine(&page);
}

/// The checks themselves: each of these must be found.
#[test]
fn what_is_wrong_is_seen() {
    let Some(browser) = browser() else { return };
    let plot = |marks: usize, inner: &str| {
        format!(
            r#"<figure><svg class="plot" viewBox="0 0 300 200" width="300" height="200" style="font: 12px sans-serif"
            data-marks="{marks}" aria-label="one"><text x="10" y="190">0</text><text x="50" y="190">1</text>
            <text x="10" y="20">2</text><text x="50" y="20">3</text>{inner}</svg></figure>"#
        )
    };
    let good = r#"<g class="mark"><circle cx="150" cy="100" r="4"/></g>"#;
    let key = r#"<svg class="key" width="9" height="9"><g class="s1"><path d="M0 0H9"/></g></svg>"#;
    let cases = [
        (plot(2, good), "has 1 marks, not 2"),
        (plot(1, r#"<g class="mark"><circle cx="299" cy="100" r="4"/></g>"#), "a mark is outside"),
        (plot(1, r#"<g class="mark"><circle cx="12" cy="186" r="4"/></g>"#), "a mark is over \"0\""),
        (plot(1, &format!(r#"{good}<text x="12" y="22">4</text>"#)), "\"2\" is over \"4\""),
        (plot(1, &format!(r#"{good}<text x="290" y="90">cut</text>"#)), "\"cut\" is cut off"),
        (plot(1, good).replace("<text", "<i").replace("</text", "</i"), "has no axes"),
        (plot(1, good).replace(r#"width="300" height="200""#, r#"width="0" height="0""#), "is only 0 by 0"),
        (plot(1, good) + "<figure></figure>", "a figure has no plot"),
        (plot(1, good) + r#"<div style="width: 2000px">wide</div>"#, "goes over the edge"),
        (
            plot(1, good) + &format!(r#"<ul class="legend">{key}{}</ul>"#, key.replace("s1", "s2")),
            "two are alike",
        ),
        (plot(1, good) + "<script>console.error('an error of the page')</script>", "an error of the page"),
        (plot(1, good) + "<script>nobody.knows()</script>", "nobody is not defined"),
        (plot(1, good), ""),
    ];
    let bodies = cases.each_ref().map(|(body, _)| {
        format!(r#"<!doctype html><meta charset="utf-8"><title>one</title><body>{body}</body>"#)
    });
    let pages = bodies.each_ref().map(|page| (&**page, DESKTOP));
    let (seen, logged) = look(&browser, &folder("wrong"), &pages);
    assert_eq!(logged.len(), 2, "{logged:?}");
    for (Seen { wrong, .. }, (_, expected)) in seen.iter().zip(&cases) {
        let mut all = wrong.iter().chain(logged.iter().filter(|_| !expected.is_empty()));
        match *expected {
            "" => assert_eq!(wrong, &[""; 0]),
            expected => assert!(all.any(|wrong| wrong.contains(expected)), "{expected}: {wrong:?}"),
        }
    }
}

#[test]
fn the_summary_begins_with_what_is_lost() {
    let (status, out, err) = report(&[&data("compare"), &data("memory")]);
    assert_eq!((status, &*err), (Some(0), ""));
    let place = |part: &str| out.find(part).unwrap_or_else(|| panic!("{part} is missing in\n{out}"));
    assert!(place("## Where it loses") < place("## W1: time per change"));
    assert!(place("| times as good | where |") < place("## The runs"));
    for part in ["> The machine was busy", "threads (2,2)\\*", "× ", "counted, not timed"] {
        place(part);
    }
}

#[test]
fn two_runs_are_set_against_each_other() {
    let folder = folder("difference");
    let before = data("compare");
    let (status, out, err) = report(&[&before, "--against", &before, "--fail-above", "0"]);
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(out.contains("sharded: 0 worse, 0 better"), "{out}");
    // The same, but that the queue takes twice the time.
    let mut runs: Value = serde_json::from_str(&fs::read_to_string(&before).unwrap()).unwrap();
    let figures =
        runs.as_array_mut().unwrap().iter_mut().flat_map(|run| run["figures"].as_array_mut().unwrap());
    for figure in figures.filter(|figure| figure["peer"] == "sharded") {
        for value in figure["by_block"].as_array_mut().unwrap() {
            *value = json!(value.as_f64().unwrap() * 2.0);
        }
    }
    let slower = folder.join("slower.json");
    fs::write(&slower, runs.to_string()).unwrap();
    let slower = slower.to_str().unwrap();
    let (status, out, _) = report(&[slower, "--against", &before]);
    assert_eq!(status, Some(0));
    assert!(out.contains("| slower | +100.0 % ["), "{out}");
    assert_eq!(report(&[slower, "--against", &before, "--fail-above", "5"]).0, Some(1));
    assert_eq!(report(&[slower, "--against", &before, "--fail-above", "500"]).0, Some(0));
    assert_eq!(report(&[&before, "--against", slower, "--fail-above", "0"]).0, Some(0));
}

#[test]
fn a_file_that_is_no_run_is_named_with_what_it_lacks() {
    let file = folder("bad").join("bad.json");
    let mut runs: Value = serde_json::from_str(&fs::read_to_string(data("memory")).unwrap()).unwrap();
    runs[0].as_object_mut().unwrap().remove("figures");
    fs::write(&file, runs.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let (status, out, err) = report(&[file]);
    assert_eq!(
        (status, &*out, &*err),
        (Some(2), "", &*format!("{file}: report 1: has no field `figures`\n"))
    );
    let (status, _, err) = report(&[&data("memory"), "--html", "/nonexistent/x.html"]);
    assert_eq!(status, Some(2));
    assert!(err.starts_with("cannot write /nonexistent/x.html: "), "{err}");
}
