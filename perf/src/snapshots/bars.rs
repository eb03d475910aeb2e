//! The bars for snapshots. One is met if the end of the interval that is worse for the queue meets it, with the allocator that
//! is worse for it.

use std::fmt::Write;

use crate::bars::{BLOCKS, PEER, caveat, verdict};
use crate::report::with_interval;
use crate::stats::Estimate;

use super::{PLAIN, Report, Row, SCAN, SNAPSHOT, writing};

/// What stands for the persistent maps.
const PERSISTENT: &str = "imbl";

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn worse(self, estimate: Estimate) -> f64 {
        match self {
            Self::AtLeast(_) => estimate.low,
            Self::AtMost(_) => estimate.high,
        }
    }

    fn is_met(self, estimate: Estimate) -> bool {
        match self {
            Self::AtLeast(limit) => estimate.low >= limit,
            Self::AtMost(limit) => estimate.high <= limit,
        }
    }

    /// Of several measurements the one that is furthest on the wrong side.
    fn worst<'r>(self, measured: impl Iterator<Item = (Estimate, &'r str)>) -> Option<(Estimate, &'r str)> {
        measured.max_by(|(a, _), (b, _)| {
            let (a, b) = (self.worse(*a), self.worse(*b));
            match self {
                Self::AtLeast(_) => b.total_cmp(&a),
                Self::AtMost(_) => a.total_cmp(&b),
            }
        })
    }
}

/// Block by block.
fn ratio(above: &Row, below: &Row) -> Option<Estimate> {
    let both = above.by_block.iter().zip(&below.by_block);
    Estimate::of(&both.filter_map(|(above, below)| Some((*above)? / (*below)?)).collect::<Vec<_>>())
}

/// The largest snapshot of a block divided by the smallest.
fn spread(report: &Report, sizes: &[usize]) -> Option<Estimate> {
    let rows: Vec<&Row> =
        sizes.iter().map(|&keys| report.row(keys, SNAPSHOT, PEER)).collect::<Option<_>>()?;
    let blocks = (0..report.blocks).filter_map(|block| {
        let times: Vec<f64> = rows.iter().map(|row| row.by_block[block]).collect::<Option<_>>()?;
        Some(
            times.iter().fold(0.0, |a: f64, b| a.max(*b))
                / times.iter().fold(f64::INFINITY, |a, b| a.min(*b)),
        )
    });
    (sizes.len() > 1).then(|| Estimate::of(&blocks.collect::<Vec<_>>()))?
}

/// The bars as a table; nothing if the queue did not run.
pub(super) fn table(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let mut sizes: Vec<usize> =
        first.rows.iter().filter(|row| row.store == PEER).map(|row| row.keys).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "Bars for {PEER}: the worse end of the interval with the worse allocator\n{:<72} {:>9}  {:>22}  {:<9} verdict\n",
        "", "bar", "measured", "allocator"
    );
    let mut line = |what: String, limit: Limit, digits: usize, of: &dyn Fn(&Report) -> Option<Estimate>| {
        let all = reports.iter().filter_map(|report| Some((of(report)?, report.allocator.name())));
        let worst = limit.worst(all);
        let bar = match limit {
            Limit::AtLeast(limit) => format!("≥ {limit}"),
            Limit::AtMost(limit) => format!("≤ {limit}"),
        };
        let measured = worst.map_or("–".into(), |(estimate, _)| with_interval(estimate, digits));
        let allocator = worst.map_or("–", |(_, allocator)| allocator);
        let verdict = verdict(worst.map(|(estimate, _)| limit.is_met(estimate)));
        let _ = writeln!(text, "{what:<72} {bar:>9}  {measured:>22}  {allocator:<9} {verdict}");
    };
    // With two cores a reader takes something from the writer whatever it reads.
    let (reference, name) = match first.machine.nproc {
        0..=2 => (writing("1 elsewhere"), "one scans another map"),
        _ => (writing("0 readers"), "nobody reads"),
    };
    let with_reader = writing("1 reader");
    for &keys in &sizes {
        line(format!("{keys} keys: snapshot(), ns"), Limit::AtMost(1_000.0), 1, &|report| {
            report.row(keys, SNAPSHOT, PEER)?.estimate()
        });
    }
    line("snapshot(), the slowest size divided by the fastest".into(), Limit::AtMost(1.5), 2, &|report| {
        spread(report, &sizes)
    });
    for &keys in &sizes {
        let what = format!("{keys} keys: writes while one scans, of those while {name}");
        line(what, Limit::AtLeast(0.9), 2, &|report| {
            ratio(report.row(keys, &reference, PEER)?, report.row(keys, &with_reader, PEER)?)
        });
    }
    for &keys in &sizes {
        let what = format!("{keys} keys: writes while one scans, times {PERSISTENT}");
        line(what, Limit::AtLeast(3.0), 2, &|report| {
            ratio(report.row(keys, &with_reader, PERSISTENT)?, report.row(keys, &with_reader, PEER)?)
        });
    }
    for &keys in &sizes {
        line(format!("{keys} keys: scan, of a plain hash map's rate"), Limit::AtLeast(0.5), 2, &|report| {
            ratio(report.row(keys, SCAN, PLAIN)?, report.row(keys, SCAN, PEER)?)
        });
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
    use crate::machine::{Disturbance, Machine};

    fn report(allocator: Allocator, rows: &[(usize, &str, &str, [f64; 2])]) -> Report {
        let disturbance = Disturbance {
            load_before: None,
            load_after: None,
            steal_percent: Some(0.0),
            others_percent: Some(0.0),
        };
        let mut machine = Machine::detect();
        machine.nproc = 2;
        let (workload, rows) = ("snapshots".into(), rows.iter());
        let rows = rows.map(|&(keys, what, store, ns)| Row {
            keys,
            what: what.into(),
            store: store.into(),
            by_block: ns.map(Some).to_vec(),
        });
        let rows = rows.collect();
        Report {
            workload,
            allocator,
            machine,
            disturbance,
            blocks: 2,
            seed: 1,
            rows,
            sweeps: None,
            figures: Vec::new(),
            notes: Vec::new(),
            void: Vec::new(),
            valid: true,
        }
    }

    fn line(text: &str, part: &str) -> String {
        text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}")).to_owned()
    }

    #[test]
    fn each_bar_has_its_direction() {
        let with_reader = writing("1 reader");
        let rows = [
            (1_000, SNAPSHOT, PEER, [200.0, 200.0]),
            (1_000_000, SNAPSHOT, PEER, [250.0, 400.0]),
            (1_000, &*with_reader, PEER, [100.0, 100.0]),
            (1_000, &*writing("1 elsewhere"), PEER, [95.0, 95.0]),
            (1_000, &*writing("0 readers"), PEER, [10.0, 10.0]),
            (1_000, &*with_reader, PERSISTENT, [290.0, 290.0]),
            (1_000, SCAN, PEER, [8.0, 8.0]),
            (1_000, SCAN, PLAIN, [4.0, 4.0]),
        ];
        let mut worse = rows;
        worse[0].3 = [1_001.0, 1_001.0];
        let text = table(&[report(Allocator::System, &rows), report(Allocator::Mimalloc, &worse)]);
        let slow = line(&text, "1000 keys: snapshot()");
        assert!(slow.contains("mimalloc") && slow.ends_with("MISSED"), "{slow}");
        assert!(line(&text, "1000000 keys: snapshot()").ends_with(" met"), "{text}");
        assert!(line(&text, "slowest size").ends_with("MISSED"), "{text}");
        assert!(
            line(&text, "1000 keys: writes while one scans, of those while one").ends_with(" met"),
            "{text}"
        );
        assert!(line(&text, "1000 keys: writes while one scans, times").ends_with("MISSED"), "{text}");
        assert!(line(&text, "1000 keys: scan").contains("0.50 [0.50–0.50]"), "{text}");
        assert!(line(&text, "1000000 keys: scan").ends_with("not measured"), "{text}");
        assert_eq!(table(&[report(Allocator::System, &[])]), "");
    }
}
