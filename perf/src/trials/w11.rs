//! W11: recorded cluster traces at fixed rates.

mod decode;

use std::time::Duration;

use delta_fifo_perf::peers::{self, Lists, VisitLists};
use delta_fifo_perf::workload::replay::{self, Replay, Replayed, Trace as Recording};
use rustix::time::{ClockId, clock_gettime};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};
use crate::allocator;
use crate::machine::resident_kib;

const NOTHING: &str = "nothing";
const PROCESSOR: &str = "processor time of queue and store, per change";

macro_rules! recorded {
    ($($name:literal),+) => {
        &[$(($name, include_bytes!(concat!("../../data/traces/", $name, ".jsonl.zst")))),+]
    };
}

/// Part of the program, so that it runs anywhere.
static RECORDED: &[(&str, &[u8])] = recorded!["pods-relist", "configmaps-churn"];

pub(super) static TRIAL: Trial = Trial {
    id: "W11",
    about: "recorded traffic of an API server, round and round at a fixed rate, four consumers",
    cases,
    rows: |_| vec![NOTHING, "sharded", "B0", "B1"],
    against: &["B1"],
    blocks: |size, _| {
        Blocks::Usually(match size {
            Size::Quick => 2,
            Size::Normal => 10,
            Size::Full => 30,
        })
    },
    counted: Counted::Too,
    prepare,
    bars: &[
        bar("processor time per change, pods-relist, divided by B1's", PODS),
        bar("the same, configmaps-churn", CONFIG_MAPS),
    ],
};

type Of = &'static [(&'static str, &'static str)];

const PODS: Of = &[("trace", "pods-relist"), ("changes/s", "25000")];
const CONFIG_MAPS: Of = &[("trace", "configmaps-churn"), ("changes/s", "25000")];

const fn bar(what: &'static str, case: Of) -> Bar {
    Bar {
        number: 14,
        what,
        case,
        measure: PROCESSOR,
        value: Value::DividedBy("B1"),
        limit: Limit::AtMost(0.8),
    }
}

fn cases(size: Size) -> Vec<Case> {
    // What a large cluster makes; and what four of the largest that are known would.
    let rates: &[u32] = match size {
        Size::Quick => &[100_000],
        Size::Normal => &[25_000],
        Size::Full => &[25_000, 100_000],
    };
    let of = |&(name, _): &(&str, _)| {
        let name = name.to_owned();
        rates.iter().map(move |rate| Case::new().with("trace", &name).with("changes/s", rate))
    };
    RECORDED.iter().flat_map(of).collect()
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let recording = recording(case.text("trace"));
    let rate: f64 = case.get("changes/s");
    let seconds = match setting.size {
        Size::Quick => 0.1,
        Size::Normal => 2.0,
        Size::Full => 5.0,
    };
    let rounds = (seconds * rate / recording.changes() as f64).ceil() as usize;
    let replay = Replay { consumers: 4, rate, rounds, processor };
    let counting = setting.counting;
    // Of the block's own run, or of the one before.
    let mut without = replay::nothing(replay, &recording).processor;
    Box::new(move |row: &str| {
        if row == NOTHING {
            let run = replay::nothing(replay, &recording);
            without = run.processor;
            let per_change = run.processor.as_nanos() as f64 / run.changes as f64;
            return sample(run).lower("processor time without a queue, per change", "ns", per_change);
        }
        let run = Run { replay, recording: &recording, counting, without };
        peers::visit_lists(row, run).expect("only those that take lists have rows")
    })
}

fn recording(name: &str) -> Recording {
    let found = RECORDED.iter().find(|(other, _)| *other == name).expect("cases are made of these");
    // Part of the program: a test decodes all of them.
    decode::decode(found.1).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Of all threads of this process.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn sample(run: Replayed) -> Sample {
    let at = |quantile| run.latencies.value_at_quantile(quantile) as f64;
    Sample::new(run.violations)
        .lower("p50 from the due moment to the lease", "ns", at(0.5))
        .lower("p99.9", "ns", at(0.999))
        .lower("slowest", "ns", run.latencies.max() as f64)
}

struct Run<'a> {
    replay: Replay,
    recording: &'a Recording,
    counting: bool,
    without: Duration,
}

impl VisitLists for Run<'_> {
    type Out = Sample;

    fn visit<P: Lists>(self) -> Sample {
        let Self { replay, recording, counting, without } = self;
        if counting {
            return count::<P>(replay, recording);
        }
        let mut resident = 0;
        let at_end = &mut || resident = resident_kib().unwrap_or(0);
        let run = replay::run(&P::new(), replay, recording, [&mut || (), at_end]);
        let own = (run.processor.as_nanos() as f64 - without.as_nanos() as f64) / run.changes as f64;
        sample(run)
            .lower(PROCESSOR, "ns", own)
            .lower("the same, seconds per million changes", "s", own / 1e3)
            .lower("resident memory at the end, of the process", "KiB", resident as f64)
    }
}

/// Bytes of the queue and of what is told to it: lists, objects, of which each change has one.
fn count<P: Lists>(replay: Replay, recording: &Recording) -> Sample {
    let meter = allocator::METER;
    let before = (meter.live)();
    let peer = P::new();
    let empty = (meter.live)() - before;
    let (mut begun, mut most) = (0, 0);
    let at_start = &mut || {
        begun = (meter.live)();
        (meter.forget_peak)();
    };
    let run = replay::run(&peer, replay, recording, [at_start, &mut || most = (meter.peak)()]);
    Sample::new(run.violations).lower("most memory at once", "bytes", (empty + most - begun) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use delta_fifo_perf::workload::replay::Step;

    #[test]
    fn recordings_are_what_was_recorded() {
        // As the recorder counted them: lists, ADDED, MODIFIED, DELETED, keys, those at the end.
        for (name, expected) in [
            ("pods-relist", [5, 5_353, 21_799, 5_381, 3_293, 1_026]),
            ("configmaps-churn", [1, 6_539, 19_306, 6_451, 299, 239]),
        ] {
            // 200 MB of JSON: that takes 20 s where nothing is optimized.
            if cfg!(debug_assertions) && name == "pods-relist" {
                continue;
            }
            let recording = recording(name);
            let steps = |is: fn(&Step) -> bool| recording.steps.iter().filter(|step| is(step)).count();
            let counted = [
                steps(|step| matches!(step, Step::List(_))),
                steps(|step| matches!(step, Step::Add(_))),
                steps(|step| matches!(step, Step::Update(_))),
                steps(|step| matches!(step, Step::Delete(_))),
                recording.keys.len(),
                recording.end.iter().filter(|exists| **exists).count(),
            ];
            assert_eq!(counted, expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let decode = |text: &str| decode::decode(&zstd::encode_all(text.as_bytes(), 1).unwrap());
        let list = r#"{"t":1,"kind":"list","page":1,"last":true,"items":[{"metadata":{"name":"a"}}]}"#;
        let event = |kind: &str| {
            format!(r#"{{"t":2,"kind":"event","type":"{kind}","object":{{"metadata":{{"name":"a"}}}}}}"#)
        };
        let end = r#"{"kind":"final","items":[["a","2"]]}"#;
        let modified = event("MODIFIED");
        let whole = [list, &modified, end].join("\n");
        let trace = decode(&whole).unwrap();
        assert_eq!(trace.steps, [Step::List(vec![0]), Step::Update(0)]);
        assert_eq!((trace.changes(), trace.end), (2, vec![true]));
        for (lines, by) in [
            ([list, &modified, ""], "no end"),
            ([list, &event("DELETED"), end], "do not lead to the end"),
            ([list, &event("ADDED"), end], "not so"),
            ([list, "{", end], "line 2"),
        ] {
            let error = decode(lines.join("\n").trim()).unwrap_err().to_string();
            assert!(error.contains(by), "{by}: {error}");
        }
    }

    #[test]
    fn the_processor_is_what_threads_take() {
        let before = processor();
        std::thread::sleep(Duration::from_millis(20));
        let slept = processor() - before;
        while processor() - before < slept + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
    }
}
