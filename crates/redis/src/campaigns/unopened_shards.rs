//! What a ledger says of a campaign that is to be opened: see `lua/reject_reopen.lua`.

use qiang_core::{
    campaign::Phase,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::EngineError,
};

use crate::{node::Node, shards::snapshot::of_ledger};

/// That a ledger does not have a campaign's part as open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unopened {
    /// Up to which entry; 0 where it was not asked.
    pub(crate) upto: Seq,
    /// Over how many partitions the campaign is spread, if other parts are open.
    pub(crate) parts: Option<u16>,
}

impl Node {
    /// What the ledger knows of a campaign's part that it does not have as open; none where it has been.
    pub(crate) async fn unopened(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<Unopened>, EngineError> {
        let Some(ledger) = self.recalls.ledger() else {
            // Nothing ever leaves.
            let (upto, parts) = (Seq::MAX, None);
            return Ok(Some(Unopened { upto, parts }));
        };
        let upto = ledger.settled(partition).await.map_err(of_ledger)?;
        let known = ledger.settled_part(campaign, partition).await;
        let Some(known) = known.map_err(of_ledger)? else {
            return Ok(Some(Unopened { upto, parts: None }));
        };
        // One that is over has no parts that are still to be opened, whatever it would be spread over today.
        let is_unopened = known.phase == Phase::Draft && known.record.phase != Phase::Closed;
        let parts = (known.parts > 1).then_some(known.parts);
        Ok(is_unopened.then_some(Unopened { upto, parts }))
    }
}
