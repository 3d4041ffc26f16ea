//! Entries of a partition that the ledger has in quarantine, and campaigns that it does not have completely.

use std::collections::BTreeSet;

use qiang_core::{
    event::{Entry, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError},
};

use crate::shards::snapshot::{engine_error_from_ledger, settled_rows};

/// Quarantined entries per read.
const QUARANTINE_PAGE: u32 = 1_000;

/// Campaigns with quarantined entries: the ledger's position has passed them, and its rows lack them.
pub(crate) async fn quarantined(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<BTreeSet<CampaignId>, EngineError> {
    let entries = quarantined_entries(partition, ledger).await?;
    Ok(entries.iter().map(|entry| entry.campaign).collect())
}

/// Entries of a partition that the ledger has in quarantine.
pub(crate) async fn quarantined_entries(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<Vec<Entry>, EngineError> {
    let (mut entries, mut after) = (Vec::new(), (partition, 0));
    loop {
        let page = ledger.list_quarantined(Some(after), QUARANTINE_PAGE).await;
        let page = page.map_err(engine_error_from_ledger)?;
        let is_last = page.len() < QUARANTINE_PAGE as usize;
        for it in page {
            if it.partition != partition {
                return Ok(entries);
            }
            after.1 = it.entry.seq;
            entries.push(it.entry);
        }
        if is_last {
            return Ok(entries);
        }
    }
}

/// Reason why a campaign cannot be rebuilt from the ledger: it cannot read the campaign, or has entries of it in
/// quarantine. `None` if nothing is missing. `partitions` are those of its shards.
pub(crate) async fn incompleteness(
    ledger: &dyn Ledger,
    campaign: CampaignId,
    partitions: &[PartitionId],
) -> Result<Option<String>, EngineError> {
    let mut kind = None;
    for partition in partitions {
        match ledger.settled_part(campaign, *partition).await {
            Err(LedgerError::Damaged { reason }) => return Ok(Some(reason)),
            known => {
                let known = known.map_err(engine_error_from_ledger)?;
                kind = kind.or(known.map(|known| known.record.campaign.kind()));
            }
        }
    }
    for partition in partitions {
        if quarantined(*partition, ledger).await?.contains(&campaign) {
            let partition = partition.0;
            return Ok(Some(format!(
                "entries of it are in the quarantine of partition {partition}: redrive them"
            )));
        }
    }
    // Last, because these may be many.
    match kind {
        None => Ok(None),
        Some(kind) => match settled_rows(ledger, campaign, kind).await {
            Err(LedgerError::Damaged { reason }) => Ok(Some(reason)),
            rows => rows.map(|_| None).map_err(engine_error_from_ledger),
        },
    }
}
