//! `qiang control`: reconcilers run once by hand.

use std::{process::ExitCode, sync::Arc};

use qiang_node::{
    SystemClock, UsageError,
    control::{ByHand, Reconciler},
};

use crate::backend::BackendArgs;

/// Something is left to do.
const LEFT: u8 = 1;

/// What nodes and workers do all the time beside granting, once and by hand. Each may be repeated, and run while others
/// do the same.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Control {
    /// List the reconcilers.
    List,
    /// Run one once.
    Run(RunArgs),
}

/// Run a reconciler once. A file is open in one process at a time: stop the node that has it first. On Redis, nodes and
/// workers may go on meanwhile.
///
/// Exits 0 when nothing is left to do, and 1 when something is.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Its name: see `qiang control list`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    backend: BackendArgs,
    /// Say what there is to do, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(command: &Control) -> anyhow::Result<ExitCode> {
    match command {
        Control::List => {
            for one in Reconciler::ALL {
                let dry = if one.has_dry_run() { "--dry-run" } else { "" };
                println!("{:<16}{dry:<11}{}", one.name(), one.purpose());
            }
            Ok(ExitCode::SUCCESS)
        }
        Control::Run(args) => run_once(args),
    }
}

fn run_once(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let reconciler = Reconciler::of_name(name).ok_or_else(|| {
        let line = format!("there is no reconciler `{name}`: see `qiang control list`");
        UsageError::new(line)
    })?;
    let config = args.backend.load(&args.backend.overrides())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        let by_hand = ByHand::open(&config, Arc::new(SystemClock)).await?;
        let report = by_hand.run(&config, reconciler, args.dry_run).await;
        let closed = by_hand.close().await;
        let report = report?;
        closed?;
        anyhow::Ok(report)
    })?;
    for line in &report.lines {
        println!("{line}");
    }
    println!("{name}: {} found, {} done", report.found, report.done);
    Ok(match report.found == report.done {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}
