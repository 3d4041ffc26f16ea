//! `qiang reconcile`: compares the engine on Redis with the ledger, by campaign facts and row by row.

mod campaigns;
mod found;

use std::{collections::BTreeSet, process::ExitCode, sync::Arc};

use qiang::{Operator, SystemClock, UsageError, maintenance::Maintenance};
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::RepairState,
    reconcile::{CampaignSource, Difference, DifferenceKind},
};

use self::{
    campaigns::CampaignReport,
    found::{MissingCampaign, ReconcileFindings, WithheldRow},
};
use crate::{backend::BackendArgs, block_on, operator::OperatorArgs, partition::withheld_of};

/// Exit code if differences remain.
const DIFFERENCES: u8 = 1;

/// Compare Redis with the ledger: every grant and order of every live campaign, and its phase, stock, window, price,
/// limit and other terms. A campaign is live if it is not closed or has held orders. `--campaign` compares any
/// campaign. Without `--repair`, nothing is changed.
///
/// With `--repair`, a partition that differs is halted briefly and united with the ledger. Rows of the ledger stay
/// unchanged, rows that only Redis has are settled, and rows that only the ledger has are added to Redis. `qiang
/// partition inspect` lists the changes. A campaign that is missing in the ledger is reported and not changed: restore
/// it in the ledger first.
///
/// If a stock, price, window or phase differs, one side was changed alone, by SQL for example. `--campaigns-from`
/// selects the side that wins. With `engine`, the ledger's row gets the engine's values. With `ledger`, the engine gets
/// the ledger's values by the commands of the API, with their checks. If another operator changed a campaign after the
/// comparison, it is not repaired. Without this flag, campaigns are not changed, and a partition whose campaigns differ
/// is not united.
///
/// Exits 0 if both agree, and 1 if differences remain or something was not compared. Entries in flight, in the log and
/// not settled, are not differences.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang reconcile --repair --as ann --config /etc/qiang.toml")]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Compare only this campaign. Partitions are united as a whole, so this flag excludes `--repair`.
    #[arg(long, value_name = "ID", conflicts_with = "repair")]
    campaign: Option<CampaignId>,
    /// Add rows that only one side has to the other side.
    #[arg(long)]
    repair: bool,
    /// The side that wins if stock, terms or phase of campaigns differ.
    #[arg(long, value_name = "SIDE", value_enum, requires = "repair")]
    campaigns_from: Option<Side>,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Side {
    /// The ledger's row gets the engine's values.
    Engine,
    /// The engine gets the ledger's values.
    Ledger,
}

impl From<Side> for CampaignSource {
    fn from(side: Side) -> Self {
        match side {
            Side::Engine => Self::Engine,
            Side::Ledger => Self::Ledger,
        }
    }
}

pub(crate) fn run(args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let mut found = ReconcileFindings::default();
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
    // Findings and repairs before an error are still printed, unless there are none.
    if reconciled.is_ok() || !found.agrees() || found.has_repaired() {
        found.print(args.json)?;
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
    found: &mut ReconcileFindings,
) -> anyhow::Result<()> {
    if let Some(campaign) = args.campaign
        && !maintenance.has_campaign(campaign).await?
    {
        return Err(UsageError::new(format!("campaign {campaign} does not exist")).into());
    }
    let source = args.campaigns_from.map(CampaignSource::from);
    let mut campaigns = CampaignReport::compare(maintenance, args.campaign).await?;
    if let Some((by, source)) = by.zip(source) {
        campaigns.repair(maintenance, (by, source), found).await?;
    }
    let reconciled = reconcile_rows(maintenance, args, by, &mut campaigns, found).await;
    campaigns.tell(found);
    reconciled
}

/// Compares grants and orders, and unites the partitions that may be united.
async fn reconcile_rows(
    maintenance: &Maintenance,
    args: &ReconcileArgs,
    by: Option<&Operator>,
    campaigns: &mut CampaignReport,
    found: &mut ReconcileFindings,
) -> anyhow::Result<()> {
    let skip: BTreeSet<CampaignId> = campaigns.unreadable();
    let mut apparent = Vec::new();
    for partition in maintenance.partitions() {
        let compared = maintenance.apparent_differences(partition, args.campaign, &skip);
        apparent.push((partition, compared.await));
    }
    // One pause for all partitions. A failed comparison is an error when its partition's turn comes.
    let mut compared = apparent.iter().flat_map(|(_, compared)| compared);
    if let Some(differing) = compared.find(|it| it.is_compared_again()) {
        differing.pause().await;
    }
    for (partition, apparent) in apparent {
        let withheld = withheld(maintenance, partition).await?;
        found.withheld.extend(withheld);
        let skip: BTreeSet<CampaignId> = campaigns.unreadable();
        let look = || maintenance.differences(partition, args.campaign, &skip);
        let missing = maintenance
            .missing_in_ledger(partition, args.campaign, &skip)
            .await?;
        let mut differences = maintenance.confirmed(apparent?, &skip).await?;
        let can_be_united = |it: &Difference| {
            it.kind != DifferenceKind::InFlight && !missing.contains(&it.campaign)
        };
        if by.is_some() && differences.iter().any(can_be_united) {
            // Other partitions may have taken minutes, so the first comparison may be outdated.
            campaigns
                .compare_again(maintenance, partition, args.campaign)
                .await?;
        }
        let is_undecided = by.is_some() && campaigns.are_undecided(partition);
        if is_undecided {
            found.undecided.push(partition.0);
        }
        if let Some(by) = by
            && !is_undecided
            && differences.iter().any(can_be_united)
        {
            match maintenance.unite(partition, by).await {
                // `Whole` means that another process has repaired the partition already.
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
            campaigns
                .compare_again(maintenance, partition, args.campaign)
                .await?;
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

/// Units that are withheld in a partition, and not restocked.
async fn withheld(
    maintenance: &Maintenance,
    partition: PartitionId,
) -> anyhow::Result<Vec<WithheldRow>> {
    let (_, records) = maintenance.records(partition).await?;
    let records = records.into_iter();
    let held = records.filter(|record| record.released_at.is_none() && record.units > 0);
    let held = held.map(|record| WithheldRow {
        partition: partition.0,
        text: withheld_of(&record),
        epoch: record.epoch,
        campaign: record.campaign.to_string(),
        units: record.units,
        amount_minor: record.amount_minor,
    });
    Ok(held.collect())
}
