//! `qiang reconcile`: the engine on Redis held against the ledger, row by row.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use qiang_core::{event::PartitionId, id::CampaignId, reconcile::DifferenceKind};
use qiang_node::{SystemClock, maintenance::Maintenance};
use serde::Serialize;

use crate::{backend::BackendArgs, partition::withheld_of};

/// Differences remain.
const DIFFERENCES: u8 = 1;

/// Hold what Redis has against what the ledger has: every grant and order of every live campaign. Nothing is changed
/// unless `--repair` says so.
///
/// With `--repair` a partition that differs is halted for a moment and united with the ledger: rows of the ledger stay
/// as they are, what only Redis has is settled, and what only the ledger has is added to Redis. `qiang partition
/// inspect` lists what was done.
///
/// Exits 0 when both agree, and 1 when differences remain. What is in flight, in the log and not settled, is none.
#[derive(Debug, clap::Args)]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// This campaign alone.
    #[arg(long, value_name = "ID")]
    campaign: Option<CampaignId>,
    /// Add to each side what only the other one has.
    #[arg(long)]
    repair: bool,
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
    /// Partitions that were united with the ledger.
    repaired: Vec<u16>,
    /// What repairs withhold, as the ledger has it.
    withheld: Vec<Withheld>,
}

#[derive(Debug, Serialize)]
struct Withheld {
    partition: u16,
    epoch: String,
    campaign: String,
    units: u32,
    amount_minor: i64,
    #[serde(skip)]
    text: String,
}

pub(crate) fn run(args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let found = runtime.block_on(async {
        let maintenance = Maintenance::open(&config, Arc::new(SystemClock)).await?;
        let found = reconcile(&maintenance, args).await;
        let closed = maintenance.close().await;
        let found = found?;
        closed.map(|()| found)
    })?;
    print(&found, args.json)?;
    Ok(match found.differences.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERENCES),
    })
}

async fn reconcile(maintenance: &Maintenance, args: &ReconcileArgs) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for partition in maintenance.partitions() {
        found
            .withheld
            .extend(withheld(maintenance, partition).await?);
        let mut differences = maintenance.differences(partition, args.campaign).await?;
        let differs = |kind: DifferenceKind| kind != DifferenceKind::InFlight;
        if args.repair && differences.iter().any(|it| differs(it.kind)) {
            maintenance.unite(partition).await?;
            found.repaired.push(partition.0);
            differences = maintenance.differences(partition, args.campaign).await?;
        }
        for difference in differences {
            if !differs(difference.kind) {
                found.in_flight += 1;
                continue;
            }
            found.differences.push(Row {
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
    Ok(found)
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
    for partition in &found.repaired {
        writeln!(out, "partition {partition}: united with the ledger")?;
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
