//! The `qiang-bench` program: measurements that anybody can repeat.

mod admission;
mod campaigns;
mod cold;
mod engine;
mod fixture;
mod http;
mod process;
mod reads;
mod rebuild;
mod schemes;
mod settlement;

use std::process::ExitCode;

use clap::Parser;
use qiang_node::UsageError;

/// Measures Qiang.
#[derive(Debug, Parser)]
#[command(name = "qiang-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Bench,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum Bench {
    /// A crowd on a few units: how much of it is answered without whoever decides, as one JSON object.
    ///
    /// Exit code 1: less than --at-least, a unit oversold or left behind, or a claim that failed.
    Admission(admission::AdmissionArgs),
    /// Many small red packets: creations, claims and settlement a second, and what a live packet costs in memory, in
    /// the file, at a start and while nothing happens.
    Campaigns(campaigns::CampaignsArgs),
    /// Claims of one sale while large sales that are not in memory are read, watched and expire, beside the same claims
    /// without that, on the embedded engine.
    ///
    /// Exit code 1: a ratio above --at-most, or an audit that finds something broken.
    Cold(cold::ColdArgs),
    /// The embedded engine alone: durable grants per second, no HTTP.
    Engine(engine::EngineArgs),
    /// The whole service over HTTP, every grant checked; --baseline for its ratio to a request that does nothing.
    Http(http::HttpArgs),
    /// Reads of a campaign's state through a node, nginx and replicas, beside a request that does nothing, as one JSON
    /// object. It starts a node, and nginx with deploy/nginx.conf.
    ///
    /// Exit code 1: more of a crowd's reads than --at-most reach the node, or one failed.
    Reads(reads::ReadsArgs),
    /// A start with many grants in the file, and the memory of a grant.
    Rebuild(rebuild::RebuildArgs),
    /// The published schemes and ours on one Redis, under the same load, compared.
    ///
    /// Start a Redis for it, such as `redis-server --port 6400 --save ''`. The benchmark flushes nothing: its keys
    /// have a prefix of their own and are removed. Redis's processor time is what INFO says, so nobody else should
    /// use that Redis meanwhile.
    ///
    /// Exit code 1: a scheme that must be exact was not. It gave more units than there were, or two to one user, or
    /// left units behind although enough users asked, or its records differ from what users were answered.
    Schemes(Box<schemes::SchemesArgs>),
    /// Settlement: how fast a log on Redis goes into a ledger, and what rate of grants it keeps up with.
    Settlement(settlement::SettlementArgs),
    /// Those who watch, for `http --watchers`.
    #[command(hide = true)]
    Watchers(http::WatchersArgs),
}

/// 0 when it did what was asked, 1 when it could not or found something broken, 2 when it was asked wrongly.
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

/// Returns whether everything was as it must be.
fn run(command: Bench) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Bench::Admission(args) => admission::run(&args).await,
            Bench::Campaigns(args) => campaigns::run(&args).await,
            Bench::Cold(args) => cold::run(&args).await,
            Bench::Engine(args) => engine::run(&args).await,
            Bench::Http(args) => http::run(&args).await,
            Bench::Reads(args) => reads::run(&args).await,
            Bench::Rebuild(args) => rebuild::run(&args).await,
            Bench::Schemes(args) => schemes::run(&args).await,
            Bench::Settlement(args) => settlement::run(&args).await,
            Bench::Watchers(args) => http::watch(&args).await,
        }
    })
}

/// The middle of some values; none of no values.
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
