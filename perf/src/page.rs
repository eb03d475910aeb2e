//! `report`: runs that others have written, as a page with charts and as Markdown, and two runs set against each other.
//!
//! Data goes this way: `input` reads runs with their figures, `model` groups these into topics and finds where the subject
//! loses, `chart` and `table` say what is shown of a topic, `svg`, `html` and `markdown` how.

mod chart;
mod difference;
mod headings;
mod html;
mod input;
mod markdown;
mod model;
mod scale;
mod svg;
mod table;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::bars::PEER;
use crate::cli::ReportOptions;
use crate::output;
use crate::process::Result;

use difference::Difference;
use input::Run;
use model::{Loss, Topic};
use table::Table;

const OVERSUBSCRIBED: &str = "Threads with a star are more than the machine has processors.";

pub(crate) fn run(options: &ReportOptions) -> Result<ExitCode> {
    let ReportOptions { files, against, html, markdown, fail_above } = options;
    let runs = input::read(files)?;
    let before = input::read(against)?;
    let page = Page::new(&runs, (!against.is_empty()).then(|| difference::of(&before, &runs)));
    if let Some(file) = html {
        write(file, &html::render(&page))?;
    }
    if let Some(file) = markdown {
        write(file, &markdown::render(&page))?;
    }
    if html.is_none() && markdown.is_none() {
        output::say(&markdown::render(&page))?;
    }
    let exceeds =
        |percent: &f64| page.difference.as_ref().is_some_and(|difference| difference.exceeds(*percent));
    Ok(if fail_above.as_ref().is_some_and(exceeds) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(file: &PathBuf, text: &str) -> std::result::Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", Path::display(file)))
}

/// All that is shown, in either form.
struct Page<'r> {
    runs: &'r [Run],
    topics: Vec<Topic<'r>>,
    losses: Table,
    void: Table,
    headings: Table,
    difference: Option<Difference<'r>>,
    /// As they come, the subject first: their order is that of the series' looks.
    peers: Vec<&'r str>,
}

impl<'r> Page<'r> {
    fn new(runs: &'r [Run], difference: Option<Difference<'r>>) -> Self {
        let topics = model::topics(runs);
        let losses: Vec<Loss<'_>> = model::losses(&topics);
        let mut peers = vec![PEER];
        for peer in topics.iter().flat_map(Topic::peers) {
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        let (losses, void) = (table::losses(&losses), table::void(&topics));
        Self { runs, losses, void, headings: headings::table(runs), difference, peers, topics }
    }

    fn title(&self) -> String {
        let commits = self.runs.iter().map(|run| text::short_commit(&run.machine.commit));
        let mut commits: Vec<String> = commits.collect();
        commits.sort_unstable();
        commits.dedup();
        format!("delta-fifo: measured at {}", commits.join(", "))
    }

    fn losses_about(&self) -> String {
        let compared: usize = self
            .topics
            .iter()
            .flat_map(Topic::cases)
            .filter(|case| case.figures.iter().any(|figure| model::is_rival(&figure.peer)))
            .map(|case| case.figures.iter().filter(|figure| figure.peer == PEER).count())
            .sum();
        match self.losses.rows.len() {
            _ if compared == 0 => {
                format!("Nothing is compared here: {PEER} and a rival have no figure of the same.")
            }
            0 => format!("In none of {compared} figures is a rival better than {PEER}."),
            lost => format!(
                "In {lost} of {compared} figures {PEER} is worse than a rival; each is here once, with the rival against which it is worst."
            ),
        }
    }

    fn number(&self, peer: &str) -> usize {
        self.peers.iter().position(|other| *other == peer).unwrap_or(0)
    }
}
