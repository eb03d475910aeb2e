//! What scenarios under shuttle need besides the queue: the time of an execution, and its beginning.

use std::time::Instant;

/// Before anything else in an execution, so that nothing of the one before is left.
pub fn begin() {
    crate::sync::begin();
}

/// Sleeps in the execution's time, as long as the scheduler likes but at least until `at`.
pub fn sleep_until(at: Instant) {
    crate::sync::sleep_until(at);
}
