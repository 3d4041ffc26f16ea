//! What nodes give to a repair: when a partition has lost something, each puts what it has answered past the end of the
//! log into the list `kept`, and says so in `offers`.

use std::{collections::HashMap, sync::Arc, time::Duration};

use qiang_connect::{PartitionState, eval_at_maxmemory, unreadable};
use qiang_core::{
    campaign::Campaign,
    event::{Entry, PartitionId, Seq},
    ports::EngineError,
    rows::has_fixed_shares,
    time::Timestamp,
};

use crate::{node::Node, partitions::Partitions};

const OFFER: &str = include_str!("lua/repair_offer.lua");

/// How often halted partitions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Entries that one call puts there.
const CHUNK: usize = 1_000;

/// What a partition has lost, as its hash says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The first entry that is lost.
    pub(crate) from: Seq,
    /// The last one that somebody has observed.
    pub(crate) to: Seq,
    /// The epoch of the state; empty where it is gone.
    pub(crate) epoch: String,
    /// Why the partition has halted.
    pub(crate) reason: String,
}

impl Loss {
    /// Names the loss among those of the partition.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.from, self.to)
    }
}

/// Offers this node's kept answers, for as long as the node runs.
pub(crate) async fn offer(node: Arc<Node>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        for partition in node.partitions.list() {
            if !matches!(partition.state(), PartitionState::Halted { .. }) {
                continue;
            }
            let id = partition.id;
            if let Err(error) = offer_once(&node, id).await {
                tracing::debug!(partition = id.0, %error, "kept answers could not be offered");
            }
        }
    }
}

async fn offer_once(node: &Node, partition: PartitionId) -> Result<(), EngineError> {
    let Some(loss) = node.partitions.loss(partition).await? else {
        return Ok(());
    };
    // What was offered may be lost by a failover, too: Redis says whether it is there.
    let mut offered = redis::cmd("HGET");
    offered
        .arg(node.partitions.keys().offers(partition))
        .arg(&node.partitions.context.node);
    let offered: Option<String> = node.partitions.query_unfenced(partition, &offered).await?;
    let name = offered.as_deref().and_then(|offer| offer.split_once(' '));
    if name.is_some_and(|(name, _)| name == loss.name()) {
        return Ok(());
    }
    node.partitions.get(partition).all_kept().await;
    let (entries, all_from) = node.kept(partition).since(loss.from);
    let texts: Vec<String> = entries.iter().map(Entry::to_text).collect();
    let mut chunks: Vec<&[String]> = texts.chunks(CHUNK).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let keys = node.partitions.keys();
    let keys = [
        keys.partition(partition),
        keys.kept(partition),
        keys.offers(partition),
    ];
    let last = chunks.len() - 1;
    for (chunk, texts) in chunks.into_iter().enumerate() {
        let done = if chunk == last {
            all_from.to_string()
        } else {
            String::new()
        };
        let mut command = eval_at_maxmemory(OFFER, &keys);
        command
            .arg(loss.name())
            .arg(&node.partitions.context.node)
            .arg(done)
            .arg(texts);
        let _: (String, String) = node.partitions.query_unfenced(partition, &command).await?;
    }
    Ok(())
}

impl Partitions {
    /// What a partition has lost; none if nothing, or if it was halted by hand.
    pub(crate) async fn loss(&self, partition: PartitionId) -> Result<Option<Loss>, EngineError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys().partition(partition));
        command.arg(&["halted", "lost_from", "lost_to", "epoch"]);
        type Fields = (Option<String>, Option<Seq>, Option<Seq>, Option<String>);
        let (halted, from, to, epoch): Fields = self.query_unfenced(partition, &command).await?;
        let loss = from.zip(to).zip(halted);
        Ok(loss.map(|((from, to), reason)| Loss {
            from,
            to,
            epoch: epoch.unwrap_or_default(),
            reason,
        }))
    }

    /// Whether every node that the partition knows has offered all that it has answered past the end of the log.
    pub(crate) async fn has_all_offers(
        &self,
        partition: PartitionId,
        loss: &Loss,
    ) -> Result<bool, EngineError> {
        let keys = self.keys();
        let nodes: Vec<String> = self
            .query_unfenced(partition, redis::cmd("HKEYS").arg(keys.nodes(partition)))
            .await?;
        let offers: HashMap<String, String> = self
            .query_unfenced(partition, redis::cmd("HGETALL").arg(keys.offers(partition)))
            .await?;
        let has_offered = |node: &String| {
            let offer = offers.get(node).and_then(|offer| offer.split_once(' '));
            offer.is_some_and(|(name, all_from)| {
                let all_from: Option<Seq> = all_from.parse().ok();
                name == loss.name() && all_from.is_some_and(|all_from| all_from <= loss.from)
            })
        };
        Ok(!nodes.is_empty() && nodes.iter().all(has_offered))
    }

    /// What nodes have offered.
    pub(crate) async fn kept(&self, partition: PartitionId) -> Result<Vec<Entry>, EngineError> {
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys().kept(partition)).arg(0).arg(-1);
        let lines: Vec<String> = self.query_unfenced(partition, &command).await?;
        let entries = lines.iter().map(|line| Entry::from_text(line));
        entries.collect::<Result<_, _>>().map_err(|_| unreadable())
    }

    /// The last entry of a halted partition's log.
    pub(crate) async fn log_end(&self, partition: PartitionId) -> Result<Seq, EngineError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys().partition(partition)).arg("seq");
        let seq: Option<Seq> = self.query_unfenced(partition, &command).await?;
        Ok(seq.unwrap_or(0))
    }

    /// The time by which a partition's scripts judge.
    pub(crate) async fn time(&self, partition: PartitionId) -> Result<Timestamp, EngineError> {
        if let Some(clock) = &self.options().clock {
            return Ok(clock.now());
        }
        let time = redis::cmd("TIME");
        let (seconds, micros): (i64, i64) = self.query_unfenced(partition, &time).await?;
        Ok(Timestamp::from_millis(1_000 * seconds + micros / 1_000))
    }

    /// Over how many partitions a campaign is to be spread, as this node is configured.
    pub(crate) fn parts_for(&self, campaign: &Campaign) -> u16 {
        let options = self.options();
        // The amounts of a lazy packet follow one from another: they cannot be drawn in two places.
        let is_lazy = campaign.rules.red_packet().is_some() && !has_fixed_shares(campaign);
        match !is_lazy && campaign.supply() >= u64::from(options.spread_from) {
            true => options.spread_over.min(options.partitions).max(1),
            false => 1,
        }
    }
}
