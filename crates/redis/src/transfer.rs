//! Campaigns that are spread over several partitions: a part that has run dry pulls units from another.
//!
//! A transfer has three steps, each one script and each safe to repeat. The units leave the giver's stock and are
//! written in its journal; they are added to the taker's stock, which remembers the transfer's number; they leave the
//! journal. Whoever finds a transfer in a journal finishes it, so that a node that dies in between strands nothing.
//! Between two parts there is one transfer at a time.

use std::{collections::HashMap, sync::Arc};

use crate::{
    call_connection::Arguments,
    error::unavailable,
    meta::CampaignMeta,
    partitions::Partitions,
    reply::ScriptReply,
    scripts::{Script, TRANSFER_END, TRANSFER_IN, TRANSFER_OUT},
    tally::no_numbers,
};
use parking_lot::Mutex;
use qiang_core::{campaign::AckLevel, event::PartitionId, id::CampaignId, ports::EngineError};

/// Units that a transfer moves at most: the number of a script's arguments is limited.
const UNITS_MAX: u32 = 2_000;
/// How often a pull looks at all parts while units are moving between them.
const LOOKS_MAX: usize = 50;
/// The phase, in Redis, of a part that is neither paused nor closed.
const UNDER_WAY: &str = "s";

/// A transfer as it is in a journal: its number, the units, the shares.
type Transfer = Vec<String>;

/// What a part has, read without a script.
#[derive(PartialEq, Eq)]
struct Stock {
    partition: PartitionId,
    remaining: u32,
    phase: String,
    /// Claims change the units and the number of grants, transfers the version.
    stamp: [String; 3],
}

impl Stock {
    fn read(partition: PartitionId, fields: [Option<String>; 5]) -> Option<Self> {
        let [remaining, phase, granted, grants, version] = fields;
        Some(Self {
            partition,
            remaining: remaining?.parse().ok()?,
            phase: phase?,
            stamp: [granted?, grants?, version?],
        })
    }
}

/// What a pull came to.
pub(crate) enum Pulled {
    /// The part has units, or there is another reason to decide the claims again.
    Some,
    /// All parts together have this much, which is less than a claim asks for.
    Dry { remaining: u32 },
}

type Lock = Arc<tokio::sync::Mutex<()>>;

/// Pulls under way on this node: one a part at a time.
pub(crate) struct Pulls {
    partitions: Arc<Partitions>,
    locks: Mutex<HashMap<(CampaignId, PartitionId), Lock>>,
}

impl Pulls {
    pub(crate) fn new(partitions: Arc<Partitions>) -> Self {
        Self {
            partitions,
            locks: Mutex::default(),
        }
    }

    /// Moves about `wanted` units to the taker's part, and at least `min`, from wherever they are.
    pub(crate) async fn pull(
        &self,
        meta: &CampaignMeta,
        taker: PartitionId,
        wanted: u32,
        min: u32,
    ) -> Result<Pulled, EngineError> {
        let key = (meta.id, taker);
        let lock = Arc::clone(self.locks.lock().entry(key).or_default());
        let guard = lock.lock().await;
        let pulled = self.partitions.pull(meta, taker, wanted, min).await;
        drop(guard);
        let mut locks = self.locks.lock();
        drop(lock);
        let unused = |lock: &Lock| Arc::strong_count(lock) == 1;
        if locks.get(&key).is_some_and(unused) {
            locks.remove(&key);
        }
        pulled
    }
}

impl Partitions {
    async fn pull(
        &self,
        meta: &CampaignMeta,
        taker: PartitionId,
        wanted: u32,
        min: u32,
    ) -> Result<Pulled, EngineError> {
        for _ in 0..LOOKS_MAX {
            let before = self.stocks(meta).await?;
            let over = self.clock.now() >= meta.window.ends_at();
            let ready = |part: &Stock| part.remaining >= min || part.phase != UNDER_WAY || over;
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
            // No part seems to have any. If nothing has moved between two looks, there was a moment when that was so.
            let after = self.stocks(meta).await?;
            let remaining = after.iter().map(|part| part.remaining).sum();
            if before == after && remaining < min {
                return Ok(Pulled::Dry { remaining });
            }
        }
        Err(moving())
    }

    /// Finishes what is in the journals of a campaign's parts; tells whether there was anything.
    pub(crate) async fn finish_transfers(&self, meta: &CampaignMeta) -> Result<bool, EngineError> {
        let mut any = false;
        for partition in self.of_campaign(meta) {
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
        for taker in takers.iter().copied().map(PartitionId) {
            if let Some(transfer) = self.begin_transfer(meta, giver, taker, 0).await? {
                self.finish_transfer(meta, giver, taker, transfer).await?;
            }
        }
        Ok(!takers.is_empty())
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
        let parts = self.stocks(meta).await?;
        Ok(parts.iter().all(|part| part.remaining == 0))
    }

    async fn stocks(&self, meta: &CampaignMeta) -> Result<Vec<Stock>, EngineError> {
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for partition in self.of_campaign(meta) {
            let names = ["remaining", "phase", "granted", "grants", "version"];
            let mut command = redis::cmd("HMGET");
            command
                .arg(self.keys().campaign(partition, meta.id))
                .arg(&names);
            let fields = self.query(partition, &command).await?;
            let stock = Stock::read(partition, fields);
            parts.push(stock.ok_or_else(|| no_numbers(meta, partition))?);
        }
        Ok(parts)
    }

    /// First step. With nothing `wanted` it only finds a transfer that is in the journal already.
    async fn begin_transfer(
        &self,
        meta: &CampaignMeta,
        giver: PartitionId,
        taker: PartitionId,
        wanted: u32,
    ) -> Result<Option<Transfer>, EngineError> {
        let units_max = if wanted == 0 { 0 } else { UNITS_MAX };
        let wanted = wanted.min(UNITS_MAX);
        let reply = self
            .step(meta, giver, &TRANSFER_OUT, &|command| {
                command.arg(taker.0).arg(wanted).arg(units_max)
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
        self.call(giver, &TRANSFER_END, meta.id, false, &|command| {
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
        let wait = self.options().replicas > 0;
        let reply = self
            .call(partition, script, meta.id, wait, arguments)
            .await?;
        if wait && reply.is_ok() && reply.reached < AckLevel::Replica {
            let reason = "the replicas do not confirm a transfer of units between partitions";
            return Err(unavailable(reason));
        }
        Ok(reply)
    }
}

pub(crate) fn moving() -> EngineError {
    unavailable("units are moving between partitions; ask again")
}
