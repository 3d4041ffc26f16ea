//! Test of `qiang-bench costs` with few requests.

use std::process::Command;

use serde_json::Value;

use crate::beside_others;

fn costs(servers: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args([
            "costs",
            "--requests",
            "50",
            "--handshakes",
            "20",
            "--watchers",
            "5",
            "--seconds",
            "1",
        ])
        .args(["--connections", "4", "--rounds", "1", "--json"])
        .args(servers)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_kind_of_request_is_measured() {
    let _run = beside_others();
    let measured = costs(&[]);
    assert_eq!(measured["engine"], "embedded");
    let kinds = measured["kinds"].as_array().unwrap();
    let names: Vec<_> = kinds
        .iter()
        .map(|kind| kind["name"].as_str().unwrap())
        .collect();
    let expected = [
        "no-op",
        "refusal",
        "claim",
        "payment",
        "sign-in",
        "tls request",
        "tls handshake",
        "stream second",
    ];
    assert_eq!(names, expected);
    for kind in kinds {
        assert_eq!(kind["node_us"].as_array().unwrap().len(), 1, "{kind}");
        assert_eq!(kind["redis_us"].as_array().unwrap().len(), 0, "{kind}");
    }
    assert!(
        measured["node_bytes"].as_u64().unwrap() > 1_000_000,
        "{measured}"
    );
    assert!(
        measured["mix_us"].is_number() && measured["paid_order_bytes"].is_number(),
        "{measured}"
    );
}

#[cfg(feature = "servers")]
#[test]
fn redis_is_measured_too() {
    use qiang_testkit::servers::redis::{Options, Standalone};

    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let measured = costs(&["--redis", &redis.url()]);
    assert_eq!(measured["engine"], "redis");
    let claim = &measured["kinds"][2];
    assert_eq!(claim["redis_us"].as_array().unwrap().len(), 1, "{measured}");
}
