//! The table that a person reads.

use std::fmt::{self, Write as _};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::options::Speed;
use crate::report::Report;

const LABEL: usize = 22;
const NUMBER: usize = 10;

/// Displays a report as a table.
pub(crate) struct Table<'a>(pub(crate) &'a Report<'a>);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        heading(f, report)?;
        changes(f, report)?;
        processing(f, report)?;
        times(f, report)?;
        verdict(f, report)
    }
}

fn heading(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let options = report.options;
    write!(f, "{}: {} recorded", report.trace.name, bytes(report.trace.arrived.bytes))?;
    writeln!(f, " in {}", time(report.trace.arrived.lasted))?;
    write!(
        f,
        "{} queue, {}, {}",
        options.queue.name(),
        counted(options.consumers.get(), "consumer"),
        options.speed
    )?;
    if !options.handler_delay.is_zero() {
        write!(f, ", handlers take {}", time(options.handler_delay))?;
    }
    writeln!(f, ", {}\n", counted(options.repeat.get(), "run"))
}

/// What came in beside what was handed out, so that the sums can be compared.
fn changes(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let (arrived, tally) = (&report.trace.arrived, &report.tally);
    let rule = "─".repeat(LABEL + NUMBER);
    let sum = arrived.changes();
    writeln!(f, "  {:<width$}    handed out", "came in", width = LABEL + NUMBER)?;
    writeln!(f, "  {rule}    {rule}")?;
    for (left, came_in, right, handed_out) in [
        ("objects of lists", arrived.listed(), "replaced", tally.replaced),
        ("ADDED", arrived.added - arrived.initial, "added", tally.added),
        ("MODIFIED", arrived.modified, "updated", tally.updated),
        ("DELETED", arrived.deleted, "deleted", tally.deleted),
        ("gone, by a relist only", arrived.vanished, "tombstones", tally.tombstones),
        ("", 0, "sync", tally.sync),
        ("", 0, "merged away", report.merged),
    ] {
        let came_in = if left.is_empty() { String::new() } else { grouped(came_in) };
        let handed_out = grouped(handed_out);
        writeln!(f, "  {left:<LABEL$}{came_in:>NUMBER$}    {right:<LABEL$}{handed_out:>NUMBER$}")?;
    }
    writeln!(f, "  {rule}    {rule}")?;
    let (left, right) = (grouped(sum), grouped(tally.deltas() + report.merged));
    writeln!(f, "  {:<LABEL$}{left:>NUMBER$}    {:<LABEL$}{right:>NUMBER$}", "changes", "changes")?;
    let kinds = if arrived.watch_lists > 0 {
        format!("{} by WatchList", arrived.watch_lists)
    } else {
        counted(arrived.pages, "page")
    };
    writeln!(
        f,
        "  from {} ({kinds}), {} resumed, {}, {}\n",
        counted(arrived.lists, "list"),
        counted_as(arrived.resumed, "watch", "watches"),
        counted(arrived.bookmarks, "bookmark"),
        counted(arrived.errors, "error"),
    )
}

fn processing(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let tally = &report.tally;
    let deltas = tally.deltas();
    let mean = ratio(deltas, tally.pops);
    row(f, "pops", &grouped(tally.pops), &format!("{mean:.2} changes each, at most {}", tally.largest_pop))?;
    let share = 100.0 * ratio(tally.sharing, deltas);
    row(f, "shared a pop", &grouped(tally.sharing), &format!("{share:.1} % of the changes handed out"))?;
    row(f, "re-created", &grouped(tally.recreated), "pops with another object of the same name")?;
    let expected = format!("{} in the server's final list", grouped(report.trace.expected.len() as u64));
    row(f, "known objects", &grouped(report.known), &expected)?;
    let mut index = counted(report.namespaces as u64, "namespace");
    if !report.phases.is_empty() {
        write!(index, ", {}", counted(report.nodes as u64, "node"))?;
        for (phase, pods) in &report.phases {
            write!(index, ", {} {phase}", grouped(pods.unsigned_abs()))?;
        }
    }
    row(f, "index", "", &index)
}

fn times(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    let at = |times: &Histogram<u64>, quantile| time(Duration::from_nanos(times.value_at_quantile(quantile)));
    let latency = &report.tally.latency;
    let since = match report.options.speed {
        Speed::Max => "from the producer's call to the lease",
        Speed::Times(_) => "from the recorded moment to the lease",
    };
    writeln!(f)?;
    row(f, "first sync", &time(report.first_sync()), "everything in the first list has been processed")?;
    row(f, "latency p50", &at(latency, 0.5), since)?;
    row(f, "latency p99", &at(latency, 0.99), "")?;
    row(f, "latency p99.9", &at(latency, 0.999), "")?;
    row(f, "producer p99", &at(&report.producer, 0.99), "for a change and its mark")?;
    row(f, "elapsed", &time(report.elapsed()), "from the first step until everything has been processed")
}

fn verdict(f: &mut fmt::Formatter<'_>, report: &Report<'_>) -> fmt::Result {
    if report.matches() {
        return writeln!(f, "\n  OK        keys and resource versions equal the server's final list");
    }
    writeln!(f, "\n  MISMATCH")?;
    report.mismatches().try_for_each(|mismatch| writeln!(f, "    {mismatch}"))
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, value: &str, note: &str) -> fmt::Result {
    let line = format!("  {label:<LABEL$}{value:>NUMBER$}    {note}");
    writeln!(f, "{}", line.trim_end())
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn counted(count: impl Into<u64>, noun: &str) -> String {
    counted_as(count, noun, &format!("{noun}s"))
}

fn counted_as(count: impl Into<u64>, one: &str, many: &str) -> String {
    let count = count.into();
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// `1234567` → `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits and the unit that makes them readable.
pub(crate) fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    // What would be rounded to 1000 of a unit is told in the next one.
    match nanoseconds {
        ..999.5 => format!("{nanoseconds} ns"),
        ..999.5e3 => format!("{} µs", three_digits(nanoseconds / 1e3)),
        ..999.5e6 => format!("{} ms", three_digits(nanoseconds / 1e6)),
        _ => format!("{} s", three_digits(nanoseconds / 1e9)),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        small @ ..999.5e3 => format!("{} kB", three_digits(small / 1e3)),
        large => format!("{} MB", three_digits(large / 1e6)),
    }
}

fn three_digits(number: f64) -> String {
    let decimals = match number {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let numbers: Vec<String> = [0, 999, 1000, 1_234_567].into_iter().map(grouped).collect();
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let times: Vec<String> = [900, 1_500, 12_340, 999_600, 2_000_000, 65_000_000_000]
            .into_iter()
            .map(|nanoseconds| time(Duration::from_nanos(nanoseconds)))
            .collect();
        assert_eq!(times, ["900 ns", "1.50 µs", "12.3 µs", "1.00 ms", "2.00 ms", "65.0 s"]);
    }
}
