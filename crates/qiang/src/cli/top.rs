//! `qiang top`: current figures of a service, on the terminal.

mod exposition;
mod figures;
mod print;
mod reader;
#[cfg(feature = "top")]
mod screen;
#[cfg(feature = "top")]
mod view;

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use qiang::UsageError;

use self::reader::MetricsReader;
use crate::service::{ServiceArgs, ask};

const HELP: &str = "\
The figures come from one node: the node whose metrics are read. A token with `read:any` lists all campaigns; \
other tokens list their user's own. Without a token no campaigns are listed.
Keys: up and down select a campaign, p pauses or resumes it after a question, q quits.
The screen needs a program built with `--features top` (or `full`); --once and --json do not.

Examples:
  qiang top --token-file token           watch the service at QIANG_URL
  qiang top --json --every 10            print one reading over ten seconds, for a script";

/// Watch a service: claims, latency, settlement, partitions, live campaigns.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct TopArgs {
    /// URL where the node serves operators (`admin.listen`). Default: --url if it has metrics, else
    /// http://127.0.0.1:8082 for a service on this machine.
    #[arg(long, value_name = "URL", env = "QIANG_METRICS_URL")]
    metrics_url: Option<String>,
    /// Seconds between two readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// Print one reading and exit. --json does the same.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// Shows a service until a key or a signal ends the program.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let every = Duration::from_secs(args.every);
    ask(&args.service, async |service| {
        let reader = MetricsReader::new(service, &args.service, args.metrics_url.as_deref())?;
        if args.once || args.service.is_json() {
            return print::once(service, reader, every).await;
        }
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            let line = "top needs a terminal; --once and --json print one reading without one";
            return Err(UsageError::new(line).into());
        }
        show(service, reader, every).await
    })
}

#[cfg(feature = "top")]
use self::screen::show;

#[cfg(not(feature = "top"))]
async fn show(_: &crate::service::Service, _: MetricsReader, _: Duration) -> anyhow::Result<()> {
    let line =
        "this program has no screen: build it with `--features top`, or use --once or --json";
    Err(UsageError::new(line).into())
}
