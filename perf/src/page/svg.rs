//! Charts as SVG.
//!
//! A layer of our own. A library was looked for: plotters places text wherever it falls, has no classes for light and dark, and one
//! line style; poloto has the classes, but neither logarithmic axes nor intervals. What is needed is little: two kinds of
//! chart, of one width, in which no text can touch another. So text has its room from an estimate of its width that is too
//! large for every usual font, and labels that do not fit are put in several rows or left out.
//!
//! Series are told apart by the shape of their marks and the pattern of their lines; colour only helps.

mod lines;
mod rows;

use maud::{Markup, html};

use super::chart::Chart;
use super::scale::Scale;
use super::text;

/// Of every chart, in its own units: as many as a phone has pixels, so that text is not made smaller there.
const WIDTH: f64 = 340.0;
/// Of text.
const SIZE: f64 = 11.0;
const LINE: f64 = 15.0;
/// At the edges, so that marks and their intervals' ends are inside.
const MARGIN: f64 = 8.0;

pub(super) const SHAPES: usize = 10;
const DASHES: [&str; 7] = ["", "7 3", "2 3", "9 3 2 3", "5 5", "12 3", "9 3 2 3 2 3"];

/// The number of a series decides how it looks, throughout a page.
pub(super) fn draw(chart: &Chart, number: &impl Fn(&str) -> usize) -> Markup {
    match chart {
        Chart::Rows(rows) => rows::draw(rows, number),
        Chart::Lines(lines) => lines::draw(lines, number),
    }
}

/// A line with a mark, as a legend has it.
pub(super) fn key(number: usize) -> Markup {
    html! {
        svg.key viewBox="0 0 44 14" width="44" height="14" aria-hidden="true" {
            g class={ "s" (number % SHAPES) } {
                path.line d="M2 7H42" stroke-dasharray=(dashes(number)) {}
                (shape(number, 22.0, 7.0))
            }
        }
    }
}

fn dashes(number: usize) -> &'static str {
    DASHES[number % DASHES.len()]
}

/// Coordinates need no more digits.
fn at(coordinate: f64) -> String {
    let text = format!("{coordinate:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// At most so wide, whichever font the browser has.
fn width(text: &str) -> f64 {
    text.chars().map(|c| if "MW@mw%".contains(c) { 0.98 } else { 0.66 }).sum::<f64>() * SIZE
}

/// Lines that are no wider than that, broken between words.
fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer) <= room || line.is_empty() {
            *line = longer;
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// Without its end if it is wider than that.
fn shortened(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.into();
    }
    let mut short = text.to_owned();
    while !short.is_empty() && width(&short) + SIZE > room {
        short.pop();
    }
    short + "…"
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> Markup {
    html! { text x=(at(x)) y=(at(y)) text-anchor=(anchor) { (text) } }
}

fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Markup {
    html! { path class=(class) d={ "M" (at(x1)) " " (at(y1)) "L" (at(x2)) " " (at(y2)) } {} }
}

/// Those ticks that have room for their labels beside each other. Places are in the chart's units.
fn fitting(scale: &Scale, place: impl Fn(f64) -> f64) -> Vec<f64> {
    let ticks = &scale.ticks;
    let last = ticks.len().saturating_sub(1);
    // Every one, every second, … if the last is among them; or whatever fits, the ends first.
    let even = (1..=last).filter(|step| last.is_multiple_of(*step)).map(|step| ticks.iter().step_by(step));
    let even = even.map(|ticks| ticks.copied().collect::<Vec<_>>());
    let even = even.filter(|ticks| ticks.len() > 2).find(|ticks| beside(ticks, &place).len() == ticks.len());
    even.unwrap_or_else(|| {
        let ends = [ticks.first(), ticks.last()].into_iter().flatten();
        beside(&ends.chain(ticks).copied().collect::<Vec<_>>(), &place)
    })
}

/// What is left if each tick that is too near to one before it is left out.
fn beside(ticks: &[f64], place: &impl Fn(f64) -> f64) -> Vec<f64> {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    let mut fitting = Vec::new();
    for &tick in ticks {
        let half = width(&text::tick(tick)) / 2.0 + 3.0;
        let (from, to) = (place(tick) - half, place(tick) + half);
        if taken.iter().all(|(start, end)| to <= *start || from >= *end) {
            taken.push((from, to));
            fitting.push(tick);
        }
    }
    fitting
}

/// What fits into a circle of this chart's text's height.
fn shape(number: usize, x: f64, y: f64) -> Markup {
    const R: f64 = 4.0;
    let points = |corners: &[(f64, f64)]| {
        let corners = corners.iter().map(|(dx, dy)| format!("{},{}", at(x + R * dx), at(y + R * dy)));
        corners.collect::<Vec<_>>().join(" ")
    };
    const SQUARE: [(f64, f64); 4] = [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)];
    const UP: [(f64, f64); 3] = [(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)];
    const DOWN: [(f64, f64); 3] = [(0.0, 1.1), (1.1, -0.9), (-1.1, -0.9)];
    const DIAMOND: [(f64, f64); 4] = [(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)];
    let polygon =
        |class: &str, corners: &[(f64, f64)]| html! { polygon class=(class) points=(points(corners)) {} };
    let crossed = |d: String| html! { path.stroke d=(d) {} };
    match number % SHAPES {
        0 => html! { circle.full cx=(at(x)) cy=(at(y)) r=(at(R)) {} },
        1 => polygon("hollow", &SQUARE),
        2 => polygon("full", &UP),
        3 => polygon("hollow", &DIAMOND),
        4 => crossed(format!("M{0} {2}L{1} {3}M{0} {3}L{1} {2}", at(x - R), at(x + R), at(y - R), at(y + R))),
        5 => polygon("full", &SQUARE),
        6 => html! { circle.hollow cx=(at(x)) cy=(at(y)) r=(at(R)) {} },
        7 => polygon("full", &DOWN),
        8 => crossed(format!(
            "M{0} {4}H{1}M{5} {2}V{3}",
            at(x - R),
            at(x + R),
            at(y - R),
            at(y + R),
            at(y),
            at(x)
        )),
        _ => polygon("full", &DIAMOND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_where_it_is_too_long() {
        assert_eq!(wrapped("one two three", width("one two")), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 1.0), ["unbreakable"]);
        assert_eq!(shortened("short", 100.0), "short");
        assert!(width(&shortened("a very long name of a peer", 60.0)) <= 60.0);
    }

    #[test]
    fn ticks_that_have_no_room_are_left_out() {
        let scale = Scale::of_numbers(&[1e3, 1.1e3, 1e4, 9.9e5, 1e6]);
        assert_eq!(fitting(&scale, |tick| 200.0 * scale.place(tick)), [1e3, 1e4, 1e6]);
        let scale = Scale::of_numbers(&[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(fitting(&scale, |tick| 150.0 * scale.place(tick)), [1.0, 100.0, 1e4, 1e6]);
    }

    #[test]
    fn every_series_has_its_own_look() {
        let looks: std::collections::BTreeSet<String> =
            (0..SHAPES).map(|number| key(number).into_string()).collect();
        assert_eq!(looks.len(), SHAPES);
    }
}
