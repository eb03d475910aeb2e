//! What the documentation promises beyond the table of sequences, topic by topic.

#[path = "../common/mod.rs"]
mod common;

mod async_pops;
mod changes;
mod clock;
mod close;
mod compression;
mod consumers;
mod delays;
mod errors;
mod keyed;
mod known;
mod line;
mod marks;
mod replace;
mod scopes;
mod slow;
mod stats;
mod store;
mod streaming;
mod synced;
