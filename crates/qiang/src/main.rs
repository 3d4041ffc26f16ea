//! The `qiang` program: arguments and printing, one file a command.

mod audit;
mod backend;
mod demo;
mod histogram;
mod migrate;
mod openapi;
mod partition;
mod reconcile;
mod serve;
mod settlement;
mod split;
mod token;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use qiang_node::UsageError;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hands out scarce things to a crowd: red packets (抢红包) and flash sales (秒杀).
#[derive(Debug, Parser)]
#[command(name = "qiang", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP API.
    Serve(serve::ServeArgs),
    /// Settle what is granted on Redis into the ledger, without serving.
    Worker(worker::WorkerArgs),
    /// Make the ledger's tables in a database, or bring them up to date.
    Migrate(migrate::MigrateArgs),
    /// List what the ledger refused and quarantined, and settle it later.
    #[command(subcommand)]
    Settlement(settlement::Settlement),
    /// List, inspect, repair and resume the partitions of the engine on Redis.
    #[command(subcommand)]
    Partition(partition::Partition),
    /// Hold the engine on Redis against the ledger, row by row.
    Reconcile(reconcile::ReconcileArgs),
    /// Users grab a red packet and buy out a flash sale over HTTP; an audit proves the result.
    Demo(demo::DemoArgs),
    /// Prove every invariant again from the rows of a ledger.
    Audit(audit::AuditArgs),
    /// Split a total into shares, or verify a split.
    Split(Box<split::SplitArgs>),
    /// Make a token.
    Token(token::TokenArgs),
    /// Print the OpenAPI document.
    Openapi,
}

/// Runs the work of a command that serves nobody, for which one thread is enough.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// 0 when it did what was asked, 1 when it could not, 2 when it was asked wrongly.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Settlement(command) => settlement::run(&command),
        Command::Partition(command) => partition::run(&command),
        Command::Reconcile(args) => reconcile::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Split(args) => split::run(*args),
        Command::Token(args) => token::run(&args),
        Command::Openapi => openapi::run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("qiang: {error:#}");
        ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
    })
}
