//! The bars that the sharded queue has to clear: how many times as fast as its rivals it must at least be. A bar is met if
//! the lower end of the interval is above it, with the allocator that is worse for the queue.

use std::fmt::Write;

use crate::machine::{Disturbance, Verdict};
use crate::report::{Report, with_interval};
use crate::stats::Estimate;

pub(crate) const PEER: &str = "sharded";
const KNOWN: usize = 100_000;
/// Fewer blocks make no claim.
pub(crate) const BLOCKS: usize = 30;

struct Bar {
    threads: usize,
    batch: usize,
    against: &'static str,
    at_least: f64,
}

const fn bar(threads: usize, batch: usize, against: &'static str, at_least: f64) -> Bar {
    Bar { threads, batch, against, at_least }
}

const BARS: [Bar; 7] = [
    bar(1, 1, "B1", 1.6),
    bar(1, 1, "B0", 3.5),
    bar(1, 1, "B3", 1.0),
    bar(1, 32, "B1", 1.0),
    bar(1, 32, "B3", 1.0),
    bar(4, 1, "B1", 1.5),
    bar(4, 1, "B3", 1.1),
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
        let case = report.cases.iter().find(|case| {
            (case.known, case.producers, case.consumers, case.batch)
                == (KNOWN, self.threads, self.threads, self.batch)
        })?;
        let row = case.rows.iter().find(|row| row.peer == PEER)?;
        *row.times_as_fast_as.get(self.against)?
    }
}

/// The bars as a table.
pub(crate) fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "Bars for {PEER}, {KNOWN} known keys, windowed: the lower end of the interval with the worse allocator\n\
         {:<8} {:>5}  {:>7}  {:>8}  {:>20}  {:<10} verdict\n",
        "threads", "batch", "times", "at least", "measured", "allocator"
    );
    for bar in &BARS {
        let worst = bar.worst(reports);
        let (measured, allocator) =
            worst.map_or(("–".into(), "–"), |(ratio, name)| (with_interval(ratio, 2), name));
        let _ = writeln!(
            text,
            "{:<8} {:>5}  {:>7}  {:>8.1}  {measured:>20}  {allocator:<10} {}",
            format!("({0},{0})", bar.threads),
            bar.batch,
            bar.against,
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

    /// Ratio by block to B1 with (1,1), one by one.
    fn measured(allocator: Allocator, ratios: [f64; 3]) -> Report {
        report_of(allocator, KNOWN, &[(PEER, [100.0; 3]), ("B1", ratios.map(|ratio| 100.0 * ratio))])
    }

    fn line(reports: &[Report], against: &str) -> String {
        let table = table(reports);
        let mut lines = table.lines().filter(|line| line.starts_with("(1,1)"));
        lines.find(|line| line.contains(&format!(" {against} "))).unwrap().to_owned()
    }

    #[test]
    fn the_worse_allocator_and_the_lower_end_decide() {
        let good = measured(Allocator::System, [2.0; 3]);
        let met = line(&[good, measured(Allocator::Mimalloc, [1.9; 3])], "B1");
        assert!(met.contains("1.90 [1.90–1.90]  mimalloc") && met.ends_with(" met"), "{met}");
        // The median alone would do.
        let good = measured(Allocator::System, [2.0; 3]);
        let missed = line(&[good, measured(Allocator::Mimalloc, [1.0, 1.9, 2.0])], "B1");
        assert!(missed.contains("mimalloc") && missed.ends_with(" MISSED"), "{missed}");
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let reports = [measured(Allocator::System, [2.0; 3])];
        assert!(line(&reports, "B3").ends_with(" not measured"));
        assert!(table(&reports).contains("One allocator only"));
        assert!(table(&reports).contains("Fewer than 30 blocks"));
        assert!(!table(&reports).contains("quiet machine"));
        let mut busy = measured(Allocator::System, [2.0; 3]);
        busy.disturbance.others_percent = Some(50.0);
        assert!(table(&[busy]).contains("quiet machine"));
        let elsewhere = report_of(Allocator::System, 1_000, &[(PEER, [1.0; 3]), ("B1", [9.0; 3])]);
        assert!(line(&[elsewhere], "B1").ends_with(" not measured"));
    }
}
