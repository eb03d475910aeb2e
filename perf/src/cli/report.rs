//! The options of `report`.

use std::path::PathBuf;

use lexopt::prelude::*;

use super::Command;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct ReportOptions {
    pub(crate) files: Vec<PathBuf>,
    /// What was before.
    pub(crate) against: Vec<PathBuf>,
    pub(crate) html: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    /// Percent by which nothing of the subject may have become worse.
    pub(crate) fail_above: Option<f64>,
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    let mut options = ReportOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("html") => options.html = Some(parser.value()?.into()),
            Long("markdown") => options.markdown = Some(parser.value()?.into()),
            Long("against") => options.against.push(parser.value()?.into()),
            Long("fail-above") => options.fail_above = Some(parser.value()?.parse_with(percent)?),
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(file) => options.files.push(file.into()),
            other => return Err(other.unexpected()),
        }
    }
    if options.files.is_empty() {
        return Err("report of which files?".into());
    }
    if options.fail_above.is_some() && options.against.is_empty() {
        return Err("--fail-above needs --against, or there is nothing to have become worse".into());
    }
    Ok(Command::Report(options))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().ok();
    number
        .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
        .ok_or(format!("{text:?} is not a number of percent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<ReportOptions, String> {
        let parser = lexopt::Parser::from_args(arguments.split_whitespace());
        match super::super::parse(parser).map_err(|error| error.to_string())? {
            Command::Report(options) => Ok(options),
            _ => Err("another command".into()),
        }
    }

    #[test]
    fn files_and_where_they_go() {
        let options = parsed("report a.json --html x.html b.json --against old.json --fail-above 5").unwrap();
        assert_eq!(options.files, [PathBuf::from("a.json"), "b.json".into()]);
        assert_eq!((options.html, options.markdown), (Some("x.html".into()), None));
        assert_eq!((options.against, options.fail_above), (vec!["old.json".into()], Some(5.0)));
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in
            ["report", "report a --quick", "report a --fail-above 5", "report a --against b --fail-above -1"]
        {
            assert!(parsed(nonsense).is_err(), "{nonsense}");
        }
    }
}
