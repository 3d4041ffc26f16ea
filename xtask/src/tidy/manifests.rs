//! Checks of manifests: which crate may depend on which, what stays out of the core, who inherits the lints.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Breach;
use super::tree::Tree;
use crate::command;

const CORE: &str = "qiang-core";
const TESTKIT: &str = "qiang-testkit";

/// The star: a crate, and the crates of ours that it may depend on. Siblings meet through the core's traits.
/// A new line here is the rarest kind of change; docs/decisions/ says why it came.
const STAR: &[(&str, &[&str])] = &[
    (CORE, &[]),
    ("qiang-embedded", &[CORE]),
    ("qiang-redis", &[CORE]),
    ("qiang-ledger", &[CORE]),
    ("qiang-broker", &[CORE]),
    ("qiang-control", &[CORE]),
    (
        "qiang",
        &[
            CORE,
            "qiang-embedded",
            "qiang-redis",
            "qiang-ledger",
            "qiang-broker",
            "qiang-control",
        ],
    ),
    (TESTKIT, &[CORE]),
    ("xtask", &[]),
];

/// IO, SQL, Redis, HTTP and async runtimes stay out of the core; so does what comes with them under a longer name
/// (`tokio-util`).
const NOT_IN_CORE: &[&str] = &[
    "async-executor",
    "async-io",
    "async-std",
    "axum",
    "futures-executor",
    "hyper",
    "lapin",
    "libsqlite3",
    "mio",
    "monoio",
    "redis",
    "reqwest",
    "rusqlite",
    "smol",
    "sqlx",
    "tokio",
    "tower",
];

/// What `cargo metadata` says about the workspace's own packages.
#[derive(Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; none for an ordinary one.
    kind: Option<String>,
}

impl Metadata {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = command::read("cargo metadata --no-deps --format-version 1", root)?;
        serde_json::from_str(&text).context("parse the output of cargo metadata")
    }
}

/// Every dependency between our crates is in the star; the test kit is anybody's, but only for tests.
pub(super) fn check_star(metadata: &Metadata, breaches: &mut Vec<Breach>) {
    for package in &metadata.packages {
        let Some((_, allowed)) = STAR.iter().find(|(name, _)| *name == package.name) else {
            let what = "a crate without a place in the star (xtask/src/tidy/manifests.rs)";
            breaches.push(Breach::file(&package.name, what));
            continue;
        };
        for dependency in &package.dependencies {
            let (name, kind) = (dependency.name.as_str(), dependency.kind.as_deref());
            let ours = metadata.packages.iter().any(|other| other.name == name);
            let for_tests = name == TESTKIT && kind == Some("dev") && package.name != TESTKIT;
            if ours && !allowed.contains(&name) && !for_tests {
                let what = format!("depends on {name}, against the direction of the star");
                breaches.push(Breach::file(&package.name, what));
            }
        }
    }
}

/// The core has no IO and no async runtime, not even in its tests.
pub(super) fn check_core(metadata: &Metadata, breaches: &mut Vec<Breach>) {
    for package in metadata
        .packages
        .iter()
        .filter(|package| package.name == CORE)
    {
        for Dependency { name, .. } in &package.dependencies {
            let kept_out = |banned: &&str| {
                name.strip_prefix(*banned)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            if NOT_IN_CORE.iter().any(kept_out) {
                let what = format!("depends on {name}: the core has no IO and no async runtime");
                breaches.push(Breach::file(CORE, what));
            }
        }
    }
}

/// The workspace's lints hold only where a manifest asks for them.
pub(super) fn check_lints(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (path, text) in tree.texts() {
        let is_package = path.ends_with("Cargo.toml") && text.lines().any(|l| l == "[package]");
        let mut lines = text.lines().skip_while(|line| *line != "[lints]").skip(1);
        if is_package && lines.next() != Some("workspace = true") {
            breaches.push(Breach::file(
                path,
                "does not inherit the lints of the workspace",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of all crates of the star and the given dependencies (of whom, on what, kind).
    fn workspace(edges: &[(&str, &str, Option<&str>)]) -> Metadata {
        let package = |(name, _): &(&str, &[&str])| Package {
            name: name.to_string(),
            dependencies: edges
                .iter()
                .filter(|(from, ..)| from == name)
                .map(|(_, to, kind)| Dependency {
                    name: to.to_string(),
                    kind: kind.map(str::to_owned),
                })
                .collect(),
        };
        Metadata {
            packages: STAR.iter().map(package).collect(),
        }
    }

    fn check(from: &str, to: &str, kind: Option<&str>, allowed: bool) {
        let mut breaches = Vec::new();
        let metadata = workspace(&[(from, to, kind)]);
        check_star(&metadata, &mut breaches);
        check_core(&metadata, &mut breaches);
        assert_eq!(
            breaches.is_empty(),
            allowed,
            "{from} → {to} ({kind:?}): {breaches:?}"
        );
    }

    #[test]
    fn the_star_points_to_the_core() {
        check("qiang-embedded", CORE, None, true);
        check("qiang", "qiang-embedded", None, true);
        check(TESTKIT, CORE, None, true);
        check("qiang-embedded", "serde", None, true);
        check(CORE, "qiang-embedded", None, false);
        check(CORE, "qiang-embedded", Some("dev"), false);
        check("qiang-redis", "qiang-ledger", None, false);
        check("qiang-control", "qiang-redis", Some("build"), false);
        check("qiang-embedded", "qiang", None, false);
        check(TESTKIT, "qiang-embedded", None, false);
        check("xtask", CORE, None, false);
    }

    #[test]
    fn the_test_kit_is_for_tests_only() {
        check("qiang-embedded", TESTKIT, Some("dev"), true);
        check(CORE, TESTKIT, Some("dev"), true);
        check("qiang", TESTKIT, None, false);
        check("qiang-embedded", TESTKIT, None, false);
        check("qiang-embedded", TESTKIT, Some("build"), false);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        let packages = vec![Package {
            name: "qiang-extra".into(),
            dependencies: Vec::new(),
        }];
        let mut breaches = Vec::new();
        check_star(&Metadata { packages }, &mut breaches);
        assert_eq!(breaches.len(), 1);
    }

    #[test]
    fn io_stays_out_of_the_core() {
        for banned in [
            "tokio",
            "tokio-util",
            "rusqlite",
            "redis",
            "sqlx",
            "axum",
            "hyper",
            "smol",
        ] {
            check(CORE, banned, None, false);
            check(CORE, banned, Some("dev"), false);
            check("qiang-embedded", banned, None, true);
        }
        for fine in ["thiserror", "smol_str", "rand_chacha", "proptest"] {
            check(CORE, fine, None, true);
        }
    }

    #[test]
    fn metadata_is_read_as_cargo_writes_it() {
        let metadata = Metadata::read(&crate::project_root().unwrap()).unwrap();
        let core = metadata
            .packages
            .iter()
            .find(|package| package.name == CORE)
            .unwrap();
        assert!(!core.dependencies.is_empty());
        let dev = |d: &Dependency| d.kind.as_deref() == Some("dev");
        assert!(core.dependencies.iter().any(dev));
    }

    #[test]
    fn a_manifest_that_leaves_the_lints_out_is_found() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\n"),
            (
                "a/Cargo.toml",
                "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n",
            ),
            (
                "b/Cargo.toml",
                "[package]\nname = \"b\"\n\n[dependencies]\nworkspace = true\n",
            ),
        ]);
        let mut breaches = Vec::new();
        check_lints(&tree, &mut breaches);
        assert_eq!(
            breaches.iter().map(|b| b.path.as_str()).collect::<Vec<_>>(),
            ["b/Cargo.toml"]
        );
    }
}
