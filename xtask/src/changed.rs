//! Packages affected by a change: those with changed files, and all that depend on them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::command;

/// Files outside packages that tests read, and the packages of these tests.
const READ_BY_TESTS: &[(&str, &[&str])] = &[
    (
        "docs/",
        &[
            "qiang",
            "qiang-api",
            "qiang-audit",
            "qiang-redis",
            "qiang-testkit",
            "xtask",
        ],
    ),
    ("deploy/", &["qiang", "qiang-bench"]),
    ("README.md", &["qiang"]),
];

/// Files that affect every package.
const REACH_ALL: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/",
    "clippy.toml",
    "rustfmt.toml",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
}

/// Packages affected by the difference to `base`, including uncommitted and untracked files.
///
/// # Errors
/// If `base` is no commit, or `git` or `cargo metadata` fails.
pub(crate) fn packages(root: &Path, base: &str) -> Result<BTreeSet<String>> {
    if base.starts_with('-') || base.contains(char::is_whitespace) {
        bail!("{base:?} is no commit: use a branch, a tag or a hash after --changed");
    }
    let tracked = command::read(&format!("git diff --name-only {base}"), root)
        .with_context(|| format!("cannot compare with {base}"))?;
    let untracked = command::read("git ls-files --others --exclude-standard", root)?;
    let text = command::read("cargo metadata --no-deps --format-version 1", root)?;
    let metadata =
        serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
    let files: Vec<&str> = tracked.lines().chain(untracked.lines()).collect();
    Ok(reached(&metadata, &files))
}

fn reached(metadata: &Metadata, files: &[&str]) -> BTreeSet<String> {
    let all = || metadata.packages.iter().map(|package| package.name.clone());
    if files.iter().any(|file| is_below(REACH_ALL, file)) {
        return all().collect();
    }
    let mut reached: BTreeSet<String> = BTreeSet::new();
    for package in &metadata.packages {
        let folder = package
            .manifest_path
            .trim_start_matches(&metadata.workspace_root)
            .trim_start_matches('/')
            .trim_end_matches("Cargo.toml");
        if files.iter().any(|file| file.starts_with(folder)) {
            reached.insert(package.name.clone());
        }
    }
    for (path, readers) in READ_BY_TESTS {
        if files.iter().any(|file| file.starts_with(path)) {
            reached.extend(readers.iter().map(|name| (*name).to_owned()));
        }
    }
    loop {
        let depends = |package: &&Package| {
            let own = package.dependencies.iter().filter(|it| it.path.is_some());
            own.into_iter().any(|it| reached.contains(&it.name))
        };
        let more: Vec<String> = metadata
            .packages
            .iter()
            .filter(|package| !reached.contains(&package.name))
            .filter(depends)
            .map(|package| package.name.clone())
            .collect();
        if more.is_empty() {
            return reached;
        }
        reached.extend(more);
    }
}

fn is_below(paths: &[&str], file: &str) -> bool {
    paths.iter().any(|path| {
        let is_folder = path.ends_with('/');
        file == *path || is_folder && file.starts_with(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` depends on `b`, and `b` on `a`; `d` has no dependencies.
    fn workspace() -> Metadata {
        let package = |name: &str, on: Option<&str>| Package {
            name: name.to_owned(),
            manifest_path: format!("/checkout/crates/{name}/Cargo.toml"),
            dependencies: on
                .map(|on| Dependency {
                    name: on.to_owned(),
                    path: Some(format!("/checkout/crates/{on}")),
                })
                .into_iter()
                .collect(),
        };
        Metadata {
            packages: vec![
                package("a", None),
                package("b", Some("a")),
                package("c", Some("b")),
                package("d", None),
            ],
            workspace_root: "/checkout".to_owned(),
        }
    }

    fn check(files: &[&str], expected: &[&str]) {
        let reached = reached(&workspace(), files);
        let reached: Vec<&str> = reached.iter().map(String::as_str).collect();
        assert_eq!(reached, expected, "{files:?}");
    }

    #[test]
    fn a_change_reaches_what_depends_on_it() {
        check(&["crates/a/src/lib.rs"], &["a", "b", "c"]);
        check(&["crates/b/tests/it/main.rs"], &["b", "c"]);
        check(&["crates/d/src/lib.rs", "LICENSE"], &["d"]);
        check(&["LICENSE"], &[]);
    }

    #[test]
    fn the_lock_file_reaches_everything() {
        check(&["Cargo.lock"], &["a", "b", "c", "d"]);
        check(&[".cargo/config.toml"], &["a", "b", "c", "d"]);
    }

    #[test]
    fn documents_reach_the_packages_whose_tests_read_them() {
        let reached = reached(&workspace(), &["docs/integrate/api.md"]);
        assert!(reached.contains("qiang-redis"), "{reached:?}");
    }

    #[test]
    fn an_option_is_no_commit() {
        for base in ["--output=x", "a b"] {
            let error = packages(Path::new("."), base).unwrap_err().to_string();
            assert!(error.contains("is no commit"), "{error}");
        }
    }
}
