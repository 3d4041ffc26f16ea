//! `cargo xtask faults` and `cargo xtask fuzz` build programs and start them: `qiang-nemesis` makes faults, or leads
//! campaigns through their lives under faults; `qiang-fuzz` sends random requests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// The short run of `cargo xtask test`.
pub(crate) const SHORT: &str = "--seconds 60 --seed 1";

/// The few lives of `cargo xtask test`. One of them is led on MariaDB.
pub(crate) const FEW_LIVES: &str = "--life --seeds 5";

/// The short run of requests of `cargo xtask test`.
pub(crate) const SHORT_FUZZ: &str = "--seconds 20";

/// What makes faults.
pub(crate) const FAULTS: &str = "qiang-nemesis";
/// What sends random requests.
pub(crate) const FUZZ: &str = "qiang-fuzz";

/// Builds what is needed and runs one of the programs.
pub(crate) fn run(root: &Path, program: &str, release: bool, args: &str) -> Result<()> {
    let profile = if release { " --release" } else { "" };
    command::run(
        &format!("cargo build -p qiang -p {program} --all-features{profile}"),
        root,
    )?;
    let folder = if release { "release" } else { "debug" };
    start(root, program, folder, args)
}

/// Runs what the tests' build has made.
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

/// Where Cargo puts programs.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let text = command::read("cargo metadata --no-deps --format-version 1", root)?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("parse the output of cargo metadata")?;
    Ok(metadata.target_directory)
}
