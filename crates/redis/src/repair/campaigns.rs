//! The campaigns that the log is about: whether the ledger has them, and what becomes of their entries behind a gap.

use std::collections::{BTreeMap, BTreeSet};

use qiang_connect::unavailable;
use qiang_core::{
    event::{Entry, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError},
};

use super::{of_ledger, settle_singly};
use crate::engine::RedisEngine;

impl RedisEngine {
    /// Refuses a log with entries behind the ledger's position about a campaign that the ledger does not have. Rows of
    /// such a campaign cannot be settled, so moving the position past its entries would lose them.
    pub(super) async fn check_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<(), EngineError> {
        let mut after = ledger.settled(partition).await.map_err(of_ledger)?;
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
                let campaign = ledger.campaign(entry.campaign).await;
                if campaign.map_err(of_ledger)?.is_none() {
                    return Err(unavailable(format!(
                        "entry {} of partition {} is not settled, and the ledger does not have its campaign {}: give \
                         it to the ledger first",
                        entry.seq, partition.0, entry.campaign
                    )));
                }
            }
        }
    }

    /// Settles entries of the log that a gap parts from the ledger's position, and quarantines those that the ledger
    /// refuses, as all of a campaign that it does not have. With `rows_stand_in` only those of which rows say nothing
    /// better are settled: Redis or the ledger does not have the campaign, so their rows are not united.
    pub(super) async fn settle_behind_gap(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        rows_stand_in: bool,
    ) -> Result<(), EngineError> {
        let partitions = &self.node.partitions;
        let mut after = ledger.settled(partition).await.map_err(of_ledger)?;
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
                        rows_stand_in && self.is_united(partition, ledger, entry.campaign).await?
                    }
                };
                united.insert(entry.campaign, is_united);
                if !is_united {
                    left.push(entry);
                }
            }
            let settled = settle_scattered(partition, ledger, &left).await;
            settled.map_err(of_ledger)?;
        }
    }

    /// Whether a repair unites the rows of a campaign's part.
    async fn is_united(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let known = ledger.campaign(campaign).await.map_err(of_ledger)?;
        Ok(known.is_some() && self.has_part(campaign, partition).await?)
    }
}

/// Settles entries with others between them that are gone.
async fn settle_scattered(
    partition: PartitionId,
    ledger: &dyn Ledger,
    entries: &[Entry],
) -> Result<(), LedgerError> {
    let Some(upto) = entries.last().map(|last| last.seq) else {
        return Ok(());
    };
    let mut position = ledger.settled(partition).await?;
    while position < upto {
        let fresh = &entries[entries.partition_point(|entry| entry.seq <= position)..];
        let settled = ledger.settle_past(partition, position, fresh, upto).await;
        position = match (settled, fresh.first()) {
            (Err(LedgerError::Damaged { .. } | LedgerError::Overflow), Some(first)) => {
                // One by one from here.
                if first.seq > position + 1 {
                    let before = first.seq - 1;
                    ledger.settle_past(partition, position, &[], before).await?;
                }
                settle_singly(partition, ledger, std::slice::from_ref(first)).await?
            }
            (settled, _) => settled?,
        };
    }
    Ok(())
}
