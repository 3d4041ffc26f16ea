//! Room on the disks that a run of all tests fills: a full disk makes servers of tests fail in ways that say nothing.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::steps::Done;

/// Folders of tests' servers, most of them at once. Measured: 2 GiB at most.
const TESTS_GIB: u64 = 4;

/// What a build of everything from nothing takes, and the folders of tests after it. Measured: 6 GiB without
/// incremental compilation, 9 GiB with it.
const BUILD_GIB: u64 = 10 + TESTS_GIB;

/// Refuses to build everything where nothing is built yet and there is too little room.
pub(crate) fn for_build(target: &Path) -> Result<Done> {
    if target.join("debug/qiang").exists() {
        return Ok(Done::Passed);
    }
    enough(target, BUILD_GIB)
}

/// Refuses to run tests where there is too little room for their servers.
pub(crate) fn for_tests() -> Result<Done> {
    enough(&env::temp_dir(), TESTS_GIB)
}

fn enough(folder: &Path, needed_gib: u64) -> Result<Done> {
    let line = format!("df --output=avail --block-size=1M {}", folder.display());
    let free = parse(&command::read(&line, folder)?)?;
    if free < needed_gib * 1024 {
        bail!(
            "only {free} MiB are free on the disk of {}; make room for {needed_gib} GiB",
            folder.display()
        );
    }
    Ok(Done::Passed)
}

/// The number below the heading of `df`.
fn parse(output: &str) -> Result<u64> {
    let number = output.lines().nth(1).unwrap_or_default().trim();
    number
        .parse()
        .with_context(|| format!("read the output of df: {output:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_too_little_room_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(enough(folder.path(), 0).is_ok());
        let error = enough(folder.path(), 1 << 40).unwrap_err().to_string();
        assert!(error.contains("make room for"), "{error}");
        assert!(parse("Avail\n").is_err());
    }
}
