//! `cargo xtask faults` and `cargo xtask fuzz`: build programs and start them. `qiang-nemesis` injects faults under
//! load, or runs campaigns through their lives under faults; `qiang-fuzz` sends random requests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// Arguments of the short run in `cargo xtask test`.
pub(crate) const SHORT: &str = "--seconds 60 --seed 1";

/// Arguments of the few lives in `cargo xtask test`. One of them runs on MariaDB.
pub(crate) const FEW_LIVES: &str = "--life --seeds 5";

/// Arguments of the short fuzz run in `cargo xtask test`.
pub(crate) const SHORT_FUZZ: &str = "--seconds 20";

/// Program that injects faults.
pub(crate) const FAULTS: &str = "qiang-nemesis";
/// Program that sends random requests.
pub(crate) const FUZZ: &str = "qiang-fuzz";

/// Builds the necessary programs and runs one of them.
pub(crate) fn run(root: &Path, program: &str, release: bool, args: &str) -> Result<()> {
    let profile = if release { " --release" } else { "" };
    command::run(
        &format!(
            "cargo build -p qiang -p qiang-checks --bin qiang --bin {program} --all-features{profile}"
        ),
        root,
    )?;
    let folder = if release { "release" } else { "debug" };
    start(root, program, folder, args)
}

/// Runs a program of the tests' build.
pub(crate) fn run_built(root: &Path, program: &str, args: &str) -> Result<()> {
    start(root, program, "debug", args)
}

fn start(root: &Path, program: &str, folder: &str, args: &str) -> Result<()> {
    let program = target(root)?.join(folder).join(program);
    command::run(&format!("{} {args}", program.display()), root)
}

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Cargo's target directory.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let text = command::read("cargo metadata --no-deps --format-version 1", root)?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
    Ok(metadata.target_directory)
}
