//! `qiang worker`: settles what the nodes on Redis grant, apart from serving.

use std::process::ExitCode;

use crate::backend::BackendArgs;

/// What to settle, and into what. Several workers share the partitions, and take over from one that dies.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang worker --config /etc/qiang.toml")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Serve /healthz, /readyz, /metrics and profiles here instead of at `worker.listen`.
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
