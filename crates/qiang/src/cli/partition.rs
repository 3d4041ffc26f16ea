//! `qiang partition`: the partitions of the engine on Redis, and what to do to one that has stopped.

mod print;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use qiang::{Config, Operator, SystemClock, UsageError, maintenance::Maintenance};
use qiang_core::{event::PartitionId, ports::RepairState};
use serde_json::json;

pub(crate) use self::print::withheld_of;
use crate::{backend::BackendArgs, block_on, operator::OperatorArgs};

/// Something is left as it was.
const LEFT: u8 = 1;

/// Partitions of the engine on Redis: whether they grant, and what to do to one that has stopped.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Partition {
    /// List all partitions with their state: open, gathering, halted or unreachable.
    #[command(
        after_help = "Example: qiang partition list --json | jq -r 'select(.status != \"open\").partition'"
    )]
    List(ListArgs),
    /// Show what Redis and the ledger have of a partition: term, nodes, repairs, withheld units.
    #[command(after_help = "Example: qiang partition inspect 3")]
    Inspect(OneArgs),
    /// Repair a partition that has lost something, now: what nodes have not said yet counts as unknown.
    #[command(after_help = "Example: qiang partition repair 3 --as ann")]
    Repair(ChangeArgs),
    /// End the halt of a partition without a repair; or give back withheld units of one that grants.
    #[command(after_help = "Example: qiang partition resume 3 --release-withheld")]
    Resume(ResumeArgs),
    /// Close every campaign of a partition: what is left goes back to the owners. A campaign that is spread is closed
    /// on all its partitions.
    #[command(after_help = "Example: qiang partition close 3")]
    Close(ChangeArgs),
    /// Move the ledger to the configured Redis: `redis.urls` or `redis.prefix` has changed. Stop all nodes and workers
    /// first, and start them with the new configuration. Idempotent.
    #[command(after_help = "Example: qiang partition adopt --config new.toml --as ann")]
    Adopt(AdoptArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print a JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// The partition's number.
    #[arg(value_name = "NUMBER")]
    partition: u16,
    /// Print one JSON object; of campaigns that are closed one a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Resuming takes a loss as it is: whoever was answered with something that is lost does not get it back. Repair it
/// instead, wherever the ledger is there.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Give back the units that repairs have withheld, instead: nobody who was told of them is to get them any more.
    #[arg(long)]
    release_withheld: bool,
}

pub(crate) fn run(command: &Partition) -> anyhow::Result<ExitCode> {
    match command {
        Partition::List(args) => open(&args.backend, async |maintenance, _| {
            print::list(maintenance, args.json)
        }),
        Partition::Inspect(one) => open_one(one, async |maintenance, _, partition| {
            print::inspect(maintenance, partition, one.json).await
        }),
        Partition::Repair(args) => change(args, async |maintenance, by, partition| {
            let state = maintenance.repair(partition, by).await?;
            let is_left = state == RepairState::Waiting;
            print::repair(state, args.one.json)?;
            Ok(if is_left {
                ExitCode::from(LEFT)
            } else {
                ExitCode::SUCCESS
            })
        }),
        Partition::Resume(args) => {
            change(
                &args.change,
                async |maintenance, by, partition| match args.release_withheld {
                    true => release(maintenance, by, partition, args.change.one.json).await,
                    false => resume(maintenance, by, partition, args.change.one.json).await,
                },
            )
        }
        Partition::Adopt(args) => adopt(args),
        Partition::Close(args) => change(args, async |maintenance, by, partition| {
            close(maintenance, by, partition, args.one.json).await
        }),
    }
}

fn adopt(args: &AdoptArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let by = args.operator.operator(&config)?;
    let adopting = Maintenance::adopt(&config, Arc::new(SystemClock), &by);
    let adopted = block_on(adopting)?;
    match (args.json, adopted) {
        (true, adopted) => {
            let (from, to) = adopted.unzip();
            writeln!(io::stdout(), "{}", json!({ "from": from, "to": to }))?;
        }
        (false, Some((from, to))) => {
            writeln!(io::stdout(), "moved from {from} to {to}; start the nodes")?;
        }
        (false, None) => writeln!(io::stdout(), "the ledger belongs to this Redis already")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Does something with the engine and its ledger.
fn open(
    backend: &BackendArgs,
    work: impl AsyncFnOnce(&Maintenance, &Config) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let config = backend.load(&backend.overrides())?;
    block_on(async {
        let maintenance = Maintenance::open(&config, Arc::new(SystemClock)).await?;
        let done = work(&maintenance, &config).await;
        let closed = maintenance.close().await;
        let done = done?;
        closed?;
        Ok(done)
    })
}

/// Does something with a partition that there is.
fn open_one(
    one: &OneArgs,
    work: impl AsyncFnOnce(&Maintenance, &Config, PartitionId) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let partition = PartitionId(one.partition);
    open(&one.backend, async |maintenance, config| {
        if !maintenance.partitions().contains(&partition) {
            let line = format!("there is no partition {}", partition.0);
            return Err(UsageError::new(line).into());
        }
        work(maintenance, config, partition).await
    })
}

/// Does something to a partition in somebody's name.
fn change(
    args: &ChangeArgs,
    work: impl AsyncFnOnce(&Maintenance, &Operator, PartitionId) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    open_one(&args.one, async |maintenance, config, partition| {
        let by = args.operator.operator(config)?;
        work(maintenance, &by, partition).await
    })
}

async fn resume(
    maintenance: &Maintenance,
    by: &Operator,
    partition: PartitionId,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let resumed = maintenance.resume(partition, by).await?;
    match (json, resumed) {
        (true, _) => writeln!(io::stdout(), "{}", json!({ "resumed": resumed }))?,
        (false, true) => writeln!(io::stdout(), "it grants again")?,
        (false, false) => writeln!(io::stdout(), "it is not halted")?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn release(
    maintenance: &Maintenance,
    by: &Operator,
    partition: PartitionId,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let units = maintenance.release_withheld(partition, by).await?;
    match json {
        true => writeln!(io::stdout(), "{}", json!({ "units": units }))?,
        false => writeln!(io::stdout(), "{units} units can be had again")?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn close(
    maintenance: &Maintenance,
    by: &Operator,
    partition: PartitionId,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (mut out, mut count) = (io::stdout(), 0_u64);
    let closing = maintenance.close_campaigns(partition, by, |campaign| {
        count += 1;
        match json {
            true => {
                let closed = json!({ "campaign": campaign.to_string(), "phase": "closed" });
                writeln!(out, "{closed}")?;
            }
            false => writeln!(out, "closed {campaign}")?,
        }
        Ok(())
    });
    closing.await?;
    if count == 0 && !json {
        writeln!(out, "it has no campaign that is not closed")?;
    }
    Ok(ExitCode::SUCCESS)
}
