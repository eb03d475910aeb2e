//! Notes down which compiler and which commit the laboratory is built from: a figure without them is an anecdote.

use std::process::Command;

/// What the figures come from. Other changes to the tree do not make the commit another one.
const SOURCES: [&str; 8] =
    ["build.rs", "src", "client_go", "kube", "Cargo.toml", "../src", "../Cargo.toml", "../Cargo.lock"];

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=PERF_RUSTC={}", output(&rustc, &["--version"]).unwrap_or_else(unknown));

    let commit = commit();
    // HEAD alone does not change when its branch moves; its reflog does. Cargo runs this again at every build as long as a
    // file that it is to watch is missing: so it does without a reflog, and until there is a commit.
    let watched = match commit {
        Some(_) => ["HEAD", "logs/HEAD"].map(|name| output("git", &["rev-parse", "--git-path", name])),
        None => [Some("no-commit-yet".into()), None],
    };
    println!("cargo::rustc-env=PERF_COMMIT={}", commit.unwrap_or_else(unknown));
    for path in watched.into_iter().flatten().chain(SOURCES.map(String::from)) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// `-dirty` if the sources are not those of the commit.
fn commit() -> Option<String> {
    let commit = output("git", &["rev-parse", "HEAD"])?;
    // Without optional locks: a build should not get in the way of a commit.
    let status = ["--no-optional-locks", "status", "--porcelain", "--"];
    let changed = output("git", &[&status[..], &SOURCES].concat())?;
    Some(if changed.is_empty() { commit } else { commit + "-dirty" })
}

/// What a command prints, if there is such a command and it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn unknown() -> String {
    "unknown".into()
}
