//! Test of `qiang-bench soak` for some seconds.

use std::process::Command;

use serde_json::Value;

use crate::beside_others;

#[test]
fn a_short_soak_has_all_work_and_no_failure() {
    let _run = beside_others();
    // 300 clicks/s, all granted, half paid: each 100 users have an order, then the next sale begins.
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args([
            "soak",
            "--seconds",
            "6",
            "--window",
            "2",
            "--rate",
            "300",
            "--measure",
            "1",
        ])
        .args([
            "--granted",
            "50",
            "--paid",
            "50",
            "--hold",
            "1",
            "--users",
            "500",
            "--watchers",
            "3",
        ])
        .args([
            "--connections",
            "8",
            "--check-every",
            "2",
            "--backup-every",
            "2",
            "--json",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(
        (&report["ok"], &report["audit_ok"]),
        (&true.into(), &true.into())
    );
    // A busy machine is late, but no click is left out.
    let all = &report["all"];
    assert_eq!(
        (&all["claims"]["count"], &all["failures"]),
        (&1_800.into(), &0.into()),
        "{report:#}"
    );
    assert_eq!(all["payments"]["count"], 450, "{report:#}");
    assert!(
        report["windows"].as_array().unwrap().len() >= 3,
        "{report:#}"
    );
    let samples: Vec<_> = report["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["at"].clone())
        .collect();
    assert_eq!(samples, ["start", "middle", "end"]);
    let work = &report["work"];
    for (what, least) in [("checks", 2), ("backups", 2), ("watched_sales", 1)] {
        assert!(work[what].as_u64().unwrap() >= least, "{what}: {report:#}");
    }
    assert_eq!(work["failed_checks"], 0);
    assert!(report["sales"].as_u64().unwrap() > 2, "{report:#}");
}
