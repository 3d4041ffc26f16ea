//! Test of `qiang-bench cold` on small sales.

use std::process::Command;

use serde_json::Value;

use crate::beside_others;

#[test]
fn claims_are_measured_beside_cold_sales_that_expire() {
    let _run = beside_others();
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["cold", "--sales", "2", "--orders", "6000", "--rate", "200"])
        .args(["--seconds", "3", "--pairs", "1", "--pay", "--json"])
        // The p99 of few claims on a busy machine says nothing.
        .args(["--at-most", "1000000"])
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
    assert!(count("reads") > 0 && count("payments") > 0, "{measured}");
}

#[test]
fn a_ratio_above_the_bound_fails() {
    let _run = beside_others();
    let run = |args: &[&str]| {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_qiang-bench"));
        bench.arg("cold").args(args).output().unwrap()
    };
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("[default: 1.5]"), "{help}");
    let few = [
        "--sales",
        "1",
        "--orders",
        "1000",
        "--rate",
        "100",
        "--seconds",
        "1",
    ];
    let bound = ["--pairs", "1", "--json", "--at-most", "0"];
    let output = run(&[&few[..], &bound].concat());
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &measured["ok"]),
        (Some(1), &false.into()),
        "{measured}"
    );
    assert_eq!(measured["audit_ok"], true, "{measured}");
}
