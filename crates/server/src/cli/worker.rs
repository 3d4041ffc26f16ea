//! `qiang worker`: settles what the nodes on Redis grant, apart from serving.

use std::{process::ExitCode, sync::Arc};

use qiang_embedded::SystemClock;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::{UsageError, backend::BackendArgs, serve::log_to_stderr};
use crate::{config::EngineKind, serve};

/// What to settle, and into what. Several workers share the partitions, and take over from one that dies.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(args: &WorkerArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    if config.engine.kind == EngineKind::Embedded {
        let line = "the embedded engine settles by itself; a worker is for `--engine redis`";
        return Err(UsageError::new(line).into());
    }
    log_to_stderr(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        );
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stop.send_replace(true);
            // Kept, so that whoever waits is not told of its end as well.
            std::future::pending::<()>().await;
        });
        serve::settle_until(&config, Arc::new(SystemClock), stopping).await
    })?;
    Ok(ExitCode::SUCCESS)
}
