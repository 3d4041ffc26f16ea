//! Program `qiang-bench`: repeatable benchmarks of Qiang.

mod admission;
mod anonymous;
mod campaigns;
mod cold;
mod costs;
mod engine;
mod fixture;
mod http;
mod node_process;
mod process;
mod reads;
mod rebuild;
mod schemes;
mod settlement;
mod soak;

use std::process::ExitCode;

use clap::Parser;
use qiang::UsageError;

/// Run benchmarks of Qiang.
#[derive(Debug, Parser)]
#[command(name = "qiang-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Bench,
}

/// Benchmark to run.
#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// Measure how much of a crowd is answered without a decision of the engine; prints one JSON object.
    ///
    /// Exit code 1: less than --at-least, an oversold or unsold unit, or a failed claim.
    Admission(admission::AdmissionArgs),
    /// Measure the cost of each route that needs no token, and of refused requests, one connection at a time.
    ///
    /// Exit code 1: a route without a measurement, or a request above --at-most.
    Anonymous(anonymous::AnonymousArgs),
    /// Measure many small red packets: rates of creation, claims and settlement, and the cost of a live packet in
    /// memory, in the file, at a start and while idle.
    Campaigns(campaigns::CampaignsArgs),
    /// Measure claims of one sale on the embedded engine, with and without large sales that are not in memory but are
    /// read, watched and expire.
    ///
    /// Exit code 1: a ratio above --at-most, or a breach found by the audit.
    Cold(cold::ColdArgs),
    /// Measure the processor time of a node for each kind of request: claims, payments, sign-ins, streams, requests and
    /// handshakes over TLS; with --redis also that of Redis. Then measures a mix, and compares it with their sum.
    ///
    /// Exit code 1: a request was answered otherwise than expected.
    Costs(costs::CostsArgs),
    /// Measure the embedded engine alone: durable grants per second, no HTTP.
    Engine(engine::EngineArgs),
    /// Measure the whole service over HTTP and check every grant; with --baseline, compare it with a request that does
    /// nothing.
    Http(http::HttpArgs),
    /// Measure reads of a campaign's state through a node, nginx and replicas, compared with a request that does
    /// nothing; prints one JSON object. Starts a node, and nginx with deploy/nginx.conf.
    ///
    /// Exit code 1: more of a crowd's reads than --at-most reach the node, or a read failed.
    Reads(reads::ReadsArgs),
    /// Measure a start with many grants in the file, and the memory per grant.
    Rebuild(rebuild::RebuildArgs),
    /// Compare the published schemes and Qiang on one Redis under the same load.
    ///
    /// Start a Redis for it, such as `redis-server --port 6400 --save ''`. The benchmark flushes nothing: its keys have
    /// a separate prefix and are removed. It reads Redis's processor time from INFO, so nothing else should use that
    /// Redis during the run.
    ///
    /// Exit code 1: a scheme that must be exact was not. It oversold, granted two units to one user, left units unsold
    /// although enough users claimed, or its records differ from the users' answers.
    Schemes(Box<schemes::SchemesArgs>),
    /// Measure settlement: its rate from a log on Redis into a ledger, and the lag under a steady load.
    Settlement(settlement::SettlementArgs),
    /// Load a node at a share of its capacity for an hour, with settlement, payments, expiry, watchers, audits or
    /// reconciliation, and backups; prints latencies per minute, memory, file sizes and the longest pauses.
    ///
    /// Exit code 1: a request was answered otherwise than expected, or the audit found a breach.
    Soak(soak::SoakArgs),
    /// Run the node of `costs` or `soak`.
    #[command(hide = true)]
    Node(node_process::NodeArgs),
    /// Run the watchers of `http --watchers` or `soak`.
    #[command(hide = true)]
    Watchers(http::WatchersArgs),
}

/// Exit codes: 0 for success, 1 for an error or a breach, 2 for wrong usage.
fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("qiang-bench: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

/// Runs a benchmark. Returns whether it found no breach.
fn run(command: Bench) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Bench::Admission(args) => admission::run(&args).await,
            Bench::Anonymous(args) => anonymous::run(&args).await,
            Bench::Campaigns(args) => campaigns::run(&args).await,
            Bench::Cold(args) => cold::run(&args).await,
            Bench::Costs(args) => Box::pin(costs::run(&args)).await,
            Bench::Engine(args) => engine::run(&args).await,
            Bench::Http(args) => http::run(&args).await,
            Bench::Reads(args) => Box::pin(reads::run(&args)).await,
            Bench::Rebuild(args) => rebuild::run(&args).await,
            Bench::Schemes(args) => schemes::run(&args).await,
            Bench::Settlement(args) => settlement::run(&args).await,
            Bench::Soak(args) => Box::pin(soak::run(&args)).await,
            Bench::Node(args) => Box::pin(node_process::serve(&args)).await,
            Bench::Watchers(args) => http::watch(&args).await,
        }
    })
}

/// Median of some values; `None` of no values.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }
}
