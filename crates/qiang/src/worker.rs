//! `qiang worker`: settles what the nodes on Redis grant, apart from serving.

use std::process::ExitCode;

use crate::backend::BackendArgs;

/// What to settle, and into what. Several workers share the partitions, and take over from one that dies.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<ExitCode> {
    qiang_node::run::settle(&args.backend.load(&args.backend.overrides())?)?;
    Ok(ExitCode::SUCCESS)
}
