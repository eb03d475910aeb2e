//! Misuse that must not compile, each beside a twin that does and differs in nothing else: so it fails for the reason that is
//! meant. Public types must not be given these by a change that nobody thought of.
//!
//! A stable compiler does not compare the numbers of errors; `RUSTC_BOOTSTRAP=1 cargo test --doc misuse` does.

mod leases;
mod lists;
mod queues;
