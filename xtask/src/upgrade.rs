//! `cargo xtask upgrade`: replaces the program of an earlier commit by the current one, node by node, while users buy.
//!
//! The test belongs to the program's crate; this module builds the earlier program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::faults::target;

/// Test that replaces nodes, and the variable with the path of the earlier program.
const TEST: &str = "cargo test -p qiang --all-features --test it nodes_are_replaced -- --nocapture";
const BEFORE: &str = "QIANG_BEFORE";

/// Builds the program of a commit, unless an earlier run has built it, and tests its replacement by the current one.
pub(crate) fn run(root: &Path, commit: &str) -> Result<()> {
    let commit = resolve(root, commit)?;
    let folder = target(root)?.join("upgrade");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let program = folder.join(format!("qiang-{}", &commit[..12]));
    if !program.exists() {
        with_checkout(root, &commit, &folder.join("source"), |source| {
            build(source, &folder, &program)
        })?;
    }
    let before = program.display().to_string();
    let version = command::read(&format!("{before} --version"), root)?;
    println!("earlier version: {}", version.trim());
    command::run_with(TEST, root, &[(BEFORE, &before)])
}

/// Full name of a commit. Other names are refused, because the name becomes part of paths.
fn resolve(root: &Path, commit: &str) -> Result<String> {
    let line = format!("git rev-parse --verify --quiet --end-of-options {commit}^{{commit}}");
    let name = command::read(&line, root).with_context(|| format!("{commit} is no commit"))?;
    let name = name.lines().last().unwrap_or_default().trim();
    if name.len() < 40 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("{commit} is no commit");
    }
    Ok(name.to_owned())
}

/// Runs `work` with the files of a commit, and removes them afterwards.
pub(crate) fn with_checkout<T>(
    root: &Path,
    commit: &str,
    source: &Path,
    work: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let path = source.display();
    // Files of an interrupted run.
    let remove = format!("git worktree remove --force {path}");
    if source.exists() && !command::succeeds(&remove, root) {
        fs::remove_dir_all(source).with_context(|| format!("cannot remove {path}"))?;
    }
    command::run("git worktree prune", root)?;
    command::run(&format!("git worktree add --detach {path} {commit}"), root)?;
    let done = work(source);
    let removed = command::run(&remove, root);
    let done = done?;
    removed.map(|()| done)
}

/// Builds in a separate folder, so that the current program stays.
fn build(source: &Path, folder: &Path, program: &Path) -> Result<()> {
    let built = folder.join("build");
    let line = "cargo build --locked -p qiang --all-features";
    let env = [("CARGO_TARGET_DIR", &*built.display().to_string())];
    command::run_with(line, source, &env)?;
    fs::copy(built.join("debug/qiang"), program)
        .map(drop)
        .with_context(|| format!("cannot copy the program to {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(root: &Path, line: &str) {
        command::run(
            &format!("git -c user.name=t -c user.email=t@t {line}"),
            root,
        )
        .unwrap();
    }

    #[test]
    fn a_commits_files_are_there_while_they_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        git(&root, "init --quiet");
        fs::write(root.join("file"), "before").unwrap();
        git(&root, "add file");
        git(&root, "commit --quiet --message=one");
        let first = resolve(&root, "HEAD").unwrap();
        fs::write(root.join("file"), "after").unwrap();
        git(&root, "commit --quiet --all --message=two");
        assert_eq!(resolve(&root, "HEAD~1").unwrap(), first);
        for name in ["HEAD~2", "no-such", "--all"] {
            assert!(resolve(&root, name).is_err(), "{name}");
        }
        let source = folder.path().join("source");
        let read = |source: &Path| {
            assert_eq!(fs::read_to_string(source.join("file")).unwrap(), "before");
            Ok(())
        };
        // As after an interrupted run; then again.
        fs::create_dir(&source).unwrap();
        for _ in 0..2 {
            with_checkout(&root, &first, &source, read).unwrap();
            assert!(!source.exists());
        }
        let failed: Result<()> = with_checkout(&root, &first, &source, |_| bail!("it broke"));
        assert_eq!(failed.unwrap_err().to_string(), "it broke");
        assert!(!source.exists());
    }
}
