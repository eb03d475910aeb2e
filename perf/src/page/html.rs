//! The report as a page: one file, no script, nothing from elsewhere.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Group};
use super::model::Topic;
use super::table::{self, Table};
use super::{Page, headings, svg};
use crate::bars::PEER;

const STYLE: &str = include_str!("style.css");

pub(crate) fn render(page: &Page<'_>) -> String {
    let caveats = headings::caveats(page.runs);
    let number = |peer: &str| page.number(peer);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title()) }
                // Browsers ask for an icon unless there is one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (page.title()) }
                    @for caveat in &caveats { p.caveat role="note" { (caveat) } }
                }
                main {
                    section id="loses" {
                        h2 { "Where it loses" }
                        p { (page.losses_about()) }
                        (worst(&page.losses))
                    }
                    @if !page.void.rows.is_empty() {
                        section id="void" { h2 { (page.void.about) } (worst(&page.void)) }
                    }
                    (contents(page))
                    (difference(page, &number))
                    @for (place, topic) in page.topics.iter().enumerate() {
                        (section(place, topic, &number))
                    }
                    (runs(page))
                }
            }
        }
    };
    markup.into_string()
}

/// The first rows are seen at once, the others on demand.
fn worst(all: &Table) -> Markup {
    const SEEN: usize = 12;
    let (first, others) = all.rows.split_at(all.rows.len().min(SEEN));
    let part = |about: &str, rows: &[Vec<String>]| Table {
        about: about.into(),
        is_of_words: all.is_of_words,
        head: all.head.clone(),
        rows: rows.to_vec(),
    };
    html! {
        (tabular(&part(&all.about, first)))
        @if !others.is_empty() { (folded(&part(&format!("the other {}", others.len()), others))) }
    }
}

fn contents(page: &Page<'_>) -> Markup {
    html! {
        nav aria-label="Contents" {
            h2 { "What was measured" }
            ul {
                @if page.difference.is_some() { li { a href="#difference" { "Compared with what was before" } } }
                @for (place, topic) in page.topics.iter().enumerate() {
                    li { a href={ "#topic-" (place) } { (topic.title()) } }
                }
                li { a href="#runs" { "The runs: machine, compiler, commit, load" } }
            }
            p.common {
                "Marks are medians of the blocks, in each of which all peers ran in turn; whiskers are the 95 % intervals that resampling "
                "gives. A ratio is formed within a block. " (PEER) " is the queue of this crate."
            }
        }
    }
}

fn difference(page: &Page<'_>, number: &impl Fn(&str) -> usize) -> Markup {
    let Some(difference) = &page.difference else { return html! {} };
    html! {
        section id="difference" {
            h2 { "Compared with what was before" }
            p { (difference.summary()) }
            @for caveat in &difference.caveats { p.caveat role="note" { (caveat) } }
            @if let Some(group) = difference.group() { (charts(&group, number)) }
            (folded(&difference.table()))
        }
    }
}

fn section(place: usize, topic: &Topic<'_>, number: &impl Fn(&str) -> usize) -> Markup {
    let common = topic.common();

    html! {
        section id={ "topic-" (place) } {
            h2 { (topic.title()) }
            @if !common.is_empty() { p.common { (common) } }
            @if topic.is_oversubscribed() { p.common { (super::OVERSUBSCRIBED) } }
            div.groups { @for group in chart::groups(topic) { (charts(&group, number)) } }
            (folded(&table::values(topic)))
        }
    }
}

fn charts(group: &Group, number: &impl Fn(&str) -> usize) -> Markup {
    let size = match group.charts.len() {
        1 => "one",
        2 => "two",
        _ => "many",
    };
    html! {
        div class={ "group " (size) } {
            h3 { (group.title) }
            @if group.series.len() > 1 {
                ul.legend aria-label="Legend" {
                    @for peer in &group.series { li { (svg::key(number(peer))) " " (peer) } }
                }
            }
            div.charts {
                @for chart in &group.charts {
                    figure { figcaption { (chart.caption()) } (svg::draw(chart, number)) }
                }
            }
        }
    }
}

/// Wide tables scroll by themselves.
fn tabular(table: &Table) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label=(table.about) {
                table.cards[table.is_of_words] {
                    thead { tr { @for cell in &table.head { th scope="col" { (cell) } } } }
                    tbody {
                        @for row in &table.rows { tr { @for (head, cell) in table.head.iter().zip(row) { td data-head=(head) { (cell) } } } }
                    }
                }
            }
        }
    }
}

fn folded(table: &Table) -> Markup {
    html! {
        details {
            summary { "Table: " (table.about) }
            (tabular(table))
        }
    }
}

fn runs(page: &Page<'_>) -> Markup {
    html! {
        section id="runs" {
            h2 { "The runs" }
            div.runs {
                @for run in page.runs {
                    article {
                        h3 { (run.workload) " · " (run.label) }
                        dl { @for (name, value) in headings::of(run) { dt { (name) } dd { (value) } } }
                    }
                }
            }
        }
    }
}
