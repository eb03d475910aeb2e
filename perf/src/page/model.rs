//! Figures put in order: a topic is what is drawn together, and what the subject gains or loses follows from pairs of figures.

use std::collections::{BTreeMap, BTreeSet};

use super::input::{Measured, Run};
use crate::bars::PEER;
use crate::figures::{Better, Figure};
use crate::stats::Estimate;

/// What is beside the subject as a floor, and no rival of it: what the same costs without a queue.
const FLOORS: [&str; 8] =
    ["nothing", "no queue", "plain", "bare atomic", "park/unpark", "F0", "F1", "kube/watcher"];

/// All that is measured of one thing, in all runs.
#[derive(Debug)]
pub(crate) struct Topic<'r> {
    pub(crate) workload: &'r str,
    /// What is measured; for quantiles, what they are of.
    pub(crate) measure: &'r str,
    pub(crate) unit: &'r str,
    pub(crate) better: Better,
    /// Their names in ascending order; none if it is no distribution.
    pub(crate) quantiles: Vec<&'r str>,
    pub(crate) parts: Vec<Part<'r>>,
}

/// What one run has of a topic.
#[derive(Debug)]
pub(crate) struct Part<'r> {
    pub(crate) run: &'r Run,
    pub(crate) cases: Vec<Case<'r>>,
}

/// What is to be compared with each other: the peers in one case.
#[derive(Debug)]
pub(crate) struct Case<'r> {
    pub(crate) key: &'r BTreeMap<String, String>,
    pub(crate) figures: Vec<&'r Measured>,
}

/// `p99.9 of a call` is `p99.9` and `a call`.
pub(crate) fn quantile(measure: &str) -> Option<(&str, &str)> {
    let (name, of) = measure.split_once(" of ")?;
    let is_quantile =
        name == "max" || name.strip_prefix('p').is_some_and(|number| number.parse::<f64>().is_ok());
    is_quantile.then_some((name, of))
}

/// `p50` before `p99.9` before `max`.
fn percent(quantile: &str) -> f64 {
    quantile.strip_prefix('p').and_then(|number| number.parse().ok()).unwrap_or(100.0)
}

/// In the order in which they come.
pub(crate) fn topics(runs: &[Run]) -> Vec<Topic<'_>> {
    let quantiles = quantiles(runs);
    let mut topics: Vec<Topic<'_>> = Vec::new();
    for run in runs {
        for figure in &run.figures {
            // One quantile alone is a value like any other.
            let is_one_of_many = |of| quantiles[&(&*figure.workload, of)].len() > 1;
            let of_many = quantile(&figure.measure).filter(|(_, of)| is_one_of_many(*of));
            let (name, measure) = of_many.map_or((None, &*figure.measure), |(name, of)| (Some(name), of));
            let key = (&*figure.workload, measure, &*figure.unit, name.is_some());
            let found = topics.iter().position(|topic| {
                (topic.workload, topic.measure, topic.unit, topic.is_distribution()) == key
            });
            let place = found.unwrap_or_else(|| {
                topics.push(Topic {
                    workload: &figure.workload,
                    measure,
                    unit: &figure.unit,
                    better: figure.better,
                    quantiles: Vec::new(),
                    parts: Vec::new(),
                });
                topics.len() - 1
            });
            topics[place].add(run, figure, name);
        }
    }
    topics
}

/// The quantiles that there are, by workload and what they are of.
fn quantiles(runs: &[Run]) -> BTreeMap<(&str, &str), BTreeSet<&str>> {
    let mut quantiles: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for figure in runs.iter().flat_map(|run| &run.figures) {
        if let Some((name, of)) = quantile(&figure.measure) {
            quantiles.entry((&figure.workload, of)).or_default().insert(name);
        }
    }
    quantiles
}

impl<'r> Topic<'r> {
    fn add(&mut self, run: &'r Run, figure: &'r Measured, quantile: Option<&'r str>) {
        if let Some(name) = quantile.filter(|name| !self.quantiles.contains(name)) {
            self.quantiles.push(name);
            self.quantiles.sort_by(|a, b| percent(a).total_cmp(&percent(b)));
        }
        if self.parts.last().is_none_or(|part| !std::ptr::eq(part.run, run)) {
            self.parts.push(Part { run, cases: Vec::new() });
        }
        let cases = &mut self.parts.last_mut().expect("there is one now").cases;
        match cases.iter_mut().find(|case| *case.key == figure.case) {
            Some(case) => case.figures.push(figure),
            None => cases.push(Case { key: &figure.case, figures: vec![figure] }),
        }
    }

    /// In words.
    pub(crate) fn what(&self) -> String {
        match (self.is_distribution(), super::text::is_speed(self.unit)) {
            (true, true) => format!("latency of {}", self.measure),
            (true, false) => format!("distribution of {}", self.measure),
            (false, _) => self.measure.into(),
        }
    }

    pub(crate) fn title(&self) -> String {
        super::text::titled(self.workload, &self.what())
    }

    pub(crate) fn is_distribution(&self) -> bool {
        !self.quantiles.is_empty()
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case<'r>> {
        self.parts.iter().flat_map(|part| &part.cases)
    }

    pub(crate) fn figures(&self) -> impl Iterator<Item = &'r Measured> {
        self.cases().flat_map(|case| case.figures.iter().copied())
    }

    /// The subject first.
    pub(crate) fn peers(&self) -> Vec<&'r str> {
        let mut peers: Vec<&str> = Vec::new();
        for figure in self.figures() {
            if !peers.contains(&&*figure.peer) {
                peers.push(&figure.peer);
            }
        }
        peers.sort_by_key(|peer| *peer != PEER);
        peers
    }

    /// The keys of its cases.
    pub(crate) fn keys(&self) -> Vec<&'r str> {
        let keys: BTreeSet<&str> =
            self.cases().flat_map(|case| case.key.keys().map(String::as_str)).collect();
        in_order(keys)
    }

    /// In the order in which they come.
    pub(crate) fn values(&self, key: &str) -> Vec<&'r str> {
        let mut values: Vec<&str> = Vec::new();
        for value in self.cases().filter_map(|case| case.key.get(key)) {
            if !values.contains(&&**value) {
                values.push(value);
            }
        }
        values
    }

    /// Keys by which its cases differ; those that not all of them have are among them.
    pub(crate) fn differing(&self) -> Vec<&'r str> {
        let differs =
            |key: &&str| self.values(key).len() > 1 || self.cases().any(|case| !case.key.contains_key(*key));
        self.keys().into_iter().filter(differs).collect()
    }

    /// What all its cases have in common.
    pub(crate) fn common(&self) -> String {
        let differing = self.differing();
        let same = self.keys().into_iter().filter(|key| !differing.contains(key));
        let named = same.filter_map(|key| Some(named(key, self.values(key).first()?, self.nproc())));
        named.collect::<Vec<_>>().join(" · ")
    }

    /// What tells a case from the others, but for the keys in `without`.
    pub(crate) fn name(&self, case: &Case<'_>, without: &[&str]) -> String {
        let keys = self.differing().into_iter().filter(|key| !without.contains(key));
        keys.filter_map(|key| Some(named(key, case.key.get(key)?, self.nproc())))
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// In any case.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.values("threads").into_iter().any(|threads| is_oversubscribed(threads, self.nproc()))
    }

    fn nproc(&self) -> usize {
        self.parts.first().map_or(usize::MAX, |part| part.run.machine.nproc)
    }
}

impl<'r> Case<'r> {
    /// `quantile` is `None` where the topic is no distribution.
    pub(crate) fn figure(&self, peer: &str, name: Option<&str>) -> Option<&'r Measured> {
        let is_named = |figure: &Measured| quantile(&figure.measure).map(|(name, _)| name) == name;
        let is_it = |figure: &&&Measured| figure.peer == peer && (name.is_none() || is_named(figure));
        self.figures.iter().find(is_it).copied()
    }
}

/// What differs most comes first in a name.
pub(crate) fn in_order<'k>(keys: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_by_key(|key| match *key {
        "known" | "keys" => 0,
        "threads" => 1,
        _ => 2,
    });
    keys
}

/// `known 1,000`, `threads (4,4)*`: starred where the threads are more than the processors.
pub(crate) fn named(key: &str, value: &str, nproc: usize) -> String {
    format!("{key} {}", shown(key, value, nproc))
}

pub(crate) fn shown(key: &str, value: &str, nproc: usize) -> String {
    if key == "threads" && is_oversubscribed(value, nproc) {
        return format!("{value}*");
    }
    let is_long = value.len() > 3 && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_long { super::text::grouped(value) } else { value.into() }
}

fn is_oversubscribed(threads: &str, nproc: usize) -> bool {
    let inner = threads.trim_matches(|c| c == '(' || c == ')');
    let numbers: Option<Vec<usize>> =
        inner.split([',', 'x']).map(|number| number.trim().parse().ok()).collect();
    numbers.is_some_and(|numbers| numbers.len() > 1 && numbers.iter().sum::<usize>() > nproc)
}

/// How many times as good as `other` this one is, estimated from the ratio in each block where both are sound.
pub(crate) fn times(own: &Figure, other: &Figure) -> Option<Estimate> {
    let pairs = own.by_block.iter().zip(&other.by_block);
    let gains = pairs.filter_map(|(one, another)| gain((*one)?, (*another)?, own.better));
    Estimate::of(&gains.collect::<Vec<_>>())
}

/// `None` where there is no ratio: something against nothing.
pub(crate) fn gain(own: f64, other: f64, better: Better) -> Option<f64> {
    let (above, below) = match better {
        Better::Lower => (other, own),
        Better::Higher => (own, other),
    };
    if above == below { Some(1.0) } else { (below != 0.0).then(|| above / below) }
}

pub(crate) fn is_rival(peer: &str) -> bool {
    peer != PEER && !FLOORS.contains(&peer)
}

/// A figure in which the subject is worse than a rival: the rival against which it is worst.
#[derive(Debug)]
pub(crate) struct Loss<'r> {
    pub(crate) run: &'r Run,
    pub(crate) own: &'r Measured,
    pub(crate) rival: &'r Measured,
    pub(crate) times: Estimate,
    /// Other rivals that are better too.
    pub(crate) others: Vec<&'r str>,
}

/// Worst first.
pub(crate) fn losses<'r>(topics: &[Topic<'r>]) -> Vec<Loss<'r>> {
    let parts = topics.iter().flat_map(|topic| &topic.parts);
    let cases = parts.flat_map(|part| part.cases.iter().map(|case| (part.run, case)));
    let mut losses: Vec<Loss<'_>> = cases
        .flat_map(|(run, case)| {
            let own = case.figures.iter().filter(|figure| figure.peer == PEER);
            own.filter_map(move |own| loss(run, own, case))
        })
        .collect();
    losses.sort_by(|a, b| a.times.median.total_cmp(&b.times.median));
    losses
}

fn loss<'r>(run: &'r Run, own: &'r Measured, case: &Case<'r>) -> Option<Loss<'r>> {
    let rivals = case.figures.iter().filter(|other| is_rival(&other.peer) && other.measure == own.measure);
    let mut better: Vec<(&'r Measured, Estimate)> = rivals
        .filter_map(|rival| Some((*rival, times(own, rival)?)))
        .filter(|(_, times)| times.median < 1.0)
        .collect();
    better.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let (&(rival, times), others) = better.split_first()?;
    Some(Loss { run, own, rival, times, others: others.iter().map(|(other, _)| &*other.peer).collect() })
}

#[cfg(test)]
mod tests {
    use super::super::input::tests::{figure, report, runs};
    use super::*;

    #[test]
    fn quantiles_are_told_from_other_measures() {
        assert_eq!(quantile("p99.9 of a call"), Some(("p99.9", "a call")));
        assert_eq!(quantile("max of a call"), Some(("max", "a call")));
        assert_eq!(quantile("time per object of a scan"), None);
        assert_eq!(quantile("points of view"), None);
    }

    #[test]
    fn figures_are_grouped_by_what_is_measured() {
        let runs = runs(&[report(
            "system",
            1,
            &[
                figure(r#"{"known": "1000", "batch": "1"}"#, "B1", "time", "[1.0]"),
                figure(r#"{"known": "1000", "batch": "1"}"#, "sharded", "time", "[1.0]"),
                figure(r#"{"known": "100000", "batch": "1"}"#, "B1", "time", "[1.0]"),
                figure("{}", "B1", "max of a call", "[1.0]"),
                figure("{}", "B1", "p50 of a call", "[1.0]"),
                figure("{}", "B1", "p99.9 of a pop", "[1.0]"),
            ]
            .join(","),
        )]);
        let topics = topics(&runs);
        let [time, call, pop] = &topics[..] else { panic!("{topics:?}") };
        assert_eq!((time.peers(), time.differing()), (vec!["sharded", "B1"], vec!["known"]));
        assert_eq!((time.common(), time.cases().count()), ("batch 1".into(), 2));
        assert_eq!(time.name(&time.parts[0].cases[1], &[]), "known 100,000");
        assert_eq!((call.measure, &call.quantiles[..]), ("a call", &["p50", "max"][..]));
        assert!(pop.quantiles.is_empty() && pop.cases().next().unwrap().figure("B1", None).is_some());
        assert!(call.cases().next().unwrap().figure("B1", Some("max")).is_some());
    }

    #[test]
    fn threads_beyond_the_processors_are_starred() {
        assert_eq!(named("threads", "(2,2)", 2), "threads (2,2)*");
        assert_eq!(named("threads", "(1,1)", 2), "threads (1,1)");
        assert_eq!(named("threads", "many", 2), "threads many");
    }

    #[test]
    fn the_subject_loses_where_a_rival_is_better() {
        let case = r#"{"known": "1000"}"#;
        let other = r#"{"known": "5"}"#;
        let runs = runs(&[report(
            "system",
            2,
            &[
                figure(case, "sharded", "time", "[100.0, 100.0, null]"),
                figure(case, "B1", "time", "[90.0, 90.0, 1.0]"),
                figure(case, "B3", "time", "[50.0, 50.0, 1.0]"),
                figure(case, "B0", "time", "[150.0, 150.0, 1.0]"),
                figure(case, "nothing", "time", "[1.0, 1.0, 1.0]"),
                figure(other, "sharded", "time", "[100.0, 100.0]"),
                figure(other, "B1", "time", "[10.0, 10.0]"),
            ]
            .join(","),
        )]);
        let topics = topics(&runs);
        let losses = losses(&topics);
        let [worst, next] = &losses[..] else { panic!("{losses:?}") };
        assert_eq!((&*worst.rival.peer, worst.times.median), ("B1", 0.1));
        assert_eq!((&*next.rival.peer, next.times.high, &next.others[..]), ("B3", 0.5, &["B1"][..]));
    }

    #[test]
    fn nothing_has_no_ratio_to_something() {
        assert_eq!(gain(0.0, 0.0, Better::Lower), Some(1.0));
        assert_eq!(gain(0.0, 2.0, Better::Lower), None);
        assert_eq!(gain(2.0, 0.0, Better::Lower), Some(0.0));
        assert_eq!(gain(50.0, 100.0, Better::Higher), Some(0.5));
    }
}
