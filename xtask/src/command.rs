//! Commands as one line of text. They are split at whitespace; there is no quoting.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command with xtask's output streams. An exit code other than 0 is an error.
pub(crate) fn run(line: &str, directory: &Path) -> Result<()> {
    output(line, command(line, directory).stdout(Stdio::inherit())).map(drop)
}

/// Runs a command with additional environment variables.
pub(crate) fn run_with(line: &str, directory: &Path, env: &[(&str, &str)]) -> Result<()> {
    let mut command = command(line, directory);
    command.envs(env.iter().copied()).stdout(Stdio::inherit());
    output(line, &mut command).map(drop)
}

/// Runs a command and returns its standard output.
pub(crate) fn read(line: &str, directory: &Path) -> Result<String> {
    let output = output(line, &mut command(line, directory))?;
    String::from_utf8(output.stdout).with_context(|| format!("cannot read the output of `{line}`"))
}

/// Whether a command exits with 0. Its output is discarded.
pub(crate) fn succeeds(line: &str, directory: &Path) -> bool {
    let mut command = command(line, directory);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn output(line: &str, command: &mut Command) -> Result<Output> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    Ok(output)
}

fn command(line: &str, directory: &Path) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null());
    remove_own_variables(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for xtask. With them, build scripts would run again.
pub(crate) fn remove_own_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let about_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];
        if about_xtask.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name.as_ref());
        }
    }
}

/// Writes a shell script that the caller's test can run at once.
///
/// A child process writes it. If this process wrote it, a child that another test forks at that moment would inherit
/// the open file until it starts its own program. Linux does not run a file that is open for writing (ETXTBSY).
#[cfg(test)]
pub(crate) fn script(path: &Path, body: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
    let status = Command::new("sh")
        .args(["-c", write])
        .arg(path)
        .arg(body)
        .status();
    assert!(status.unwrap().success(), "cannot write {}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_an_error_with_the_command_in_it() {
        let here = Path::new(".");
        let error = run("false", here).unwrap_err().to_string();
        assert!(error.starts_with("`false` ended with"), "{error}");
        assert!(run("no-such-program-here", here).is_err());
        assert!(run("true", here).is_ok());
        assert!(succeeds("true", here) && !succeeds("false", here));
    }

    #[test]
    fn a_command_does_not_see_the_variables_that_describe_xtask() {
        let seen = read("env", Path::new(".")).unwrap();
        assert!(!seen.contains("CARGO_PKG_NAME="), "{seen}");
    }
}
