//! Test of `qiang-bench cold` on small sales.

use std::process::Command;

use serde_json::Value;

use crate::beside_others;

#[test]
fn claims_are_measured_beside_cold_sales_that_expire() {
    let _run = beside_others();
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["cold", "--sales", "2", "--orders", "6000", "--rate", "200"])
        .args(["--seconds", "3", "--pairs", "1", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(measured["audit_ok"], true, "{measured}");
    let pair = &measured["pairs"][0];
    for claims in ["without", "with"] {
        assert_eq!(pair[claims]["granted"], 600, "{measured}");
    }
    let count = |name: &str| pair[name].as_u64().unwrap();
    assert!(count("reads") > 0, "{measured}");
    // Each sale is reloaded once, for its first hold that ends.
    assert_eq!(count("campaigns_read"), 2, "{measured}");
}
