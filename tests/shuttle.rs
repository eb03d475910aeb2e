//! Schedules: scenarios at the size of real use under schedulers that look for bad luck (random, PCT, uniform random walks).
//! Every atomic step is a point where the scheduler may switch; orderings of memory are not looked at.
//!
//! `bash .ci/schedules` runs them. `DELTA_FIFO_SHUTTLE_ITERATIONS` says how often each scenario is run under each scheduler,
//! `DELTA_FIFO_SHUTTLE_SEED` with which first seed. A schedule that fails is written to a file, and the message says what to
//! do with it; `data/schedules/README.md` says what becomes of those that are kept.

#![cfg(delta_fifo_shuttle)]

mod common;

#[path = "stress/chain.rs"]
mod chain;
#[path = "stress/check.rs"]
mod check;
#[path = "stress/consume.rs"]
mod consume;
#[path = "stress/produce.rs"]
mod produce;
#[path = "stress/record.rs"]
mod record;
#[path = "shuttle/rings.rs"]
mod rings;
#[path = "stress/round.rs"]
#[allow(dead_code, reason = "a deadlock needs no watchdog here, and a round no barrier")]
mod round;
#[path = "shuttle/run.rs"]
mod run;
#[path = "shuttle/scenarios.rs"]
mod scenarios;
#[path = "shuttle/schedule.rs"]
mod schedule;
#[path = "stress/shape.rs"]
mod shape;
#[path = "shuttle/stored.rs"]
mod stored;
#[path = "stress/watchdog.rs"]
#[allow(dead_code, reason = "a deadlock needs no watchdog here, and a round no barrier")]
mod watchdog;
#[path = "stress/worker.rs"]
mod worker;
