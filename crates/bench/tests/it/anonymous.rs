//! Test of `qiang-bench anonymous`.

use std::process::Command;

use serde_json::Value;

use crate::beside_others;

#[test]
fn each_anonymous_route_is_measured() {
    let _run = beside_others();
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["anonymous", "--millis", "20", "--json"])
        // The latency of few requests on a busy machine says nothing.
        .args(["--at-most", "1000000000"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = measured["rows"].as_array().unwrap();
    for route in qiang::anonymous_routes() {
        let row = rows.iter().find(|row| row["route"] == *route);
        let row = row.unwrap_or_else(|| panic!("{route} is not measured"));
        assert!(row["requests"].as_u64() > Some(0), "{row}");
        assert!(row["status"].as_u64() < Some(400), "{row}");
    }
}
