//! Answers that nodes offer to a repair. After a loss, each node writes what it has answered past the end of the log to
//! the hash `answers`, in chunks. The last chunk marks the offer as complete.

use std::{collections::HashMap, sync::Arc, time::Duration};

use qiang_core::{
    campaign::Campaign,
    event::{Entry, PartitionId, Seq},
    ports::EngineError,
    rows::has_fixed_shares,
    time::Timestamp,
};

use crate::{
    connection::{PartitionHealth, eval_at_maxmemory, unreadable},
    node::Node,
    partitions::Partitions,
};

const OFFER: &str = include_str!("lua/repair_offer.lua");

/// Interval of checks for halted partitions.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Entries that one call writes.
const CHUNK: usize = 1_000;

/// Fields of a partition that describe its loss.
type LossFields = (
    Option<String>,
    Option<Seq>,
    Option<Seq>,
    Option<String>,
    Option<String>,
);

/// Loss of a partition, as its hash describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The first lost entry.
    pub(crate) from: Seq,
    /// The last lost entry that a node has observed.
    pub(crate) to: Seq,
    /// Epoch of the state; empty if it is gone.
    pub(crate) epoch: String,
    /// Why the partition has halted.
    pub(crate) reason: String,
    /// Nodes offer what they have answered from this entry on: the first entry that is lost or that the log lacks.
    pub(crate) answers_from: Seq,
}

impl Loss {
    /// Name of the loss, unique among those of the partition.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.from, self.to)
    }
}

/// Offers this node's kept answers, as long as the node runs.
pub(crate) async fn offer(node: Arc<Node>) {
    for attempt in 0.. {
        tokio::time::sleep(LOOK_EVERY).await;
        for partition in node.partitions.list() {
            if !matches!(partition.state(), PartitionHealth::Halted { .. }) {
                continue;
            }
            let id = partition.id;
            if let Err(error) = offer_once(&node, id, attempt).await {
                tracing::debug!(partition = id.0, %error, "cannot offer kept answers");
            }
        }
    }
}

/// Offers what this node keeps for a partition, if the offer is absent. Attempts are numbered, so a late chunk of an
/// earlier attempt has no effect.
async fn offer_once(node: &Node, partition: PartitionId, attempt: u64) -> Result<(), EngineError> {
    let Some(loss) = node.partitions.loss(partition).await? else {
        return Ok(());
    };
    // A failover may lose an offer too, so Redis is asked whether it has it.
    let (keys, name) = (node.partitions.keys(), &node.partitions.context.node);
    let answers = keys.answers(partition);
    let mut offered = redis::cmd("HGET");
    offered.arg(&answers).arg(name);
    let offered: Option<String> = node.partitions.query_unfenced(partition, &offered).await?;
    let offered = offered.as_deref().and_then(NodeOffer::read);
    if offered.is_some_and(|offer| offer.loss == loss.name() && offer.all_from.is_some()) {
        return Ok(());
    }
    node.partitions.get(partition).all_kept().await;
    let (entries, all_from) = node
        .runtime(partition)
        .unsettled_answers
        .since(loss.answers_from);
    let texts: Vec<String> = entries.iter().map(Entry::to_text).collect();
    let mut chunks: Vec<&[String]> = texts.chunks(CHUNK).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let keys = [keys.partition(partition), answers];
    let last = chunks.len() - 1;
    for (chunk, texts) in chunks.into_iter().enumerate() {
        let done = match chunk == last {
            true => all_from.to_string(),
            false => String::new(),
        };
        let mut command = eval_at_maxmemory(OFFER, &keys);
        command
            .arg(loss.name())
            .arg(name)
            .arg(attempt)
            .arg(chunk)
            .arg(texts.join("\n"))
            .arg(done);
        let _: (String, String) = node.partitions.query_unfenced(partition, &command).await?;
    }
    Ok(())
}

/// Offer of one node.
struct NodeOffer<'a> {
    loss: &'a str,
    /// First entry from which its answers are complete. `None` while chunks are missing.
    all_from: Option<Seq>,
}

impl<'a> NodeOffer<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut words = text.split(' ');
        let loss = words.next()?;
        let _attempt = words.next()?;
        let all_from = words.next().and_then(|from| from.parse().ok());
        Some(Self { loss, all_from })
    }

    /// Whether it is about this loss, or about an earlier form of it that has grown since.
    fn is_about(&self, loss: &Loss) -> bool {
        if loss.answers_from < loss.from && self.loss == loss.name() {
            return true;
        }
        let to = self.loss.split_once('-').map(|(_, to)| to.parse());
        to.is_some_and(|to| to.is_ok_and(|to: Seq| to >= loss.from))
    }
}

impl Partitions {
    /// Loss of a partition. `None` if there is none, also after a halt by an operator that no repair follows.
    pub(crate) async fn loss(&self, partition: PartitionId) -> Result<Option<Loss>, EngineError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys().partition(partition));
        command.arg(&["halted", "lost_from", "lost_to", "epoch", "gap_from"]);
        let fields = self.query_unfenced(partition, &command).await?;
        let (halted, from, to, epoch, gap_from): LossFields = fields;
        let loss = from.zip(to).zip(halted);
        let epoch = epoch.unwrap_or_default();
        let gap_from = gap_from.as_deref().and_then(|text| text.split_once(' '));
        let gap_from = gap_from.filter(|(gap_epoch, _)| *gap_epoch == epoch);
        let gap_from = gap_from.and_then(|(_, from)| from.parse::<Seq>().ok());
        Ok(loss.map(|((from, to), reason)| Loss {
            answers_from: gap_from.map_or(from, |gap_from| gap_from.min(from)),
            from,
            to,
            epoch,
            reason,
        }))
    }

    /// Whether each node known to the partition has offered all that it answered past the end of the log.
    pub(crate) async fn has_all_offers(
        &self,
        partition: PartitionId,
        loss: &Loss,
    ) -> Result<bool, EngineError> {
        let keys = self.keys();
        let nodes: Vec<String> = self
            .query_unfenced(partition, redis::cmd("HKEYS").arg(keys.nodes(partition)))
            .await?;
        if nodes.is_empty() {
            return Ok(false);
        }
        let mut command = redis::cmd("HMGET");
        command.arg(keys.answers(partition)).arg(&nodes);
        let offers: Vec<Option<String>> = self.query_unfenced(partition, &command).await?;
        let has_offered = |offer: &Option<String>| {
            let offer = offer.as_deref().and_then(NodeOffer::read);
            offer.is_some_and(|it| {
                it.loss == loss.name() && it.all_from.is_some_and(|from| from <= loss.from)
            })
        };
        Ok(offers.iter().all(has_offered))
    }

    /// Entries that nodes have offered for a loss.
    pub(crate) async fn read_offers(
        &self,
        partition: PartitionId,
        loss: &Loss,
    ) -> Result<Vec<Entry>, EngineError> {
        let keys = self.keys();
        let mut command = redis::cmd("HGETALL");
        command.arg(keys.answers(partition));
        let answers: HashMap<String, String> = self.query_unfenced(partition, &command).await?;
        let mut lines: Vec<String> = Vec::new();
        for (field, text) in &answers {
            let Some((node, _)) = field.split_once(' ') else {
                continue;
            };
            let offer = answers.get(node).and_then(|offer| NodeOffer::read(offer));
            if offer.is_some_and(|offer| offer.is_about(loss)) {
                lines.extend(text.lines().map(str::to_owned));
            }
        }
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

    /// Time by which a partition's scripts judge.
    pub(crate) async fn time(&self, partition: PartitionId) -> Result<Timestamp, EngineError> {
        if let Some(clock) = &self.options().clock {
            return Ok(clock.now());
        }
        let time = redis::cmd("TIME");
        let (seconds, micros): (i64, i64) = self.query_unfenced(partition, &time).await?;
        Ok(Timestamp::from_millis(1_000 * seconds + micros / 1_000))
    }

    /// Number of partitions over which a new campaign is spread, by this node's configuration.
    pub(crate) fn parts_for(&self, campaign: &Campaign) -> u16 {
        let options = self.options();
        // The amounts of a lazy packet depend on each other, so they cannot be drawn in two partitions.
        let is_lazy = campaign.rules.red_packet().is_some() && !has_fixed_shares(campaign);
        match !is_lazy && campaign.supply() >= u64::from(options.shard_supply_min) {
            true => options.shards_max.min(options.partitions).max(1),
            false => 1,
        }
    }
}
