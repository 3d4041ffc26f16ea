//! Tests of the command line: a seed reproduces its faults, and unknown values are refused.

use std::process::{Command, Output};

fn nemesis(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qiang-nemesis"));
    command.args(args).output().unwrap()
}

#[test]
fn the_plan_of_a_seed_is_the_same_every_time() {
    let plan = |seed: &str| {
        let output = nemesis(&["--plan", "25", "--seed", seed]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(plan("5"), plan("5"));
    assert_ne!(plan("5"), plan("6"));
    assert_eq!(plan("5").lines().count(), 2 * 25);
}

#[test]
fn a_fault_that_there_is_not_is_refused() {
    let output = nemesis(&["--plan", "1", "--faults", "kill,flood"]);
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("flood"), "{errors}");
}
