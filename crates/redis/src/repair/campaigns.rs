//! Campaigns of log entries: whether the ledger has them, and how their entries after a gap are settled.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    event::{Entry, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairAttempt},
};

use super::{engine_error_from_ledger, settle_singly};
use crate::{connection::unavailable, engine::RedisEngine, repair::rebuild::Rebuild};

impl RedisEngine {
    /// Refuses a log with unsettled entries about a campaign that the ledger lacks. Rows of such a campaign cannot be
    /// settled, so moving the position past its entries would lose them.
    pub(super) async fn check_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<(), EngineError> {
        let mut after = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let mut known = BTreeSet::new();
        loop {
            let partitions = &self.node.partitions;
            let entries = partitions.entries_behind(partition, after).await?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            after = last.seq;
            for entry in entries {
                if !known.insert(entry.campaign) {
                    continue;
                }
                let is_known = match ledger.campaign(entry.campaign).await {
                    // The campaign is quarantined.
                    Err(LedgerError::Damaged { .. }) => true,
                    campaign => campaign.map_err(engine_error_from_ledger)?.is_some(),
                };
                if !is_known {
                    return Err(unavailable(format!(
                        "entry {} of partition {} is not settled, and the ledger does not have its campaign {}: add \
                         it to the ledger first",
                        entry.seq, partition.0, entry.campaign
                    )));
                }
            }
        }
    }

    /// Settles entries of the log after a gap that follows the ledger's position. Entries that the ledger refuses go to
    /// quarantine, as do all of a campaign that it lacks. A repairer settles only entries without better evidence in
    /// rows: Redis or the ledger lacks the campaign, so their rows are not united. It does so only while the repair is
    /// its own, because rows do not replace entries that another process appends.
    pub(super) async fn settle_after_gap(
        &self,
        ledger: &dyn Ledger,
        attempt: &RepairAttempt,
        repairer: Option<&Rebuild<'_>>,
    ) -> Result<(), EngineError> {
        let partition = attempt.partition;
        let partitions = &self.node.partitions;
        let mut after = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let mut united = BTreeMap::new();
        loop {
            let entries = partitions.entries_behind(partition, after).await?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            after = last.seq;
            let mut left = Vec::new();
            for entry in entries {
                let is_united = match united.get(&entry.campaign) {
                    Some(is_united) => *is_united,
                    None => {
                        repairer.is_some()
                            && self.is_united(partition, ledger, entry.campaign).await?
                    }
                };
                united.insert(entry.campaign, is_united);
                if !is_united {
                    left.push(entry);
                }
            }
            settle_scattered(ledger, attempt, &left, repairer).await?;
        }
    }

    /// Whether a repair unites the rows of a shard.
    async fn is_united(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let known = ledger
            .campaign(campaign)
            .await
            .map_err(engine_error_from_ledger)?;
        Ok(known.is_some() && self.has_part(campaign, partition).await?)
    }
}

/// Settles entries that have gaps between them.
async fn settle_scattered(
    ledger: &dyn Ledger,
    attempt: &RepairAttempt,
    entries: &[Entry],
    repairer: Option<&Rebuild<'_>>,
) -> Result<(), EngineError> {
    let Some(upto) = entries.last().map(|last| last.seq) else {
        return Ok(());
    };
    let partition = attempt.partition;
    let mut position = ledger
        .settled(partition)
        .await
        .map_err(engine_error_from_ledger)?;
    while position < upto {
        // Another repairer moves the position first, so entries that were read before are not settled after its own.
        if let Some(rebuild) = repairer {
            rebuild.check().await?;
        }
        let fresh = &entries[entries.partition_point(|entry| entry.seq <= position)..];
        let settled = ledger.settle_past(attempt, position, fresh, upto).await;
        position = match (settled, fresh.first()) {
            (Err(LedgerError::Damaged { .. } | LedgerError::Overflow), Some(first)) => {
                // One by one from here.
                if first.seq > position + 1 {
                    let before = first.seq - 1;
                    let moved = ledger.settle_past(attempt, position, &[], before).await;
                    moved.map_err(engine_error_from_ledger)?;
                }
                let settled = settle_singly(partition, ledger, std::slice::from_ref(first)).await;
                settled.map_err(engine_error_from_ledger)?
            }
            (settled, _) => settled.map_err(engine_error_from_ledger)?,
        };
    }
    Ok(())
}
