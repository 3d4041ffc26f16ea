//! The project's own commands: `cargo xtask test`, `tidy`, `deny`, `openapi`.

mod deny;
mod needs;
mod openapi;
mod steps;
mod suite;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and every test, after installing what this machine misses
    Test {
        /// Run only what needs no server, and install nothing
        #[arg(long)]
        embedded: bool,
    },
    /// Check the layout of the code: crate direction, dead files, docs, lines, links, Lua
    Tidy,
    /// Check licences, banned crates and sources of dependencies
    Deny,
    /// Write the server's OpenAPI document to docs/openapi.json
    Openapi {
        /// Write nothing: fail when the file differs from what the server prints
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let root = project_root();
    let done = match Cli::parse().task {
        Task::Test { embedded } => suite::test(root, embedded),
        Task::Tidy => tidy::run(root),
        Task::Deny => deny::run(root),
        Task::Openapi { check } => openapi::run(root, check),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the workspace: the parent of this crate's own.
fn project_root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}
