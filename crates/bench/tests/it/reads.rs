//! Tests of `qiang-bench reads` with the real nginx and `deploy/nginx.conf`.

use std::process::Command;

use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::Value;

use crate::beside_others;

fn reads(line: &str, code: i32) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["reads", "--seconds", "1", "--connections", "32"])
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_crowds_reads_do_not_reach_the_node() {
    let _run = beside_others();
    let measured = reads("--requests 20000", 0);
    let crowd = &measured["crowd"];
    assert_eq!(
        (&crowd["requests"], &crowd["failed"]),
        (&20_000.into(), &0.into())
    );
    let reached = crowd["reached_node"].as_u64().unwrap();
    assert!((1..=200).contains(&reached), "{measured}");
    assert!(
        measured["state_bytes"].as_u64().unwrap() < 300,
        "{measured}"
    );
    for rate in ["noop_per_second", "node_per_second", "nginx_per_second"] {
        assert!(measured[rate].as_f64().unwrap() > 0.0, "{measured}");
    }
    assert!(measured["replicas_per_second"].is_null(), "{measured}");
}

/// Reads that reach the node are counted, and too many fail the run.
#[test]
fn replicas_are_measured_and_the_bound_is_kept() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new().replicas(1));
    let (url, replica) = (redis.url(), redis.replicas()[0].url());
    let line = format!("--requests 1000 --at-most 0 --redis {url} --read-urls {replica}");
    let measured = reads(&line, 1);
    assert_eq!(measured["ok"], false);
    assert!(
        measured["replicas_per_second"].as_f64().unwrap() > 0.0,
        "{measured}"
    );
}
