//! Histories: threads write down their calls with the moments of call and return, and a search decides whether each can
//! have taken place at one moment in between, so that the sequential model gives every answer.
#![allow(dead_code, reason = "each test program uses its own part")]

pub(crate) mod ahead;
pub(crate) mod calls;
pub(crate) mod door;
pub(crate) mod recorder;
pub(crate) mod search;
pub(crate) mod shrink;
pub(crate) mod spec;
pub(crate) mod split;
pub(crate) mod threads;
