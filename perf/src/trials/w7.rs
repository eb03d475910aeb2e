//! W7: slow consumers.

use std::time::Duration;

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::paced::{self, Calls, Pace};
use delta_fifo_perf::workload::parallel::{self, Work};

use super::{Bar, Blocks, Case, Counted, Limit, Runs, Sample, Setting, Size, Trial, Value};

const NOTHING: &str = "no queue";
const RATIO: &str = "p99, by that without handlers";
const TURNS: &str = "handlers in a second";

/// As many as the largest clusters make.
const RATE: f64 = 20_000.0;

const HANDLERS: &str = "handlers sleep";
const WORKERS: &str = "workers";
/// In the cases about the producer.
const PENDING: &str = "pending";
/// In the cases about the workers.
const KEYS: &str = "keys";

pub(super) static TRIAL: Trial = Trial {
    id: "W7",
    about: "slow consumers: a producer's calls, 20,000 a second, from the moment each is due; and how many handlers run in a \
            second, each of which changes its key again. B1f is B1 with fair unlocks, B0p B0 with handlers under the lock",
    cases,
    rows,
    against: &[NOTHING],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[
        calls(
            "1 ms handlers: the producer's p99, by that without handlers",
            &[(HANDLERS, "1000 µs"), (WORKERS, "4"), (PENDING, "0")],
        ),
        calls(
            "the same with 5,000 keys pending",
            &[(HANDLERS, "1000 µs"), (WORKERS, "4"), (PENDING, "5000")],
        ),
        turns(
            "4 workers, 4 keys, 1 ms: handlers in a second, by those without a queue",
            &[(HANDLERS, "1000 µs"), (WORKERS, "4"), (KEYS, "4")],
        ),
        turns("16 workers, 16 keys, 1 ms: the same", &[(HANDLERS, "1000 µs"), (WORKERS, "16"), (KEYS, "16")]),
        turns(
            "16 workers, 256 keys, 1 ms: the same",
            &[(HANDLERS, "1000 µs"), (WORKERS, "16"), (KEYS, "256")],
        ),
        turns("16 workers, 16 keys, 10 µs: the same", &[(HANDLERS, "10 µs"), (WORKERS, "16"), (KEYS, "16")]),
        turns(
            "16 workers, 16 keys, 100 ms: the same",
            &[(HANDLERS, "100000 µs"), (WORKERS, "16"), (KEYS, "16")],
        ),
    ],
};

type Values = &'static [(&'static str, &'static str)];

const fn calls(what: &'static str, case: Values) -> Bar {
    let (value, limit) = (Value::Itself, Limit::AtMost(1.1));
    Bar { number: 7, what, case, measure: RATIO, value, limit }
}

const fn turns(what: &'static str, case: Values) -> Bar {
    let (value, limit) = (Value::TimesAsGoodAs(NOTHING), Limit::AtLeast(0.95));
    Bar { number: 8, what, case, measure: TURNS, value, limit }
}

fn cases(size: Size) -> Vec<Case> {
    let (handlers, workers): (&[u64], &[usize]) = match size {
        Size::Quick => (&[1_000], &[4]),
        Size::Normal => (&[1_000], &[4, 16]),
        Size::Full => (&[10, 1_000, 100_000], &[1, 4, 16]),
    };
    let mut cases = Vec::new();
    for handler in handlers {
        for workers in workers {
            let case = || Case::new().with(HANDLERS, format!("{handler} µs")).with(WORKERS, workers);
            cases.extend([0, 5_000].map(|pending| case().with(PENDING, pending)));
            cases.extend([1, 16].map(|times| case().with(KEYS, times * workers)));
        }
    }
    cases
}

fn is_of_calls(case: &Case) -> bool {
    case.0.iter().any(|(name, _)| *name == PENDING)
}

/// Those that gather nothing would queue up more and more.
fn rows(case: &Case) -> Vec<&'static str> {
    if is_of_calls(case) {
        vec![NOTHING, "sharded", "B0", "B0p", "B1", "B1f", "B2", "B3"]
    } else {
        // Under the lock one handler runs at a time, and must not change anything.
        vec![NOTHING, "sharded", "B0", "B1", "B1f", "B2", "B3"]
    }
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let text = case.text(HANDLERS).trim_end_matches(" µs");
    let sleep = Duration::from_micros(text.parse().expect("microseconds"));
    let workers = case.get(WORKERS);
    let seconds = match setting.size {
        Size::Quick => 0.03,
        Size::Normal => 0.3,
        Size::Full => 1.0,
    };
    if is_of_calls(case) {
        let pending: usize = case.get(PENDING);
        let pace = Pace {
            consumers: workers,
            handler: sleep,
            rate: Some(RATE),
            calls: (RATE * seconds) as usize,
            pending: pending > 0,
            limit: Duration::from_secs_f64(3.0 * seconds),
        };
        let keys = KeySet::new(if pending > 0 { pending } else { 64 }, setting.seed);
        return Box::new(move |row: &str| calls_of(row, &pace, &keys));
    }
    let keys = KeySet::new(case.get(KEYS), setting.seed);
    // A sleep takes some 60 µs more than it should.
    let all = seconds * workers as f64 / (sleep.as_secs_f64() + 60e-6);
    let patience = Duration::from_secs(20);
    let work = Work { workers, sleep, patience, turns: ((all / keys.len() as f64) as usize).max(2) };
    Box::new(move |row: &str| {
        let (elapsed, violations) = peers::visit(row, Turns(&work, &keys))
            .unwrap_or_else(|| (parallel::bare(&work, keys.len()), Vec::new()));
        let rate = (work.turns * keys.len()) as f64 / elapsed.as_secs_f64();
        Sample::new(violations).higher(TURNS, "1/s", rate)
    })
}

/// With handlers that sleep and without, one right after the other.
fn calls_of(row: &str, pace: &Pace, keys: &KeySet) -> Sample {
    let free = Pace { handler: Duration::ZERO, pending: false, ..pace.clone() };
    let run = |pace: &Pace| peers::visit(row, Paced(pace, keys)).unwrap_or_else(|| without(pace));
    let (with, without) = (run(pace), run(&free));
    let us = |calls: &Calls, quantile| calls.latencies.value_at_quantile(quantile) as f64 / 1e3;
    let violations = [&with, &without].iter().flat_map(|calls| calls.violations.clone()).collect();
    let (p99, p99_without) = (us(&with, 0.99), us(&without, 0.99));
    Sample::new(violations)
        .lower("p50 of a call", "µs", us(&with, 0.5))
        .lower("p99 of a call", "µs", p99)
        .lower("p99.9 of a call", "µs", us(&with, 0.999))
        .lower("p99.99 of a call", "µs", us(&with, 0.9999))
        .lower("the longest call", "µs", us(&with, 1.0))
        .lower("p99 of a call without handlers", "µs", p99_without)
        .lower(RATIO, "times", p99 / p99_without)
        .lower("calls that could not be made in time", "%", 100.0 * with.owed as f64 / pace.calls as f64)
}

fn without(pace: &Pace) -> Calls {
    Calls { latencies: paced::empty(pace), elapsed: Duration::ZERO, owed: 0, violations: Vec::new() }
}

struct Paced<'a>(&'a Pace, &'a KeySet);

impl Visit for Paced<'_> {
    type Out = Calls;

    fn visit<P: Peer>(self) -> Calls {
        paced::run(&P::set_up(&Setup::of(self.1)), self.0, self.1)
    }
}

struct Turns<'a>(&'a Work, &'a KeySet);

impl Visit for Turns<'_> {
    type Out = (Duration, Vec<String>);

    fn visit<P: Peer>(self) -> Self::Out {
        let done = parallel::run(&P::set_up(&Setup::of(self.1)), self.0, self.1);
        (done.elapsed, done.violations)
    }
}
