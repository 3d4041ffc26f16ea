//! Ledger state of a campaign that is to open: see `lua/reject_reopen.lua`.

use qiang_core::{
    campaign::Phase,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::EngineError,
};

use crate::{node::Node, shards::snapshot::engine_error_from_ledger};

/// Result: the ledger does not have a shard as opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnopenedShards {
    /// Entry up to which that is known; 0 if the ledger was not read.
    pub(crate) upto: Seq,
    /// Number of shards, if other shards are open.
    pub(crate) parts: Option<u16>,
}

impl Node {
    /// Reads a shard that the ledger does not have as opened; `None` if it was opened.
    pub(crate) async fn unopened(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<UnopenedShards>, EngineError> {
        let Some(ledger) = self.recalls.ledger() else {
            // Without a ledger, no campaign is ever evicted.
            let (upto, parts) = (Seq::MAX, None);
            return Ok(Some(UnopenedShards { upto, parts }));
        };
        let upto = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let known = ledger.settled_part(campaign, partition).await;
        let Some(known) = known.map_err(engine_error_from_ledger)? else {
            return Ok(Some(UnopenedShards { upto, parts: None }));
        };
        // A closed campaign has no shards left to open, even if a new one would have more.
        let is_unopened = known.phase == Phase::Draft && known.record.phase != Phase::Closed;
        let parts = (known.parts > 1).then_some(known.parts);
        Ok(is_unopened.then_some(UnopenedShards { upto, parts }))
    }
}
