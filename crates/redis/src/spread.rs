//! Campaigns that are spread over several partitions: a part that has run dry fetches units from another.
//!
//! A transfer has three steps, each one script and each safe to repeat. The units leave the giver's stock and stand in
//! its journal; they arrive at the taker, which remembers the transfer's number; they leave the journal. Whoever finds
//! a transfer in a journal finishes it, so that a node that dies in between strands nothing. Between two parts one
//! transfer stands at a time.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    id::CampaignId,
    outcome::Outcome,
    ports::{Claimed, EngineError},
};
use redis::Cmd;

use crate::{
    batcher::PendingClaim,
    call_connection::ScriptReply,
    claims::fail,
    error::CallError,
    meta::CampaignMeta,
    node::Node,
    scripts::{Script, TRANSFER_END, TRANSFER_IN, TRANSFER_OUT},
};

/// Units that a transfer moves at most: a script's arguments have an end.
const UNITS_MAX: u32 = 2_000;
/// Looks at all parts before it is given up to tell whether all of them are dry.
const LOOKS_MAX: usize = 50;

/// Fetches under way on this node: one a part at a time.
pub(crate) type Pulls = Mutex<HashMap<(CampaignId, PartitionId), Arc<tokio::sync::Mutex<()>>>>;

/// A transfer as it stands in a journal.
struct Transfer {
    number: String,
    units: String,
    shares: Vec<String>,
}

impl Transfer {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split('\n').map(str::to_owned);
        Some(Self {
            number: lines.next()?,
            units: lines.next()?,
            shares: lines.collect(),
        })
    }
}

/// For claims that this part could not serve: fetches units and puts them in line again, or answers that there are
/// none anywhere.
pub(crate) fn fetch(
    node: Arc<Node>,
    meta: Arc<CampaignMeta>,
    partition: PartitionId,
    dry: Vec<(PendingClaim, u32)>,
) {
    tokio::spawn(async move {
        let wanted: u32 = dry
            .iter()
            .map(|(asked, _)| asked.claim.quantity)
            .fold(0, u32::saturating_add);
        let least = dry.iter().map(|(asked, _)| asked.claim.quantity).min();
        match pull(&node, &meta, partition, wanted, least.unwrap_or(1)).await {
            Ok(Pulled::Some) => {
                for (asked, _) in dry {
                    node.enqueue(asked);
                }
            }
            Ok(Pulled::Dry { remaining }) => {
                for (asked, _) in dry {
                    let outcome = Outcome::SoldOut { remaining };
                    let ack = AckLevel::Memory;
                    asked.answer.send(Ok(Claimed { outcome, ack }));
                }
                Node::refresh(&node, &meta);
            }
            Err(error) => fail(dry.into_iter().map(|(asked, _)| asked).collect(), &error),
        }
        node.turns.fetch_add(1, Ordering::Relaxed);
    });
}

/// What a part has, read without a script: whether to look closer. Transfers change the version, claims the grants.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stock {
    remaining: u32,
    granted: u32,
    grants: u32,
    version: u64,
    phase: String,
}

/// The phase of a part that is neither paused nor closed.
const UNDER_WAY: &str = "s";

pub(crate) enum Pulled {
    /// Units have come, or were there; or there is another reason to ask again.
    Some,
    /// All parts together have this much, which is less than what is asked for.
    Dry { remaining: u32 },
}

/// Fetches about `wanted` units, and at least enough for one claim of `least`, from wherever they are.
pub(crate) async fn pull(
    node: &Arc<Node>,
    meta: &CampaignMeta,
    taker: PartitionId,
    wanted: u32,
    least: u32,
) -> Result<Pulled, EngineError> {
    let turn = {
        let mut pulls = node.pulls.lock();
        Arc::clone(pulls.entry((meta.id, taker)).or_default())
    };
    let _turn = turn.lock().await;
    for _ in 0..LOOKS_MAX {
        let before = node.stocks(meta).await?;
        let here = own(node, meta, taker, &before);
        let over = node.now() >= meta.window.ends_at();
        let ready = |part: &Stock| part.remaining >= least || part.phase != UNDER_WAY || over;
        if here.is_some_and(ready) {
            return Ok(Pulled::Some);
        }
        let mut giver = None;
        for part in 0..meta.parts {
            let partition = node.of_part(meta.id, part);
            let remaining = before[usize::from(part)].remaining;
            if partition != taker && remaining > giver.map_or(0, |(_, most)| most) {
                giver = Some((partition, remaining));
            }
        }
        // What stands in a journal comes first: it may be for this part.
        if finish_all(node, meta).await? {
            continue;
        }
        if let Some((giver, _)) = giver
            && let Some(transfer) = out(node, meta, giver, taker, wanted.max(1)).await?
        {
            carry(node, meta, giver, taker, transfer).await?;
            continue;
        }
        // Nothing anywhere, it seems. If nothing has moved between two looks, there was a moment when that was so.
        let after = node.stocks(meta).await?;
        let still = before == after;
        let remaining = after.iter().map(|part| part.remaining).sum();
        if still && remaining < least {
            return Ok(Pulled::Dry { remaining });
        }
    }
    Err(EngineError::Unavailable {
        reason: "units are moving between partitions; ask again".to_owned(),
    })
}

fn own<'a>(
    node: &Node,
    meta: &CampaignMeta,
    taker: PartitionId,
    parts: &'a [Stock],
) -> Option<&'a Stock> {
    let place = (0..meta.parts).find(|part| node.of_part(meta.id, *part) == taker)?;
    parts.get(usize::from(place))
}

/// First step. With nothing `wanted` it only tells of a transfer that stands in the journal already.
async fn out(
    node: &Node,
    meta: &CampaignMeta,
    giver: PartitionId,
    taker: PartitionId,
    wanted: u32,
) -> Result<Option<Transfer>, EngineError> {
    let most = if wanted == 0 { 0 } else { UNITS_MAX };
    let arguments = |command: &mut Cmd| {
        command.arg(taker.0).arg(wanted.min(UNITS_MAX)).arg(most);
    };
    let reply = step(node, meta, giver, &TRANSFER_OUT, &arguments).await?;
    Ok(reply
        .is_ok()
        .then(|| Transfer::parse(&reply.text()))
        .flatten())
}

/// Second and third step.
async fn carry(
    node: &Node,
    meta: &CampaignMeta,
    giver: PartitionId,
    taker: PartitionId,
    transfer: Transfer,
) -> Result<(), EngineError> {
    let arrive = |command: &mut Cmd| {
        command
            .arg(giver.0)
            .arg(&transfer.number)
            .arg(&transfer.units);
        for share in &transfer.shares {
            command.arg(share);
        }
    };
    let reply = step(node, meta, taker, &TRANSFER_IN, &arrive).await?;
    let end = match reply.status.as_str() {
        "ok" => "arrived",
        "closed" => "back",
        status => {
            return Err(CallError::Unavailable(format!("a transfer was answered {status}")).into());
        }
    };
    let leave = |command: &mut Cmd| {
        command.arg(taker.0).arg(&transfer.number).arg(end);
    };
    node.call(giver, &TRANSFER_END, meta.id, false, &leave)
        .await?;
    Ok(())
}

/// A step that the next one relies on, whatever the campaign asks for its grants: where there are replicas, they have
/// it before the next step is taken. Else a failover that loses the first step would leave the units in two places,
/// and one that loses the second in none.
async fn step(
    node: &Node,
    meta: &CampaignMeta,
    partition: PartitionId,
    script: &'static Script,
    arguments: &(dyn Fn(&mut Cmd) + Send + Sync),
) -> Result<ScriptReply, EngineError> {
    let wait = node.context.options.replicas > 0;
    let reply = node
        .call(partition, script, meta.id, wait, arguments)
        .await?;
    if wait && reply.is_ok() && reply.reached < AckLevel::Replica {
        return Err(EngineError::Unavailable {
            reason: "units are on their way between partitions, and the replicas do not confirm it"
                .to_owned(),
        });
    }
    Ok(reply)
}

/// Finishes what stands in the journals of a campaign's parts; tells whether there was anything.
pub(crate) async fn finish_all(node: &Node, meta: &CampaignMeta) -> Result<bool, EngineError> {
    let mut any = false;
    for part in 0..meta.parts {
        any |= finish(node, meta, node.of_part(meta.id, part)).await?;
    }
    Ok(any)
}

/// Finishes what stands in one part's journal.
pub(crate) async fn finish(
    node: &Node,
    meta: &CampaignMeta,
    giver: PartitionId,
) -> Result<bool, EngineError> {
    let command = redis::cmd("HKEYS")
        .arg(node.context.keys.transfers(giver, meta.id))
        .clone();
    let takers: Vec<u16> = node.read(giver, &command).await?;
    for taker in takers.iter().copied().map(PartitionId) {
        if let Some(transfer) = out(node, meta, giver, taker, 0).await? {
            carry(node, meta, giver, taker, transfer).await?;
        }
    }
    Ok(!takers.is_empty())
}

impl Node {
    /// Whether no part has anything, and nothing is on its way.
    pub(crate) async fn is_dry(&self, meta: &CampaignMeta) -> Result<bool, EngineError> {
        for part in 0..meta.parts {
            let partition = self.of_part(meta.id, part);
            let key = self.context.keys.transfers(partition, meta.id);
            let command = redis::cmd("HLEN").arg(key).clone();
            let standing: u32 = self.read(partition, &command).await?;
            if standing > 0 {
                return Ok(false);
            }
        }
        let parts = self.stocks(meta).await?;
        Ok(parts.iter().all(|part| part.remaining == 0))
    }

    async fn stocks(&self, meta: &CampaignMeta) -> Result<Vec<Stock>, EngineError> {
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for part in 0..meta.parts {
            let partition = self.of_part(meta.id, part);
            let mut command = redis::cmd("HMGET");
            command
                .arg(self.context.keys.campaign(partition, meta.id))
                .arg(&["remaining", "granted", "grants", "version", "phase"]);
            let fields: [Option<String>; 5] = self.read(partition, &command).await?;
            let stock = stock_of(&fields);
            parts.push(stock.ok_or_else(|| EngineError::Unavailable {
                reason: format!("part {part} of campaign {} has no numbers", meta.id),
            })?);
        }
        Ok(parts)
    }
}

fn stock_of(fields: &[Option<String>; 5]) -> Option<Stock> {
    let [remaining, granted, grants, version, phase] = fields;
    Some(Stock {
        remaining: remaining.as_ref()?.parse().ok()?,
        granted: granted.as_ref()?.parse().ok()?,
        grants: grants.as_ref()?.parse().ok()?,
        version: version.as_ref()?.parse().ok()?,
        phase: phase.clone()?,
    })
}
