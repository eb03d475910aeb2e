//! Tables, for both forms of the report.

use super::input::Measured;
use super::model::{Case, Loss, Part, Topic, is_rival, shown, times};
use super::text::{self, interval, scaled};
use crate::bars::PEER;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) about: String,
    /// On a phone its rows are better read one below the other, each cell on a line.
    pub(crate) is_of_words: bool,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// Worst first.
pub(crate) fn losses(losses: &[Loss<'_>]) -> Table {
    let head = ["times as good", "where", "run", "sharded", "the better peer", "better too"];
    let rows = losses.iter().map(|loss| {
        let Loss { run, own, rival, times, others } = loss;
        // An interval that holds 1 leaves open who is better.
        let doubt = if times.high >= 1.0 { " (may be none)" } else { "" };
        let value = |figure: &Measured| {
            figure.estimate.map_or("–".into(), |value| text::with_unit(value, &figure.unit))
        };
        vec![
            interval(*times) + doubt,
            text::whole_name(own, run.machine.nproc),
            run.label.clone(),
            value(own),
            format!("{}: {}", rival.peer, value(rival)),
            others.join(", "),
        ]
    });
    Table {
        about: "Where it loses, worst first".into(),
        is_of_words: true,
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

/// All values of a topic, and how the subject stands to each rival.
pub(crate) fn values(topic: &Topic<'_>) -> Table {
    if topic.is_distribution() { distribution(topic) } else { side_by_side(topic) }
}

/// What values are multiplied by.
fn scale<'t>(topic: &Topic<'t>) -> (&'t str, f64) {
    let most =
        topic.figures().filter_map(|figure| figure.estimate).fold(0.0, |most: f64, it| most.max(it.median));
    text::unit(topic.unit, most)
}

fn heads(topic: &Topic<'_>) -> Vec<String> {
    ["run"].into_iter().chain(topic.differing()).map(str::to_owned).collect()
}

fn names(topic: &Topic<'_>, part: &Part<'_>, case: &Case<'_>) -> Vec<String> {
    let values = topic
        .differing()
        .into_iter()
        .map(|key| case.key.get(key).map_or("–".into(), |value| shown(key, value, part.run.machine.nproc)));
    [part.run.label.clone()].into_iter().chain(values).collect()
}

fn cases<'t, 'r>(topic: &'t Topic<'r>) -> impl Iterator<Item = (&'t Part<'r>, &'t Case<'r>)> {
    topic.parts.iter().flat_map(|part| part.cases.iter().map(move |case| (part, case)))
}

/// A row for each case, a column for each peer.
fn side_by_side(topic: &Topic<'_>) -> Table {
    let (unit, factor) = scale(topic);
    let peers = topic.peers();
    let subject = peers.contains(&PEER);
    let rows = cases(topic).map(|(part, case)| {
        let cells = peers.iter().map(|peer| {
            let Some(figure) = case.figure(peer, None) else { return "–".into() };
            let Some(value) = figure.estimate else { return "void".into() };
            let value = interval(scaled(value, factor));
            match case.figure(PEER, None).filter(|_| is_rival(peer)).and_then(|own| times(own, figure)) {
                Some(times) => format!("{value}; × {}", interval(times)),
                None => value,
            }
        });
        names(topic, part, case).into_iter().chain(cells).collect()
    });
    let ratio = if subject {
        format!("; × how many times {} as that peer {PEER} is, block by block", text::as_good(topic.unit))
    } else {
        String::new()
    };
    Table {
        about: format!("{} in {unit}, median [95 % interval]{ratio}", topic.what()),
        is_of_words: false,
        head: heads(topic).into_iter().chain(peers.iter().map(|peer| (*peer).to_owned())).collect(),
        rows: rows.collect(),
    }
}

/// A row for each case and peer, a column for each quantile.
fn distribution(topic: &Topic<'_>) -> Table {
    let (unit, factor) = scale(topic);
    let peers = topic.peers();
    let rows = cases(topic).flat_map(|(part, case)| {
        let peers = peers.iter().filter(|peer| case.figures.iter().any(|figure| figure.peer == **peer));
        peers.map(move |peer| (part, case, *peer)).collect::<Vec<_>>()
    });
    let rows = rows.map(|(part, case, peer)| {
        let cells = topic.quantiles.iter().map(|name| {
            match case.figure(peer, Some(name)).map(|figure| figure.estimate) {
                None => "–".into(),
                Some(None) => "void".into(),
                Some(Some(value)) => interval(scaled(value, factor)),
            }
        });
        names(topic, part, case).into_iter().chain([peer.to_owned()]).chain(cells).collect()
    });
    let quantiles = topic.quantiles.iter().map(|name| (*name).to_owned());
    Table {
        about: format!("{} in {unit}, median of the blocks [95 % interval]", topic.what()),
        is_of_words: false,
        head: heads(topic).into_iter().chain(["peer".into()]).chain(quantiles).collect(),
        rows: rows.collect(),
    }
}

/// Runs that were void: whose figures lack blocks. All quantiles of a run are one row.
pub(crate) fn void(topics: &[Topic<'_>]) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for topic in topics {
        for (part, case) in cases(topic) {
            let name = text::with_case(topic.title(), case.key, part.run.machine.nproc);
            let void = case.figures.iter().filter(|figure| figure.by_block.contains(&None));
            for figure in void {
                let all = figure.by_block.iter().enumerate();
                let void = all.filter(|(_, value)| value.is_none()).map(|(block, _)| block.to_string());
                let void: Vec<String> = void.collect();
                let blocks = format!("{} of {}: {}", void.len(), figure.by_block.len(), void.join(", "));
                let row = vec![part.run.label.clone(), name.clone(), figure.peer.clone(), blocks];
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
    }
    let head = ["run", "where", "peer", "blocks"].map(str::to_owned).to_vec();
    Table { about: "Void runs: what was handed out there was wrong".into(), is_of_words: true, head, rows }
}
