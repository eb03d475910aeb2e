//! What the laboratory measures: the peers, and the workloads with their checks.
//!
//! The program (`src/main.rs`) runs them; the crate's criterion benchmarks (`benches/` at the top) use the same peers, so that no
//! rival exists twice.

#![deny(unsafe_code)]

pub mod peers;
pub mod stores;
#[cfg(feature = "program")]
pub mod system;
pub mod workload;

/// The compiler that all of this was built with.
pub const COMPILER: &str = env!("PERF_RUSTC");
