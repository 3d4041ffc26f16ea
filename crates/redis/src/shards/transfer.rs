//! Campaigns that are spread over several partitions: a part that has run dry pulls units from another.
//!
//! A transfer has three steps, each one script and each safe to repeat. The units leave the giver's stock and are
//! written in its journal; they are added to the taker's stock, which remembers the transfer's number; they leave the
//! journal. Whoever finds a transfer in a journal finishes it, so that a node that dies in between strands nothing.
//! Between two parts there is one transfer at a time.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use futures_util::future::join_all;

use crate::connection::{Arguments, Script, ScriptReply, unavailable};
use crate::{
    partitions::Partitions,
    protocol::{
        campaign_meta::CampaignMeta,
        scripts::{TRANSFER_END, TRANSFER_IN, TRANSFER_OUT},
    },
    shards::tally::no_numbers,
};
use parking_lot::Mutex;
use qiang_core::{
    campaign::{AckLevel, CampaignKind, STOCK_MAX},
    event::PartitionId,
    id::CampaignId,
    ports::EngineError,
    time::Timestamp,
};

/// Shares that a transfer moves at most: the number of a script's arguments is limited. Units of a sale need none.
const SHARES_MAX: u64 = 2_000;
/// How often a pull looks at all parts while units are moving between them.
const LOOKS_MAX: usize = 50;
/// Claims that wait for a pull of one part, at most; further ones are turned away as overload.
const WAITING_PART_MAX: usize = 16_384;
/// The same for all parts together.
const WAITING_MAX: usize = 65_536;
/// The phase, in Redis, of a part that is neither paused nor closed.
const UNDER_WAY: &str = "s";

/// A transfer as it is in a journal: its number, the units, the shares.
type Transfer = Vec<String>;

/// What a part has, read without a script.
#[derive(PartialEq, Eq)]
struct Stock {
    partition: PartitionId,
    remaining: u64,
    phase: String,
    ends_at: Timestamp,
    /// Claims change the units and the number of grants, transfers the version.
    stamp: [String; 3],
}

impl Stock {
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

/// What a pull came to.
pub(crate) enum Pulled {
    /// The part has units, or there is another reason to decide the claims again.
    Some,
    /// All parts together have this much, which is less than a claim asks for.
    Dry { remaining: u64 },
}

/// Pulls under way on this node: one a part at a time. Further claims of the part wait for it, so many and no more.
pub(crate) struct Pulls {
    partitions: Arc<Partitions>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    claims: usize,
    parts: HashMap<(CampaignId, PartitionId), WaitingPart>,
}

#[derive(Default)]
struct WaitingPart {
    claims: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Pulls {
    pub(crate) fn new(partitions: Arc<Partitions>) -> Self {
        Self {
            partitions,
            waiting: Mutex::default(),
        }
    }

    /// Moves about `wanted` units to the taker's part, and at least `min`, from wherever they are, for so many claims.
    ///
    /// # Errors
    /// [`EngineError::Overloaded`] at once where too many claims wait for pulls already.
    pub(crate) async fn pull(
        &self,
        meta: &CampaignMeta,
        taker: PartitionId,
        (wanted, min): (u64, u64),
        claims: usize,
    ) -> Result<Pulled, EngineError> {
        let key = (meta.id, taker);
        let turn = self.waiting.lock().enter(key, claims);
        let turn = turn.ok_or(EngineError::Overloaded)?;
        let guard = turn.lock().await;
        let pulled = self.partitions.pull(meta, taker, wanted, min).await;
        drop(guard);
        self.waiting.lock().leave(key, claims);
        pulled
    }
}

impl Waiting {
    fn enter(
        &mut self,
        key: (CampaignId, PartitionId),
        claims: usize,
    ) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let in_part = self.parts.get(&key).map_or(0, |part| part.claims);
        if in_part + claims > WAITING_PART_MAX || self.claims + claims > WAITING_MAX {
            return None;
        }
        self.claims += claims;
        let part = self.parts.entry(key).or_default();
        part.claims += claims;
        Some(Arc::clone(&part.turn))
    }

    fn leave(&mut self, key: (CampaignId, PartitionId), claims: usize) {
        self.claims -= claims;
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
        meta: &CampaignMeta,
        taker: PartitionId,
        wanted: u64,
        min: u64,
    ) -> Result<Pulled, EngineError> {
        for _ in 0..LOOKS_MAX {
            let serving: Vec<_> = self
                .of_campaign(meta)
                .filter(|id| self.is_serving(*id))
                .collect();
            if !serving.contains(&taker) {
                self.stocks(meta, &[taker]).await?;
                continue;
            }
            let before = self.stocks(meta, &serving).await?;
            let ready = |part: &Stock| {
                let is_over = || self.clock(part.partition).now() >= part.ends_at;
                part.remaining >= min || part.phase != UNDER_WAY || is_over()
            };
            let (own, others): (Vec<_>, Vec<_>) =
                before.iter().partition(|part| part.partition == taker);
            if own.into_iter().any(ready) {
                return Ok(Pulled::Some);
            }
            // What is in a journal comes first: it may be for this part.
            if self.finish_transfers(meta).await? {
                continue;
            }
            // Of those that have most, the first.
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
                // What the other parts have is to be known before it is said that there is none.
                let all: Vec<_> = self.of_campaign(meta).collect();
                self.stocks(meta, &all).await?;
                continue;
            }
            // No part seems to have any. If nothing has moved between two looks, there was a moment when that was so.
            let after = self.stocks(meta, &serving).await?;
            let remaining = after.iter().map(|part| part.remaining).sum();
            if before == after && remaining < min {
                return Ok(Pulled::Dry { remaining });
            }
        }
        Err(moving())
    }

    /// Moves units of a sale to one part until it has `min`, from wherever they are, whether or not units are granted
    /// at the moment. Tells how many nobody has, where all parts together have fewer.
    ///
    /// # Errors
    /// When a part does not answer, or units go on moving.
    pub(crate) async fn gather(
        &self,
        meta: &CampaignMeta,
        taker: PartitionId,
        min: u64,
    ) -> Result<Option<u64>, EngineError> {
        let all: Vec<_> = self.of_campaign(meta).collect();
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

    /// Finishes what is in the journals of a campaign's parts; tells whether there was anything. What cannot be
    /// finished because a partition does not decide anything is left for later.
    pub(crate) async fn finish_transfers(&self, meta: &CampaignMeta) -> Result<bool, EngineError> {
        let mut any = false;
        for partition in self.of_campaign(meta).filter(|id| self.is_serving(*id)) {
            any |= self.finish_transfers_from(meta, partition).await?;
        }
        Ok(any)
    }

    /// Finishes what is in one part's journal; tells whether there was anything.
    pub(crate) async fn finish_transfers_from(
        &self,
        meta: &CampaignMeta,
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

    /// Whether no part has anything, and no units are moving.
    pub(crate) async fn is_dry(&self, meta: &CampaignMeta) -> Result<bool, EngineError> {
        for partition in self.of_campaign(meta) {
            let key = self.keys().transfers(partition, meta.id);
            let transfers: u32 = self.query(partition, redis::cmd("HLEN").arg(key)).await?;
            if transfers > 0 {
                return Ok(false);
            }
        }
        let all: Vec<_> = self.of_campaign(meta).collect();
        let parts = self.stocks(meta, &all).await?;
        Ok(parts.iter().all(|part| part.remaining == 0))
    }

    /// What the parts in these partitions have.
    async fn stocks(
        &self,
        meta: &CampaignMeta,
        partitions: &[PartitionId],
    ) -> Result<Vec<Stock>, EngineError> {
        let stocks = partitions
            .iter()
            .map(|partition| self.stock(meta, *partition));
        join_all(stocks).await.into_iter().collect()
    }

    async fn stock(
        &self,
        meta: &CampaignMeta,
        partition: PartitionId,
    ) -> Result<Stock, EngineError> {
        let names = ["remaining", "phase", "granted", "grants", "version", "ends"];
        let mut command = redis::cmd("HMGET");
        command
            .arg(self.keys().campaign(partition, meta.id))
            .arg(&names);
        let fields = self.query(partition, &command).await?;
        Stock::read(partition, fields).ok_or_else(|| no_numbers(meta, partition))
    }

    /// First step. With nothing `wanted` it only finds a transfer that is in the journal already.
    async fn begin_transfer(
        &self,
        meta: &CampaignMeta,
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
        meta: &CampaignMeta,
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
            status => return Err(unavailable(format!("a transfer was answered {status}"))),
        };
        // The next call is another partition's, and may take long.
        drop(reply);
        let asks = Some(AckLevel::Memory);
        self.call(giver, &TRANSFER_END, meta.id, asks, &|command| {
            command.arg(taker.0).arg(&transfer[0]).arg(end)
        })
        .await?;
        Ok(())
    }

    /// A step that the next one relies on, whatever level the campaign asks for: where there are replicas, they have it
    /// before the next step is taken. Else a failover that loses the first step would leave the units in two places,
    /// and one that loses the second in none.
    async fn step(
        &self,
        meta: &CampaignMeta,
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
    unavailable("units are moving between partitions; ask again")
}
