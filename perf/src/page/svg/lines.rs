//! Values over an axis, a line for each series, with an interval at each point.

use maud::{Markup, html};

use super::super::chart::{Lines, Mark, Places};
use super::super::scale::Scale;
use super::super::text;
use super::{LINE, MARGIN, SHAPES, SIZE, WIDTH, at, dashes, fitting, label, line, shape, width, wrapped};

const HEIGHT: f64 = 190.0;
/// From the axis to the first and last point.
const INSET: f64 = 16.0;
/// Between the points of two series in the same place, if there is room.
const BESIDE: f64 = 3.0;

/// Where things are, in the chart's units.
struct Frame<'l> {
    lines: &'l Lines,
    left: f64,
    right: f64,
    top: f64,
    numbers: Option<Scale>,
}

pub(super) fn draw(lines: &Lines, number: &impl Fn(&str) -> usize) -> Markup {
    let Lines { caption, x_title, y, .. } = lines;
    let y_ticks: Vec<(f64, String)> = y.scale.ticks.iter().map(|&tick| (tick, text::tick(tick))).collect();
    let y_title = wrapped(&y.title, WIDTH - 2.0 * MARGIN);
    let frame = Frame {
        lines,
        left: y_ticks.iter().map(|(_, tick)| width(tick)).fold(0.0, f64::max) + 2.0 * MARGIN,
        right: WIDTH - MARGIN,
        top: LINE * y_title.len() as f64 + MARGIN,
        numbers: match &lines.x {
            Places::Numbers(numbers) => Some(Scale::of_numbers(numbers)),
            Places::Named(_) => None,
        },
    };
    let bottom = frame.top + HEIGHT;
    let (x_labels, label_rows) = frame.x_labels(bottom);
    let x_title = wrapped(x_title, WIDTH - 2.0 * MARGIN);
    let height = bottom + LINE * (label_rows + x_title.len() as f64) + MARGIN;
    let marks: usize = lines.lines.iter().map(|(_, points)| points.len()).sum();
    html! {
        svg.plot viewBox={ "0 0 " (at(WIDTH)) " " (at(height)) } role="img"
            aria-label={ (y.title) " by " (lines.x_title) ", " (caption) ": " (lines.lines.len()) " lines; the table below has their values" }
            data-marks=(marks) {
            @for (place, part) in y_title.iter().enumerate() {
                (label(MARGIN, SIZE + LINE * place as f64, "start", part))
            }
            @for (tick, text) in &y_ticks {
                (line("grid", (frame.left, frame.y(*tick)), (frame.right, frame.y(*tick))))
                (label(frame.left - 5.0, frame.y(*tick) + SIZE / 3.0, "end", text))
            }
            (line("axis", (frame.left, bottom), (frame.right, bottom)))
            (x_labels)
            @for (place, part) in x_title.iter().enumerate() {
                (label((frame.left + frame.right) / 2.0, bottom + LINE * (label_rows + 1.0 + place as f64), "middle", part))
            }
            @for (place, (name, points)) in lines.lines.iter().enumerate() {
                (frame.series(place, points, number(name)))
            }
        }
    }
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        let share = match (&self.numbers, &self.lines.x) {
            (Some(scale), _) => scale.place(value),
            (None, Places::Named(names)) if names.len() > 1 => value / (names.len() - 1) as f64,
            _ => 0.5,
        };
        let inset = self.left + INSET;
        inset + (self.right - INSET - inset) * share
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - self.lines.y.scale.place(value))
    }

    /// And how many rows they take.
    fn x_labels(&self, bottom: f64) -> (Markup, f64) {
        let (labels, rows): (Vec<(f64, String)>, usize) = match (&self.numbers, &self.lines.x) {
            (Some(scale), _) => {
                let ticks = fitting(scale, |tick| self.x(tick));
                (ticks.into_iter().map(|tick| (self.x(tick), text::tick(tick))).collect(), 1)
            }
            (None, Places::Named(names)) => {
                let labels =
                    names.iter().enumerate().map(|(place, name)| (self.x(place as f64), name.clone()));
                let widest = names.iter().map(|name| width(name)).fold(0.0, f64::max) + 4.0;
                let apart = (self.x(1.0) - self.x(0.0)).max(1.0);
                (labels.collect(), (widest / apart).ceil().clamp(1.0, names.len() as f64) as usize)
            }
            (None, Places::Numbers(_)) => (Vec::new(), 1),
        };
        let markup = html! {
            @for (place, (x, text)) in labels.iter().enumerate() {
                @let row = (place % rows) as f64;
                // A label in a lower row has its place shown by a longer tick.
                (line("axis", (*x, bottom), (*x, bottom + 4.0 + LINE * row)))
                (label(self.inside(*x, text), bottom + LINE * (row + 1.0), "middle", text))
            }
        };
        (markup, rows as f64)
    }

    /// No label goes over the edge.
    fn inside(&self, x: f64, text: &str) -> f64 {
        let half = width(text) / 2.0;
        x.min(WIDTH - half).max(half)
    }

    fn series(&self, place: usize, points: &[(f64, Mark)], number: usize) -> Markup {
        let count = self.lines.lines.len() as f64;
        let beside = BESIDE.min(2.0 * (INSET - 6.0) / count) * (place as f64 - (count - 1.0) / 2.0);
        let places: Vec<(f64, f64)> =
            points.iter().map(|(x, mark)| (self.x(*x) + beside, self.y(mark.estimate.median))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{} {}", at(*x), at(*y))).collect();
        html! {
            g class={ "s" (number % SHAPES) } {
                path.line d={ "M" (path.join("L")) } stroke-dasharray=(dashes(number)) {}
                @for ((x, y), (_, mark)) in places.iter().zip(points) {
                    g.mark {
                        title { (mark.about) }
                        (self.whisker(*x, mark))
                        (shape(number, *x, *y))
                    }
                }
            }
        }
    }

    fn whisker(&self, x: f64, mark: &Mark) -> Markup {
        let (low, high) = (self.y(mark.estimate.low), self.y(mark.estimate.high));
        html! {
            @if low > high {
                path.whisker d={ "M" (at(x)) " " (at(low)) "V" (at(high))
                    "M" (at(x - 2.0)) " " (at(low)) "h4M" (at(x - 2.0)) " " (at(high)) "h4" } {}
            }
        }
    }
}
