//! Notes down which compiler and which commit the laboratory is built from: a figure without them is an anecdote.

use std::path::Path;
use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=PERF_RUSTC={}", output(&rustc, &["--version"]).unwrap_or_else(unknown));
    println!("cargo::rustc-env=PERF_COMMIT={}", commit().unwrap_or_else(unknown));

    println!("cargo::rerun-if-changed=build.rs");
    // HEAD alone does not change when its branch moves; its reflog does.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn commit() -> Option<String> {
    output("git", &["rev-parse", "HEAD"])
}

/// What a command prints, if there is such a command and it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn unknown() -> String {
    "unknown".into()
}
