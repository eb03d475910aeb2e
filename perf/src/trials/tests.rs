//! The frame that all trials share, with trials that measure nothing.

use super::measure::figures;
use super::*;
use crate::bars::BLOCKS;

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
    for trial in ALL {
        assert_eq!(by_id(&trial.id.to_lowercase()).map(|it| it.id), Some(trial.id));
        for size in [Size::Quick, Size::Normal, Size::Full] {
            let cases = (trial.cases)(size);
            assert!(!cases.is_empty(), "{}", trial.id);
            for case in &cases {
                let rows = (trial.rows)(case);
                assert!(rows.contains(&crate::bars::PEER), "{}, {case}", trial.id);
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
