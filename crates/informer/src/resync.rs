//! How often known objects are told once more.

use std::time::Duration;

use tokio::time::Instant;

/// A period after which something comes again and again, and when it comes first. None at all is never, as with client-go; so is what is
/// beyond all clocks.
pub(crate) fn from_now(period: Option<Duration>) -> Option<(Instant, Duration)> {
    let period = period.filter(|period| !period.is_zero())?;
    Some((Instant::now().checked_add(period)?, period))
}
