//! Steps run one after another: each announced and timed, the first failure ends the run, a table closes it.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How a step that did not fail came out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Passed,
    /// There was nothing to do, and why.
    Skipped(String),
}

/// A named piece of work and the command that repeats it alone.
pub(crate) struct Step<'a> {
    name: &'static str,
    repeat: String,
    work: Box<dyn FnOnce() -> Result<Done> + 'a>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(
        name: &'static str,
        repeat: &str,
        work: impl FnOnce() -> Result<Done> + 'a,
    ) -> Self {
        Self {
            name,
            repeat: repeat.to_owned(),
            work: Box::new(work),
        }
    }

    /// A step that is one command, run in `directory`.
    pub(crate) fn command(name: &'static str, line: &'static str, directory: &'a Path) -> Self {
        let call = Call::new(line);
        Self::new(name, line, move || {
            call.run(directory).map(|()| Done::Passed)
        })
    }
}

/// Runs the steps in order and stops at the first failure. The table of all steps is printed either way.
pub(crate) fn run_all(steps: Vec<Step<'_>>, out: &mut dyn Write) -> Result<()> {
    let total = steps.len();
    let mut rows = Vec::with_capacity(total);
    let mut failure = None;
    for (index, step) in steps.into_iter().enumerate() {
        if failure.is_some() {
            rows.push(Row {
                name: step.name,
                took: None,
                state: State::NotRun,
            });
            continue;
        }
        writeln!(
            out,
            "\n==> [{}/{total}] {}: {}",
            index + 1,
            step.name,
            step.repeat
        )?;
        out.flush()?;
        let started = Instant::now();
        let done = (step.work)();
        let took = started.elapsed();
        let state = match done {
            Ok(Done::Passed) => State::Passed,
            Ok(Done::Skipped(why)) => State::Skipped(why),
            Err(error) => {
                writeln!(out, "{error:#}")?;
                failure = Some((step.name, step.repeat));
                State::Failed
            }
        };
        writeln!(out, "<== {} {state} in {}", step.name, Seconds(took))?;
        rows.push(Row {
            name: step.name,
            took: Some(took),
            state,
        });
    }
    write_table(&rows, out)?;
    match failure {
        Some((name, repeat)) => bail!("{name} failed; to repeat it alone:\n    {repeat}"),
        None => Ok(()),
    }
}

/// A program with its arguments and environment, printed the way one would type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) words: Vec<String>,
}

impl Call {
    /// Splits `line` at blanks: there is no quoting, no word of ours holds a blank.
    pub(crate) fn new(line: &str) -> Self {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Self {
            environment: Vec::new(),
            words,
        }
    }

    /// Runs it with our output streams; anything but exit code 0 is an error.
    pub(crate) fn run(&self, directory: &Path) -> Result<()> {
        let status = self
            .command(directory)
            .status()
            .with_context(|| format!("run `{self}`"))?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }

    /// Runs it and returns what it wrote to standard output.
    pub(crate) fn read(&self, directory: &Path) -> Result<String> {
        let output = self
            .command(directory)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("run `{self}`"))?;
        if !output.status.success() {
            bail!("`{self}` ended with {}", output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("output of `{self}`"))
    }

    /// True if it runs and exits with 0; its output is thrown away.
    pub(crate) fn succeeds(&self, directory: &Path) -> bool {
        let mut command = self.command(directory);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .current_dir(directory)
            .stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // What `cargo run` tells us about xtask itself would make build scripts run again, and the command would not be
        // the same as the one a person types.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|p| name.starts_with(p))
            {
                command.env_remove(name.as_ref());
            }
        }
        command
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={value} ")?;
        }
        f.write_str(&self.words.join(" "))
    }
}

struct Row {
    name: &'static str,
    took: Option<Duration>,
    state: State,
}

enum State {
    Passed,
    Skipped(String),
    Failed,
    NotRun,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Passed => f.write_str("passed"),
            State::Skipped(why) => write!(f, "skipped ({why})"),
            State::Failed => f.write_str("FAILED"),
            State::NotRun => f.write_str("not run"),
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1}s", self.0.as_secs_f64()))
    }
}

fn write_table(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    writeln!(out)?;
    for Row { name, took, state } in rows {
        match took {
            Some(took) => writeln!(out, "{name:<width$}  {:>8}  {state}", Seconds(*took))?,
            None => writeln!(out, "{name:<width$}  {:>8}  {state}", "-")?,
        }
    }
    let total: Duration = rows.iter().filter_map(|row| row.took).sum();
    writeln!(out, "{:<width$}  {:>8}", "total", Seconds(total))?;
    Ok(())
}

/// Writes a shell script that the caller's test may run at once.
///
/// A child writes it. If this process held the file open for writing, a child that another test forks in that moment
/// would hold it too until it runs its own program, and Linux runs no file that somebody may write to (ETXTBSY).
#[cfg(test)]
pub(crate) fn script(path: &Path, body: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
    let status = Command::new("sh")
        .args(["-c", write])
        .arg(path)
        .arg(body)
        .status();
    assert!(status.unwrap().success(), "write {}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: Vec<Step<'_>>) -> (Result<()>, String) {
        let mut out = Vec::new();
        let done = run_all(steps, &mut out);
        (done, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_first_failure_ends_the_run_and_names_the_command_that_repeats_it() {
        let (done, out) = run(vec![
            Step::new("one", "do one", || Ok(Done::Passed)),
            Step::new("two", "do two", || bail!("two broke")),
            Step::new("three", "do three", || panic!("must not run")),
        ]);
        let message = done.unwrap_err().to_string();
        assert!(
            message.contains("two failed") && message.contains("do two"),
            "{message}"
        );
        assert!(out.contains("two broke"), "{out}");
        let table: Vec<&str> = out.lines().rev().take(4).collect();
        assert!(
            table[3].contains("one") && table[3].contains("passed"),
            "{out}"
        );
        assert!(
            table[2].contains("two") && table[2].contains("FAILED"),
            "{out}"
        );
        assert!(
            table[1].contains("three") && table[1].contains("not run"),
            "{out}"
        );
        assert!(table[0].starts_with("total"), "{out}");
    }

    #[test]
    fn a_skipped_step_is_in_the_table_with_its_reason() {
        let (done, out) = run(vec![Step::new("one", "x", || {
            Ok(Done::Skipped("no need".into()))
        })]);
        assert!(done.is_ok());
        assert!(out.contains("skipped (no need)"), "{out}");
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_the_command_in_it() {
        let error = Call::new("false")
            .run(Path::new("."))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("`false` ended with"), "{error}");
        assert!(
            Call::new("no-such-program-here")
                .run(Path::new("."))
                .is_err()
        );
        assert!(Call::new("true").run(Path::new(".")).is_ok());
    }

    #[test]
    fn a_command_does_not_see_the_variables_that_describe_xtask() {
        let seen = Call::new("env").read(Path::new(".")).unwrap();
        assert!(!seen.contains("CARGO_PKG_NAME="), "{seen}");
    }
}
