//! docs/openapi.json is what the server prints.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

use std::{path::Path, process::Command};

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    let printed = Command::new(env!("CARGO_BIN_EXE_qiang"))
        .arg("openapi")
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(
        committed == printed,
        "write it anew with `cargo xtask openapi`"
    );
}
