//! Operations that operators request: unite a partition with the ledger, inspect it, or resume it as it is.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    id::CampaignId,
    ports::{
        EngineError, Ledger, NodeSighting, OperatorEngine, PartitionView, ReconcileResult,
        RepairAttempt, RepairEngine as _, RepairState,
    },
    time::Timestamp,
};
use tokio::time::Instant;

use super::{Inspection, engine_error_from_ledger, skip_to};
use crate::{connection::new_epoch, engine::RedisEngine, protocol::scripts::RELEASE_WITHHELD};

/// Pause before a repair is tried again.
const PAUSE: Duration = Duration::from_millis(20);

impl RedisEngine {
    /// Halts a partition for an operator and unites it with the ledger, like a repair after an empty loss. Each side
    /// receives what only the other has. The partition then grants again.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer. The next process repairs the halted partition. If the log has unsettled
    /// entries of a campaign that the ledger lacks: then nothing is changed.
    pub async fn unite(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RepairState, EngineError> {
        let partitions = &self.node.partitions;
        self.check_campaigns(partition, ledger).await?;
        partitions
            .halt(partition, "it is reconciled with the ledger", true)
            .await?;
        let until = Instant::now() + partitions.options().claim_timeout;
        loop {
            match self.repair(partition, ledger, true).await {
                // The repair has found a damaged shard in another partition, and both are repaired together.
                Err(_) if Instant::now() < until && self.has_halted_beside(partition).await => {
                    tokio::time::sleep(PAUSE).await;
                }
                repaired => return repaired,
            }
        }
    }

    /// Whether another partition is halted, too.
    async fn has_halted_beside(&self, partition: PartitionId) -> bool {
        let partitions = &self.node.partitions;
        let others = partitions.list().iter().map(|other| other.id);
        for other in others.filter(|other| *other != partition) {
            if let Ok(Some(_)) = partitions.loss(other).await {
                return true;
            }
        }
        false
    }

    /// State of a partition in Redis: fields of its hash, and each node with its last sighting.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn inspect(&self, partition: PartitionId) -> Result<Inspection, EngineError> {
        let (partitions, keys) = (&self.node.partitions, self.node.partitions.keys());
        let read = async |key: String| {
            let mut command = redis::cmd("HGETALL");
            partitions.query_unfenced(partition, command.arg(key)).await
        };
        let mut repairs = redis::cmd("LRANGE");
        repairs.arg(keys.repairs(partition)).arg(0).arg(-1);
        let mut withheld = BTreeMap::new();
        for campaign in partitions.agenda(partition).await? {
            let mut units = redis::cmd("HGET");
            units
                .arg(keys.campaign(partition, campaign))
                .arg("withheld");
            let units: Option<u64> = partitions.query_unfenced(partition, &units).await?;
            withheld.extend(units.map(|units| (campaign, units)));
        }
        let mut state: BTreeMap<String, String> = read(keys.partition(partition)).await?;
        // One field per connection of each node; they mean nothing to operators.
        state.retain(|field, _| !field.starts_with("call:"));
        Ok(Inspection {
            state,
            nodes: read(keys.nodes(partition)).await?,
            repairs: partitions.query_unfenced(partition, &repairs).await?,
            withheld,
        })
    }

    /// Time by which a partition's scripts judge.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn server_time(&self, partition: PartitionId) -> Result<Timestamp, EngineError> {
        self.node.partitions.time(partition).await
    }

    /// Whether a partition has a campaign or one of its shards.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn has_part(
        &self,
        campaign: CampaignId,
        partition: PartitionId,
    ) -> Result<bool, EngineError> {
        self.node.partitions.has_part(campaign, partition).await
    }

    /// Ends the halt of a partition that an operator halted, or whose loss an operator accepts, without a repair. The
    /// rest of the log is settled or quarantined. False if the partition is not halted.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer; [`EngineError::Uncertain`] if the halt may have ended.
    pub async fn resume_as_it_is(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let state = self.inspect(partition).await?.state;
        if !state.contains_key("halted") {
            return Ok(false);
        }
        let lost_to = state
            .get("lost_to")
            .and_then(|to| to.parse().ok())
            .unwrap_or(0);
        // The claim stops a running repair from writing to the ledger.
        let last = ledger
            .last_attempt(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let attempt = RepairAttempt {
            partition,
            number: last + 1,
            repairer: new_epoch(),
        };
        ledger
            .claim_repair(&attempt)
            .await
            .map_err(engine_error_from_ledger)?;
        let head = partitions.log_end(partition).await?;
        self.settle_rest(partition, ledger).await?;
        self.settle_after_gap(ledger, &attempt, None).await?;
        let end = skip_to(ledger, &attempt, head.max(lost_to), None).await?;
        let epoch = state.get("epoch").map(String::as_str);
        let resumed = partitions.resume(partition, epoch, end).await;
        // A lost answer does not say whether the halt has ended.
        resumed.map_err(to_uncertain)
    }

    /// Releases what repairs have withheld of a partition's campaigns, and returns the number of units. The ledger
    /// records the release first.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] when Redis or the ledger does not answer, or the partition is not open.
    pub async fn release_withheld(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<u64, EngineError> {
        // From here on an error may leave some of the units released.
        let released = ledger.release_withheld(partition).await;
        released.map_err(|error| to_uncertain(engine_error_from_ledger(error)))?;
        self.release_noted(partition).await.map_err(to_uncertain)
    }

    async fn release_noted(&self, partition: PartitionId) -> Result<u64, EngineError> {
        let mut units = 0;
        for campaign in self.node.partitions.agenda(partition).await? {
            let asked = (campaign, AckLevel::Memory);
            let released = self
                .node
                .partitions
                .change(partition, &RELEASE_WITHHELD, asked, &|command| command)
                .await?;
            self.node.invalidate(campaign);
            units += released.text().parse().unwrap_or(0);
        }
        Ok(units)
    }
}

#[async_trait]
impl OperatorEngine for RedisEngine {
    async fn view(&self, partition: PartitionId) -> Result<PartitionView, EngineError> {
        let found = self.inspect(partition).await?;
        let nodes = found.nodes.iter();
        Ok(PartitionView {
            nodes: nodes
                .filter_map(|(node, seen)| sighting(node, seen))
                .collect(),
            state: found.state,
            withheld: found.withheld,
        })
    }

    async fn reconcile(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        time_max: Duration,
    ) -> Result<ReconcileResult, EngineError> {
        self.walk(partition, ledger, time_max).await
    }

    async fn resume(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<bool, EngineError> {
        self.resume_as_it_is(partition, ledger).await
    }

    async fn give_back(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<u64, EngineError> {
        self.release_withheld(partition, ledger).await
    }
}

fn to_uncertain(error: EngineError) -> EngineError {
    match error {
        EngineError::Uncertain { reason } | EngineError::Unavailable { reason } => {
            EngineError::Uncertain { reason }
        }
        error => EngineError::Uncertain {
            reason: error.to_string(),
        },
    }
}

/// Parses what `presence.lua` records of a node; `None` for other text.
fn sighting(node: &str, seen: &str) -> Option<NodeSighting> {
    let mut parts = seen.split(' ');
    Some(NodeSighting {
        node: node.to_owned(),
        seen_at: Timestamp::from_millis(parts.next()?.parse().ok()?),
        term: parts.next()?.parse().ok()?,
        observed: parts.next()?.parse().ok()?,
    })
}
