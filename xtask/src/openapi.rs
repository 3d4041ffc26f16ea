//! Writes docs/openapi.json. A test of the program compares the file with the program's output.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command;

const DOCUMENT: &str = "docs/openapi.json";
const PRINT: &str = "cargo run --quiet --package qiang -- openapi";

/// Writes the program's output to the file if it is an OpenAPI document.
pub(crate) fn write(root: &Path) -> Result<()> {
    let printed = command::read(PRINT, root)?;
    check(&printed)?;
    fs::write(root.join(DOCUMENT), printed).with_context(|| format!("cannot write {DOCUMENT}"))
}

/// Checks the output, so that a log on standard output does not overwrite the document.
fn check(printed: &str) -> Result<()> {
    let document: serde_json::Value =
        serde_json::from_str(printed).with_context(|| format!("`{PRINT}` did not print JSON"))?;
    let version = document.get("openapi");
    version
        .map(drop)
        .with_context(|| format!("`{PRINT}` printed JSON that is not an OpenAPI document"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_openapi_document_is_taken() {
        assert!(check("{\"openapi\": \"3.1.0\"}\n").is_ok());
        for other in ["", "started\n{\"openapi\": \"3.1.0\"}", "{}", "[]"] {
            assert!(check(other).is_err(), "{other}");
        }
    }
}
