//! `cargo xtask browser`: tests of the pages in a real browser.
//!
//! The tests and the pinned versions of their tools are in `crates/web/browser`. The tools are installed below
//! Cargo's target directory; the browser is Debian's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::api::{MINUTES_MAX, install_once, npm_install};
use crate::command;
use crate::faults::target;
use crate::steps::Done;

const SOURCES: &str = "crates/web/browser";
const SCRIPTS: &str = "crates/web/assets";
/// Tests that measure times, so they run alone.
const MEASURE: [&str; 2] = ["lighthouse.test.mjs", "pages.test.mjs"];
/// Folder of the pictures of docs/guide/pages.md.
const PICTURES: &str = "docs/pictures";
/// Pictures on that page; the tests take more.
const SHOWN: [&str; 27] = [
    "home",
    "sign-in",
    "send",
    "packet-before",
    "packet-opened",
    "packet-over",
    "packet-fair",
    "packet-poster",
    "packets",
    "orders",
    "balance",
    "sale-tally",
    "sale-before",
    "sale-held",
    "sale-sold-out",
    "sale-chinese",
    "packet-phone",
    "sale-phone",
    "packet-dark",
    "sale-dark",
    "desk",
    "desk-sale",
    "desk-campaign",
    "desk-live",
    "desk-operation",
    "desk-lookup",
    "desk-order",
];

/// Builds the program and tests its pages.
pub(crate) fn run(root: &Path) -> Result<()> {
    install(root)?;
    command::run("cargo build -p qiang --all-features", root)?;
    run_built(root)
}

/// Installs the tools, unless the pinned versions are installed already.
pub(crate) fn install(root: &Path) -> Result<Done> {
    let sources = root.join(SOURCES);
    let pins = ["package.json", "package-lock.json"].map(|name| sources.join(name));
    install_once(&tools(root)?, &[&pins[0], &pins[1]], |folder| {
        npm_install(&sources, folder)
    })?;
    Ok(Done::Passed)
}

/// Tests the pages, and copies the pictures that docs/guide/pages.md shows.
pub(crate) fn pictures(root: &Path) -> Result<()> {
    run(root)?;
    let (taken, kept) = (target(root)?.join("screenshots"), root.join(PICTURES));
    fs::create_dir_all(&kept)?;
    for name in SHOWN {
        copy_into(&taken.join(format!("{name}.png")), &kept)?;
    }
    Ok(())
}

/// Checks the types of all scripts, and tests the pages of the program of the tests' build. Pictures of the pages are
/// stored in `screenshots` below the target directory.
pub(crate) fn run_built(root: &Path) -> Result<()> {
    let (tools, target) = (tools(root)?, target(root)?);
    let scripts = tools.join("assets");
    fs::create_dir_all(&scripts)?;
    copy_all(&root.join(SOURCES), &tools, &["mjs", "json"])?;
    copy_all(&root.join(SCRIPTS), &scripts, &["js"])?;
    command::run("node_modules/.bin/tsc", &tools)?;
    let (program, pictures) = (target.join("debug/qiang"), target.join("screenshots"));
    let env = [
        ("QIANG", program.display().to_string()),
        ("SCREENSHOTS", pictures.display().to_string()),
    ];
    let env: Vec<_> = env
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    // Each file uses its own service and browser, and waits for half of its time.
    for (files, at_once) in [
        (
            test_files(&root.join(SOURCES), |name| !MEASURE.contains(&name))?,
            2,
        ),
        (
            test_files(&root.join(SOURCES), |name| MEASURE.contains(&name))?,
            1,
        ),
    ] {
        let line = format!("{MINUTES_MAX} node --test --test-concurrency={at_once} {files}");
        command::run_with(&line, &tools, &env)?;
    }
    Ok(())
}

/// Names of a folder's test files that match, separated by spaces.
fn test_files(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".test.mjs") && is_wanted(&name) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.join(" "))
}

fn tools(root: &Path) -> Result<PathBuf> {
    Ok(target(root)?.join("browser-tools"))
}

fn copy_all(from: &Path, to: &Path, extensions: &[&str]) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| extensions.contains(&extension)) {
            copy_into(&path, to)?;
        }
    }
    Ok(())
}

fn copy_into(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("the path has no file name")?;
    let copied = fs::copy(file, folder.join(name));
    copied
        .map(drop)
        .with_context(|| format!("cannot copy {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_measure_are_there_and_no_other_test_is_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files =
            |is_wanted: fn(&str) -> bool| test_files(&root.join(SOURCES), is_wanted).unwrap();
        assert_eq!(files(|name| MEASURE.contains(&name)), MEASURE.join(" "));
        let (all, others) = (files(|_| true), files(|name| !MEASURE.contains(&name)));
        let count = |files: &str| files.split(' ').count();
        assert!(count(&others) > 1);
        assert_eq!(count(&all), count(&others) + MEASURE.len());
    }
}
