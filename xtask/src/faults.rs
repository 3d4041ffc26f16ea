//! `cargo xtask faults`: builds the programs and starts a run of faults, or lives of campaigns under faults, which
//! `qiang-nemesis` makes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command;

/// The short run of `cargo xtask test`.
pub(crate) const SHORT: &str = "--seconds 60 --seed 1";

/// The few lives of `cargo xtask test`. One of them is led on MariaDB.
pub(crate) const FEW_LIVES: &str = "--life --seeds 5";

/// Builds what is needed and runs it.
pub(crate) fn run(root: &Path, release: bool, args: &str) -> Result<()> {
    let profile = if release { " --release" } else { "" };
    command::run(
        &format!("cargo build -p qiang -p qiang-nemesis{profile}"),
        root,
    )?;
    let folder = if release { "release" } else { "debug" };
    start(root, folder, args)
}

/// Runs what the tests' build has made.
pub(crate) fn run_built(root: &Path, args: &str) -> Result<()> {
    start(root, "debug", args)
}

fn start(root: &Path, folder: &str, args: &str) -> Result<()> {
    let program = target(root)?.join(folder).join("qiang-nemesis");
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
