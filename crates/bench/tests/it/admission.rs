//! Tests of `qiang-bench admission`: on one node and on three, and a failure without admission.

use std::{process::Command, sync::PoisonError};

use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::Value;

use crate::{RUNS, beside_others};

/// A node that paused for longer asks for a decision again, independent of the machine's speed.
const PAUSE_S: f64 = 0.4;

/// Runs it with a small crowd. Returns its output and its exit code.
fn admission(line: &str) -> (Value, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["admission", "--attempts", "60000", "--waiting", "20000"])
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    (
        printed.unwrap_or_else(|error| panic!("{error}: {said}")),
        output.status.code().unwrap(),
    )
}

fn check(line: &str, nodes: u64) {
    let (measured, code) = admission(&format!("{line} --at-least 50"));
    assert_eq!(
        (code, &measured["ok"]),
        (0, &Value::Bool(true)),
        "{measured}"
    );
    assert_eq!(measured["granted"], 100, "{measured}");
    let count = |name: &str| measured[name].as_u64().unwrap();
    let without = count("answered_at_once") + count("answered_after_waiting");
    assert_eq!(without + count("decided"), 60_000, "{measured}");
    // One in a hundred, and after each pause of a node one and a half per unit, in two calls.
    let pauses = (measured["seconds"].as_f64().unwrap() / PAUSE_S) as u64;
    let let_in = 600 + nodes * 300 * pauses;
    assert!(count("decided") <= let_in, "{measured}");
}

#[test]
fn a_crowd_is_answered_without_whoever_decides() {
    let _alone = RUNS.write().unwrap_or_else(PoisonError::into_inner);
    check("", 1);
    let redis = Standalone::start(&Options::new());
    for nodes in [1, 3] {
        check(&format!("--redis {} --nodes {nodes}", redis.url()), nodes);
    }
}

/// Without admission, the crowd reaches Redis, and the measurement fails.
#[test]
fn a_crowd_that_is_let_in_is_seen() {
    let _run = beside_others();
    let redis = Standalone::start(&Options::new());
    let (measured, code) = admission(&format!("--redis {} --percent 0", redis.url()));
    assert_eq!(
        (code, &measured["ok"]),
        (1, &Value::Bool(false)),
        "{measured}"
    );
    assert_eq!(measured["granted"], 100, "{measured}");
    assert!(measured["decided"].as_u64().unwrap() > 600, "{measured}");
}
