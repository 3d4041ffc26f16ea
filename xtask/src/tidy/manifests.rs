//! Checks of manifests: allowed dependencies between crates, dependencies of the core, and inherited lints.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Breach;
use super::rust::Crate;
use super::tree::{Tree, parent};
use crate::command;

/// Allowed dependencies of each crate among the workspace's crates, without the prefix `qiang-`.
///
/// Engines, ledgers and the work beside them meet through the traits of `core`. A new word here is the rarest kind of
/// change; docs/decisions/ has the reasons.
const ALLOWED: &str = "
    api: core wire
    audit: core
    bench: audit client core embedded qiang redis
    checks: client testkit
    client: wire
    core:
    embedded: core
    ledger: core
    qiang: api audit client core embedded ledger redis web worker
    redis: core
    testkit: core
    web:
    wire:
    worker: core
    xtask:
";

/// Additional dependencies of a crate's tests. The tests of every crate may use `testkit`. The programs `nemesis` and
/// `fuzz` may use it too, because they are tests.
const ALLOWED_IN_TESTS: &str = "
    audit: embedded ledger redis
    checks: audit core embedded
    redis: embedded worker
    web: core
";

const CORE: &str = "core";
const TESTKIT: &str = "testkit";

/// Crates for IO, SQL, Redis, HTTP and async runtimes, which the core must not use. Crates with a longer name after a
/// hyphen count as well (`tokio-util`).
const NOT_IN_CORE: &str = "
    async-executor async-io async-std axum futures-executor hyper lapin libsqlite3 mio monoio redis reqwest rusqlite
    smol sqlx tokio tower
";

/// Output of `cargo metadata` about the workspace's own packages. Paths are relative to the root.
#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
pub(super) struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    pub(super) manifest_path: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for a normal dependency.
    kind: Option<String>,
    req: String,
    /// Path, if the dependency is a crate of the workspace.
    path: Option<String>,
}

/// Library, program, test or benchmark.
#[derive(Deserialize)]
struct Target {
    /// Root file of the crate.
    src_path: String,
}

impl Metadata {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = command::read("cargo metadata --no-deps --format-version 1", root)?;
        let mut metadata: Self =
            serde_json::from_str(&text).context("cannot parse the output of cargo metadata")?;
        let root = format!("{}/", metadata.workspace_root);
        for package in &mut metadata.packages {
            let sources = package
                .targets
                .iter_mut()
                .map(|target| &mut target.src_path);
            for path in sources.chain([&mut package.manifest_path]) {
                *path = path.replacen(&root, "", 1);
            }
        }
        Ok(metadata)
    }
}

impl Package {
    /// Crates that the package is compiled to.
    pub(super) fn crates(&self, tree: &Tree) -> Vec<Crate> {
        let roots = self.targets.iter().map(|target| target.src_path.as_str());
        roots.map(|root| Crate::read(tree, root)).collect()
    }
}

/// Checks that the tables allow every dependency between the workspace's crates, and that every other one has a
/// version.
pub(super) fn check_dependencies(metadata: &Metadata, breaches: &mut Vec<Breach>) {
    check_with(ALLOWED, ALLOWED_IN_TESTS, metadata, breaches);
}

fn check_with(allowed: &str, in_tests: &str, metadata: &Metadata, breaches: &mut Vec<Breach>) {
    for package in &metadata.packages {
        let mut breach = |what: String| breaches.push(Breach::file(&package.manifest_path, what));
        let Some(allowed) = row(allowed, &package.name) else {
            breach(format!("add {} to the table in {}", package.name, file!()));
            continue;
        };
        let in_tests = row(in_tests, &package.name).unwrap_or_default();
        for dependency in &package.dependencies {
            let name = short(&dependency.name);
            if dependency.path.is_none() {
                if dependency.req == "*" {
                    breach(format!("accepts any version of {name}: set one"));
                }
                continue;
            }
            let is_for_tests = name == TESTKIT || in_tests.contains(&name);
            let is_test = dependency.kind.as_deref() == Some("dev");
            let is_allowed = allowed.contains(&name) || is_test && is_for_tests;
            if !is_allowed {
                breach(format!(
                    "must not depend on {name}: see the table in {}",
                    file!()
                ));
            }
        }
    }
}

/// Words after a crate's name in a table.
fn row<'a>(table: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let name = short(name);
    let mut rows = table.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, words) = rows.find(|(first, _)| *first == name)?;
    Some(words.split_whitespace().collect())
}

fn short(name: &str) -> &str {
    name.strip_prefix("qiang-").unwrap_or(name)
}

/// Checks that the core has no IO and no async runtime, not even in its tests.
pub(super) fn check_core(metadata: &Metadata, breaches: &mut Vec<Breach>) {
    let core = metadata
        .packages
        .iter()
        .filter(|package| short(&package.name) == CORE);
    for Dependency { name, .. } in core.flat_map(|package| &package.dependencies) {
        let is_kept_out = |banned| {
            let rest = name.strip_prefix(banned);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if NOT_IN_CORE.split_whitespace().any(is_kept_out) {
            let what = format!("depends on {name}: the core has no IO and no async runtime");
            breaches.push(Breach::file("crates/core", what));
        }
    }
}

/// The only crate that replaces calls of the C library, in its tests. It repeats the lints, because a manifest cannot
/// inherit all except one.
const WITH_LINTS_OF_ITS_OWN: &str = "qiang-checks";

/// Checks that each manifest requests the workspace's lints; they apply only on request.
pub(super) fn check_lints(tree: &Tree, metadata: &Metadata, breaches: &mut Vec<Breach>) {
    for package in &metadata.packages {
        let path = &package.manifest_path;
        let manifest = tree.text(path).unwrap_or("");
        let is_excepted = package.name == WITH_LINTS_OF_ITS_OWN
            && manifest.contains("\n[lints.rust]\nunsafe_code = \"deny\"\n");
        if !is_excepted && !manifest.contains("\n[lints]\nworkspace = true\n") {
            let what = "add `[lints]` with `workspace = true`, the lints of the workspace";
            breaches.push(Breach::file(path, what));
        }
    }
}

/// The only second integration binary: it replaces calls of the C library.
const BINARY_OF_ITS_OWN: &str = "crates/checks/tests/power_loss/main.rs";

/// Checks that each crate has at most one integration binary. A second one costs a link, and shares no fixtures.
pub(super) fn check_test_binaries(metadata: &Metadata, breaches: &mut Vec<Breach>) {
    for package in &metadata.packages {
        let below = format!("{}/tests/", parent(&package.manifest_path));
        let roots = package
            .targets
            .iter()
            .map(|target| target.src_path.as_str());
        let binaries: Vec<&str> = roots
            .filter(|root| root.starts_with(&below) && *root != BINARY_OF_ITS_OWN)
            .collect();
        if binaries.len() > 1 {
            let what = format!("make one integration binary of {}", binaries.join(", "));
            breaches.push(Breach::file(&package.manifest_path, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages with these names; the first has the given dependencies.
    fn workspace(names: &[&str], dependencies: Vec<Dependency>) -> Metadata {
        let package = |name: &&str| Package {
            name: name.to_string(),
            dependencies: Vec::new(),
            manifest_path: format!("{name}/Cargo.toml"),
            targets: Vec::new(),
        };
        let mut packages: Vec<Package> = names.iter().map(package).collect();
        packages[0].dependencies = dependencies;
        Metadata {
            packages,
            workspace_root: String::new(),
        }
    }

    /// Dependency on a crate of the workspace, or on version `req` of another one.
    fn dependency(name: &str, kind: Option<&str>, req: Option<&str>) -> Dependency {
        Dependency {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            req: req.unwrap_or("*").to_owned(),
            path: req.is_none().then(|| format!("crates/{name}")),
        }
    }

    fn check(from: &str, to: &str, kind: Option<&str>, is_allowed: bool) {
        let metadata = workspace(&[from], vec![dependency(to, kind, None)]);
        let mut breaches = Vec::new();
        check_dependencies(&metadata, &mut breaches);
        assert_eq!(
            breaches.is_empty(),
            is_allowed,
            "{from} -> {to} ({kind:?}): {breaches:?}"
        );
    }

    #[test]
    fn dependencies_point_to_the_core() {
        check("qiang-embedded", "qiang-core", None, true);
        check("qiang", "qiang-embedded", None, true);
        check("qiang-testkit", "qiang-core", None, true);
        check("qiang-core", "qiang-embedded", None, false);
        check("qiang-core", "qiang-embedded", Some("dev"), false);
        check("qiang-redis", "qiang-ledger", None, false);
        check("qiang-worker", "qiang-redis", Some("build"), false);
        check("qiang-embedded", "qiang", None, false);
        check("qiang-testkit", "qiang-embedded", None, false);
        check("qiang-client", "qiang", None, false);
        check("xtask", "qiang-core", None, false);
    }

    #[test]
    fn audit_depends_on_the_core_alone() {
        check("qiang-audit", "qiang-core", None, true);
        for row in ALLOWED
            .lines()
            .filter_map(|line| line.trim().split_once(':'))
        {
            let other = format!("qiang-{}", row.0);
            if !["qiang-core", "qiang-audit"].contains(&other.as_str()) {
                check("qiang-audit", &other, None, false);
            }
        }
    }

    #[test]
    fn the_test_kit_is_for_tests_only() {
        check("qiang-embedded", "qiang-testkit", Some("dev"), true);
        check("qiang-core", "qiang-testkit", Some("dev"), true);
        check("qiang", "qiang-testkit", None, false);
        check("qiang-embedded", "qiang-testkit", None, false);
        check("qiang-embedded", "qiang-testkit", Some("build"), false);
    }

    #[test]
    fn tests_may_use_what_the_second_table_allows() {
        for (kind, count) in [(Some("dev"), 0), (None, 1)] {
            let metadata = workspace(&["qiang-a"], vec![dependency("qiang-b", kind, None)]);
            let mut breaches = Vec::new();
            check_with("a:", "a: b", &metadata, &mut breaches);
            assert_eq!(breaches.len(), count, "{breaches:?}");
        }
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let mut breaches = Vec::new();
        check_dependencies(&workspace(&["qiang-extra"], Vec::new()), &mut breaches);
        assert_eq!(breaches.len(), 1);
    }

    #[test]
    fn a_second_integration_binary_is_found() {
        let target = |path: &str| Target {
            src_path: format!("qiang-a/{path}"),
        };
        for (paths, count) in [
            (&["src/lib.rs", "tests/it/main.rs"][..], 0),
            (&["src/lib.rs", "tests/it/main.rs", "tests/more.rs"], 1),
        ] {
            let mut metadata = workspace(&["qiang-a"], Vec::new());
            metadata.packages[0].targets = paths.iter().map(|path| target(path)).collect();
            let mut breaches = Vec::new();
            check_test_binaries(&metadata, &mut breaches);
            assert_eq!(breaches.len(), count, "{breaches:?}");
        }
    }

    #[test]
    fn a_dependency_without_a_version_is_found() {
        for (req, count) in [("*", 1), ("^1", 0)] {
            let metadata = workspace(&["qiang-core"], vec![dependency("hex", None, Some(req))]);
            let mut breaches = Vec::new();
            check_dependencies(&metadata, &mut breaches);
            assert_eq!(breaches.len(), count, "{breaches:?}");
        }
    }

    #[test]
    fn io_stays_out_of_the_core() {
        let check = |from, to, kind, count| {
            let metadata = workspace(&[from], vec![dependency(to, kind, Some("^1"))]);
            let mut breaches = Vec::new();
            check_core(&metadata, &mut breaches);
            assert_eq!(breaches.len(), count, "{breaches:?}");
        };
        let banned = [
            "tokio",
            "tokio-util",
            "rusqlite",
            "redis",
            "sqlx",
            "axum",
            "hyper",
            "smol",
        ];
        for banned in banned {
            check("qiang-core", banned, None, 1);
            check("qiang-core", banned, Some("dev"), 1);
            check("qiang-embedded", banned, None, 0);
        }
        for fine in ["thiserror", "smol_str", "rand_chacha", "proptest"] {
            check("qiang-core", fine, None, 0);
        }
    }

    #[test]
    fn metadata_is_read_as_cargo_writes_it() {
        let metadata = Metadata::read(&crate::project_root().unwrap()).unwrap();
        let mut packages = metadata.packages.iter();
        let core = packages
            .find(|package| short(&package.name) == CORE)
            .unwrap();
        assert_eq!(core.manifest_path, "crates/core/Cargo.toml");
        assert_eq!(core.targets[0].src_path, "crates/core/src/lib.rs");
        let is_dev = |d: &Dependency| d.kind.as_deref() == Some("dev");
        assert!(core.dependencies.iter().any(is_dev));
    }

    #[test]
    fn a_manifest_that_leaves_the_lints_out_is_found() {
        let tree = Tree::of(&[
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
        check_lints(&tree, &workspace(&["a", "b"], Vec::new()), &mut breaches);
        let paths: Vec<&str> = breaches.iter().map(|breach| breach.path.as_str()).collect();
        assert_eq!(paths, ["b/Cargo.toml"]);
    }
}
