//! Numbers and words as they are shown.

use std::collections::BTreeMap;

use crate::figures::Figure;
use crate::machine::Disturbance;
use crate::stats::Estimate;

/// `1,000,000` for digits alone.
pub(crate) fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that count; what is larger keeps all before the point.
pub(crate) fn significant(value: f64) -> String {
    // 99.96 is shown as 100, and needs no digit after the point.
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - (size * 1.0005).log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        _ if digits > 0 => text,
        Some(positive) => format!("-{}", grouped(positive)),
        None => grouped(&text),
    }
}

pub(crate) fn interval(Estimate { median, low, high }: Estimate) -> String {
    let [median, low, high] = [median, low, high].map(significant);
    if low == high { median } else { format!("{median} [{low}–{high}]") }
}

pub(crate) fn scaled(Estimate { median, low, high }: Estimate, factor: f64) -> Estimate {
    Estimate { median: median * factor, low: low * factor, high: high * factor }
}

/// As a change in percent: 1.05 is `+5.0 %`.
pub(crate) fn change(ratio: Estimate) -> String {
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(|ratio| 100.0 * (ratio - 1.0));
    if low == high { format!("{median:+.1} %") } else { format!("{median:+.1} % [{low:+.1} to {high:+.1}]") }
}

/// Short, for ticks: `1k`, `2.5`, `100M`.
pub(crate) fn tick(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // Enough digits for all that ticks fall on; trailing zeros say nothing.
    let text = format!("{value:.4}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The unit in which values up to `most` are read most easily, and what they are multiplied by.
pub(crate) fn unit(unit: &str, most: f64) -> (&str, f64) {
    match unit {
        "ns" if most >= 2e9 => ("ms", 1e-6),
        "ns" if most >= 2e4 => ("µs", 1e-3),
        _ => (unit, 1.0),
    }
}

/// Whether better is faster.
pub(crate) fn is_speed(unit: &str) -> bool {
    ["ns", "µs", "ms", "s"].contains(&unit) || unit.ends_with("/s")
}

/// What stands before `B1` in `times as fast as B1`.
pub(crate) fn as_good(unit: &str) -> &'static str {
    if is_speed(unit) { "as fast" } else { "as good" }
}

/// `W1: time per change`.
pub(crate) fn titled(workload: &str, measure: &str) -> String {
    if measure.starts_with(workload) { measure.into() } else { format!("{workload}: {measure}") }
}

/// All of a figure's name but its peer.
pub(crate) fn whole_name(figure: &Figure, nproc: usize) -> String {
    with_case(titled(&figure.workload, &figure.measure), &figure.case, nproc)
}

pub(crate) fn with_case(title: String, case: &BTreeMap<String, String>, nproc: usize) -> String {
    let keys = super::model::in_order(case.keys().map(String::as_str));
    keys.into_iter().fold(title, |title, key| title + " · " + &super::model::named(key, &case[key], nproc))
}

/// With the unit in which it is read most easily.
pub(crate) fn with_unit(estimate: Estimate, of: &str) -> String {
    let (unit, factor) = unit(of, estimate.median);
    format!("{} {unit}", interval(scaled(estimate, factor)))
}

/// A commit's first digits, and whether it was changed.
pub(crate) fn short_commit(commit: &str) -> String {
    let (hash, changed) = commit.split_once('-').map_or((commit, ""), |(hash, _)| (hash, " with changes"));
    hash.chars().take(10).chain(changed.chars()).collect()
}

/// `load 0.10 → 1.20`, and the shares of the processor that went elsewhere.
pub(crate) fn disturbance(it: Disturbance) -> [String; 3] {
    let number = |value: Option<f64>| value.map_or("unknown".into(), |value| format!("{value:.2}"));
    let share = |value: Option<f64>| value.map_or("not measured".into(), |value| format!("{value:.2} %"));
    [
        format!("{} → {}", number(it.load_before), number(it.load_after)),
        share(it.steal_percent),
        share(it.others_percent),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_what_counts() {
        let shown = [0.0, 0.01234, 0.000_1, 99.96, 0.5, 1.0, 12.34, 857.4, 1234.6, 1e6].map(significant);
        assert_eq!(
            shown,
            ["0", "0.0123", "0.000100", "100", "0.500", "1.00", "12.3", "857", "1,235", "1,000,000"]
        );
        assert_eq!([0.02, 2.5, 500.0, 1e3, 2.5e4, 1e6].map(tick), ["0.02", "2.5", "500", "1k", "25k", "1M"]);
        assert_eq!(interval(Estimate { median: 2.0, low: 1.5, high: 3.0 }), "2.00 [1.50–3.00]");
        assert_eq!(interval(Estimate { median: 2.0, low: 2.0, high: 2.0 }), "2.00");
        assert_eq!(change(Estimate { median: 1.05, low: 0.99, high: 1.1 }), "+5.0 % [-1.0 to +10.0]");
        assert_eq!(unit("ns", 1e6), ("µs", 1e-3));
        assert_eq!(with_unit(Estimate { median: 4e6, low: 2e4, high: 5e6 }, "ns"), "4,000 [20.0–5,000] µs");
        assert_eq!(short_commit("0123456789abcdef-dirty"), "0123456789 with changes");
        assert_eq!(unit("bytes", 1e9), ("bytes", 1.0));
    }
}
