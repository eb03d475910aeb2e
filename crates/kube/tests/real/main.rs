//! Against servers that others have written: a real kube-apiserver with its etcd (`bash .ci/apiserver`), and kmock, a fake one in
//! Python (`bash .ci/kmock`). Where there is none, nothing is tested, and a line says so.
//!
//! In the end the store, and what each handler made of what it was told, are what the server lists.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};

mod apiserver;
mod counted;
mod informer;
mod kmock;
mod observer;
mod proxy;
mod server;
mod world;

/// What a variable names; none, and a line that says so, where a test is to be left out.
fn named(variable: &str, script: &str) -> Option<OsString> {
    let named = env::var_os(variable).filter(|named| !named.is_empty());
    if named.is_none() {
        // Past the test harness, which keeps what a passing test prints; in one go, since others print as well.
        let line = format!("NOT CHECKED: {variable} is not set. `bash {script}` sets it, and runs this.\n");
        let _ = io::stderr().write_all(line.as_bytes());
    }
    named
}
