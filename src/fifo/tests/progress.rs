//! The table of what is promised says in which calls a thread is stopped, and at how many points: counted here.

use super::scenarios;

const TABLE: &str = include_str!("../progress.md");

/// How the scenarios of a row's calls begin, up to the first comma.
const ROWS: &[(&str, &[&str])] = &[
    ("`add` `update`", &["add", "update", "apply", "delete", "delete_key"]),
    ("`change_all`", &["change_all"]),
    ("`replace` `replace_scope`", &["replace", "begin_replace", "upsert"]),
    ("`resync` `resync_key`", &["resync", "resync_key"]),
    ("`mark`", &["mark"]),
    ("`try_pop`", &["try_pop"]),
    ("`pop` `pop_timeout`", &["pop", "try_pop_batch"]),
    ("`done` `give_up`", &["done", "requeue"]),
    ("`requeue_after`", &["requeue_after", "requeue_with_backoff"]),
    ("`known().get`", &["known"]),
    ("`snapshot`", &["snapshot"]),
    ("a snapshot's `get`", &["a snapshot's get"]),
    ("a snapshot's `iter`", &["a snapshot's iter"]),
    ("`published`", &["published"]),
    ("drop of the last clone", &["drop of a snapshot"]),
    ("`close`", &["close"]),
    ("`close_discard`", &["close_discard"]),
];

fn call(scenario: &str) -> &str {
    scenario.split(',').next().expect("there is a first part")
}

/// The first and the last cell of each row.
fn rows() -> Vec<(&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| call "));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "{line}");
            (cells[0], cells[4])
        })
        .collect()
}

#[test]
fn each_scenario_stands_in_one_row() {
    for scenario in scenarios::all() {
        let rows = ROWS.iter().filter(|(_, calls)| calls.contains(&call(scenario.name)));
        assert_eq!(rows.count(), 1, "{}", scenario.name);
    }
}

#[test]
fn the_table_says_where_threads_are_stopped() {
    let mut wrong = Vec::new();
    let rows = rows();
    for (row, calls) in ROWS {
        let own: Vec<_> = scenarios::all().filter(|scenario| calls.contains(&call(scenario.name))).collect();
        let points: usize = own.iter().map(|scenario| scenario.passes.len()).sum();
        let counted = format!("{} calls, {points} points", own.len());
        let said = rows.iter().find(|(first, _)| first.starts_with(row)).map(|(_, last)| *last);
        if said.is_none_or(|said| !said.starts_with(&counted)) {
            wrong.push(format!("{row}: {counted}, and not {said:?}"));
        }
    }
    // The other rows say what shows them, or that nothing can stop there.
    let silent = rows.iter().filter(|(_, last)| last.is_empty()).map(|(first, _)| first.to_string());
    wrong.extend(silent);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
