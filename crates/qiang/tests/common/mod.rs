//! The program, and what the tests of the API have to call it with.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    reason = "every test file uses a part of this, and a panic is its report"
)]

#[path = "../../../api/tests/common/mod.rs"]
mod api;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

pub(crate) use self::api::*;

/// The program with an environment of its own.
pub(crate) fn qiang(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
    command
        .current_dir(folder)
        .args(args)
        .env_clear()
        .envs(env.iter().copied());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn output(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    qiang(folder, args, env).output().unwrap()
}
