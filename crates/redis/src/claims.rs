//! Deciding claims: what a connection takes from its batcher goes to Redis in one call, and each claim gets its answer.

use std::sync::{Arc, atomic::Ordering};

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
    call_connection::{Call, CallConnection, ScriptReply},
    meta::CampaignMeta,
    node::Node,
    reply::Claims,
    scripts::{CLAIM_PACKET, CLAIM_SALE},
};

/// Calls under way at a time for one partition: while one is decided, the next is gathered.
pub(crate) const CALLS_MAX: usize = 2;

/// Serves a partition's batcher until it is closed and empty.
pub(crate) async fn serve(node: Arc<Node>, partition: PartitionId, place: usize) {
    let mut connection =
        CallConnection::new(Arc::clone(&node.context), partition, &place.to_string());
    while let Some((group, asked)) = node.partition(partition).batcher.take().await {
        node.queued.fetch_sub(asked.len(), Ordering::Relaxed);
        decide(&node, &mut connection, partition, group, asked).await;
    }
}

pub(crate) async fn decide(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    partition: PartitionId,
    (campaign, kind): Group,
    asked: Vec<PendingClaim>,
) {
    let meta = match node.meta(campaign).await {
        Ok(Some(meta)) if meta.kind == kind => meta,
        Ok(_) => return Node::unknown(asked),
        Err(error) => return fail(asked, &error),
    };
    let (mut here, mut elsewhere) = (asked, Vec::new());
    if meta.parts > 1 {
        let ours = |asked: &PendingClaim| node.of_user(&meta, &asked.claim.user) == partition;
        (here, elsewhere) = here.into_iter().partition(ours);
    }
    for asked in elsewhere {
        // It came here before it was known that the campaign is spread.
        node.enqueue(asked);
    }
    let (here, empty): (Vec<_>, Vec<_>) =
        here.into_iter().partition(|asked| asked.claim.quantity > 0);
    fail(empty, &EngineError::Refused(Refusal::NothingAsked));
    if here.is_empty() {
        return;
    }
    let plain = here
        .iter()
        .all(|asked| asked.claim.quantity == 1 && asked.claim.key.is_none());
    let arguments = |command: &mut Cmd| write(command, &here, plain);
    let call = Call {
        script: match kind {
            CampaignKind::RedPacket => &CLAIM_PACKET,
            CampaignKind::Sale => &CLAIM_SALE,
        },
        campaign,
        arguments: &arguments,
        wait: node.waits(meta.ack),
    };
    let called = connection.call(node.partition(partition), &call).await;
    match called {
        Ok(reply) if reply.is_ok() => answer(node, &meta, partition, &reply, here),
        Ok(_) => Node::unknown(here),
        Err(error) => fail(here, &error.into()),
    }
}

fn write(command: &mut Cmd, asked: &[PendingClaim], plain: bool) {
    command.arg(if plain { "1" } else { "3" });
    for PendingClaim { claim, .. } in asked {
        command.arg(claim.user.as_str());
        if !plain {
            let key = claim.key.as_ref().map_or("", |key| key.as_str());
            command.arg(claim.quantity).arg(key);
        }
    }
}

fn answer(
    node: &Arc<Node>,
    meta: &Arc<CampaignMeta>,
    partition: PartitionId,
    reply: &ScriptReply,
    asked: Vec<PendingClaim>,
) {
    let unreadable = || EngineError::Unavailable {
        reason: "a reply of Redis cannot be read".to_owned(),
    };
    let claims = std::str::from_utf8(&reply.text)
        .ok()
        .and_then(Claims::parse);
    let Some(mut claims) = claims else {
        return fail(asked, &unreadable());
    };
    let head = claims.head;
    node.heard(head.now);
    let level = node.level(meta.ack, reply.reached);
    if level.is_ok() {
        node.partition(partition).observe(head.seq);
    }
    let mut dry = Vec::new();
    let mut inactive = false;
    for asked in asked {
        let outcome = match claims.next(meta) {
            Some(Ok(outcome)) => outcome,
            Some(Err(refusal)) => {
                asked.answer.send(Err(refusal.into()));
                continue;
            }
            None => {
                asked.answer.send(Err(unreadable()));
                continue;
            }
        };
        let ack = match outcome {
            Outcome::Granted(_) | Outcome::AlreadyGranted(_) => match &level {
                Ok(level) => *level,
                Err(error) => {
                    asked.answer.send(Err(error.clone()));
                    continue;
                }
            },
            Outcome::SoldOut { remaining } if meta.parts > 1 => {
                dry.push((asked, remaining));
                continue;
            }
            Outcome::SoldOut { .. }
            | Outcome::Paused
            | Outcome::Ended
            | Outcome::NotStarted { .. } => {
                inactive = true;
                AckLevel::Memory
            }
            _ => AckLevel::Memory,
        };
        asked.answer.send(Ok(Claimed { outcome, ack }));
    }
    if !dry.is_empty() {
        crate::spread::fetch(Arc::clone(node), Arc::clone(meta), partition, dry);
    }
    if inactive || head.left == 0 && meta.parts == 1 && level.is_ok() {
        Node::refresh(node, meta);
    }
}

pub(crate) fn fail(asked: Vec<PendingClaim>, error: &EngineError) {
    for asked in asked {
        asked.answer.send(Err(error.clone()));
    }
}
