//! Closed campaigns with unsettled entries: late payments, holds that ended after the close, returns. The ledger does
//! not list them as live, and they may have nothing due.

use std::collections::BTreeSet;

use qiang_core::{
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, RepairEngine as _},
};

use super::engine_error_from_ledger;
use crate::{connection::eval, engine::RedisEngine, repair::rebuild::Rebuild, repair_offer::Loss};

const LATE: &str = include_str!("../lua/repair_late.lua");
/// Campaigns that one call checks.
const LOOK_AT: usize = 100;

impl RedisEngine {
    /// Closed campaigns of a halted partition that may have entries after `settled`. Empty if the ledger has the log up
    /// to its end.
    pub(super) async fn late_campaigns(
        &self,
        partition: PartitionId,
        (log_end, settled): (Seq, Seq),
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        let mut late = BTreeSet::new();
        if settled >= log_end {
            return Ok(late);
        }
        let (partitions, keys) = (&self.node.partitions, self.node.partitions.keys());
        let mut list = redis::cmd("ZRANGE");
        list.arg(keys.closed(partition)).arg(0).arg(-1);
        let closed: Vec<String> = partitions.query_unfenced(partition, &list).await?;
        let closed: Vec<CampaignId> = closed.iter().filter_map(|id| id.parse().ok()).collect();
        for campaigns in closed.chunks(LOOK_AT) {
            let hashes = campaigns.iter().map(|it| keys.campaign(partition, *it));
            let mut look = eval(LATE, &hashes.collect::<Vec<_>>());
            look.arg(settled);
            let places: Vec<usize> = partitions.query_unfenced(partition, &look).await?;
            late.extend(places.iter().filter_map(|place| campaigns.get(place - 1)));
        }
        Ok(late)
    }

    /// Campaigns of a halted partition that its repair unites: live ones, and closed ones with unsettled entries.
    pub(super) async fn campaigns_to_repair(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        loss: &Loss,
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        let partitions = &self.node.partitions;
        let noted = Rebuild::new(partitions, partition).noted(loss).await?;
        let ends = match noted {
            // An earlier attempt may have moved both.
            Some((noted, _)) => (noted.head, noted.settled),
            None => {
                let settled = ledger
                    .settled(partition)
                    .await
                    .map_err(engine_error_from_ledger)?;
                (partitions.log_end(partition).await?, settled)
            }
        };
        let mut campaigns = self.late_campaigns(partition, ends).await?;
        campaigns.extend(self.live_campaigns(partition, ledger).await?);
        Ok(campaigns)
    }
}
