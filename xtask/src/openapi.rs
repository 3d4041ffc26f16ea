//! docs/openapi.json is what the server prints: written on demand, checked by the test suite.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::steps::{Call, Done};

const DOCUMENT: &str = "docs/openapi.json";
const PRINT: &str = "cargo run --quiet --package qiang -- openapi";

/// Writes the document, or with `check` compares it.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let printed = Call::new(PRINT).read(root)?;
    check_document(&printed)?;
    let path = root.join(DOCUMENT);
    if !check {
        return fs::write(&path, printed).with_context(|| format!("write {DOCUMENT}"));
    }
    let committed = fs::read_to_string(&path).with_context(|| format!("read {DOCUMENT}"))?;
    match first_difference(&committed, &printed) {
        None => Ok(()),
        Some(line) => bail!(
            "{DOCUMENT} differs from what the server prints, first in line {line}; write it anew with\n    \
             cargo xtask openapi"
        ),
    }
}

/// The check as a step of the suite: skipped as long as no document is kept.
pub(crate) fn step(root: &Path) -> Result<Done> {
    if !root.join(DOCUMENT).exists() {
        return Ok(Done::Skipped(format!("there is no {DOCUMENT}")));
    }
    run(root, true).map(|()| Done::Passed)
}

/// A server that does not know the subcommand, or logs to standard output, must not pass for a document.
fn check_document(printed: &str) -> Result<()> {
    let document: serde_json::Value = serde_json::from_str(printed)
        .with_context(|| format!("`{PRINT}` printed something else than JSON"))?;
    if document.get("openapi").is_none() {
        bail!("`{PRINT}` printed JSON that is no OpenAPI document");
    }
    Ok(())
}

/// The number of the first line in which the texts differ.
fn first_difference(committed: &str, printed: &str) -> Option<usize> {
    if committed == printed {
        return None;
    }
    let same = committed
        .lines()
        .zip(printed.lines())
        .take_while(|(a, b)| a == b)
        .count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_and_its_line_named() {
        let check = |committed, printed, expected| {
            assert_eq!(first_difference(committed, printed), expected);
        };
        check("{\n}\n", "{\n}\n", None);
        check("{\n}\n", "{\n1}\n", Some(2));
        check("{\n", "{\n}\n", Some(2));
        check("{\n}\n", "{\n}", Some(3));
    }

    #[test]
    fn only_an_openapi_document_is_taken() {
        assert!(check_document("{\"openapi\": \"3.1.0\"}\n").is_ok());
        for other in ["", "started\n{\"openapi\": \"3.1.0\"}", "{}", "[]"] {
            assert!(check_document(other).is_err(), "{other}");
        }
    }

    #[test]
    fn without_a_document_the_step_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(step(directory.path()).unwrap(), Done::Skipped(_)));
    }
}
