//! Commands that are about a whole campaign or all of them: pause, resume, close, ticks, numbers, the probe.

use crate::{
    error::unreadable,
    meta::CampaignMeta,
    node::Node,
    scripts::{ACT, PROBE, TICK},
    tally::{self, PartTally},
    transfer::moving,
};
use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{Phase, Tally, Transition, TransitionError},
    event::PartitionId,
    id::CampaignId,
    ports::EngineError,
};

/// Campaigns looked at by one tick of one partition.
const DUE_MAX: usize = 64;
/// How often a close, or a sum over parts, is tried while units are moving between parts.
const MOVES_MAX: usize = 50;

impl Node {
    pub(crate) async fn run(&self, command: Command) -> Result<Reply, EngineError> {
        match command {
            Command::Open(setup) => self.open(&setup).await.map(|()| Reply::Opened),
            Command::Pay { order, payment } => self.pay(order, &payment).await,
            Command::Cancel { order } => self.cancel(order).await.map(Reply::Cancelled),
            Command::Act { campaign, action } => self.act(campaign, action).await.map(Reply::Acted),
            Command::Tick { events_max } => {
                let mut more = false;
                for partition in self.partitions.list() {
                    more |= self.tick(partition.id, events_max).await?;
                }
                Ok(Reply::Ticked { more })
            }
        }
    }

    async fn act(
        &self,
        campaign: CampaignId,
        action: CampaignAction,
    ) -> Result<Tally, EngineError> {
        let meta = self.partitions.meta(campaign).await?;
        let meta = meta.ok_or(Refusal::UnknownCampaign)?;
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for partition in self.partitions.of_campaign(&meta) {
            parts.push(self.act_on_part(&meta, partition, action).await?);
        }
        Ok(tally::sum(&parts))
    }

    async fn act_on_part(
        &self,
        meta: &CampaignMeta,
        partition: PartitionId,
        action: CampaignAction,
    ) -> Result<PartTally, EngineError> {
        let (word, transition) = match action {
            CampaignAction::Pause => ("pause", Transition::Pause),
            CampaignAction::Resume => ("resume", Transition::Resume),
            CampaignAction::Close => ("close", Transition::Close),
        };
        for _ in 0..MOVES_MAX {
            let reply = self
                .change(partition, &ACT, meta, &|command| command.arg(word))
                .await?;
            match reply.status.as_str() {
                "busy" => {
                    self.partitions
                        .finish_transfers_from(meta, partition)
                        .await?;
                }
                "refused" => {
                    let from = tally::phase(&reply.text()).unwrap_or(Phase::Closed);
                    return Err(Refusal::Phase(TransitionError { from, transition }).into());
                }
                _ => {
                    let text = reply.found(Refusal::UnknownCampaign)?;
                    return PartTally::parse(&text).ok_or_else(unreadable);
                }
            }
        }
        Err(moving())
    }

    pub(crate) async fn tally(&self, campaign: CampaignId) -> Result<Option<Tally>, EngineError> {
        let Some(meta) = self.partitions.meta(campaign).await? else {
            return Ok(None);
        };
        if meta.parts == 1
            && let Some(tally) = self.partitions.tally_from_replica(&meta).await
        {
            return Ok(Some(tally));
        }
        // Units that are moving are in no part: their transfers are finished until there are none.
        let mut parts = self.partitions.part_tallies(&meta).await?;
        for _ in 0..MOVES_MAX {
            if meta.parts == 1 || !self.partitions.finish_transfers(&meta).await? {
                break;
            }
            parts = self.partitions.part_tallies(&meta).await?;
        }
        Ok(Some(tally::sum(&parts)))
    }

    /// Does what is due in a partition; tells whether there is more.
    pub(crate) async fn tick(
        &self,
        partition: PartitionId,
        events_max: usize,
    ) -> Result<bool, EngineError> {
        let context = &self.partitions.context;
        let now = match &context.options.clock {
            Some(clock) => clock.now().as_millis(),
            None => {
                let time = redis::cmd("TIME");
                let (seconds, micros): (i64, i64) = self.partitions.query(partition, &time).await?;
                1_000 * seconds + micros / 1_000
            }
        };
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command
            .arg(context.keys.agenda(partition))
            .arg("-inf")
            .arg(now)
            .arg("LIMIT")
            .arg(0)
            .arg(DUE_MAX);
        let due: Vec<String> = self.partitions.query(partition, &command).await?;
        let mut more = due.len() >= DUE_MAX;
        for campaign in due.iter().filter_map(|id| id.parse().ok()) {
            more |= self.tick_campaign(partition, campaign, events_max).await?;
        }
        Ok(more)
    }

    async fn tick_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        events_max: usize,
    ) -> Result<bool, EngineError> {
        let Some(meta) = self.partitions.meta(campaign).await? else {
            // A part that is open before its home is: the campaign is not known yet.
            return Ok(false);
        };
        let reply = self
            .change(partition, &TICK, &meta, &|command| command.arg(events_max))
            .await?;
        if reply.status == "busy" {
            self.partitions
                .finish_transfers_from(&meta, partition)
                .await?;
            return Ok(true);
        }
        let events: usize = reply.text().parse().unwrap_or(0);
        Ok(events >= events_max)
    }

    /// Takes every partition through a call that writes, without granting anything.
    pub(crate) async fn probe(&self) -> Result<(), EngineError> {
        let nobody = uuid::Builder::from_unix_timestamp_millis(0, &[0; 10]).into_uuid();
        let nobody = CampaignId::new(nobody).map_err(|_| unreadable())?;
        let wait = self.partitions.context.options.replicas > 0;
        for partition in self.partitions.list() {
            self.partitions
                .call(partition.id, &PROBE, nobody, wait, &|command| command)
                .await?;
        }
        Ok(())
    }
}
