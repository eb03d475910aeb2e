//! What a test of the public face cannot reach: threads that stop between two steps, and the parts by themselves.

#[cfg(delta_fifo_narrow)]
mod around;
mod closing;
mod facts;
mod lines;
mod measure;
mod moments;
mod points;
mod progress;
mod scenarios;
mod snapshots;
mod stopped;
mod version;
mod witness;
mod word;
