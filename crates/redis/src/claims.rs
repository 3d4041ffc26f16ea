//! Deciding claims: one batch goes to Redis in one call, and each claim gets its answer.

use std::sync::Arc;

use qiang_connect::{Call, CallConnection, ScriptReply, memory_full, unreadable};
use qiang_core::{
    book::Refusal,
    campaign::{AckLevel, CampaignKind},
    event::PartitionId,
    outcome::Outcome,
    ports::{Claimed, EngineError},
};
use redis::Cmd;

use crate::{
    batcher::{Group, PendingClaim},
    gate::hints_inactive,
    meta::CampaignMeta,
    node::Node,
    reply::Claims,
    scripts::{CLAIM_PACKET, CLAIM_SALE},
    transfer::Pulled,
};

/// Calls under way at a time for one partition: while one is decided, claims gather for the next.
pub(crate) const CALLS_MAX: usize = 2;

/// Decides a partition's claims, one batch after the other, until its batcher is closed and empty. `place` tells the
/// partition's connections apart.
pub(crate) async fn serve(node: Arc<Node>, partition: PartitionId, place: usize) {
    let mut connection = node.partitions.connection(partition, &place.to_string());
    while let Some((group, batch)) = node.next_batch(partition).await {
        decide(&node, &mut connection, partition, group, batch).await;
    }
}

pub(crate) async fn decide(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    partition: PartitionId,
    (campaign, kind): Group,
    batch: Vec<PendingClaim>,
) {
    let meta = match node.partitions.meta(campaign).await {
        Ok(Some(meta)) if meta.kind == kind => meta,
        Ok(None) => return node.recall_for(campaign, batch, answer_unknown),
        Ok(Some(_)) => return answer_unknown(batch),
        Err(error) => return answer_all(batch, Err(error)),
    };
    let (mut here, mut elsewhere) = (batch, Vec::new());
    if meta.parts > 1 {
        let ours = |pending: &PendingClaim| {
            node.partitions.of_user(&meta, &pending.claim.user) == partition
        };
        (here, elsewhere) = here.into_iter().partition(ours);
    }
    for pending in elsewhere {
        // It was queued here before it was known that the campaign is spread.
        node.resubmit(pending);
    }
    let (here, empty): (Vec<_>, Vec<_>) = here
        .into_iter()
        .partition(|pending| pending.claim.quantity > 0);
    answer_all(empty, Err(Refusal::NothingAsked.into()));
    let here = node.admit(&meta, here);
    if here.is_empty() {
        return;
    }
    node.rooms.sent(here.len());
    let plain = here
        .iter()
        .all(|pending| pending.claim.quantity == 1 && pending.claim.key.is_none());
    let call = Call {
        script: match kind {
            CampaignKind::RedPacket => &CLAIM_PACKET,
            CampaignKind::Sale => &CLAIM_SALE,
        },
        campaign,
        more_keys: &[],
        arguments: &|command| write(command, &here, plain),
        asks: Some(meta.ack),
    };
    match connection.call(&call).await {
        Ok(reply) if reply.is_ok() => answer(node, &meta, partition, reply, here),
        Ok(_) => node.recall_for(campaign, here, answer_unknown),
        Err(error @ EngineError::Unavailable { .. }) if memory_full(&error).is_some() => {
            answer_all(here, Err(EngineError::Overloaded));
        }
        Err(error) => answer_all(here, Err(error)),
    }
}

fn write<'a>(command: &'a mut Cmd, batch: &[PendingClaim], plain: bool) -> &'a mut Cmd {
    command.arg(if plain { "1" } else { "3" });
    for PendingClaim { claim, .. } in batch {
        command.arg(claim.user.as_str());
        if !plain {
            let key = claim.key.as_ref().map_or("", |key| key.as_str());
            command.arg(claim.quantity).arg(key);
        }
    }
    command
}

fn answer(
    node: &Arc<Node>,
    meta: &Arc<CampaignMeta>,
    partition: PartitionId,
    reply: ScriptReply,
    batch: Vec<PendingClaim>,
) {
    let text = std::str::from_utf8(&reply.text).ok();
    let Some(mut claims) = text.and_then(Claims::parse) else {
        return answer_all(batch, Err(unreadable()));
    };
    node.partitions.clock.observe(claims.now);
    let (level, mut grants) = (reply.level(meta.ack), 0);
    let known = || node.partitions.get(partition).min_head();
    let seq = reply.head.unwrap_or_else(known);
    let mut short = Vec::new();
    let mut inactive = false;
    let (mut users, mut granted, mut is_new) = (Vec::with_capacity(batch.len()), false, false);
    for pending in batch {
        let decided = claims.next(meta);
        let outcome = match decided.unwrap_or_else(|| Err(unreadable())) {
            Ok(outcome) => outcome,
            Err(error) => {
                pending.answer.send(Err(error));
                users.push(pending.claim.user);
                continue;
            }
        };
        if meta.parts > 1 && matches!(outcome, Outcome::SoldOut { .. }) {
            users.push(pending.claim.user.clone());
            short.push(pending);
            continue;
        }
        inactive |= hints_inactive(&outcome);
        let ack = match outcome {
            Outcome::Granted(_) | Outcome::AlreadyGranted(_) => level.clone(),
            _ => Ok(AckLevel::Memory),
        };
        granted |= outcome.grant().is_some();
        grants += u32::from(matches!(outcome, Outcome::Granted(_)));
        if matches!(outcome, Outcome::Granted(_)) && !is_new {
            // Before anybody is told.
            is_new = true;
            node.gate.invalidate(meta.id);
        }
        if let Outcome::Granted(grant) = &outcome
            && meta.ack == AckLevel::Ledger
        {
            node.unconfirmed.remember(grant, (partition, seq));
        }
        pending.answer.send(ack.map(|ack| Claimed { outcome, ack }));
        users.push(pending.claim.user);
    }
    let left = claims.left;
    node.rooms.granted(meta.id, grants, left);
    if granted {
        node.kept(partition).keep(meta, seq, reply.text, users);
    }
    if !short.is_empty() {
        tokio::spawn(pull(Arc::clone(node), Arc::clone(meta), partition, short));
    }
    if inactive || left == 0 && meta.parts == 1 && level.is_ok() {
        node.gate.refresh(meta);
    }
}

/// For claims that this part cannot serve: pulls units from other parts and queues the claims again, or answers that
/// there are none anywhere.
async fn pull(
    node: Arc<Node>,
    meta: Arc<CampaignMeta>,
    partition: PartitionId,
    mut short: Vec<PendingClaim>,
) {
    short.retain(|pending| !pending.answer.is_abandoned());
    if short.is_empty() {
        return;
    }
    let quantities = || {
        short
            .iter()
            .map(|pending| u64::from(pending.claim.quantity))
    };
    let wanted = quantities().sum();
    let min = quantities().min().unwrap_or(1);
    let pulled = node
        .pulls
        .pull(&meta, partition, (wanted, min), short.len());
    match pulled.await {
        Ok(Pulled::Some) => {
            for pending in short {
                node.resubmit(pending);
            }
        }
        Ok(Pulled::Dry { remaining }) => {
            answer_all(short, Ok(Outcome::SoldOut { remaining }));
            node.gate.refresh(&meta);
        }
        Err(error) => answer_all(short, Err(error)),
    }
}

fn answer_unknown(batch: Vec<PendingClaim>) {
    answer_all(batch, Ok(Outcome::UnknownCampaign));
}

/// Gives all claims the same answer, which is not a grant.
fn answer_all(batch: Vec<PendingClaim>, answer: Result<Outcome, EngineError>) {
    let ack = AckLevel::Memory;
    let answer = answer.map(|outcome| Claimed { outcome, ack });
    for pending in batch {
        pending.answer.send(answer.clone());
    }
}
