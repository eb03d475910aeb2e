//! The report as Markdown.

use std::fmt::Write;

use super::model::Topic;
use super::table::Table;
use super::{Page, headings};

pub(crate) fn render(page: &Page<'_>) -> String {
    let mut out = format!("# {}\n\n", page.title());
    for caveat in headings::caveats(page.runs) {
        let _ = writeln!(out, "> {caveat}\n");
    }
    let _ = writeln!(out, "## Where it loses\n\n{}\n", page.losses_about());
    table(&mut out, &page.losses);
    if let Some(difference) = &page.difference {
        let _ = writeln!(out, "## Compared with what was before\n\n{}\n", difference.summary());
        for caveat in &difference.caveats {
            let _ = writeln!(out, "> {caveat}\n");
        }
        table(&mut out, &difference.table());
    }
    for topic in &page.topics {
        let _ = writeln!(out, "## {}\n", topic.title());
        let common = topic.common();
        if !common.is_empty() {
            let _ = writeln!(out, "{common}\n");
        }
        let values = super::table::values(topic);
        let _ = writeln!(out, "{}\n", values.about);
        table(&mut out, &values);
    }
    if page.topics.iter().any(Topic::is_oversubscribed) {
        let _ = writeln!(out, "{}\n", super::OVERSUBSCRIBED);
    }
    if !page.void.rows.is_empty() {
        let _ = writeln!(out, "## {}\n", page.void.about);
        table(&mut out, &page.void);
    }
    out.push_str("## The runs\n\n");
    table(&mut out, &page.headings);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn table(out: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let mut row = |cells: &[String]| {
        out.push('|');
        cells.iter().for_each(|cell| _ = write!(out, " {} |", escaped(cell)));
        out.push('\n');
    };
    row(&table.head);
    row(&vec!["---".into(); table.head.len()]);
    table.rows.iter().for_each(|cells| row(cells));
    out.push('\n');
}

/// What would be taken for a form.
fn escaped(cell: &str) -> String {
    let mut text = String::new();
    for c in cell.chars() {
        if "|*_<>`\\".contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_what_they_are() {
        let mut out = String::new();
        table(
            &mut out,
            &Table {
                about: String::new(),
                is_of_words: false,
                head: vec!["a".into()],
                rows: vec![vec!["x|y *".into()]],
            },
        );
        assert_eq!(out, "| a |\n| --- |\n| x\\|y \\* |\n\n");
    }
}
