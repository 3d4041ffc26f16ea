//! `qiang bench`: measurements that anybody can repeat.

mod baseline;
mod engine;
mod http;
mod rebuild;
mod stage;

use std::process::ExitCode;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Bench {
    /// The embedded engine alone: durable grants per second, no HTTP.
    Engine(engine::EngineArgs),
    /// The whole service over HTTP, every grant checked; --baseline for its ratio to a request that does nothing.
    Http(http::HttpArgs),
    /// A start with many grants in the file, and the memory of a grant.
    Rebuild(rebuild::RebuildArgs),
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    match bench {
        Bench::Engine(args) => engine::run(args),
        Bench::Http(args) => http::run(args),
        Bench::Rebuild(args) => rebuild::run(args),
    }
}
