//! Checks of free disk space before a run of all tests. On a full disk, test servers fail with misleading errors.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::steps::Done;

/// Space for the folders of test servers, most of them at once. Measured: 2 GiB at most.
const TESTS_GIB: u64 = 4;

/// Space for a complete build, followed by the folders of tests. Measured: 6 GiB without incremental compilation, 9 GiB
/// with it.
const BUILD_GIB: u64 = 10 + TESTS_GIB;

/// Fails if nothing is built yet and a complete build would not fit on the disk.
pub(crate) fn for_build(target: &Path) -> Result<Done> {
    if target.join("debug/qiang").exists() {
        return Ok(Done::Passed);
    }
    enough(target, BUILD_GIB)
}

/// Fails if the disk has too little space for test servers.
pub(crate) fn for_tests() -> Result<Done> {
    enough(&env::temp_dir(), TESTS_GIB)
}

fn enough(folder: &Path, needed_gib: u64) -> Result<Done> {
    let line = format!("df --output=avail --block-size=1M {}", folder.display());
    let free = parse(&command::read(&line, folder)?)?;
    if free < needed_gib * 1024 {
        bail!(
            "only {free} MiB are free on the disk of {}: make room for {needed_gib} GiB",
            folder.display()
        );
    }
    Ok(Done::Passed)
}

/// Number in the second line of the output of `df`.
fn parse(output: &str) -> Result<u64> {
    let number = output.lines().nth(1).unwrap_or_default().trim();
    number
        .parse()
        .with_context(|| format!("cannot parse the output of df: {output:?}"))
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
