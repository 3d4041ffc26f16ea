//! Tests of the program's command line.

use std::process::Command;

#[test]
fn it_says_what_is_missing() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_qiang-fuzz"));
    let ended = program
        .args(["--qiang", "/nowhere/qiang"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(ended.stderr).unwrap(),
        "error: cannot find /nowhere/qiang: build it with `cargo build -p qiang`\n"
    );
}
