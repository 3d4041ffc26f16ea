//! Runs steps one after another. It announces and times each step, and prints a table. A failed step ends the run.
//! After a failed check the other checks run.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::command;

/// Result of a step that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Passed,
    /// The step did nothing, for this reason.
    Skipped(String),
}

pub(crate) struct Step<'a> {
    name: &'static str,
    /// Description: what the step does, and why it may be slow.
    about: &'static str,
    /// Command that repeats only this step.
    repeat: String,
    work: Box<dyn FnOnce() -> Result<Done> + 'a>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(
        name: &'static str,
        about: &'static str,
        repeat: &str,
        work: impl FnOnce() -> Result<Done> + 'a,
    ) -> Self {
        Self {
            name,
            about,
            repeat: repeat.to_owned(),
            work: Box::new(work),
        }
    }

    /// Step of one command, run in `directory`.
    pub(crate) fn command(
        name: &'static str,
        about: &'static str,
        line: &str,
        directory: &'a Path,
    ) -> Self {
        let command = line.to_owned();
        Self::new(name, about, line, move || {
            command::run(&command, directory).map(|()| Done::Passed)
        })
    }
}

/// Runs the steps in order up to the first failure, and then all checks. Checks need all steps but not each other.
/// Always prints the table of all.
pub(crate) fn run_all(
    steps: Vec<Step<'_>>,
    checks: Vec<Step<'_>>,
    out: &mut dyn Write,
) -> Result<()> {
    let first_check = steps.len() + 1;
    let all: Vec<_> = steps.into_iter().chain(checks).collect();
    let count = all.len();
    let width = all.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let mut table = String::new();
    let mut row = |name, time: &str, state: &str| {
        table += &format!("{name:<width$}  {time:>8}  {state}\n");
    };
    let mut failures = Vec::new();
    let mut is_over = false;
    let started = Instant::now();
    for (number, step) in (1..).zip(all) {
        let (name, about, repeat) = (step.name, step.about, step.repeat);
        if is_over {
            row(name, "-", "not run");
            continue;
        }
        writeln!(
            out,
            "\n==> [{number}/{count}] {name}: {about}\n    {repeat}"
        )?;
        out.flush()?;
        let step_started = Instant::now();
        let state = match (step.work)() {
            Ok(Done::Passed) => "passed".to_owned(),
            Ok(Done::Skipped(why)) => format!("skipped ({why})"),
            Err(error) => {
                writeln!(out, "{error:#}")?;
                failures.push(format!("{name} failed; to repeat it alone:\n    {repeat}"));
                is_over = number < first_check;
                "FAILED".to_owned()
            }
        };
        let time = seconds(step_started);
        writeln!(out, "<== [{number}/{count}] {name}: {state} in {time}")?;
        row(name, &time, &state);
    }
    row("total", &seconds(started), "");
    write!(out, "\n{table}")?;
    if !failures.is_empty() {
        bail!(failures.join("\n"));
    }
    Ok(())
}

fn seconds(since: Instant) -> String {
    format!("{:.1}s", since.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: Vec<Step<'_>>) -> (Result<()>, String) {
        run_with(steps, Vec::new())
    }

    fn run_with(steps: Vec<Step<'_>>, checks: Vec<Step<'_>>) -> (Result<()>, String) {
        let mut out = Vec::new();
        let done = run_all(steps, checks, &mut out);
        (done, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_first_failure_ends_the_run_and_names_the_command_that_repeats_it() {
        let (done, out) = run(vec![
            Step::new("one", "first", "do one", || Ok(Done::Passed)),
            Step::new("two", "second", "do two", || bail!("two broke")),
            Step::new("three", "third", "do three", || panic!("must not run")),
        ]);
        let message = done.unwrap_err().to_string();
        assert!(
            message.contains("two failed") && message.contains("do two"),
            "{message}"
        );
        assert!(out.contains("[2/3] two: second"), "{out}");
        assert!(out.contains("two broke"), "{out}");
        let table: Vec<&str> = out.lines().rev().take(4).collect();
        for (line, name, state) in [
            (3, "one", "passed"),
            (2, "two", "FAILED"),
            (1, "three", "not run"),
        ] {
            assert!(
                table[line].starts_with(name) && table[line].contains(state),
                "{out}"
            );
        }
        assert!(table[0].starts_with("total"), "{out}");
    }

    #[test]
    fn a_failed_check_lets_the_others_run() {
        let done = || Step::new("done", "x", "y", || Ok(Done::Passed));
        let check = |name| Step::new(name, "x", "do it", move || bail!("{name} broke"));
        let (result, out) = run_with(vec![done()], vec![check("two"), done(), check("four")]);
        let message = result.unwrap_err().to_string();
        assert!(
            message.contains("two failed") && message.contains("four failed"),
            "{message}"
        );
        assert!(out.contains("[3/4] done: passed"), "{out}");
        let (result, out) = run_with(vec![check("one")], vec![done()]);
        assert!(result.is_err() && out.contains("not run"), "{out}");
    }

    #[test]
    fn a_skipped_step_is_in_the_table_with_its_reason() {
        let skip = || Ok(Done::Skipped("no need".into()));
        let (done, out) = run(vec![Step::new("one", "x", "y", skip)]);
        assert!(done.is_ok());
        assert!(out.contains("skipped (no need)"), "{out}");
    }

    #[test]
    fn a_step_may_be_a_command() {
        let here = Path::new(".");
        assert!(run(vec![Step::command("one", "x", "true", here)]).0.is_ok());
        assert!(
            run(vec![Step::command("one", "x", "false", here)])
                .0
                .is_err()
        );
    }
}
