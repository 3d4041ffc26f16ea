//! `qiang bench`: measurements that anybody can repeat.

mod engine;
mod rebuild;
mod stage;

use std::process::ExitCode;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// The embedded engine alone: durable grants per second, no HTTP.
    Engine(engine::EngineArgs),
    /// A start with many grants in the file, and the memory of a grant.
    Rebuild(rebuild::RebuildArgs),
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Engine(args) => engine::run(args),
        Bench::Rebuild(args) => rebuild::run(args),
    }
}
