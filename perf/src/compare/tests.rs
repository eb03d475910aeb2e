//! Rows, void runs, and the way of a report.

use super::*;
use delta_fifo_perf::peers::{self, Entry, Parking, Peer};
use delta_fifo_perf::workload::{floors, windowed};

/// As if its checks had found something; that they find each thing is tested where they are.
static BROKEN: Entry = Entry {
    id: "BROKEN",
    about: "said to be wrong",
    run: |case, keys| {
        let mut outcome = windowed::run(&Parking::new(), case, keys);
        outcome.violations.push("said to be wrong".into());
        outcome
    },
    ..Entry::new::<Parking>("", "")
};

fn options(peers: Vec<&'static Entry>) -> Options {
    Options {
        blocks: 2,
        changes: 2_000,
        allocators: vec![Allocator::System],
        references: vec!["B1".into()],
        peers,
        floors: Vec::new(),
        shards: Vec::new(),
        lines: Vec::new(),
        known: vec![200],
        threads: vec![(1, 1)],
        batches: vec![1, 8],
        seed: 1,
        json: None,
        budget: None,
    }
}

#[test]
fn a_void_run_has_no_figure_and_spoils_the_report() {
    let report = measure(&options(vec![peers::by_id("B1").unwrap(), &BROKEN]), Notebook::none());
    assert!(!report.valid);
    for case in &report.cases {
        let [sound, broken] = &case.rows[..] else { panic!("two peers, two rows") };
        assert!(sound.by_block.iter().all(Option::is_some) && sound.ns_per_change.is_some());
        assert!(broken.by_block.iter().all(Option::is_none) && broken.ns_per_change.is_none());
        assert_eq!(broken.times_as_fast_as["B1"], None);
        assert_eq!(case.void.len(), 2);
    }
    let of = |peer: &str| report.figures.iter().find(|figure| figure.peer == peer).unwrap();
    assert_eq!((of("BROKEN").by_block.as_slice(), of("B1").by_block.len()), (&[None, None][..], 2));
    assert!(report.table().contains("VOID: BROKEN, 200 known"));
}

#[test]
fn shards_and_floors_have_rows_of_their_own() {
    let mut options = options(vec![peers::by_id("sharded").unwrap()]);
    options.threads.push((2, 1));
    options.batches = vec![1];
    options.shards = vec![1, 16];
    options.floors = floors::ALL.iter().collect();
    options.references = Vec::new();
    let report = measure(&options, Notebook::none());
    assert!(report.valid);
    let rows = |case: &CaseReport| case.rows.iter().map(|row| row.peer.clone()).collect::<Vec<_>>();
    assert_eq!(rows(&report.cases[0]), ["sharded", "sharded/1", "sharded/16", "F0", "F1"]);
    assert_eq!(rows(&report.cases[1]), ["sharded", "sharded/1", "sharded/16"]);
    assert_eq!(report.figures.len(), 8);
}

#[test]
fn a_report_survives_the_way_from_child_to_parent() {
    let report =
        measure(&options(vec![peers::by_id("b1").unwrap(), peers::by_id("b3").unwrap()]), Notebook::none());
    assert!(report.valid);
    assert_eq!(report.cases.len(), 2);
    let json = serde_json::to_value(&report).unwrap();
    for key in [
        "nproc",
        "cpu",
        "kernel",
        "rustc",
        "commit",
        "load_before",
        "load_after",
        "steal_percent",
        "others_percent",
        "allocator",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
    let back: Report = serde_json::from_value(json).unwrap();
    assert_eq!(back.table(), report.table());
}
