//! `WaitingRoom` port on Redis.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::Claim,
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::{ActiveQueues, EngineError, QueueHead, WaitingRoom},
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
    time::Timestamp,
};

use crate::{
    connection::{eval_at_maxmemory, unreadable},
    engine::RedisEngine,
    queues::{HEAD, LINES, QueueRequest, RECORD, Standings, keys_of},
};

impl RedisEngine {
    /// Adds a request to the next call for the campaign's queue, and waits for its result.
    async fn visit(&self, campaign: CampaignId, user: &UserId, wish: QueueRequest) -> Standings {
        if self.node.is_stopping() {
            return Err(EngineError::Stopping);
        }
        let lines = Arc::clone(self.lines.for_campaign(campaign));
        let answered = lines.push((campaign, user), wish)?;
        // In a separate task, because it also serves requests of other clients, which are still connected.
        let partitions = Arc::clone(&self.node.partitions);
        self.runtime
            .spawn(async move { lines.serve(&partitions).await });
        let lost = |_| Err(EngineError::uncertain("the queue did not answer"));
        answered.await.unwrap_or_else(lost)
    }
}

#[async_trait]
impl WaitingRoom for RedisEngine {
    fn partitions(&self) -> Vec<PartitionId> {
        let list = self.node.partitions.list().iter();
        list.map(|partition| partition.id).collect()
    }

    async fn enter(
        &self,
        claim: &Claim,
        now: Timestamp,
        limits: QueueLimits,
    ) -> Result<Option<QueueStatus>, EngineError> {
        let place = QueueEntry {
            number: 0,
            entered_at: now,
            claim: claim.clone(),
        };
        let wish = QueueRequest::Enter(Box::new(place), limits);
        self.visit(claim.campaign, &claim.user, wish).await
    }

    async fn standing(
        &self,
        campaign: CampaignId,
        user: &UserId,
    ) -> Result<Option<QueueStatus>, EngineError> {
        self.visit(campaign, user, QueueRequest::Look).await
    }

    async fn lines(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<ActiveQueues, EngineError> {
        let (lines, context) = (&self.lines, &self.node.partitions.context);
        let keys = lines.keys();
        let keys = [keys.waiting(partition), keys.decider(partition)];
        let mut command = eval_at_maxmemory(LINES, &keys);
        let lease_ms = lease.as_millis().max(1) as u64;
        command.arg(&context.node).arg(lease_ms);
        let replies: Vec<String> = lines.query(partition, &command).await?;
        let (whose, campaigns) = replies.split_first().ok_or_else(unreadable)?;
        let ids = campaigns.iter().map(|id| id.parse());
        let ids = ids.collect::<Result<Vec<_>, _>>();
        let (campaigns, own) = (ids.map_err(|_| unreadable())?, whose == "own");
        Ok(ActiveQueues {
            leased: own && !campaigns.is_empty(),
            own,
            campaigns,
        })
    }

    async fn head(&self, campaign: CampaignId, limit: usize) -> Result<QueueHead, EngineError> {
        let lines = &self.lines;
        let partition = lines.for_campaign(campaign).partition;
        let mut keys = keys_of(lines.keys(), partition, campaign, None);
        keys.insert(0, lines.keys().waiting(partition));
        let mut command = eval_at_maxmemory(HEAD, &keys);
        command.arg(campaign.to_string()).arg(limit);
        let replies: Vec<String> = lines.query(partition, &command).await?;
        let [waiting, state, rows @ ..] = &replies[..] else {
            return Err(unreadable());
        };
        if state == "rebuilt" {
            lines.for_campaign(campaign).note_rebuilt(campaign);
        }
        let mut places = Vec::with_capacity(rows.len() / 2);
        for row in rows.chunks_exact(2) {
            let user = UserId::new(&row[0]).ok();
            let place = user.and_then(|user| QueueEntry::parse(campaign, user, &row[1]));
            places.push(place.ok_or_else(unreadable)?);
        }
        Ok(QueueHead {
            waiting: waiting.parse().map_err(|_| unreadable())?,
            places,
        })
    }

    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(QueueEntry, QueueDecision)],
        _: Timestamp,
        limits: QueueLimits,
    ) -> Result<(), EngineError> {
        let lines = &self.lines;
        let partition = lines.for_campaign(campaign).partition;
        let users = decided.iter().map(|(place, _)| &place.claim.user);
        let mut keys = keys_of(lines.keys(), partition, campaign, users);
        let all = lines.keys();
        keys.splice(0..0, [all.waiting(partition), all.waiting_all(partition)]);
        let mut command = eval_at_maxmemory(RECORD, &keys);
        command
            .arg(campaign.to_string())
            .arg(limits.result_ttl_ms.max(1));
        for (place, decision) in decided {
            let result = format!("{} {}", place.number, decision.to_text());
            command.arg(place.claim.user.as_str());
            command.arg(place.to_text()).arg(result);
        }
        let (_, rebuilt): (i64, i64) = lines.query(partition, &command).await?;
        if rebuilt > 0 {
            lines.for_campaign(campaign).note_rebuilt(campaign);
        }
        Ok(())
    }

    fn rebuilt(&self) -> u64 {
        self.lines.rebuilt()
    }
}
