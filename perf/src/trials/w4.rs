//! W4: the first replace. W5: the next one, with some keys missing in the list.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Lists, VisitLists};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::relist::{self, Relist};
use hdrhistogram::Histogram;

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};
use crate::allocator;

const REPLACE: &str = "replace, per object";
const STEADY: &str = "p99.9 of a call, steady";
const DURING: &str = "p99.9 of a call, during the replace";
const TIMES: &str = "p99.9 during the replace, times steady";

/// Of the producer, in a second.
const RATE: f64 = 100_000.0;
/// A run of few objects is too short for a thousandth part of the calls: as many replaces as make up so many objects.
const OBJECTS: usize = 600_000;

pub(super) static FIRST: Trial = Trial {
    id: "W4",
    about: "the first replace, with a producer at work; consumers come after it",
    cases: first,
    rows: |_| vec!["sharded", "B0", "B1"],
    against: &["B1"],
    blocks,
    counted: Counted::Too,
    prepare,
    bars: &[
        faster("first replace of 1,000,000, times as fast as B1", &[("objects", "1000000")]),
        steady("p99.9 of a producer's calls during it, times steady", &[("objects", "1000000")]),
    ],
};

pub(super) static AGAIN: Trial = Trial {
    id: "W5",
    about: "a replace of what is known, some of it missing in the list, with a producer at work; consumers come after it",
    cases: again,
    rows: |_| vec!["sharded", "B0", "B1"],
    against: &["B1"],
    blocks,
    counted: Counted::Too,
    prepare,
    bars: &[
        faster("replace of 1,000,000, none missing, times as fast as B1", WITHOUT_0),
        faster("replace of 1,000,000, 1 % missing, times as fast as B1", WITHOUT_1),
        faster("replace of 1,000,000, 10 % missing, times as fast as B1", WITHOUT_10),
        faster("replace of 1,000,000, 50 % missing, times as fast as B1", WITHOUT_50),
        steady("p99.9 of a producer's calls, none missing, times steady", WITHOUT_0),
        steady("p99.9 of a producer's calls, 1 % missing, times steady", WITHOUT_1),
        steady("p99.9 of a producer's calls, 10 % missing, times steady", WITHOUT_10),
        steady("p99.9 of a producer's calls, 50 % missing, times steady", WITHOUT_50),
    ],
};

type Of = &'static [(&'static str, &'static str)];

const WITHOUT_0: Of = &[("known", "1000000"), ("missing %", "0")];
const WITHOUT_1: Of = &[("known", "1000000"), ("missing %", "1")];
const WITHOUT_10: Of = &[("known", "1000000"), ("missing %", "10")];
const WITHOUT_50: Of = &[("known", "1000000"), ("missing %", "50")];

const fn faster(what: &'static str, case: Of) -> Bar {
    let (value, limit) = (Value::TimesAsGoodAs("B1"), Limit::AtLeast(1.5));
    Bar { number: 10, what, case, measure: REPLACE, value, limit }
}

const fn steady(what: &'static str, case: Of) -> Bar {
    Bar { number: 10, what, case, measure: TIMES, value: Value::Itself, limit: Limit::AtMost(2.0) }
}

fn first(size: Size) -> Vec<Case> {
    let objects: &[usize] =
        if size == Size::Quick { &[2_000, 20_000] } else { &[10_000, 150_000, 1_000_000] };
    objects.iter().map(|objects| Case::new().with("objects", objects)).collect()
}

fn again(size: Size) -> Vec<Case> {
    let (known, missing): (usize, &[usize]) =
        if size == Size::Quick { (20_000, &[0, 10]) } else { (1_000_000, &[0, 1, 10, 50]) };
    missing.iter().map(|missing| Case::new().with("known", known).with("missing %", missing)).collect()
}

fn blocks(size: Size, _: &Case) -> Blocks {
    Blocks::Usually(match size {
        Size::Quick => 2,
        Size::Normal => 5,
        Size::Full => 30,
    })
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let known = case.0[0].0 == "known";
    let objects: usize = case.get(if known { "known" } else { "objects" });
    let missing = if known { objects * case.get::<usize>("missing %") / 100 } else { 0 };
    let keys = KeySet::new(objects, setting.seed);
    let times = if setting.size == Size::Quick { 1 } else { OBJECTS.div_ceil(objects) };
    let steady = if setting.size == Size::Quick { 20 } else { (200 / times as u64).max(10) };
    let relist = Relist {
        known,
        missing,
        rate: RATE,
        steady: Duration::from_millis(steady),
        patience: Duration::from_secs(20),
    };
    let counting = setting.counting;
    Box::new(move |row: &str| {
        let run = Run { relist, keys: &keys, times, counting };
        peers::visit_lists(row, run).expect("only those that take lists have rows")
    })
}

struct Run<'a> {
    relist: Relist,
    keys: &'a KeySet,
    times: usize,
    counting: bool,
}

impl VisitLists for Run<'_> {
    type Out = Sample;

    fn visit<P: Lists>(self) -> Sample {
        let Self { relist, keys, times, counting } = self;
        if counting {
            let (bytes, violations) = relist::count(&P::new(), relist, keys, allocator::METER);
            return Sample::new(violations).lower("peak beside the list, per key", "bytes", bytes);
        }
        let mut all = relist::run(&P::new(), relist, keys);
        for _ in 1..times {
            let one = relist::run(&P::new(), relist, keys);
            all.replace += one.replace;
            all.handling += one.handling;
            all.steady += one.steady;
            all.during += one.during;
            all.violations.extend(one.violations);
        }
        let per_object = |time: Duration| time.as_nanos() as f64 / (times * keys.len()) as f64;
        let at = |calls: &Histogram<u64>| calls.value_at_quantile(0.999) as f64;
        let sample = Sample::new(all.violations)
            .lower(REPLACE, "ns", per_object(all.replace))
            .lower("replace and all its pops, per object", "ns", per_object(all.replace + all.handling))
            .lower(STEADY, "ns", at(&all.steady))
            .lower(DURING, "ns", at(&all.during))
            .lower("slowest call, steady", "ns", all.steady.max() as f64)
            .lower("slowest call, during the replace", "ns", all.during.max() as f64)
            .lower(TIMES, "×", at(&all.during) / at(&all.steady));
        if times > 1 {
            return sample;
        }
        // Nearly all of it: who calls stands still.
        let part = all.during.max() as f64 / all.replace.as_nanos() as f64;
        sample.lower("slowest call during the replace, part of its time", "%", 100.0 * part)
    }
}
