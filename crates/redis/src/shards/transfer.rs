//! Spread campaigns: an empty shard pulls units from another one.
//!
//! A transfer has three steps; each is one script and idempotent. The units leave the giver's stock and enter its
//! journal. They are added to the taker's stock, which records the transfer's number. They leave the journal. Any node
//! that finds a pending transfer completes it, so a node that dies in between loses no units. Between two shards there
//! is one transfer at a time.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures_util::future::join_all;

use crate::{
    connection::{Arguments, Script, ScriptReply, unavailable},
    partitions::Partitions,
    protocol::{
        campaign_meta::CachedCampaign,
        scripts::{TRANSFER_END, TRANSFER_IN, TRANSFER_OUT},
    },
    shards::tally::no_numbers,
};
use parking_lot::Mutex;
use qiang_core::{
    campaign::{AckLevel, CampaignKind, STOCK_MAX},
    event::PartitionId,
    fair_share::{FairShares, OwnerDigest},
    id::CampaignId,
    ports::EngineError,
    time::Timestamp,
};

/// Maximum shares of a transfer, because a script's number of arguments is limited. Units of a sale need none.
const SHARES_MAX: u64 = 2_000;
/// Maximum reads of all shards by one pull while units move between them.
const LOOKS_MAX: usize = 50;
/// Maximum claims that wait for pulls of all shards. Those of one owner have at most half, and those of one shard a
/// quarter. Further ones are refused as overload.
const WAITING_MAX: usize = 65_536;
/// The phase, in Redis, of a shard that is neither paused nor closed.
const UNDER_WAY: &str = "s";

/// A transfer in a journal: its number, the units, the shares.
type Transfer = Vec<String>;

/// Stock of a shard, read without a script.
#[derive(PartialEq, Eq)]
struct ShardStock {
    partition: PartitionId,
    remaining: u64,
    phase: String,
    ends_at: Timestamp,
    /// Claims change the units and the number of grants, transfers the version.
    stamp: [String; 3],
}

impl ShardStock {
    fn read(partition: PartitionId, fields: [Option<String>; 6]) -> Option<Self> {
        let [remaining, phase, granted, grants, version, ends] = fields;
        Some(Self {
            partition,
            remaining: remaining?.parse().ok()?,
            phase: phase?,
            ends_at: Timestamp::from_millis(ends?.parse().ok()?),
            stamp: [granted?, grants?, version?],
        })
    }
}

/// Result of a pull.
pub(crate) enum PullResult {
    /// The shard has units, or there is another reason to decide the claims again.
    Some,
    /// Remaining units of all shards together, fewer than a claim requests.
    Dry { remaining: u64 },
}

/// Running pulls on this node: one per shard at a time. A limited number of further claims of the shard waits for it.
pub(crate) struct PullQueue {
    partitions: Arc<Partitions>,
    waiting: Mutex<TransferWait>,
}

struct TransferWait {
    claims: FairShares<Shard>,
    parts: HashMap<Shard, WaitingShard>,
}

/// A campaign, and the partition of its shard.
type Shard = (CampaignId, PartitionId);

#[derive(Default)]
struct WaitingShard {
    claims: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl PullQueue {
    pub(crate) fn new(partitions: Arc<Partitions>) -> Self {
        Self {
            partitions,
            waiting: Mutex::new(TransferWait::new(WAITING_MAX)),
        }
    }

    /// Moves about `wanted` units to the taker's shard, at least `min`, from any other shard, for `claims` claims.
    ///
    /// # Errors
    /// [`EngineError::Overloaded`] at once if too many claims wait for pulls already.
    pub(crate) async fn pull(
        &self,
        meta: &CachedCampaign,
        taker: PartitionId,
        (wanted, min): (u64, u64),
        claims: usize,
    ) -> Result<PullResult, EngineError> {
        let key = (meta.id, taker);
        let turn = self.waiting.lock().enter(key, meta.owner, claims);
        let turn = turn.ok_or(EngineError::Overloaded)?;
        let guard = turn.lock().await;
        let pulled = self.partitions.pull(meta, taker, wanted, min).await;
        drop(guard);
        self.waiting.lock().leave(key, claims);
        pulled
    }
}

impl TransferWait {
    fn new(claims_max: usize) -> Self {
        Self {
            claims: FairShares::new(claims_max),
            parts: HashMap::new(),
        }
    }

    fn enter(
        &mut self,
        key: Shard,
        owner: OwnerDigest,
        claims: usize,
    ) -> Option<Arc<tokio::sync::Mutex<()>>> {
        if !self.claims.enter(key, Some(owner), claims) {
            return None;
        }
        let part = self.parts.entry(key).or_default();
        part.claims += claims;
        Some(Arc::clone(&part.turn))
    }

    fn leave(&mut self, key: Shard, claims: usize) {
        self.claims.leave(&key, claims);
        if let Entry::Occupied(mut part) = self.parts.entry(key) {
            part.get_mut().claims -= claims;
            if part.get().claims == 0 {
                part.remove();
            }
        }
    }
}

impl Partitions {
    async fn pull(
        &self,
        meta: &CachedCampaign,
        taker: PartitionId,
        wanted: u64,
        min: u64,
    ) -> Result<PullResult, EngineError> {
        for _ in 0..LOOKS_MAX {
            let serving: Vec<_> = self
                .for_campaign(meta)
                .filter(|id| self.is_serving(*id))
                .collect();
            if !serving.contains(&taker) {
                self.stocks(meta, &[taker]).await?;
                continue;
            }
            let before = self.stocks(meta, &serving).await?;
            let ready = |part: &ShardStock| {
                let is_over = || self.clock(part.partition).now() >= part.ends_at;
                part.remaining >= min || part.phase != UNDER_WAY || is_over()
            };
            let (own, others): (Vec<_>, Vec<_>) =
                before.iter().partition(|part| part.partition == taker);
            if own.into_iter().any(ready) {
                return Ok(PullResult::Some);
            }
            // Pending transfers come first, because one may be for this shard.
            if self.finish_transfers(meta).await? {
                continue;
            }
            // The first of the shards with the most units.
            let giver = others.into_iter().rev().max_by_key(|part| part.remaining);
            if let Some(giver) = giver.filter(|part| part.remaining > 0)
                && let Some(transfer) = self
                    .begin_transfer(meta, giver.partition, taker, wanted.max(1))
                    .await?
            {
                self.finish_transfer(meta, giver.partition, taker, transfer)
                    .await?;
                continue;
            }
            if serving.len() < usize::from(meta.parts) {
                // Before "sold out", the units of the other shards must be known.
                let all: Vec<_> = self.for_campaign(meta).collect();
                self.stocks(meta, &all).await?;
                continue;
            }
            // All shards seem to be empty. If nothing has moved between two reads, they were all empty at one moment.
            let after = self.stocks(meta, &serving).await?;
            let remaining = after.iter().map(|part| part.remaining).sum();
            if before == after && remaining < min {
                return Ok(PullResult::Dry { remaining });
            }
        }
        Err(moving())
    }

    /// Moves units of a sale to one shard until it has `min`, from any shard, even if no units are granted now. Returns
    /// the remaining units if all shards together have fewer.
    ///
    /// # Errors
    /// If a shard does not answer, or units keep moving.
    pub(crate) async fn gather(
        &self,
        meta: &CachedCampaign,
        taker: PartitionId,
        min: u64,
    ) -> Result<Option<u64>, EngineError> {
        let all: Vec<_> = self.for_campaign(meta).collect();
        for _ in 0..LOOKS_MAX {
            let before = self.stocks(meta, &all).await?;
            let (own, others): (Vec<_>, Vec<_>) =
                before.iter().partition(|part| part.partition == taker);
            let here: u64 = own.iter().map(|part| part.remaining).sum();
            if here >= min {
                return Ok(None);
            }
            if self.finish_transfers(meta).await? {
                continue;
            }
            let giver = others.into_iter().max_by_key(|part| part.remaining);
            if let Some(giver) = giver.filter(|part| part.remaining > 0) {
                let (giver, wanted) = (giver.partition, min - here);
                if let Some(transfer) = self.begin_transfer(meta, giver, taker, wanted).await? {
                    self.finish_transfer(meta, giver, taker, transfer).await?;
                    continue;
                }
            }
            let remaining = before.iter().map(|part| part.remaining).sum();
            if before == self.stocks(meta, &all).await? && remaining < min {
                return Ok(Some(remaining));
            }
        }
        Err(moving())
    }

    /// Completes the pending transfers of a campaign's shards; returns whether there were any. Transfers of a partition
    /// that is not serving are left for later.
    pub(crate) async fn finish_transfers(
        &self,
        meta: &CachedCampaign,
    ) -> Result<bool, EngineError> {
        let mut any = false;
        for partition in self.for_campaign(meta).filter(|id| self.is_serving(*id)) {
            any |= self.finish_transfers_from(meta, partition).await?;
        }
        Ok(any)
    }

    /// Completes the pending transfers of one shard; returns whether there were any.
    pub(crate) async fn finish_transfers_from(
        &self,
        meta: &CachedCampaign,
        giver: PartitionId,
    ) -> Result<bool, EngineError> {
        let key = self.keys().transfers(giver, meta.id);
        let takers: Vec<u16> = self.query(giver, redis::cmd("HKEYS").arg(key)).await?;
        let takers = takers.into_iter().map(PartitionId);
        let mut any = false;
        for taker in takers.filter(|id| self.is_serving(*id)) {
            any = true;
            if let Some(transfer) = self.begin_transfer(meta, giver, taker, 0).await? {
                self.finish_transfer(meta, giver, taker, transfer).await?;
            }
        }
        Ok(any)
    }

    /// Whether all shards are empty, and no units are moving.
    pub(crate) async fn is_dry(&self, meta: &CachedCampaign) -> Result<bool, EngineError> {
        for partition in self.for_campaign(meta) {
            let key = self.keys().transfers(partition, meta.id);
            let transfers: u32 = self.query(partition, redis::cmd("HLEN").arg(key)).await?;
            if transfers > 0 {
                return Ok(false);
            }
        }
        let all: Vec<_> = self.for_campaign(meta).collect();
        let parts = self.stocks(meta, &all).await?;
        Ok(parts.iter().all(|part| part.remaining == 0))
    }

    /// Stocks of the shards in these partitions.
    async fn stocks(
        &self,
        meta: &CachedCampaign,
        partitions: &[PartitionId],
    ) -> Result<Vec<ShardStock>, EngineError> {
        let stocks = partitions
            .iter()
            .map(|partition| self.stock(meta, *partition));
        join_all(stocks).await.into_iter().collect()
    }

    async fn stock(
        &self,
        meta: &CachedCampaign,
        partition: PartitionId,
    ) -> Result<ShardStock, EngineError> {
        let names = ["remaining", "phase", "granted", "grants", "version", "ends"];
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.keys().campaign(partition, meta.id))
            .arg(&names);
        let fields = self.query(partition, &command).await?;
        ShardStock::read(partition, fields).ok_or_else(|| no_numbers(meta, partition))
    }

    /// First step. With `wanted` 0 it only finds a transfer that is in the journal already.
    async fn begin_transfer(
        &self,
        meta: &CachedCampaign,
        giver: PartitionId,
        taker: PartitionId,
        wanted: u64,
    ) -> Result<Option<Transfer>, EngineError> {
        let units_max = match meta.kind {
            _ if wanted == 0 => 0,
            CampaignKind::RedPacket => SHARES_MAX,
            CampaignKind::Sale => STOCK_MAX,
        };
        let reply = self
            .step(meta, giver, &TRANSFER_OUT, &|command| {
                command
                    .arg(taker.0)
                    .arg(wanted.min(units_max))
                    .arg(units_max)
            })
            .await?;
        let lines = || reply.text().split('\n').map(str::to_owned).collect();
        Ok(reply.is_ok().then(lines))
    }

    /// Second and third step.
    async fn finish_transfer(
        &self,
        meta: &CachedCampaign,
        giver: PartitionId,
        taker: PartitionId,
        transfer: Transfer,
    ) -> Result<(), EngineError> {
        let reply = self
            .step(meta, taker, &TRANSFER_IN, &|command| {
                command.arg(giver.0).arg(&transfer)
            })
            .await?;
        let end = match reply.status.as_str() {
            "ok" => "arrived",
            "closed" => "back",
            status => return Err(unavailable(format!("a transfer got the reply {status}"))),
        };
        // The next call goes to another partition, and may take long.
        drop(reply);
        let asks = Some(AckLevel::Memory);
        self.call(giver, &TRANSFER_END, meta.id, asks, &|command| {
            command.arg(taker.0).arg(&transfer[0]).arg(end)
        })
        .await?;
        Ok(())
    }

    /// Performs a step that the next one relies on, at any level that the campaign requests: if there are replicas,
    /// they have it before the next step. Otherwise a failover that loses the first step would duplicate the units, and
    /// one that loses the second would lose them.
    async fn step(
        &self,
        meta: &CachedCampaign,
        partition: PartitionId,
        script: &'static Script,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let asks = match self.options().replicas {
            0 => AckLevel::Memory,
            _ => AckLevel::Replica,
        };
        let reply = self
            .call(partition, script, meta.id, Some(asks), arguments)
            .await?;
        if reply.is_ok() && reply.reached < asks {
            let reason = "the replicas do not confirm a transfer of units between partitions";
            return Err(unavailable(reason));
        }
        Ok(reply)
    }
}

pub(crate) fn moving() -> EngineError {
    unavailable("units are moving between partitions; retry")
}

#[cfg(test)]
mod tests {
    use qiang_testkit::campaign::{id, user};

    use super::*;

    const BATCH: usize = 512;

    /// Enters batches of claims of a shard until one has no room. Returns the number of claims that entered.
    fn fill(waiting: &mut TransferWait, shard: Shard, owner: &str) -> usize {
        let owner = OwnerDigest::of(&user(owner));
        let batches = std::iter::repeat_with(|| waiting.enter(shard, owner, BATCH));
        BATCH * batches.take_while(Option::is_some).count()
    }

    /// However many shards and campaigns an owner has, the claims of another owner get a turn.
    #[test]
    fn one_owner_leaves_room_for_others() {
        let mut waiting = TransferWait::new(WAITING_MAX);
        let shard = |n, partition| (id(n), PartitionId(partition));
        assert_eq!(fill(&mut waiting, shard(1, 0), "a"), WAITING_MAX / 4);
        let more = (0..8).flat_map(|partition| [1, 2, 3].map(|n| shard(n, partition)));
        let more: usize = more.map(|shard| fill(&mut waiting, shard, "a")).sum();
        assert_eq!(more, WAITING_MAX / 4 - BATCH, "all but a batch");
        assert_eq!(fill(&mut waiting, shard(9, 0), "b"), WAITING_MAX / 8);
        waiting.leave(shard(1, 0), WAITING_MAX / 4);
        assert!(fill(&mut waiting, shard(1, 0), "a") > 0);
    }
}
