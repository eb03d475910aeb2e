//! What kube's errors are to a reflector.

use std::time::Duration;

use delta_fifo_informer::SourceError;
use kube::core::Status;

/// A server that is too busy says when to come back in a header, which kube does not hand on.
const BUSY: Duration = Duration::from_secs(1);

/// What was being done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The next page of a list.
    Page,
    /// Anything else.
    Other,
}

pub(crate) fn of_client(error: kube::Error, doing: Doing) -> SourceError {
    match error {
        kube::Error::Api(status) => of_status(*status, doing),
        error => SourceError::transient(error),
    }
}

pub(crate) fn of_status(status: Status, doing: Doing) -> SourceError {
    let is_gone = status.code == 410 || status.reason == "Expired" || status.reason == "Gone";
    match doing {
        Doing::Page if is_gone => return SourceError::Expired(status.into()),
        Doing::Other if is_gone => return SourceError::Gone(status.into()),
        _ => {}
    }
    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let retry_after = match (asked, status.code) {
        (0, 429) => Some(BUSY),
        (0, _) => None,
        (seconds, _) => Some(Duration::from_secs(seconds.into())),
    };
    SourceError::Transient { source: status.into(), retry_after }
}
