//! Entries of a partition that the ledger has in quarantine.

use std::collections::BTreeSet;

use qiang_core::{
    event::{Entry, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger},
};

use crate::shards::snapshot::engine_error_from_ledger;

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
