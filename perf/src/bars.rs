//! The bars that the sharded queue has to clear in `compare`: how many times as fast as its rivals it must at least be. A bar is
//! met if the lower end of the interval is above it, with the allocator that is worse for the queue.

use std::fmt::Write;

use crate::machine::{Disturbance, Verdict};
use crate::report::{Report, Row, with_interval};
use crate::stats::Estimate;

pub(crate) const PEER: &str = "sharded";
/// Fewer blocks make no claim.
pub(crate) const BLOCKS: usize = 30;

/// As the table of bars numbers them.
struct Bar {
    number: u8,
    known: usize,
    /// Producers, and as many consumers.
    threads: usize,
    batch: usize,
    against: Against,
    at_least: f64,
}

#[derive(Clone, Copy)]
enum Against {
    Peer(&'static str),
    /// Each of them, and so the best.
    BestOf(&'static [&'static str]),
    /// Itself with so many producers and consumers.
    Itself(usize),
}
use Against::{BestOf, Itself, Peer};

impl Against {
    fn name(self) -> String {
        match self {
            Peer(id) => id.into(),
            BestOf(ids) => ids.join("|"),
            Itself(threads) => format!("({threads},{threads})"),
        }
    }
}

const fn bar(number: u8, known: usize, threads: usize, against: Against, at_least: f64) -> Bar {
    // Only the second is of batches.
    Bar { number, known, threads, batch: if number == 2 { 32 } else { 1 }, against, at_least }
}

const BATCHED: Against = BestOf(&["B1", "B3", "B4"]);

const BARS: [Bar; 17] = [
    bar(1, 100_000, 1, Peer("B1"), 1.9),
    bar(1, 100_000, 1, Peer("B0"), 4.0),
    bar(1, 100_000, 1, Peer("B3"), 1.15),
    bar(1, 1_000_000, 1, Peer("B1"), 1.9),
    bar(1, 1_000_000, 1, Peer("B0"), 4.0),
    bar(1, 1_000_000, 1, Peer("B3"), 1.15),
    bar(2, 100_000, 1, BATCHED, 1.2),
    bar(2, 1_000_000, 1, BATCHED, 1.2),
    bar(3, 1_000, 1, Peer("B1"), 1.2),
    bar(3, 1_000, 1, Peer("B3"), 1.0),
    bar(4, 100_000, 2, Peer("B1"), 2.0),
    bar(4, 100_000, 2, Peer("B3"), 1.2),
    bar(4, 100_000, 4, Peer("B1"), 2.0),
    bar(4, 100_000, 4, Peer("B3"), 1.2),
    bar(4, 100_000, 8, Peer("B1"), 2.0),
    bar(4, 100_000, 8, Peer("B3"), 1.2),
    bar(4, 100_000, 8, Itself(2), 0.8),
];

/// `met` only if so measured; what was not measured is neither.
pub(crate) fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "not measured",
    }
}

/// A verdict is worth what the machine's quiet is.
pub(crate) fn caveat(disturbances: impl IntoIterator<Item = Disturbance>) -> &'static str {
    if disturbances.into_iter().all(|it| it.verdict() == Verdict::Quiet) {
        ""
    } else {
        "Not known to be from a quiet machine: these verdicts claim nothing.\n"
    }
}

impl Bar {
    /// The ratio with the worse allocator, and that one's name.
    fn worst(&self, reports: &[Report]) -> Option<(Estimate, &'static str)> {
        let measured =
            reports.iter().filter_map(|report| Some((self.ratio(report)?, report.allocator.name())));
        measured.min_by(|(a, _), (b, _)| a.low.total_cmp(&b.low))
    }

    fn ratio(&self, report: &Report) -> Option<Estimate> {
        let own = self.row(report, self.threads, PEER)?;
        let to = |threads, peer| own.ratio_to(self.row(report, threads, peer)?);
        match self.against {
            Peer(id) => to(self.threads, id),
            Itself(threads) => to(threads, PEER),
            BestOf(ids) => {
                let all: Option<Vec<_>> = ids.iter().map(|id| to(self.threads, id)).collect();
                all?.into_iter().min_by(|a, b| a.low.total_cmp(&b.low))
            }
        }
    }

    fn row<'r>(&self, report: &'r Report, threads: usize, peer: &str) -> Option<&'r Row> {
        let case = report.cases.iter().find(|case| {
            (case.known, case.producers, case.consumers, case.batch)
                == (self.known, threads, threads, self.batch)
        })?;
        case.rows.iter().find(|row| row.peer == peer)
    }
}

/// The bars as a table.
pub(crate) fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "Bars for {PEER}, windowed: the lower end of the interval with the worse allocator\n\
         {:<3} {:>9}  {:<7} {:>5}  {:>9}  {:>8}  {:>20}  {:<10} verdict\n",
        "bar", "known", "threads", "batch", "times", "at least", "measured", "allocator"
    );
    for bar in &BARS {
        let worst = bar.worst(reports);
        let (measured, allocator) =
            worst.map_or(("–".into(), "–"), |(ratio, name)| (with_interval(ratio, 2), name));
        let _ = writeln!(
            text,
            "{:<3} {:>9}  {:<7} {:>5}  {:>9}  {:>8.2}  {measured:>20}  {allocator:<10} {}",
            bar.number,
            bar.known,
            format!("({0},{0})", bar.threads),
            bar.batch,
            bar.against.name(),
            bar.at_least,
            verdict(worst.map(|(ratio, _)| ratio.low >= bar.at_least)),
        );
    }
    if reports.len() < 2 {
        text.push_str("One allocator only: the other may be the worse.\n");
    }
    if reports.iter().any(|report| report.blocks < BLOCKS) {
        let _ = writeln!(text, "Fewer than {BLOCKS} blocks: these verdicts claim nothing.");
    }
    text.push_str(caveat(reports.iter().map(|report| report.disturbance)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::Allocator;
    use crate::report::tests::report_of;

    const KNOWN: usize = 100_000;

    /// Ratio by block to B1 with (1,1), one by one.
    fn measured(allocator: Allocator, ratios: [f64; 3]) -> Report {
        report_of(allocator, KNOWN, &[(PEER, [100.0; 3]), ("B1", ratios.map(|ratio| 100.0 * ratio))])
    }

    /// Of all bars the one that begins like this.
    fn line(reports: &[Report], bar: &str, against: &str) -> String {
        let table = table(reports);
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut lines = table.lines().filter(|line| squeezed(line).starts_with(bar));
        lines.find(|line| line.contains(&format!(" {against} "))).unwrap().to_owned()
    }

    #[test]
    fn the_worse_allocator_and_the_lower_end_decide() {
        let good = || measured(Allocator::System, [2.1; 3]);
        let met = line(&[good(), measured(Allocator::Mimalloc, [1.95; 3])], "1 100000", "B1");
        assert!(met.contains("1.95 [1.95–1.95]  mimalloc") && met.ends_with(" met"), "{met}");
        // The median alone would do.
        let missed = line(&[good(), measured(Allocator::Mimalloc, [1.0, 1.95, 2.0])], "1 100000", "B1");
        assert!(missed.contains("mimalloc") && missed.ends_with(" MISSED"), "{missed}");
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let reports = [measured(Allocator::System, [2.0; 3])];
        assert!(line(&reports, "1 100000", "B3").ends_with(" not measured"));
        assert!(line(&reports, "1 1000000", "B1").ends_with(" not measured"));
        assert!(table(&reports).contains("One allocator only"));
        assert!(table(&reports).contains("Fewer than 30 blocks"));
        assert!(!table(&reports).contains("quiet machine"));
        let mut busy = measured(Allocator::System, [2.0; 3]);
        busy.disturbance.others_percent = Some(50.0);
        assert!(table(&[busy]).contains("quiet machine"));
    }

    #[test]
    fn the_best_rival_counts_and_all_must_have_run() {
        let batched = |rivals: &[(&str, [f64; 3])]| {
            let all: Vec<_> = [(PEER, [100.0; 3])].iter().chain(rivals).copied().collect();
            let mut report = report_of(Allocator::System, KNOWN, &all);
            report.cases[0].batch = 32;
            line(&[report], "2 100000", "B1|B3|B4")
        };
        let (slow, fast) = ([150.0; 3], [110.0; 3]);
        let missed = batched(&[("B1", slow), ("B3", slow), ("B4", fast)]);
        assert!(missed.contains("1.10 [1.10–1.10]") && missed.ends_with(" MISSED"), "{missed}");
        assert!(batched(&[("B1", slow), ("B3", slow), ("B4", slow)]).ends_with(" met"));
        assert!(batched(&[("B1", slow), ("B3", slow)]).ends_with(" not measured"));
    }

    #[test]
    fn more_threads_must_not_cost_much() {
        let with = |times: [f64; 3]| {
            let mut two = report_of(Allocator::System, KNOWN, &[(PEER, [100.0; 3]), ("B1", [1.0; 3])]);
            let mut eight = report_of(Allocator::System, KNOWN, &[(PEER, times), ("B1", [1.0; 3])]);
            (two.cases[0].producers, two.cases[0].consumers) = (2, 2);
            (eight.cases[0].producers, eight.cases[0].consumers) = (8, 8);
            two.cases.append(&mut eight.cases);
            line(&[two], "4 100000 (8,8)", "(2,2)")
        };
        assert!(with([120.0; 3]).ends_with(" met"));
        assert!(with([130.0; 3]).ends_with(" MISSED"));
    }
}
