//! Random and malformed HTTP requests over real connections to a node with the embedded engine.
//!
//! The program checks every answer. It must be parsable, in time, and no failure of the service except a documented
//! 503. A refusal must have problem details. Afterwards the node must still serve, without panics and memory growth,
//! and the audit of its file must pass. `cargo xtask fuzz` starts the program.

mod answers;
mod corpus;
mod mutate;
mod node;
mod report;
mod user;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::Parser;

use self::{corpus::Corpus, node::Node, report::Report, user::User};

/// Interval between measurements of memory.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Parser)]
#[command(about = "Send random and malformed HTTP requests to a node, and check its answers")]
struct Args {
    /// Seconds for which requests are sent.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the random requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Concurrent connections.
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// Path of the program `qiang`; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    qiang: Option<PathBuf>,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let beside = std::env::current_exe()?.with_file_name("qiang");
    let qiang = args.qiang.clone().unwrap_or(beside);
    let node = Node::start(&qiang)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let report = Arc::new(Report::default());
    runtime.block_on(send(args, &node, &report))?;
    node.finish(&qiang, &report)?;
    report.print(args.json)
}

/// Runs the users until the time is over.
async fn send(args: &Args, node: &Node, report: &Arc<Report>) -> Result<()> {
    let corpus = Corpus::make(node.addr())
        .await
        .context("cannot create campaigns and orders for the requests")?;
    let corpus = Arc::new(corpus);
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut users = tokio::task::JoinSet::new();
    for number in 0..args.connections {
        let (corpus, report) = (Arc::clone(&corpus), Arc::clone(report));
        let user = User::new(node.addr(), corpus, report, args.seed, number);
        users.spawn(user.send_until(end));
    }
    while Instant::now() < end {
        tokio::time::sleep(LOOK.min(end - Instant::now())).await;
        report.memory(node.resident_bytes()?);
        report.panicked(&node.panics());
    }
    while let Some(ended) = users.join_next().await {
        ended.context("a user panicked")?;
    }
    Ok(())
}
