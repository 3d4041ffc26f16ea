//! The project's commands: `cargo xtask test`, `faults`, `fuzz`, `tidy`, `deny`, `openapi`, `docs`, `api`,
//! `clients`, `browser`, `pictures`, `upgrade`, `container`, `deb`,
//! `deploy`.

mod api;
mod browser;
mod changed;
mod clients;
mod command;
mod configuration;
mod container;
mod deb;
mod deny;
mod deploy;
mod disk;
mod faults;
mod matrix;
mod needs;
mod openapi;
mod steps;
mod suite;
mod test_programs;
mod tidy;
mod upgrade;
mod valkey;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Run the project's commands", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and every test, after installing missing packages
    Test {
        /// Run only tests that need no server, and install nothing
        #[arg(long)]
        embedded: bool,
        /// Check and test only the packages that the difference to a commit affects
        #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD")]
        changed: Option<String>,
    },
    /// Inject faults under load, and check that no answer is lost or duplicated and that the service recovers
    Faults {
        /// Build optimized programs
        #[arg(long)]
        release: bool,
        /// --seconds, --seed, --topology, --faults, --life …; `cargo xtask faults -- --help` explains them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Send random and malformed HTTP requests to a node, and check its answers
    Fuzz {
        /// Build optimized programs
        #[arg(long)]
        release: bool,
        /// --seconds, --seed, --connections …; `cargo xtask fuzz -- --help` explains them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check the layout of the code: crate direction, dead files, docs, lines, links, Lua
    Tidy,
    /// Check licences, banned crates and sources of dependencies
    Deny,
    /// Write the OpenAPI document to docs/openapi.json, and the generated parts of the clients
    Openapi,
    /// Write the page of configuration keys, docs/reference/configuration.md
    Docs,
    /// Check a running service against its OpenAPI document: validator, schemathesis, generated clients
    Api,
    /// Check the clients in Python, TypeScript and Java with their contract, and run the sample shop
    Clients {
        /// Write their generated parts from docs/openapi.json instead
        #[arg(long)]
        write: bool,
    },
    /// Test the pages in a browser, and check the types of their scripts
    Browser,
    /// Test the pages in a browser, and retake the pictures of docs/guide/pages.md
    Pictures,
    /// Replace nodes of an earlier version by this one while users buy
    Upgrade {
        /// Commit of the earlier version; its program is built first
        #[arg(default_value = "HEAD~1")]
        commit: String,
    },
    /// Build the image of deploy/container with buildah, run a node in it, and write it to a file
    Container {
        /// Use the program of the tests' build, and write no file
        #[arg(long)]
        built: bool,
        /// Build two images from two clean checkouts, and compare them
        #[arg(long, conflicts_with = "built")]
        twice: bool,
        /// Make an image for 64-bit ARM, and run it in an emulator
        #[arg(long, conflicts_with = "built")]
        arm64: bool,
        /// Cargo's profile of the program; the size is compared for the default alone
        #[arg(long, conflicts_with = "built", default_value = container::DIST)]
        profile: String,
    },
    /// Write the Debian package, install it into an empty root, and remove it again
    Deb {
        /// Use the program of the tests' build
        #[arg(long)]
        built: bool,
    },
    /// Run the tests that need servers against the servers of another Debian release: newer Redis, Valkey, PostgreSQL,
    /// MariaDB, MySQL and RabbitMQ
    Matrix {
        /// Debian release
        #[arg(long, default_value = "unstable")]
        release: String,
        /// Run only suites whose names contain this
        suite: Option<String>,
    },
    /// Check the compose file and the Helm chart: render, validate, and compare with the program
    Deploy,
}

fn main() -> ExitCode {
    match project_root().and_then(|root| run(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path) -> Result<()> {
    match Cli::parse().task {
        Task::Test {
            embedded,
            changed: None,
        } => suite::test(root, embedded),
        Task::Test {
            embedded,
            changed: Some(base),
        } => suite::test_changed(root, embedded, &base),
        Task::Faults { release, args } => {
            faults::run(root, faults::FAULTS, release, &args.join(" "))
        }
        Task::Fuzz { release, args } => faults::run(root, faults::FUZZ, release, &args.join(" ")),
        Task::Tidy => tidy::run(root),
        Task::Deny => deny::run(root),
        Task::Openapi => openapi::write(root).and_then(|()| clients::write(root)),
        Task::Docs => configuration::write(root),
        Task::Api => api::run(root),
        Task::Clients { write: true } => clients::write(root),
        Task::Clients { write: false } => clients::run(root),
        Task::Browser => browser::run(root),
        Task::Pictures => browser::pictures(root),
        Task::Upgrade { commit } => upgrade::run(root, &commit),
        Task::Matrix { release, suite } => matrix::run(root, &release, suite.as_deref()),
        Task::Container { built: true, .. } => container::run_built(root).map(drop),
        Task::Container {
            twice,
            arm64: is_arm64,
            profile,
            ..
        } => {
            let choice = container::Choice { profile, is_arm64 };
            match twice {
                true => container::run_twice(root, &choice),
                false => container::run(root, &choice),
            }
        }
        Task::Deb { built: true } => deb::run_built(root).map(drop),
        Task::Deb { built: false } => deb::run(root),
        Task::Deploy => deploy::run(root),
    }
}

/// Root directory of the workspace, searched from the current directory upwards.
fn project_root() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    here.ancestors()
        .find(|directory| directory.join("xtask/Cargo.toml").is_file())
        .map(Path::to_owned)
        .context("run this inside a checkout of the project")
}
