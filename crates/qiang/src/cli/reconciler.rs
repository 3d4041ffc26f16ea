//! `qiang reconciler`: lists reconcilers, and runs one once.

use std::{process::ExitCode, sync::Arc};

use qiang::{
    SystemClock, UsageError,
    control::{ReconcilerName, ReconcilerRunner, RunReport},
};
use serde_json::json;

use crate::{backend::BackendArgs, operator::OperatorArgs};

/// Exit code if work is left.
const LEFT: u8 = 1;

/// Reconcilers: loops of nodes and workers that repair drift. Each run is idempotent, and may run beside nodes,
/// workers and other runs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReconcilerCommand {
    /// List the reconcilers.
    #[command(after_help = "Example: qiang reconciler list --json")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Run a reconciler once.
    #[command(
        after_help = "Example: qiang reconciler run settlement --dry-run --config /etc/qiang.toml"
    )]
    Run(Box<RunArgs>),
}

/// Run a reconciler once. Only one process can open a file: stop its node first. On Redis, nodes and workers may keep
/// running.
///
/// Exits 0 if no work is left, and 1 if some is.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The reconciler's name: see `qiang reconciler list`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print pending work without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &ReconcilerCommand) -> anyhow::Result<ExitCode> {
    match command {
        ReconcilerCommand::List { json } => {
            for one in ReconcilerName::ALL {
                if *json {
                    let (name, purpose, dry_run) = (one.name(), one.purpose(), one.has_dry_run());
                    let one = json!({ "name": name, "purpose": purpose, "dry_run": dry_run });
                    println!("{one}");
                    continue;
                }
                let dry = if one.has_dry_run() { "--dry-run" } else { "" };
                println!("{:<16}{dry:<11}{}", one.name(), one.purpose());
            }
            Ok(ExitCode::SUCCESS)
        }
        ReconcilerCommand::Run(args) => run_once(args),
    }
}

fn run_once(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let reconciler = ReconcilerName::from_name(name).ok_or_else(|| {
        let line = format!("there is no reconciler `{name}`: see `qiang reconciler list`");
        UsageError::new(line)
    })?;
    let config = args.backend.load(&args.backend.overrides())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        let by_hand = ReconcilerRunner::open(&config, Arc::new(SystemClock)).await?;
        let report = match args.dry_run {
            true => by_hand.run(&config, reconciler, None).await,
            false => match args.operator.operator(&config) {
                Ok(by) => by_hand.run(&config, reconciler, Some(&by)).await,
                Err(error) => Err(error),
            },
        };
        let closed = by_hand.close().await;
        let report = report?;
        closed?;
        anyhow::Ok(report)
    })?;
    let RunReport { found, done, lines } = &report;
    if args.json {
        let report = json!({ "name": name, "found": found, "done": done, "lines": lines });
        println!("{report}");
    } else {
        for line in lines {
            println!("{line}");
        }
        println!("{name}: {found} found, {done} done");
    }
    Ok(match report.found == report.done {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}
