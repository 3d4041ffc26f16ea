//! Deciding claims: what a slot takes from its lane goes to Redis in one call, and each claim gets its answer.

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
    facts::Facts,
    lane::{Asked, Group},
    node::Node,
    reply::Claims,
    scripts::{CLAIM_PACKET, CLAIM_SALE},
    slot::{Call, Reply, Slot},
};

/// Calls under way at a time for one partition: while one is decided, the next is gathered.
pub(crate) const SLOTS: usize = 2;

/// Serves a partition's lane until it is closed and empty.
pub(crate) async fn serve(node: Arc<Node>, partition: PartitionId, place: usize) {
    let mut slot = Slot::new(Arc::clone(&node.wiring), partition, &place.to_string());
    while let Some((group, asked)) = node.partition(partition).lane.take().await {
        node.queued.fetch_sub(asked.len(), Ordering::Relaxed);
        decide(&node, &mut slot, partition, group, asked).await;
    }
}

pub(crate) async fn decide(
    node: &Arc<Node>,
    slot: &mut Slot,
    partition: PartitionId,
    (campaign, kind): Group,
    asked: Vec<Asked>,
) {
    let facts = match node.facts(campaign).await {
        Ok(Some(facts)) if facts.kind == kind => facts,
        Ok(_) => return Node::unknown(asked),
        Err(error) => return fail(asked, &error),
    };
    let (mut here, mut elsewhere) = (asked, Vec::new());
    if facts.parts > 1 {
        let ours = |asked: &Asked| node.of_user(&facts, &asked.claim.user) == partition;
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
        wait: node.waits(facts.ack),
    };
    let called = slot.call(node.partition(partition), &call).await;
    match called {
        Ok(reply) if reply.is_ok() => answer(node, &facts, partition, &reply, here),
        Ok(_) => Node::unknown(here),
        Err(error) => fail(here, &error.into()),
    }
}

fn write(command: &mut Cmd, asked: &[Asked], plain: bool) {
    command.arg(if plain { "1" } else { "3" });
    for Asked { claim, .. } in asked {
        command.arg(claim.user.as_str());
        if !plain {
            let key = claim.key.as_ref().map_or("", |key| key.as_str());
            command.arg(claim.quantity).arg(key);
        }
    }
}

fn answer(
    node: &Arc<Node>,
    facts: &Arc<Facts>,
    partition: PartitionId,
    reply: &Reply,
    asked: Vec<Asked>,
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
    let level = node.level(facts.ack, reply.reached);
    if level.is_ok() {
        node.partition(partition).vouch(head.seq);
    }
    let mut dry = Vec::new();
    let mut quiet = false;
    for asked in asked {
        let outcome = match claims.next(facts) {
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
            Outcome::SoldOut { remaining } if facts.parts > 1 => {
                dry.push((asked, remaining));
                continue;
            }
            Outcome::SoldOut { .. }
            | Outcome::Paused
            | Outcome::Ended
            | Outcome::NotStarted { .. } => {
                quiet = true;
                AckLevel::Memory
            }
            _ => AckLevel::Memory,
        };
        asked.answer.send(Ok(Claimed { outcome, ack }));
    }
    if !dry.is_empty() {
        crate::spread::fetch(Arc::clone(node), Arc::clone(facts), partition, dry);
    }
    if quiet || head.left == 0 && facts.parts == 1 && level.is_ok() {
        Node::study(node, facts);
    }
}

pub(crate) fn fail(asked: Vec<Asked>, error: &EngineError) {
    for asked in asked {
        asked.answer.send(Err(error.clone()));
    }
}
