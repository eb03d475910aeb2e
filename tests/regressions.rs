//! Bugs that were found by looking for them, each pinned by the promise that it broke.

mod common;
mod model;

#[path = "regressions/closing.rs"]
mod closing;
#[path = "regressions/delays.rs"]
mod delays;
#[path = "regressions/drops.rs"]
mod drops;
#[path = "regressions/stores.rs"]
mod stores;
#[path = "regressions/values.rs"]
mod values;
#[path = "regressions/wakers.rs"]
mod wakers;
