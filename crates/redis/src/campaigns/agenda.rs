//! The agenda of a partition: when something is due of each campaign.
//!
//! Without it no hold expires and no window ends. Ticks notice an agenda that was deleted, has expired, was overwritten
//! or was set back (`agenda.lua`), and schedule the campaigns of the partition again.

use std::collections::BTreeSet;

use qiang_core::{
    campaign::AckLevel, event::PartitionId, id::CampaignId, ports::EngineError, time::Timestamp,
};

use crate::{
    connection::{eval, unavailable},
    node::Node,
    partitions::nobody,
    protocol::scripts::{AGENDA, REBUILD_AGENDA},
    shards::snapshot::engine_error_from_ledger,
};

/// Campaigns that one tick of a partition looks at.
pub(crate) const DUE_MAX: usize = 64;
/// Campaigns that are read from the ledger at a time.
const PAGE: u32 = 1_000;
/// Fields of a partition that name damaged campaigns begin so.
const NOTED: &str = "damaged:";
const DUE: &str = include_str!("../lua/agenda_due.lua");

impl Node {
    /// Campaigns of a partition for which something is due, without the first `skip` ones; and whether the agenda is
    /// good.
    pub(crate) async fn due(
        &self,
        partition: PartitionId,
        now_ms: i64,
        skip: usize,
    ) -> Result<(bool, Vec<CampaignId>), EngineError> {
        let keys = self.partitions.keys();
        let keys = [keys.partition(partition), keys.agenda(partition)];
        let mut command = eval(&[AGENDA, DUE].concat(), &keys);
        command.arg(now_ms).arg(skip).arg(DUE_MAX);
        let reply: Vec<String> = self.partitions.query(partition, &command).await?;
        let is_whole = reply.first().is_some_and(|first| first == "1");
        let due = reply.iter().skip(1).filter_map(|id| id.parse().ok());
        Ok((is_whole, due.collect()))
    }

    /// Schedules each campaign of a partition again. Campaigns that cannot be scheduled are due at once, so that ticks
    /// try them again. `since` is as in [`tick`](Self::tick).
    pub(crate) async fn rebuild_agenda(
        &self,
        partition: PartitionId,
        since: Timestamp,
    ) -> Result<(), EngineError> {
        let lag = self.agenda_step(partition, "", &[]).await?;
        let mut failed = Vec::new();
        for campaign in self.scheduled(partition).await? {
            let ticked = self.tick_campaign(partition, campaign, (0, since)).await;
            if !matches!(ticked, Ok(Some(_))) {
                failed.push(campaign);
            }
        }
        self.agenda_step(partition, &lag, &failed).await?;
        tracing::warn!(
            partition = partition.0,
            "the agenda in Redis did not belong to the partition; it is rebuilt"
        );
        Ok(())
    }

    /// Campaigns that may be due: open ones of the ledger, closed ones in Redis, and campaigns whose removed keys are
    /// not reloaded yet.
    async fn scheduled(&self, partition: PartitionId) -> Result<BTreeSet<CampaignId>, EngineError> {
        let (partitions, keys) = (&self.partitions, self.partitions.keys());
        let mut closed = redis::cmd("ZRANGE");
        closed.arg(keys.closed(partition)).arg(0).arg(-1);
        let mut names: Vec<String> = partitions.query(partition, &closed).await?;
        for campaign in self.live_in_ledger().await? {
            if partitions.has_part(campaign, partition).await? {
                names.push(campaign.to_string());
            }
        }
        let mut fields = redis::cmd("HKEYS");
        fields.arg(keys.partition(partition));
        let fields: Vec<String> = partitions.query(partition, &fields).await?;
        let noted = fields.iter().filter_map(|field| field.strip_prefix(NOTED));
        let names = names.iter().map(String::as_str).chain(noted);
        Ok(names.filter_map(|id| id.parse().ok()).collect())
    }

    async fn live_in_ledger(&self) -> Result<Vec<CampaignId>, EngineError> {
        let (mut campaigns, mut is_last) = (Vec::new(), false);
        let no_ledger = || unavailable("the agenda is rebuilt with a ledger");
        let ledger = self.recalls.ledger().ok_or_else(no_ledger)?;
        while !is_last {
            let page = ledger.live_campaigns(campaigns.last().copied(), PAGE).await;
            let page = page.map_err(engine_error_from_ledger)?;
            is_last = page.len() < PAGE as usize;
            campaigns.extend(page.iter().map(|live| live.id));
        }
        Ok(campaigns)
    }

    /// Begins or ends a rebuild: see `agenda_rebuild.lua`.
    async fn agenda_step(
        &self,
        partition: PartitionId,
        lag: &str,
        failed: &[CampaignId],
    ) -> Result<String, EngineError> {
        let failed: Vec<String> = failed.iter().map(CampaignId::to_string).collect();
        let (script, asks) = (&REBUILD_AGENDA, Some(AckLevel::Memory));
        let reply = self
            .partitions
            .call(partition, script, nobody(), asks, &|command| {
                command.arg(lag).arg(&failed)
            })
            .await?;
        if reply.status == "changed" {
            return Err(unavailable("the agenda was damaged again"));
        }
        Ok(reply.text())
    }
}
