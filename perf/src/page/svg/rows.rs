//! Intervals below each other: a name at the left, its mark and interval on the axis at the right; groups under their names.

use maud::{Markup, html};

use super::super::chart::{Mark, Rows};
use super::super::text;
use super::{
    LINE, MARGIN, SHAPES, SIZE, WIDTH, at, dashes, fitting, label, line, shape, shortened, width, wrapped,
};

const ROW: f64 = 17.0;

pub(super) fn draw(rows: &Rows, number: &impl Fn(&str) -> usize) -> Markup {
    let Rows { caption, axis, reference, groups } = rows;
    let names = groups.iter().flat_map(|(_, marks)| marks).map(|mark| width(&mark.name));
    // A little more than the names' own width, or rounding would shorten them.
    let left = names.fold(0.0, f64::max).min(0.4 * WIDTH) + 3.0 * MARGIN;
    let right = WIDTH - 2.0 * MARGIN;
    let x = |value: f64| left + (right - left) * axis.scale.place(value);
    let title = wrapped(&axis.title, WIDTH - 2.0 * MARGIN);
    let top = LINE + MARGIN;
    let (body, bottom) = body(rows, top, &x, left, number);
    let ticks = fitting(&axis.scale, x);
    let height = bottom + LINE * (1.0 + title.len() as f64) + MARGIN;
    let marks: usize = groups.iter().map(|(_, marks)| marks.len()).sum();
    html! {
        svg.plot viewBox={ "0 0 " (at(WIDTH)) " " (at(height)) } role="img"
            aria-label={ (axis.title) ", " (caption) ": " (marks) " values; the table below has them" } data-marks=(marks) {
            @for &tick in &axis.scale.ticks {
                (line("grid", (x(tick), top), (x(tick), bottom)))
            }
            // At both ends, since a chart may be longer than a screen.
            @for &tick in &ticks {
                (label(x(tick), top - 5.0, "middle", &text::tick(tick)))
                (label(x(tick), bottom + LINE - 2.0, "middle", &text::tick(tick)))
            }
            (line("axis", (left, bottom), (right, bottom)))
            @if let Some(reference) = *reference {
                (line("reference", (x(reference), top), (x(reference), bottom)))
            }
            @for (place, part) in title.iter().enumerate() {
                (label(WIDTH / 2.0, bottom + LINE * (2.0 + place as f64), "middle", part))
            }
            (body)
        }
    }
}

/// And where it ends.
fn body(
    rows: &Rows,
    top: f64,
    x: &impl Fn(f64) -> f64,
    left: f64,
    number: &impl Fn(&str) -> usize,
) -> (Markup, f64) {
    let mut y = top;
    let mut parts = Vec::new();
    for (name, marks) in &rows.groups {
        if !name.is_empty() {
            for part in wrapped(name, WIDTH - 2.0 * MARGIN) {
                y += LINE;
                // On a ground of its own, or the grid would go through it.
                let wide = width(&part).min(WIDTH - MARGIN);
                parts.push(html! {
                    rect.ground x=(at(MARGIN)) y=(at(y - SIZE)) width=(at(wide)) height=(at(SIZE + 3.0)) {}
                    text.name x=(at(MARGIN)) y=(at(y)) { (part) }
                });
            }
        }
        for mark in marks {
            y += ROW;
            parts.push(label(2.0 * MARGIN, y, "start", &shortened(&mark.name, left - 2.5 * MARGIN)));
            parts.push(drawn(mark, y - SIZE / 3.0, x, rows.axis.scale.is_linear(), number(&mark.name)));
        }
        y += 4.0;
    }
    (html! { @for part in parts { (part) } }, y + 2.0)
}

fn drawn(mark: &Mark, y: f64, x: &impl Fn(f64) -> f64, is_linear: bool, number: usize) -> Markup {
    let (low, middle, high) = (x(mark.estimate.low), x(mark.estimate.median), x(mark.estimate.high));
    html! {
        g class={ "mark s" (number % SHAPES) } {
            title { (mark.about) }
            @if is_linear {
                path.line d={ "M" (at(x(0.0))) " " (at(y)) "H" (at(middle)) } stroke-dasharray=(dashes(number)) {}
            }
            @if low < high {
                path.whisker d={ "M" (at(low)) " " (at(y)) "H" (at(high))
                    "M" (at(low)) " " (at(y - 3.0)) "v6M" (at(high)) " " (at(y - 3.0)) "v6" } {}
            }
            (shape(number, middle, y))
        }
    }
}
