//! Helpers that start the program, for the tests of the API.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use qiang_testkit::servers::{Resources, ServerProcess};

pub(crate) use crate::node::http::common::*;

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

/// A node with its file in the server's folder, and these keys of the configuration.
pub(crate) fn node(keys: Vec<(&'static str, String)>) -> ServerProcess {
    let command = move |at: &Resources| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
        command
            .args(["serve", "--data", "qiang.db", "--listen"])
            .arg(at.addr().to_string())
            .envs(qiang_testkit::NO_LIMITS)
            .env("QIANG__AUTH__HS256_SECRET", SECRET)
            .env("QIANG__LOG__LEVEL", "off")
            .envs(keys.iter().cloned());
        command
    };
    tokio::task::block_in_place(|| ServerProcess::builder(command).start())
}
