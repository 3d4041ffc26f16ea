//! Passes the commit and its date to the build, for `qiang --version`. Needs no network, and is reproducible.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=QIANG_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    // Git writes there whenever another commit is checked out.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
        && let Ok(log) = fs::canonicalize(log)
    {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    // A container or a source archive has no git: the builder passes the commit in a variable.
    let commit = env::var("QIANG_COMMIT").ok();
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let epoch = env::var("SOURCE_DATE_EPOCH").ok();
    let epoch = epoch.or_else(|| git(&["show", "--no-patch", "--format=%ct", "HEAD"]));
    let commit = commit.unwrap_or_else(|| "commit unknown".to_owned());
    println!("cargo::rustc-env=QIANG_COMMIT={commit}");
    // The program formats it: a library of dates would compile once more for this script.
    let epoch = epoch.unwrap_or_default();
    println!("cargo::rustc-env=QIANG_EPOCH={}", epoch.trim());
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
