//! `qiang partition`: the partitions of the engine on Redis, and what to do to one that has stopped.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use jiff::Timestamp as Calendar;
use qiang_core::{
    event::PartitionId,
    ports::{RepairRecord, RepairState, WithheldRecord},
    time::Timestamp,
};
use qiang_node::{SystemClock, UsageError, maintenance::Maintenance};

use crate::{backend::BackendArgs, block_on};

/// Something is left as it was.
const LEFT: u8 = 1;

/// Partitions of the engine on Redis: whether they grant, and what to do to one that has stopped.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Partition {
    /// List all partitions with their state.
    List(ListArgs),
    /// Show what Redis and the ledger have of a partition: term, nodes, repairs, withheld units.
    Inspect(OneArgs),
    /// Repair a partition that has lost something, now: what nodes have not said yet counts as unknown.
    Repair(OneArgs),
    /// End the halt of a partition without a repair; or give back withheld units of one that grants.
    Resume(ResumeArgs),
    /// Close every campaign of a partition: what is left goes back to the owners. A campaign that is spread is closed
    /// on all its partitions.
    Close(OneArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    backend: BackendArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// The partition's number.
    #[arg(value_name = "NUMBER")]
    partition: u16,
}

/// Resuming takes a loss as it is: whoever was answered with something that is lost does not get it back. Repair it
/// instead, wherever the ledger is there.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Give back the units that repairs have withheld, instead: nobody who was told of them is to get them any more.
    #[arg(long)]
    release_withheld: bool,
}

pub(crate) fn run(command: &Partition) -> anyhow::Result<ExitCode> {
    let (backend, number) = match command {
        Partition::List(args) => (&args.backend, None),
        Partition::Inspect(one) | Partition::Repair(one) | Partition::Close(one) => {
            (&one.backend, Some(one.partition))
        }
        Partition::Resume(args) => (&args.one.backend, Some(args.one.partition)),
    };
    let config = backend.load(&backend.overrides())?;
    block_on(async {
        let maintenance = Maintenance::open(&config, Arc::new(SystemClock)).await?;
        let done = match number.map(PartitionId) {
            None => list(&maintenance),
            Some(partition) if maintenance.partitions().contains(&partition) => {
                act(&maintenance, command, partition).await
            }
            Some(PartitionId(number)) => {
                Err(UsageError::new(format!("there is no partition {number}")).into())
            }
        };
        let closed = maintenance.close().await;
        let done = done?;
        closed?;
        Ok(done)
    })
}

/// A moment in writing.
fn written(at: Timestamp) -> String {
    let at = Calendar::from_millisecond(at.as_millis()).unwrap_or_default();
    at.to_string()
}

/// A repair in words.
fn describe(repair: &RepairRecord) -> String {
    let RepairRecord {
        epoch,
        follows,
        at,
        lost_from,
        lost_to,
        unnamed,
        reason,
        upto,
        ..
    } = repair;
    let at = written(*at);
    let follows = if follows.is_empty() {
        "nothing"
    } else {
        follows.as_str()
    };
    let lost = match lost_from > lost_to {
        true => "nothing lost".to_owned(),
        false => format!("{lost_from} to {lost_to} lost"),
    };
    let end = upto.map_or_else(
        || "not finished".to_owned(),
        |upto| format!("log at {upto}"),
    );
    format!("epoch {epoch} follows {follows}, at {at}: {lost}, {unnamed} unknown, {end}: {reason}")
}

/// What a repair has withheld, in words.
pub(crate) fn withheld_of(withheld: &WithheldRecord) -> String {
    let WithheldRecord {
        epoch,
        campaign,
        units,
        amount_minor,
        numbers,
        released_at,
        ..
    } = withheld;
    let ranges = numbers.iter().map(|range| match range.first == range.last {
        true => range.first.to_string(),
        false if range.step == 1 => format!("{}-{}", range.first, range.last),
        false => format!("{}-{} by {}", range.first, range.last, range.step),
    });
    let ranges: Vec<String> = ranges.collect();
    let numbers = match ranges.is_empty() {
        true => String::new(),
        false => format!(", numbers {}", ranges.join(" ")),
    };
    let since =
        released_at.map_or_else(String::new, |at| format!(", given back at {}", written(at)));
    format!("{epoch}: {units} units of {campaign}, worth {amount_minor}{numbers}{since}")
}

fn list(maintenance: &Maintenance) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for partition in maintenance.partitions() {
        writeln!(out, "{:>4}  {}", partition.0, maintenance.state(partition))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn act(
    maintenance: &Maintenance,
    command: &Partition,
    partition: PartitionId,
) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout();
    let done = match command {
        Partition::List(_) => true,
        Partition::Inspect(_) => {
            let (found, settled) = maintenance.inspect(partition).await?;
            writeln!(out, "{}", maintenance.state(partition))?;
            writeln!(out, "settled {settled}")?;
            for (field, value) in &found.state {
                writeln!(out, "{field} {value}")?;
            }
            for (node, seen) in &found.nodes {
                writeln!(out, "node {node}: seen, term, observed {seen}")?;
            }
            for (campaign, units) in &found.withheld {
                writeln!(out, "withheld {units} of {campaign}")?;
            }
            for repair in &found.repairs {
                writeln!(out, "repair: {repair}")?;
            }
            let (repairs, withheld) = maintenance.records(partition).await?;
            for repair in &repairs {
                writeln!(out, "recorded {}", describe(repair))?;
                let of = withheld.iter().filter(|it| it.epoch == repair.epoch);
                for withheld in of {
                    writeln!(out, "recorded {}", withheld_of(withheld))?;
                }
            }
            true
        }
        Partition::Repair(_) => match maintenance.repair(partition).await? {
            RepairState::Whole => {
                writeln!(out, "nothing is lost")?;
                true
            }
            RepairState::Waiting => {
                writeln!(out, "another process repairs it")?;
                false
            }
            RepairState::Repaired(report) => {
                writeln!(
                    out,
                    "{} campaigns: {} rows restored, {} entries appended, {} entries unknown, {} units withheld",
                    report.campaigns,
                    report.restored,
                    report.appended,
                    report.unnamed,
                    report.withheld
                )?;
                for conflict in &report.conflicts {
                    writeln!(out, "not kept: {conflict}")?;
                }
                true
            }
        },
        Partition::Resume(args) if args.release_withheld => {
            let units = maintenance.release_withheld(partition).await?;
            writeln!(out, "{units} units can be had again")?;
            true
        }
        Partition::Resume(_) => {
            let said = match maintenance.resume(partition).await? {
                true => "it grants again",
                false => "it is not halted",
            };
            writeln!(out, "{said}")?;
            true
        }
        Partition::Close(_) => {
            let mut count = 0_u64;
            let closing = maintenance.close_campaigns(partition, |campaign| {
                count += 1;
                Ok(writeln!(out, "closed {campaign}")?)
            });
            closing.await?;
            if count == 0 {
                writeln!(out, "it has no campaign that is not closed")?;
            }
            true
        }
    };
    Ok(if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(LEFT)
    })
}
