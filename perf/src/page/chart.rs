//! What is drawn of a topic: as data, in no particular form.

use crate::figures::Better;
use crate::stats::Estimate;

use super::input::{Measured, PARTS};
use super::model::{self, Case, Part, Topic, is_rival, times};
use super::scale::Scale;
use super::text;

#[derive(Debug)]
pub(crate) enum Chart {
    Rows(Rows),
    Lines(Lines),
}

impl Chart {
    pub(crate) fn caption(&self) -> &str {
        match self {
            Self::Rows(rows) => &rows.caption,
            Self::Lines(lines) => &lines.caption,
        }
    }
}

/// Charts that belong together: the same series, the same scale.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// And not ratios.
    pub(crate) shows_values: bool,
    /// The peers in it.
    pub(crate) series: Vec<String>,
    pub(crate) charts: Vec<Chart>,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// With its unit.
    pub(crate) title: String,
    pub(crate) scale: Scale,
}

/// Intervals below each other, in groups.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) caption: String,
    pub(crate) axis: Axis,
    /// Where nothing is gained and nothing lost.
    pub(crate) reference: Option<f64>,
    pub(crate) groups: Vec<(String, Vec<Mark>)>,
}

impl Rows {
    /// Into charts that are not longer than a screen, as far as groups allow; none without rows.
    pub(crate) fn split(self) -> Vec<Chart> {
        const LONGEST: usize = 40;
        let length = |marks: &[Mark]| marks.len() + 1;
        let all: usize = self.groups.iter().map(|(_, marks)| length(marks)).sum();
        let count = all.div_ceil(LONGEST);
        let mut parts: Vec<Vec<(String, Vec<Mark>)>> = vec![Vec::new(); count];
        let mut before = 0;
        for group in self.groups {
            // Where its middle falls.
            let length = length(&group.1);
            parts[(2 * before + length) * count / (2 * all)].push(group);
            before += length;
        }
        parts.retain(|part| !part.is_empty());
        let count = parts.len();
        let charts = parts.into_iter().enumerate().map(|(number, groups)| {
            let caption = match count {
                1 => self.caption.clone(),
                _ => format!("{} · {} of {count}", self.caption, number + 1),
            };
            Chart::Rows(Self { caption, axis: self.axis.clone(), reference: self.reference, groups })
        });
        charts.collect()
    }
}

/// Values over an axis, one line for each peer.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) caption: String,
    pub(crate) x_title: String,
    pub(crate) x: Places,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<(String, Vec<(f64, Mark)>)>,
}

/// Where the points of a line may stand.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// One beside the other: point 0, 1, …
    Named(Vec<String>),
    Numbers(Vec<f64>),
}

#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) name: String,
    pub(crate) estimate: Estimate,
    /// For those who point at it.
    pub(crate) about: String,
}

/// Everything that is drawn of a topic.
pub(crate) fn groups(topic: &Topic<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    if topic.is_distribution() {
        groups.push(distribution(topic));
    } else {
        groups.extend(ratios(topic));
        let axes: Vec<&str> = topic.differing().into_iter().filter(|key| is_axis(topic, key)).collect();
        groups.extend(axes.iter().map(|key| against(topic, key)));
        if axes.is_empty() {
            groups.push(absolute(topic));
        }
    }
    groups.retain(|group| !group.charts.is_empty());
    let better = match topic.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    // Of ratios the axis says it.
    for group in groups.iter_mut().filter(|group| group.shows_values) {
        group.title = format!("{}: {better} is better", group.title);
    }
    groups
}

/// What is asked most: cost against the number of keys, scaling with threads and shards. Other numbers make an axis if there are
/// more than two; two are better read side by side.
fn is_axis(topic: &Topic<'_>, key: &str) -> bool {
    let values = topic.values(key);
    let is_number = values.iter().all(|value| number(value).is_some_and(|number| number > 0.0));
    match key {
        "threads" => true,
        "known" | "keys" => is_number,
        _ if PARTS.contains(&key) => is_number,
        _ => is_number && values.len() > 2,
    }
}

fn number(value: &str) -> Option<f64> {
    value.replace(['_', ','], "").parse().ok()
}

fn series(topic: &Topic<'_>) -> Vec<String> {
    topic.peers().into_iter().map(str::to_owned).collect()
}

/// Where a part or a case has a name, and where both.
fn caption(parts: &[&str]) -> String {
    let named: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    named.join(" · ")
}

fn mark(name: &str, what: &str, estimate: Estimate, unit: &str) -> Mark {
    let about = format!("{what}: {} {unit}", text::interval(estimate));
    Mark { name: name.into(), estimate, about: about.trim_end().into() }
}

/// The subject's ratio to each rival, case by case, a chart for each run.
fn ratios(topic: &Topic<'_>) -> Option<Group> {
    let charts = |part: &Part<'_>| {
        let groups: Vec<(String, Vec<Mark>)> = part
            .cases
            .iter()
            .filter_map(|case| {
                let own = case.figure(crate::bars::PEER, None)?;
                let rivals = case.figures.iter().filter(|rival| is_rival(&rival.peer));
                let marks = rivals.filter_map(|rival| {
                    let what = format!("times {} as {}", text::as_good(topic.unit), rival.peer);
                    Some(mark(&rival.peer, &what, times(own, rival)?, ""))
                });
                let marks: Vec<Mark> = marks.filter(|mark| mark.estimate.low > 0.0).collect();
                (!marks.is_empty()).then(|| (topic.name(case, &[]), marks))
            })
            .collect();
        (part.run.label.clone(), groups)
    };
    let parts: Vec<_> = topic.parts.iter().map(charts).filter(|(_, groups)| !groups.is_empty()).collect();
    let marks = parts.iter().flat_map(|(_, groups)| groups).flat_map(|(_, marks)| marks);
    // Where all are the same there is nothing to see.
    if marks.clone().all(|mark| mark.estimate.low == 1.0 && mark.estimate.high == 1.0) {
        return None;
    }
    let scale = Scale::logarithmic(marks.map(|mark| mark.estimate), Some(1.0))?;
    let title = format!("times {} as the peer (log axis)", text::as_good(topic.unit));
    let charts = parts.into_iter().flat_map(|(caption, groups)| {
        let axis = Axis { title: title.clone(), scale: scale.clone() };
        Rows { caption, axis, reference: Some(1.0), groups }.split()
    });
    Some(Group {
        title: "Against each peer: above 1 is better".into(),
        shows_values: false,
        series: Vec::new(),
        charts: charts.collect(),
    })
}

/// The axis for all values of a topic, and what they are multiplied by.
fn values(topic: &Topic<'_>) -> Option<(Axis, f64, String)> {
    let estimates: Vec<Estimate> = topic.figures().filter_map(|figure| figure.estimate).collect();
    let most = estimates.iter().fold(0.0, |most: f64, estimate| most.max(estimate.high));
    let (unit, factor) = text::unit(topic.unit, most);
    let scaled = estimates.iter().map(|estimate| text::scaled(*estimate, factor));
    let is_log = topic.is_distribution() || text::is_speed(topic.unit);
    let scale = if is_log { Scale::logarithmic(scaled.clone(), None) } else { None };
    let scale = scale.or_else(|| Scale::from_zero(scaled))?;
    let log = if scale.is_linear() { "" } else { ", log axis" };
    // `bytes per key` needs no unit.
    let title = match topic.what() {
        what if what.split(' ').any(|word| word == unit) => what,
        what => format!("{what} ({unit}{log})"),
    };
    Some((Axis { title, scale }, factor, unit.into()))
}

/// A chart for each run and each case, but for what is on the axis.
fn lines<'t>(
    topic: &'t Topic<'_>,
    without: &[&str],
    x_title: &str,
    x: &Places,
    points: impl Fn(&[&'t Case<'t>], &str) -> Vec<(f64, &'t Measured)>,
) -> Vec<Chart> {
    let Some((y, factor, unit)) = values(topic) else { return Vec::new() };
    let mut charts = Vec::new();
    for part in &topic.parts {
        let mut facets: Vec<(String, Vec<&Case<'_>>)> = Vec::new();
        // Where only some cases name a number of parts, these show what parts do, and nothing else.
        let of_parts = |case: &&Case<'_>| {
            PARTS.iter().any(|parts| !without.contains(parts) && case.key.contains_key(*parts))
        };
        let are_extra = !part.cases.iter().all(|case| of_parts(&case));
        for case in part.cases.iter().filter(|case| !are_extra || !of_parts(case)) {
            let name = topic.name(case, without);
            match facets.iter_mut().find(|(other, _)| *other == name) {
                Some((_, cases)) => cases.push(case),
                None => facets.push((name, vec![case])),
            }
        }
        for (name, cases) in facets {
            let lines = topic.peers().into_iter().map(|peer| {
                let marks = points(&cases, peer).into_iter().filter_map(|(x, figure)| {
                    let estimate = text::scaled(figure.estimate?, factor);
                    Some((x, mark(peer, peer, estimate, &unit)))
                });
                (peer.to_owned(), marks.collect::<Vec<_>>())
            });
            let lines: Vec<_> = lines.filter(|(_, marks)| !marks.is_empty()).collect();
            if !lines.is_empty() {
                let caption = caption(&[&name, &part.run.label]);
                charts.push(Chart::Lines(Lines {
                    caption,
                    x_title: x_title.into(),
                    x: x.clone(),
                    y: y.clone(),
                    lines,
                }));
            }
        }
    }
    charts
}

fn distribution(topic: &Topic<'_>) -> Group {
    let names = topic.quantiles.iter().map(|name| (*name).to_owned()).collect();
    let charts = lines(topic, &[], "percentile of the calls (%)", &Places::Named(names), |cases, peer| {
        let quantiles = topic.quantiles.iter().enumerate();
        let figures = quantiles
            .filter_map(|(place, name)| Some((place as f64, cases.first()?.figure(peer, Some(name))?)));
        figures.collect()
    });
    Group { title: "Percentiles".into(), shows_values: true, series: series(topic), charts }
}

fn against(topic: &Topic<'_>, key: &str) -> Group {
    let values = topic.values(key);
    let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
    let nproc = topic.parts.first().map_or(usize::MAX, |part| part.run.machine.nproc);
    let (x_title, title, x) = match numbers {
        Some(mut numbers) => {
            numbers.sort_by(f64::total_cmp);
            let (title, about) = match key {
                "known" | "keys" => ("known keys (number, log axis)".into(), "number of keys"),
                _ => (format!("{key} (number, log axis)"), key),
            };
            (title, format!("Against the {about}"), Places::Numbers(numbers))
        }
        None => {
            let names = values.iter().map(|value| model::shown(key, value, nproc)).collect();
            let title = "threads (producers, consumers)".to_owned();
            (title, "Scaling with threads".into(), Places::Named(names))
        }
    };
    let charts = lines(topic, &[key], &x_title, &x, |cases, peer| {
        let mut points: Vec<_> = cases
            .iter()
            .filter_map(|case| {
                let value = case.key.get(key)?;
                let x = match &x {
                    Places::Numbers(_) => number(value)?,
                    Places::Named(_) => values.iter().position(|other| *other == value)? as f64,
                };
                Some((x, case.figure(peer, None)?))
            })
            .collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    });
    let title = if PARTS.contains(&key) { format!("Scaling with {key}") } else { title };
    Group { title, shows_values: true, series: series(topic), charts }
}

/// Each value with its interval.
fn absolute(topic: &Topic<'_>) -> Group {
    let charts = values(topic).into_iter().flat_map(|(axis, factor, unit)| {
        topic.parts.iter().map(move |part| {
            let groups = part.cases.iter().map(|case| {
                let figures = topic.peers().into_iter().filter_map(|peer| case.figure(peer, None));
                let marks = figures.filter_map(|figure| {
                    let estimate = text::scaled(figure.estimate?, factor);
                    Some(mark(&figure.peer, &figure.peer, estimate, &unit))
                });
                (topic.name(case, &[]), marks.collect())
            });
            let groups: Vec<(String, Vec<Mark>)> =
                groups.filter(|(_, marks): &(_, Vec<_>)| !marks.is_empty()).collect();
            Rows { caption: part.run.label.clone(), axis: axis.clone(), reference: None, groups }
        })
    });
    let charts = charts.flat_map(Rows::split).collect();
    Group { title: "Values".into(), shows_values: true, series: Vec::new(), charts }
}

#[cfg(test)]
mod tests;
