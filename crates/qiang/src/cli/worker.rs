//! `qiang worker`: settles grants of the engine on Redis, without serving.

use std::process::ExitCode;

use crate::backend::BackendArgs;

/// Settle grants of the engine on Redis into the ledger. Several workers share the partitions. If one dies, the others
/// take over its partitions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang worker --config /etc/qiang.toml")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Serve /healthz, /readyz, /metrics and profiles at this address instead of `worker.listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
}

pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<ExitCode> {
    let mut overrides = args.backend.overrides();
    let listen = args.listen.clone();
    overrides.extend(listen.map(|listen| ("worker.listen", listen)));
    qiang::run::settle(|| args.backend.load(&overrides))?;
    Ok(ExitCode::SUCCESS)
}
