//! The frame that all trials share, with trials that measure nothing.

use super::measure::{figures, names_and_values};
use super::report::{CaseReport, Report, TrialReport};
use super::*;
use crate::bars::{BLOCKS, PEER};
use crate::figures::Figure;
use crate::machine::{Disturbance, Machine};
use crate::notebook::Notebook;
use crate::process::Measured as _;

fn sample(value: f64) -> Sample {
    Sample::default().lower("time", "ns", value)
}

#[test]
fn a_void_run_has_no_value() {
    let void = Sample { violations: vec!["said to be wrong".into()], ..sample(3.0) };
    let case = Case::new().with("known", 100).with("threads", "(1,1)");
    let figures = figures("W0", &case, "B1", &[sample(1.0), void, sample(2.0)]);
    let [figure] = &figures[..] else { panic!("one measure") };
    assert_eq!(figure.by_block, [Some(1.0), None, Some(2.0)]);
    assert_eq!((&*figure.case["known"], &*figure.peer, figure.better), ("100", "B1", Better::Lower));
    assert_eq!((case.get::<usize>("known"), case.to_string()), (100, "known 100, threads (1,1)".into()));
}

#[test]
fn a_measure_that_is_missing_now_and_then_keeps_its_blocks() {
    let both = sample(1.0).higher("rate", "1/s", f64::NAN);
    let figures = figures("W0", &Case::new(), "B1", &[sample(5.0), both]);
    assert_eq!(figures[0].by_block, [Some(5.0), Some(1.0)]);
    assert_eq!(figures[1].by_block, [None, None], "no number is no value");
}

#[test]
fn every_trial_is_whole() {
    for trial in ALL.iter().copied().chain([&client_go::TRIAL]) {
        assert_eq!(by_id(&trial.id.to_lowercase()).map(|it| it.id), Some(trial.id));
        for size in [Size::Quick, Size::Normal, Size::Full] {
            let cases = (trial.cases)(size);
            assert!(!cases.is_empty(), "{}", trial.id);
            for case in &cases {
                let rows = (trial.rows)(case);
                assert!(rows.contains(&PEER), "{}, {case}", trial.id);
                assert!(cases.iter().filter(|other| *other == case).count() == 1, "{}, {case}", trial.id);
            }
        }
        // Whoever asks for everything gets all bars, with as many blocks as a claim takes.
        let cases = (trial.cases)(Size::Full);
        for bar in trial.bars {
            let measured = |case: &&Case| {
                let values = case.0.iter().map(|(name, value)| (*name, &**value));
                values.eq(bar.case.iter().copied())
            };
            let case = cases.iter().find(measured);
            let blocks = (trial.blocks)(Size::Full, case.expect(bar.what));
            assert!(matches!(blocks, Blocks::Usually(BLOCKS..)), "{}: {}", trial.id, bar.what);
        }
    }
}

#[test]
fn big_numbers_are_grouped() {
    let words = |median, low, high| report::in_words(crate::stats::Estimate { median, low, high });
    assert_eq!(words(1234567.4, 999.0, 12345678.0), "1,234,567 [999–12,345,678]");
    assert_eq!(words(12.34, -123456.0, 0.0), "12.3 [-123456.0–0.0]");
    assert_eq!(words(150.0, -123456.0, 0.0), "150 [-123,456–0]");
    assert_eq!(words(0.05, 0.0, 2.0), "0.0500 [0.0000–2.0000]");
}

/// W2 with two producers: the queue's rate as a part of the bare word's, by block.
fn measured(allocator: Allocator, parts: &[Option<f64>]) -> Report {
    let case = Case::new().with("producers", 2).with("compression", "default");
    let samples = |values: Vec<Option<f64>>| {
        let sample = |value: Option<f64>| Sample {
            violations: value.map_or(vec!["said to be wrong".into()], |_| Vec::new()),
            ..Sample::default().higher("changes while all produce", "changes/s", value.unwrap_or(1.0))
        };
        values.into_iter().map(sample).collect::<Vec<_>>()
    };
    let own =
        figures("W2", &case, PEER, &samples(parts.iter().map(|part| part.map(|it| it * 1e8)).collect()));
    let bare = figures("W2", &case, "bare atomic", &samples(vec![Some(1e8); parts.len()]));
    let disturbance =
        Disturbance { others_percent: Some(0.0), steal_percent: Some(0.0), ..Default::default() };
    let (case, blocks) = (names_and_values(&case), parts.len());
    let cases = vec![CaseReport { case, blocks, planned: blocks, disturbance }];
    Report {
        workload: "W2".into(),
        allocator,
        machine: Machine::detect(),
        disturbance,
        blocks: parts.len(),
        seed: 1,
        trials: vec![TrialReport { id: "W2".into(), about: "a test".into(), cases }],
        figures: own.into_iter().chain(bare).collect(),
        notes: Vec::new(),
        void: Vec::new(),
        valid: true,
        finished: true,
    }
}

fn verdict(reports: &[Report]) -> String {
    let text = Report::conclusion(reports);
    text.lines().find(|line| line.contains("while they produce")).expect("the bar is there").into()
}

#[test]
fn the_worse_end_with_the_worse_allocator_decides() {
    let good = || measured(Allocator::System, &[Some(0.9); 3]);
    let met = verdict(&[good(), measured(Allocator::Mimalloc, &[Some(0.5), None, Some(0.5)])]);
    assert!(met.contains("0.50 [0.50–0.50]") && met.contains("mimalloc") && met.ends_with(" met"), "{met}");
    // The median alone would do.
    let missed = verdict(&[good(), measured(Allocator::Mimalloc, &[Some(0.4), Some(0.9), Some(0.9)])]);
    assert!(missed.ends_with(" MISSED"), "{missed}");
    let nothing = verdict(&[measured(Allocator::System, &[None, None])]);
    assert!(nothing.ends_with(" not measured"), "{nothing}");
    assert!(Limit::AtMost(2.0).holds(crate::stats::Estimate { median: 1.0, low: 0.5, high: 2.0 }));
    assert!(!Limit::AtMost(2.0).holds(crate::stats::Estimate { median: 1.0, low: 0.5, high: 2.1 }));
}

#[test]
fn what_claims_nothing_says_so() {
    let few = [measured(Allocator::System, &[Some(0.9); 3])];
    let text = Report::conclusion(&few);
    assert!(text.contains("One allocator only") && text.contains("Fewer than 30 blocks"), "{text}");
    assert!(few[0].table().contains("fewer than 30 blocks"));
    assert!(few[0].table().contains("bare atomic: 0.90 [0.90–0.90]"), "{}", few[0].table());
    let enough = [Allocator::System, Allocator::Mimalloc].map(|it| measured(it, &[Some(0.9); 30]));
    let text = Report::conclusion(&enough);
    assert!(!text.contains("only") && !text.contains("claim"), "{text}");
    let back: Report = serde_json::from_value(serde_json::to_value(&enough[0]).unwrap()).unwrap();
    assert_eq!(back.table(), enough[0].table());
}

/// Says of its second row that it is wrong, in every second block.
static BROKEN: Trial = Trial {
    id: "W0",
    about: "a test",
    cases: |_| vec![Case::new().with("known", 1), Case::new().with("known", 2)],
    rows: |_| vec!["nothing", "B1", "B3"],
    against: &["nothing"],
    blocks: |_, case| if case.text("known") == "1" { Blocks::Usually(9) } else { Blocks::Always(1) },
    counted: Counted::No,
    prepare: |_, _| {
        let mut runs = 0;
        Box::new(move |row: &str| {
            runs += usize::from(row == "B1");
            let wrong = row == "B1" && runs % 2 == 0;
            Sample {
                violations: wrong.then(|| "said to be wrong".into()).into_iter().collect(),
                ..sample(1.0)
            }
        })
    },
    bars: &[],
};

#[test]
fn a_void_run_spoils_the_report() {
    let peers = Some(vec![delta_fifo_perf::peers::by_id("B1").unwrap()]);
    let options = TrialOptions {
        trials: vec![&BROKEN],
        size: Size::Quick,
        blocks: Some(4),
        allocators: vec![Allocator::System],
        peers,
        seed: 1,
        json: None,
        budget: None,
    };
    let report = super::measure::measure(&options, Notebook::none());
    assert!(!report.valid);
    let void: Vec<_> = report.void.iter().map(|void| (&*void.peer, &*void.case, void.block)).collect();
    assert_eq!(void, [("B1", "known 1", 1), ("B1", "known 1", 3)]);
    let blocks: Vec<_> = report.figures.iter().map(|it| (&*it.peer, it.by_block.len())).collect();
    assert_eq!(blocks, [("nothing", 4), ("B1", 4), ("nothing", 1), ("B1", 1)], "B3 was not asked for");
    assert!(report.table().contains("VOID: W0, B1, known 1, block 3: said to be wrong"));
}

#[test]
fn above_one_is_better_whatever_is_measured() {
    let of = |samples: &[Sample]| figures("W0", &Case::new(), "B1", samples).remove(0);
    let rate = |value| Sample::default().higher("rate", "1/s", value);
    let times = |own: &Figure, other: &Figure| own.times_as_good_as(other).expect("blocks").median;
    assert_eq!(times(&of(&[sample(1.0), sample(4.0)]), &of(&[sample(2.0), sample(8.0)])), 2.0);
    assert_eq!(times(&of(&[rate(1.0), rate(4.0)]), &of(&[rate(2.0), rate(8.0)])), 0.5);
    assert_eq!(of(&[sample(0.0)]).times_as_good_as(&of(&[sample(1.0)])), None, "no number");
    let quotient = of(&[sample(1.0), sample(4.0)]).quotient(&of(&[sample(2.0), sample(8.0)]));
    assert_eq!(quotient.expect("blocks").median, 0.5);
}
