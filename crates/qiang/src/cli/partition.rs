//! `qiang partition`: lists and repairs partitions of the engine on Redis.

mod print;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use qiang::{
    NodeConfig, Operator, SystemClock, UsageError,
    maintenance::{Maintenance, OldLog},
};
use qiang_core::{event::PartitionId, ports::RepairState};
use serde_json::json;

pub(crate) use self::print::withheld_of;
use crate::{backend::BackendArgs, block_on, operator::OperatorArgs};

/// Exit code if work is left.
const LEFT: u8 = 1;

/// Partitions of the engine on Redis: show their state, repair them, end their halt.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PartitionCommand {
    /// List all partitions with their state: open, gathering, halted or unreachable.
    #[command(
        after_help = "Example: qiang partition list --json | jq -r 'select(.status != \"open\").partition'"
    )]
    List(PartitionListArgs),
    /// Show a partition as Redis and the ledger record it: term, nodes, repairs, withheld units.
    #[command(after_help = "Example: qiang partition inspect 3")]
    Inspect(OneArgs),
    /// Repair a partition after a loss of data, without waiting for missing node reports: missing entries count as
    /// unknown.
    #[command(after_help = "Example: qiang partition repair 3 --as ann")]
    Repair(ChangeArgs),
    /// End the halt of a partition without a repair, or restock its withheld units.
    #[command(after_help = "Example: qiang partition resume 3 --release-withheld")]
    Resume(ResumeArgs),
    /// Close every campaign of a partition: remaining stock and money return to the owners. A campaign with several
    /// shards is closed on all its partitions.
    #[command(after_help = "Example: qiang partition close 3")]
    Close(ChangeArgs),
    /// Move the ledger to the configured Redis after `redis.urls` or `redis.prefix` changed. Stop all nodes and workers
    /// first. The command compares the old log with the ledger, and prints the next steps. Idempotent.
    #[command(
        visible_alias = "move",
        after_help = "Example: qiang partition adopt --config new.toml --as ann"
    )]
    Adopt(AdoptArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// URL of the old Redis, if it is not at the address that the ledger recorded, or has another login. Repeatable.
    #[arg(long, value_name = "URL", conflicts_with = "leave")]
    old_url: Vec<String>,
    /// Abandon entries that the ledger lacks. Without this the command reads the old Redis, and refuses if there
    /// are any. Their orders are lost.
    #[arg(long)]
    leave: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PartitionListArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object per line.
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
    /// Print one JSON object; `close` prints one per line for each closed campaign.
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

/// A resume accepts the loss: users do not get lost grants again. If the ledger is available, repair the partition
/// instead.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    change: ChangeArgs,
    /// Restock the units that repairs have withheld, instead. A user who received an answer for one of them loses it.
    #[arg(long)]
    release_withheld: bool,
}

pub(crate) fn run(command: &PartitionCommand) -> anyhow::Result<ExitCode> {
    match command {
        PartitionCommand::List(args) => open(&args.backend, async |maintenance, _| {
            print::list(maintenance, args.json)
        }),
        PartitionCommand::Inspect(one) => open_one(one, async |maintenance, _, partition| {
            print::inspect(maintenance, partition, one.json).await
        }),
        PartitionCommand::Repair(args) => change(args, async |maintenance, by, partition| {
            let state = maintenance.repair(partition, by).await?;
            let is_left = state == RepairState::Waiting;
            print::repair(state, args.one.json)?;
            Ok(if is_left {
                ExitCode::from(LEFT)
            } else {
                ExitCode::SUCCESS
            })
        }),
        PartitionCommand::Resume(args) => change(
            &args.change,
            async |maintenance, by, partition| match args.release_withheld {
                true => release(maintenance, by, partition, args.change.one.json).await,
                false => resume(maintenance, by, partition, args.change.one.json).await,
            },
        ),
        PartitionCommand::Adopt(args) => adopt(args),
        PartitionCommand::Close(args) => change(args, async |maintenance, by, partition| {
            close(maintenance, by, partition, args.one.json).await
        }),
    }
}

fn adopt(args: &AdoptArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let by = args.operator.operator(&config)?;
    let old = OldLog {
        urls: args.old_url.clone(),
        leave: args.leave,
    };
    let adopting = Maintenance::adopt(&config, Arc::new(SystemClock), &by, &old);
    let adopted = block_on(adopting)?;
    match (args.json, adopted) {
        (true, adopted) => {
            let (from, to) = adopted.unzip();
            writeln!(io::stdout(), "{}", json!({ "from": from, "to": to }))?;
        }
        (false, Some((from, to))) => print::moved(&from, &to, args.leave)?,
        (false, None) => writeln!(io::stdout(), "the ledger belongs to this Redis already")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the engine and its ledger, does the work, and closes them.
fn open(
    backend: &BackendArgs,
    work: impl AsyncFnOnce(&Maintenance, &NodeConfig) -> anyhow::Result<ExitCode>,
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

/// Does the work with one partition. A missing partition is a usage error.
fn open_one(
    one: &OneArgs,
    work: impl AsyncFnOnce(&Maintenance, &NodeConfig, PartitionId) -> anyhow::Result<ExitCode>,
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

/// Changes a partition on behalf of an operator.
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
        (false, true) => writeln!(io::stdout(), "the partition grants again")?,
        (false, false) => writeln!(io::stdout(), "the partition is not halted")?,
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
        false => writeln!(io::stdout(), "{units} units restocked")?,
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
        writeln!(out, "all campaigns of the partition are closed")?;
    }
    Ok(ExitCode::SUCCESS)
}
