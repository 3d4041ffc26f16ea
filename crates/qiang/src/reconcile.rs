//! `qiang reconcile`: the engine on Redis held against the ledger, row by row.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::RepairState,
    reconcile::{Difference, DifferenceKind},
};
use qiang_node::{Operator, SystemClock, UsageError, maintenance::Maintenance};
use serde::Serialize;

use crate::{backend::BackendArgs, block_on, operator::OperatorArgs, partition::withheld_of};

/// Differences remain.
const DIFFERENCES: u8 = 1;

/// Hold what Redis has against what the ledger has: every grant and order of every live campaign, which is one that is
/// not closed or has orders that are held. `--campaign` compares any campaign. Nothing is changed unless `--repair`
/// says so.
///
/// With `--repair` a partition that differs is halted for a moment and united with the ledger: rows of the ledger stay
/// as they are, what only Redis has is settled, and what only the ledger has is added to Redis. `qiang partition
/// inspect` lists what was done. A campaign that the ledger does not have at all is reported and stays as it is: the
/// ledger has to get it back first.
///
/// Exits 0 when both agree, and 1 when differences remain. What is in flight, in the log and not settled, is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang reconcile --repair --as ann --config /etc/qiang.toml")]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// This campaign alone. Partitions are united as a whole, so this does not go with `--repair`.
    #[arg(long, value_name = "ID", conflicts_with = "repair")]
    campaign: Option<CampaignId>,
    /// Add to each side what only the other one has.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    partition: u16,
    kind: &'static str,
    campaign: String,
    number: u32,
    user: String,
    engine: String,
    ledger: String,
}

#[derive(Debug, Default, Serialize)]
struct Found {
    differences: Vec<Row>,
    in_flight: u64,
    /// Campaigns that Redis has and the ledger does not, by partition.
    missing_in_ledger: Vec<MissingCampaign>,
    /// Partitions that were united with the ledger.
    repaired: Vec<u16>,
    /// Partitions that were to be united, and that another process repairs.
    waiting: Vec<u16>,
    /// What repairs withhold, as the ledger has it.
    withheld: Vec<Withheld>,
}

#[derive(Debug, Serialize)]
struct Withheld {
    partition: u16,
    epoch: String,
    campaign: String,
    units: u64,
    amount_minor: i64,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Serialize)]
struct MissingCampaign {
    partition: u16,
    campaign: String,
}

impl Found {
    fn agrees(&self) -> bool {
        self.differences.is_empty() && self.missing_in_ledger.is_empty() && self.waiting.is_empty()
    }

    fn add(&mut self, partition: PartitionId, differences: Vec<Difference>) {
        for difference in differences {
            if difference.kind == DifferenceKind::InFlight {
                self.in_flight += 1;
                continue;
            }
            self.differences.push(Row {
                partition: partition.0,
                kind: difference.kind.name(),
                campaign: difference.campaign.to_string(),
                number: difference.number,
                user: difference.user.to_string(),
                engine: difference.engine,
                ledger: difference.ledger,
            });
        }
    }
}

pub(crate) fn run(args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let mut found = Found::default();
    let (reconciled, closed) = block_on(async {
        let by = match args.repair {
            true => Some(args.operator.operator(&config)?),
            false => None,
        };
        let maintenance = Maintenance::open(&config, Arc::new(SystemClock)).await?;
        let reconciled = reconcile(&maintenance, args, by.as_ref(), &mut found).await;
        let closed = maintenance.close().await;
        Ok((reconciled, closed))
    })?;
    // What was found and done before an error is said all the same, unless nothing was.
    if reconciled.is_ok() || !found.agrees() || !found.repaired.is_empty() {
        print(&found, args.json)?;
    }
    reconciled?;
    closed?;
    Ok(match found.agrees() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERENCES),
    })
}

async fn reconcile(
    maintenance: &Maintenance,
    args: &ReconcileArgs,
    by: Option<&Operator>,
    found: &mut Found,
) -> anyhow::Result<()> {
    if let Some(campaign) = args.campaign
        && !maintenance.has_campaign(campaign).await?
    {
        return Err(UsageError::new(format!("there is no campaign {campaign}")).into());
    }
    for partition in maintenance.partitions() {
        let withheld = withheld(maintenance, partition).await?;
        found.withheld.extend(withheld);
        let look = || maintenance.differences(partition, args.campaign);
        let missing = maintenance
            .missing_in_ledger(partition, args.campaign)
            .await?;
        let mut differences = look().await?;
        let can_be_united = |it: &Difference| {
            it.kind != DifferenceKind::InFlight && !missing.contains(&it.campaign)
        };
        if let Some(by) = by
            && differences.iter().any(can_be_united)
        {
            match maintenance.unite(partition, by).await {
                // Where nothing is lost any more, another process was faster.
                Ok(RepairState::Repaired(_) | RepairState::Whole) => {
                    found.repaired.push(partition.0);
                }
                Ok(RepairState::Waiting) => found.waiting.push(partition.0),
                Err(error) => {
                    found.add(partition, differences);
                    return Err(error.context(format!("unite partition {}", partition.0)));
                }
            }
            differences = look().await?;
        }
        found.add(partition, differences);
        let missing = missing.into_iter().map(|campaign| MissingCampaign {
            partition: partition.0,
            campaign: campaign.to_string(),
        });
        found.missing_in_ledger.extend(missing);
    }
    Ok(())
}

/// What is withheld in a partition, and not given back.
async fn withheld(
    maintenance: &Maintenance,
    partition: PartitionId,
) -> anyhow::Result<Vec<Withheld>> {
    let (_, records) = maintenance.records(partition).await?;
    let records = records.into_iter();
    let held = records.filter(|record| record.released_at.is_none() && record.units > 0);
    let held = held.map(|record| Withheld {
        partition: partition.0,
        text: withheld_of(&record),
        epoch: record.epoch,
        campaign: record.campaign.to_string(),
        units: record.units,
        amount_minor: record.amount_minor,
    });
    Ok(held.collect())
}

fn print(found: &Found, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(found)?)?;
        return Ok(());
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &found.differences {
        *counts.entry(row.kind).or_default() += 1;
        writeln!(
            out,
            "partition {}: {} {}-{}: engine [{}], ledger [{}]",
            row.partition, row.kind, row.campaign, row.number, row.engine, row.ledger
        )?;
    }
    for MissingCampaign {
        partition,
        campaign,
    } in &found.missing_in_ledger
    {
        writeln!(
            out,
            "partition {partition}: the ledger does not have campaign {campaign}"
        )?;
    }
    for partition in &found.repaired {
        writeln!(out, "partition {partition}: united with the ledger")?;
    }
    for partition in &found.waiting {
        writeln!(
            out,
            "partition {partition}: not united, because another process repairs it"
        )?;
    }
    for withheld in &found.withheld {
        writeln!(
            out,
            "partition {}: withheld by {}",
            withheld.partition, withheld.text
        )?;
    }
    for (kind, count) in counts {
        writeln!(out, "{count} {kind}")?;
    }
    let (differences, in_flight) = (found.differences.len(), found.in_flight);
    writeln!(out, "{differences} differences, {in_flight} in flight")?;
    Ok(())
}
