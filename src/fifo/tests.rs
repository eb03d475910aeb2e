//! What a test of the public face cannot reach: threads that stop between two steps, and the parts by themselves.

mod facts;
mod lines;
mod points;
mod records;
mod scenarios;
mod stopped;
mod witness;
mod word;
