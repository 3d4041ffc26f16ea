//! The steps of `cargo xtask test` and their order.

use std::io;
use std::path::Path;

use anyhow::Result;

use crate::needs::{self, NEEDS};
use crate::steps::{Done, Step, run_all};
use crate::{deny, openapi, tidy, tools};

/// Everything: what the machine misses, then all checks, cheap ones first, then all tests.
///
/// With `embedded` nothing is installed, and only what needs no server is run.
pub(crate) fn test(root: &Path, embedded: bool) -> Result<()> {
    let mut steps = Vec::new();
    if !embedded {
        steps.push(Step::new("packages", "cargo xtask test", || {
            needs::install(NEEDS)
        }));
    }
    steps.push(Step::new(
        "toolchain",
        "rustup component add rustfmt clippy",
        move || tools::components(root, !embedded),
    ));
    steps.push(Step::new("tidy", "cargo xtask tidy", || {
        tidy::check(root).map(|()| Done::Passed)
    }));
    steps.push(Step::new("lua", "cargo xtask tidy", move || {
        tidy::lint_lua(root, !embedded)
    }));
    steps.push(Step::command("format", "cargo fmt --all --check", root));
    steps.push(Step::new("deny", "cargo xtask deny", || {
        deny::run(root).map(|()| Done::Passed)
    }));
    steps.push(Step::command(
        "clippy",
        "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        root,
    ));
    // The feature `servers` brings in the tests that start real servers.
    let tests = if embedded {
        "cargo test --workspace --all-targets"
    } else {
        "cargo test --workspace --all-targets --all-features"
    };
    steps.push(Step::command("tests", tests, root));
    steps.push(Step::command(
        "doc tests",
        "cargo test --workspace --doc",
        root,
    ));
    steps.push(Step::new("openapi", "cargo xtask openapi --check", || {
        openapi::step(root)
    }));
    run_all(steps, &mut io::stdout())
}
