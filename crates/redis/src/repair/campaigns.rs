//! Whether the ledger has the campaigns that the log is about.

use super::*;

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
}
