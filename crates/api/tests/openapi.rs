//! docs/openapi.json is what the API describes.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

use std::path::Path;

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    let mut printed = qiang_api::document().to_pretty_json().unwrap();
    printed.push('\n');
    assert!(
        committed == printed,
        "write it anew with `cargo xtask openapi`"
    );
}
