//! Runs the test programs of several packages side by side: most tests wait for servers, connections and deadlines.
//!
//! `cargo test` runs one program after another. Here cargo builds the programs and names them. Each program runs in
//! the directory of its package, as under `cargo test`, and its output is printed when it ends.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command;

/// Number of concurrent test programs.
const AT_ONCE: usize = 2;
/// Packages whose integration tests take longest, longest first. They start first, so that none remains at the end.
const LONGEST: [&str; 4] = ["qiang", "redis", "ledger", "embedded"];

/// Message of cargo about something it built.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Test program of a package.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Directory of the package.
    pub(crate) folder: PathBuf,
    kind: String,
    target: String,
    pub(crate) executable: PathBuf,
}

impl Program {
    /// Whether it is the integration tests of this package.
    pub(crate) fn is_integration_of(&self, package: &str) -> bool {
        self.kind == "test" && self.folder.ends_with(package)
    }

    fn name(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default();
        format!("{} {} {}", package.display(), self.kind, self.target)
    }

    /// Place in the order of starts: the longest integration tests, other integration tests, all others.
    fn rank(&self) -> usize {
        let longest = LONGEST.iter().position(|name| self.folder.ends_with(name));
        match self.kind.as_str() {
            "test" => longest.unwrap_or(LONGEST.len()),
            _ => LONGEST.len() + 1,
        }
    }
}

/// Builds the tests that `line`, a `cargo test` command, names, and runs their programs.
///
/// # Errors
/// If a build or a program fails. All programs run in any case; the error names the failed ones.
pub(crate) fn run(line: &str, root: &Path, env: &[(&str, &str)]) -> Result<()> {
    let mut programs = build(line, root)?;
    programs.sort_by_key(Program::rank);
    run_side_by_side(programs, env)
}

/// Builds the tests that `line`, a `cargo test` command, names.
///
/// # Errors
/// If the build fails, or there are no tests.
pub(crate) fn build(line: &str, root: &Path) -> Result<Vec<Program>> {
    let build = format!("{line} --no-run --message-format=json-render-diagnostics");
    let programs = programs(&command::read(&build, root)?)?;
    if programs.is_empty() {
        bail!("`{line}` has no test programs");
    }
    Ok(programs)
}

/// Test programs that cargo's messages name.
fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("cannot parse a message of cargo: {line}"))?;
        if message.reason != "compiler-artifact" {
            continue;
        }
        let is_test = message.profile.is_some_and(|profile| profile.test);
        let (true, Some(executable), Some(manifest), Some(target)) = (
            is_test,
            message.executable,
            message.manifest_path,
            message.target,
        ) else {
            continue;
        };
        programs.push(Program {
            folder: manifest
                .parent()
                .context("manifest without a directory")?
                .into(),
            kind: target.kind.into_iter().next().unwrap_or_default(),
            target: target.name,
            executable,
        });
    }
    Ok(programs)
}

fn run_side_by_side(programs: Vec<Program>, env: &[(&str, &str)]) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let next = || lock(&waiting).pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    if let Err(error) = run_one(&program, env) {
                        lock(&failed).push(format!("{}: {error:#}", program.name()));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("test programs failed:\n  {}", failed.join("\n  ")),
    }
}

/// Runs a program and prints its output at its end, both streams in the order in which they were written.
fn run_one(program: &Program, env: &[(&str, &str)]) -> Result<()> {
    let name = program.name();
    println!("     Running {name} ({})", program.executable.display());
    let started = Instant::now();
    let log = program.executable.with_extension("log");
    let file =
        fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = Command::new(&program.executable);
    command::remove_own_variables(&mut command);
    let status = command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot run {}", program.executable.display()))?;
    let output = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\n     Ran {name} in {:.1}s: {status}",
        started.elapsed().as_secs_f64()
    )?;
    out.write_all(&output)?;
    out.flush()?;
    drop(out);
    fs::remove_file(&log)?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, package: &str, kind: &str, script: &str) -> Program {
        let folder = folder.join(package);
        fs::create_dir_all(&folder).unwrap();
        let executable = folder.join("program");
        command::script(&executable, script);
        Program {
            folder,
            kind: kind.into(),
            target: "it".into(),
            executable,
        }
    }

    #[test]
    fn only_test_programs_are_taken_from_the_messages() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/core/Cargo.toml","executable":{executable},
                "target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}}}}"#
            )
            .replace('\n', " ")
        };
        let messages = [
            message("lib", false, "null"),
            message("bin", false, "\"/t/qiang\""),
            message("test", true, "\"/t/it\""),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = programs(&messages.join("\n")).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name(), "core test it");
        assert_eq!(found[0].executable, Path::new("/t/it"));
        assert!(programs("no message").is_err());
    }

    #[test]
    fn the_longest_start_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut programs = [
            program(folder.path(), "core", "lib", "true"),
            program(folder.path(), "audit", "test", "true"),
            program(folder.path(), "redis", "test", "true"),
            program(folder.path(), "qiang", "test", "true"),
        ];
        programs.sort_by_key(Program::rank);
        let names: Vec<String> = programs.iter().map(Program::name).collect();
        assert_eq!(
            names,
            [
                "qiang test it",
                "redis test it",
                "audit test it",
                "core lib it"
            ]
        );
    }

    #[test]
    fn programs_run_at_the_same_time_in_their_own_directories() {
        let folder = tempfile::tempdir().unwrap();
        // Each waits for a file that the other writes into its own directory.
        let wait = |other: &str| {
            format!(
                "echo x > here; i=0; while [ ! -e ../{other}/here ]; do\n\
                 sleep 0.01; i=$((i+1)); [ $i -lt 3000 ] || exit 1; done"
            )
        };
        let programs = vec![
            program(folder.path(), "one", "test", &wait("two")),
            program(folder.path(), "two", "test", &wait("one")),
        ];
        run_side_by_side(programs, &[]).unwrap();
    }

    #[test]
    fn a_failure_is_named_and_holds_up_no_other_program() {
        let folder = tempfile::tempdir().unwrap();
        let programs = vec![
            program(folder.path(), "one", "test", "exit 3"),
            program(folder.path(), "two", "test", "exit 4"),
            program(
                folder.path(),
                "three",
                "test",
                "test \"$THREADS\" = 4 && echo x > ran",
            ),
        ];
        let error = run_side_by_side(programs, &[("THREADS", "4")]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("one test it: exit status: 3"), "{error}");
        assert!(error.contains("two test it: exit status: 4"), "{error}");
        assert!(!error.contains("three"), "{error}");
        assert!(folder.path().join("three/ran").exists());
    }
}
