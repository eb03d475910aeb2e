//! `informers`: its trials, with the options of a trial.

use super::Command;

#[cfg(feature = "kube")]
pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    use lexopt::ValueExt;

    let chosen = |text: &str| {
        let by_id =
            |id: &str| crate::informers::by_id(id).ok_or(format!("there is no {id:?} among informers"));
        super::list(text, by_id)
    };
    // Which ones comes first, if it is said.
    let names = parser
        .try_raw_args()
        .and_then(|mut arguments| arguments.next_if(|argument| !argument.to_string_lossy().starts_with('-')));
    let trials = match names {
        Some(names) => names.parse_with(chosen)?,
        None => crate::informers::ALL.to_vec(),
    };
    super::trial::parse_options(parser, trials)
}

#[cfg(not(feature = "kube"))]
pub(super) fn parse(_: &mut lexopt::Parser) -> Result<Command, lexopt::Error> {
    Err("informers is built with --features kube".into())
}
