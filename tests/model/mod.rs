//! The sequential model, and what the tests beside it share.
#![allow(dead_code, reason = "each test program uses its own part")]

pub(crate) mod config;
pub(crate) mod counted;
pub(crate) mod fuse;
pub(crate) mod queue;
pub(crate) mod tasks;
