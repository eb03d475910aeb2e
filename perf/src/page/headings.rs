//! What was measured on what, and what that means for the figures.

use super::input::Run;
use super::table::Table;
use super::text;
use crate::bars::BLOCKS;
use crate::machine::{Machine, Verdict};

/// A run's heading as names and values.
pub(crate) fn of(run: &Run) -> Vec<(&'static str, String)> {
    let Machine { nproc, cpu, kernel, rustc, commit, .. } = &run.machine;
    let [load, steal, others] = text::disturbance(run.disturbance);
    let sound = if run.valid { "yes" } else { "NO: some are void" };
    vec![
        ("allocator", run.allocator.clone()),
        ("blocks", if run.is_counted() { "counted, not timed".into() } else { run.blocks.to_string() }),
        ("all runs sound", sound.into()),
        ("machine", format!("{nproc} × {cpu}")),
        ("kernel", kernel.clone()),
        ("compiler", rustc.clone()),
        ("commit", commit.clone()),
        ("load before → after", load),
        ("steal", steal),
        ("used by others", others),
    ]
}

/// All headings, a row for each run.
pub(crate) fn table(runs: &[Run]) -> Table {
    let head = runs.first().map(of).unwrap_or_default();
    let head = ["run"].into_iter().chain(head.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
    let rows = runs.iter().map(|run| {
        let values = of(run).into_iter().map(|(_, value)| value);
        [format!("{} ({})", run.workload, run.label)].into_iter().chain(values).collect()
    });
    Table { about: "The runs".into(), is_of_words: true, head, rows: rows.collect() }
}

/// Why the figures of these runs may not be believed.
pub(crate) fn caveats(runs: &[Run]) -> Vec<String> {
    let timed = || runs.iter().filter(|run| !run.is_counted());
    // Each workload once, with those of its runs that are meant.
    let named = |is: &dyn Fn(&Run) -> bool| {
        let mut names: Vec<(&str, Vec<&str>)> = Vec::new();
        for run in timed().filter(|run| is(run)) {
            match names.iter_mut().find(|(workload, _)| *workload == run.workload) {
                Some((_, labels)) => labels.push(&run.label),
                None => names.push((&run.workload, vec![&run.label])),
            }
        }
        let names = names.iter().map(|(workload, labels)| format!("{workload} ({})", labels.join(", ")));
        let names: Vec<String> = names.collect();
        match timed().filter(|run| is(run)).count() {
            0 => None,
            all if all > 1 && all == timed().count() => Some("all that was timed".into()),
            _ => Some(names.join("; ")),
        }
    };
    let of_verdict = |verdict| named(&|run| run.disturbance.verdict() == verdict);
    let mut caveats = Vec::new();
    if let Some(names) = of_verdict(Verdict::Busy) {
        caveats.push(format!(
            "The machine was busy with something else: these figures say that all works, not how fast: {names}."
        ));
    }
    if let Some(names) = of_verdict(Verdict::Unknown) {
        caveats.push(format!(
            "Whether the machine was busy with something else is not known: nor is what these figures are worth: {names}."
        ));
    }
    if let Some(names) = named(&|run| run.blocks < BLOCKS) {
        caveats.push(format!("Fewer than {BLOCKS} blocks: these figures claim nothing: {names}."));
    }
    if let Some(names) = named(&|run| !run.finished) {
        caveats.push(format!("Cut off before all blocks were done: {names}."));
    }
    if runs.iter().any(|run| run.machine.commit.ends_with("-dirty")) {
        caveats.push("Built from changed sources: the commit does not say what was measured.".into());
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::super::input::tests::{report, runs};
    use super::*;

    #[test]
    fn what_is_not_to_be_believed_is_said() {
        assert_eq!(caveats(&runs(&[report("system", 30, "")])), [""; 0]);
        let few = caveats(&runs(&[report("system", 29, ""), report("counting", 1, "")]));
        assert!(few.len() == 1 && few[0].ends_with("claim nothing: W (system)."), "{few:?}");
        let busy = report("system", 30, "").replace(r#""others_percent": 0.0"#, r#""others_percent": 9.0"#);
        assert!(caveats(&runs(&[busy]))[0].starts_with("The machine was busy"));
        let unknown =
            report("system", 30, "").replace(r#""others_percent": 0.0"#, r#""others_percent": null"#);
        assert!(caveats(&runs(&[unknown]))[0].starts_with("Whether the machine was busy"));
        let cut = report("system", 30, "").replace(r#""valid": true"#, r#""valid": true, "finished": false"#);
        assert_eq!(caveats(&runs(&[cut])), ["Cut off before all blocks were done: W (system)."]);
        let dirty = report("system", 30, "").replace("abc", "abc-dirty");
        assert!(caveats(&runs(&[dirty]))[0].starts_with("Built from changed sources"));
    }
}
