//! W1c: what gathering buys under overload.

use delta_fifo_perf::peers::{self, Peer, Setup, Visit};
use delta_fifo_perf::workload::KeySet;
use delta_fifo_perf::workload::overload::{self, Draws, Keys, Overloaded};

use super::{Blocks, Case, Counted, Runs, Sample, Setting, Size, Trial};

pub(super) static TRIAL: Trial = Trial {
    id: "W1c",
    about: "updates of known keys, drawn at random, with no window: changes gather. Who is slower gathers more and does less, so \
            there is no bar, and no time is to be compared without the changes in a lease beside it",
    cases,
    rows: |_| vec!["sharded", "B0", "B1", "B2", "B3", "B4"],
    against: &[],
    blocks: |size, _| Blocks::Usually(if size == Size::Quick { 2 } else { 30 }),
    counted: Counted::No,
    prepare,
    bars: &[],
};

fn cases(size: Size) -> Vec<Case> {
    let (known, threads): (&[usize], &[usize]) = match size {
        Size::Quick => (&[1_000], &[1]),
        Size::Normal => (&[1_000, 100_000], &[1]),
        Size::Full => (&[1_000, 100_000, 1_000_000], &[1, 2]),
    };
    let mut cases = Vec::new();
    for keys in ["uniform", "Zipf 0.99"] {
        for known in known {
            let case = |threads| Case::new().with("keys", keys).with("known", known).with("threads", threads);
            cases.extend(threads.iter().map(case));
        }
    }
    cases
}

fn prepare(case: &Case, setting: &Setting) -> Box<dyn Runs> {
    let changes = if setting.size == Size::Quick { 20_000 } else { 300_000 };
    let which = if case.text("keys") == "uniform" { Keys::Uniform } else { Keys::Zipf };
    let (keys, threads) = (KeySet::new(case.get("known"), setting.seed), case.get("threads"));
    let draws = Draws::new(&keys, which, threads, changes, setting.seed);
    Box::new(move |row: &str| peers::visit(row, Run(&draws, threads, &keys)).expect("all rows are peers"))
}

struct Run<'a>(&'a Draws, usize, &'a KeySet);

impl Visit for Run<'_> {
    type Out = Sample;

    fn visit<P: Peer>(self) -> Sample {
        let Self(draws, consumers, keys) = self;
        let Overloaded { elapsed, offered, leases, violations } =
            overload::run(&P::set_up(&Setup::of(keys)), draws, consumers, keys);
        let offered = offered as f64;
        Sample::new(violations)
            .lower("time per change offered", "ns", elapsed.as_nanos() as f64 / offered)
            .lower("time per lease handed out", "ns", elapsed.as_nanos() as f64 / leases as f64)
            .higher("changes in a lease", "changes", offered / leases as f64)
            .lower("leases for a thousand changes", "leases", 1e3 * leases as f64 / offered)
    }
}
