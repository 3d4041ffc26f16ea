//! Decision of claims: sends waiting claims to Redis, and answers each of them.
//!
//! Claims of one campaign are decided with one call. So are claims of several red packets that are not spread and
//! request the same ack level. Each packet is decided independently.

use std::sync::Arc;

use qiang_core::{
    book::Refusal,
    campaign::{AckLevel, CampaignKind},
    event::PartitionId,
    outcome::Outcome,
    ports::{Claimed, EngineError},
};
use redis::Cmd;

use crate::{
    connection::{CallConnection, ScriptCall, is_wrong_type, memory_full, unavailable, unreadable},
    intake::{
        batcher::{Batch, PendingClaim},
        gate::hints_inactive,
    },
    node::Node,
    partitions::nobody,
    protocol::{
        campaign_meta::CachedCampaign,
        reply::{self, ClaimsReply},
        scripts::{CLAIM_PACKET, CLAIM_PACKETS, CLAIM_SALE},
    },
    shards::transfer::PullResult,
};

/// Maximum concurrent calls of one partition: during one call, claims gather for the next.
pub(crate) const CALLS_MAX: usize = 2;

/// Claims of one campaign to send.
struct CampaignClaims {
    meta: Arc<CachedCampaign>,
    claims: Vec<PendingClaim>,
}

/// Decides a partition's claims, one call after the other, until its batcher is closed and empty. `place` distinguishes
/// the partition's connections.
pub(crate) async fn serve(node: Arc<Node>, partition: PartitionId, place: usize) {
    let mut connection = node.partitions.connection(partition, &place.to_string());
    while let Some(batches) = node.next_batches(partition).await {
        decide(&node, &mut connection, partition, batches).await;
    }
}

/// Decides claims of a partition. First reads unknown metas of their campaigns, with one call.
pub(crate) async fn decide(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    partition: PartitionId,
    batches: Vec<Batch>,
) {
    let (mut known, mut unknown, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for batch in batches {
        let campaign = batch.0.0;
        match node.partitions.known_meta(campaign) {
            Some(meta) => known.push((meta, batch)),
            None if node.partitions.home(campaign) == partition => unknown.push(batch),
            None => elsewhere.push(batch),
        }
    }
    if !unknown.is_empty() {
        let campaigns: Vec<_> = unknown.iter().map(|(group, _)| group.0).collect();
        let metas = node.partitions.unknown_metas(connection, &campaigns).await;
        let metas = metas.unwrap_or_else(|error| vec![Err(error); campaigns.len()]);
        let found = unknown.into_iter().zip(metas);
        known.extend(found.filter_map(|(batch, meta)| with_meta(node, batch, meta)));
    }
    decide_known(node, connection, partition, known).await;
    for mut batch in elsewhere {
        node.drop_stale(partition, &mut batch.1);
        if !batch.1.is_empty() {
            let meta = node.partitions.meta(batch.0.0).await;
            let found = with_meta(node, batch, meta).into_iter().collect();
            decide_known(node, connection, partition, found).await;
        }
    }
}

/// Claims of a campaign with its meta; `None` if a missing meta decides how they are answered.
fn with_meta(
    node: &Arc<Node>,
    batch: Batch,
    meta: Result<Option<Arc<CachedCampaign>>, EngineError>,
) -> Option<(Arc<CachedCampaign>, Batch)> {
    let (group, claims) = batch;
    match meta {
        Ok(Some(meta)) => return Some((meta, (group, claims))),
        Ok(None) => node.recall_for(group.0, claims, answer_unknown),
        Err(error) if is_wrong_type(&error) => {
            node.recall_for(group.0, claims, |batch| answer_all(batch, Err(error)));
        }
        Err(error) => answer_all(claims, Err(error)),
    }
    None
}

/// Decides claims of campaigns that this node knows. Calls that wait for replicas come after the others.
async fn decide_known(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    partition: PartitionId,
    batches: Vec<(Arc<CachedCampaign>, Batch)>,
) {
    let mut calls: Vec<(AckLevel, bool, Vec<CampaignClaims>)> = Vec::new();
    for (meta, batch) in batches {
        let Some(asked) = prepare(node, partition, meta, batch) else {
            continue;
        };
        let (ack, is_spread) = (asked.meta.ack, asked.meta.parts > 1);
        let goes_together = asked.meta.kind == CampaignKind::RedPacket && !is_spread;
        let mut others = calls.iter_mut();
        match others.find(|call| goes_together && call.0 == ack && call.1) {
            Some((.., packets)) => packets.push(asked),
            None => calls.push((ack, goes_together, vec![asked])),
        }
    }
    calls.sort_by_key(|(ack, ..)| node.partitions.options().waits(*ack));
    for (ack, _, mut asked) in calls {
        if ack == AckLevel::Replica
            && let Some(reason) = node.partitions.lacks_replicas(partition).await
        {
            // A grant that no replica can receive is not made.
            answer_packets(asked, &unavailable(reason));
            continue;
        }
        // They may have waited for another call.
        for CampaignClaims { claims, .. } in &mut asked {
            node.drop_stale(partition, claims);
            node.rooms.sent(claims.len());
        }
        asked.retain(|asked| !asked.claims.is_empty());
        match asked.len() {
            0 | 1 => {
                for asked in asked {
                    decide_one(node, connection, partition, asked).await;
                }
            }
            _ => decide_packets(node, connection, (partition, ack), asked).await,
        }
    }
}

/// Answers claims that need no decision, and returns the others.
fn prepare(
    node: &Arc<Node>,
    partition: PartitionId,
    meta: Arc<CachedCampaign>,
    ((_, kind), batch): Batch,
) -> Option<CampaignClaims> {
    if meta.kind != kind {
        answer_unknown(batch);
        return None;
    }
    let (mut here, mut elsewhere) = (batch, Vec::new());
    if meta.parts > 1 {
        let ours = |pending: &PendingClaim| {
            node.partitions.for_user(&meta, &pending.claim.user) == partition
        };
        (here, elsewhere) = here.into_iter().partition(ours);
    }
    for pending in elsewhere {
        // It was queued here before the node knew that the campaign is spread.
        node.resubmit(pending);
    }
    let (here, empty): (Vec<_>, Vec<_>) = here
        .into_iter()
        .partition(|pending| pending.claim.quantity > 0);
    answer_all(empty, Err(Refusal::NothingAsked.into()));
    let claims = node.admit(&meta, here);
    (!claims.is_empty()).then_some(CampaignClaims { meta, claims })
}

/// Decides claims of one campaign.
async fn decide_one(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    partition: PartitionId,
    CampaignClaims { meta, claims }: CampaignClaims,
) {
    let plain = is_plain(&claims);
    let call = ScriptCall {
        script: match meta.kind {
            CampaignKind::RedPacket => &CLAIM_PACKET,
            CampaignKind::Sale => &CLAIM_SALE,
        },
        campaign: meta.id,
        more_keys: &[],
        arguments: &|command| write(command.arg(values(plain)), &claims, plain),
        asks: Some(meta.ack),
    };
    match connection.call(&call).await {
        Ok(reply) if reply.is_ok() => {
            let level = reply.level(meta.ack);
            answer(node, &meta, partition, (&level, reply.text), claims);
        }
        Ok(reply) if reply.is_damaged() => node.recall_for(meta.id, claims, answer_damaged),
        Ok(_) => node.recall_for(meta.id, claims, answer_unknown),
        Err(error) => answer_all(claims, Err(overloaded(error))),
    }
}

/// Decides claims of several packets that request the same ack level, with one call.
async fn decide_packets(
    node: &Arc<Node>,
    connection: &mut CallConnection,
    (partition, ack): (PartitionId, AckLevel),
    packets: Vec<CampaignClaims>,
) {
    let keys = node.partitions.keys();
    let keys_of = |asked: &CampaignClaims| {
        let of_campaign = |rest| keys.for_campaign(partition, asked.meta.id, rest);
        [
            keys.campaign(partition, asked.meta.id),
            of_campaign("shares"),
            of_campaign("users"),
        ]
    };
    let more_keys: Vec<String> = packets.iter().flat_map(keys_of).collect();
    let call = ScriptCall {
        script: &CLAIM_PACKETS,
        campaign: nobody(),
        more_keys: &more_keys,
        arguments: &|command| {
            for CampaignClaims { meta, claims } in &packets {
                let plain = is_plain(claims);
                command.arg(meta.id.to_string());
                command.arg(claims.len()).arg(values(plain));
                write(command, claims, plain);
            }
            command
        },
        asks: Some(ack),
    };
    let reply = match connection.call(&call).await {
        Ok(reply) => reply,
        Err(error) => return answer_packets(packets, &overloaded(error)),
    };
    let parts = reply::parts(&reply.text, packets.len()).filter(|_| reply.is_ok());
    let Some(parts) = parts else {
        return answer_packets(packets, &unreadable());
    };
    let level = reply.level(ack);
    for (CampaignClaims { meta, claims }, part) in packets.into_iter().zip(parts) {
        let reason = || {
            let text = String::from_utf8_lossy(&part[1..]);
            format!("{} of {}: {text}", CLAIM_PACKETS.name, meta.id)
        };
        match part.first() {
            Some(b'?') => node.recall_for(meta.id, claims, answer_unknown),
            Some(b'#') => node.recall_for(meta.id, claims, answer_damaged),
            Some(b'-') => answer_all(claims, Err(not_decided(reason()))),
            Some(b'!') => answer_all(claims, Err(EngineError::uncertain(reason()))),
            _ => answer(node, &meta, partition, (&level, part.to_vec()), claims),
        }
    }
}

/// Answers the claims of all these campaigns with an error.
fn answer_packets(packets: Vec<CampaignClaims>, error: &EngineError) {
    for CampaignClaims { claims, .. } in packets {
        answer_all(claims, Err(error.clone()));
    }
}

/// Error of one packet's claims, which Redis has refused.
fn not_decided(reason: String) -> EngineError {
    match reason.contains("OOM command not allowed") {
        true => EngineError::Overloaded,
        false => unavailable(reason),
    }
}

/// If Redis has no free memory, nothing was decided, and a later retry may succeed.
fn overloaded(error: EngineError) -> EngineError {
    match error {
        EngineError::Unavailable { .. } if memory_full(&error).is_some() => EngineError::Overloaded,
        error => error,
    }
}

/// Whether claims are for one unit each, and have no keys.
fn is_plain(claims: &[PendingClaim]) -> bool {
    let is_plain =
        |pending: &PendingClaim| pending.claim.quantity == 1 && pending.claim.key.is_none();
    claims.iter().all(is_plain)
}

/// Number of values per claim in a call.
fn values(plain: bool) -> &'static str {
    if plain { "1" } else { "3" }
}

fn write<'a>(command: &'a mut Cmd, claims: &[PendingClaim], plain: bool) -> &'a mut Cmd {
    for PendingClaim { claim, .. } in claims {
        command.arg(claim.user.as_str());
        if !plain {
            let key = claim.key.as_ref().map_or("", |key| key.as_str());
            command.arg(claim.quantity).arg(key);
        }
    }
    command
}

/// Answers claims of one campaign from Redis' reply, and keeps the reply.
fn answer(
    node: &Arc<Node>,
    meta: &Arc<CachedCampaign>,
    partition: PartitionId,
    (level, reply): (&Result<AckLevel, EngineError>, Vec<u8>),
    batch: Vec<PendingClaim>,
) {
    let text = std::str::from_utf8(&reply).ok();
    let Some(mut claims) = text.and_then(ClaimsReply::parse) else {
        return answer_all(batch, Err(unreadable()));
    };
    node.partitions.clock(partition).observe(claims.now);
    let (seq, mut grants) = (claims.seq, 0);
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
            // Before the grant is answered.
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
    node.partitions.note_admission(meta, claims.admission);
    node.rooms.granted(meta.id, grants, left);
    if granted {
        node.runtime(partition)
            .unsettled_answers
            .keep(meta, seq, reply, users);
    }
    if !short.is_empty() {
        tokio::spawn(pull(Arc::clone(node), Arc::clone(meta), partition, short));
    }
    if inactive || left == 0 && meta.parts == 1 && level.is_ok() {
        node.gate.refresh(meta);
    }
}

/// Pulls units from other shards for claims that this shard cannot serve, and queues the claims again. If no shard has
/// units, answers "sold out".
async fn pull(
    node: Arc<Node>,
    meta: Arc<CachedCampaign>,
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
        Ok(PullResult::Some) => {
            for pending in short {
                node.resubmit(pending);
            }
        }
        Ok(PullResult::Dry { remaining }) => {
            answer_all(short, Ok(Outcome::SoldOut { remaining }));
            node.gate.refresh(&meta);
        }
        Err(error) => answer_all(short, Err(error)),
    }
}

fn answer_unknown(batch: Vec<PendingClaim>) {
    answer_all(batch, Ok(Outcome::UnknownCampaign));
}

fn answer_damaged(batch: Vec<PendingClaim>) {
    let reason = "the campaign's keys in Redis do not match, and it cannot be rebuilt";
    answer_all(batch, Err(unavailable(reason)));
}

/// Gives all claims the same answer, which is not a grant.
fn answer_all(batch: Vec<PendingClaim>, answer: Result<Outcome, EngineError>) {
    let ack = AckLevel::Memory;
    let answer = answer.map(|outcome| Claimed { outcome, ack });
    for pending in batch {
        pending.answer.send(answer.clone());
    }
}

#[cfg(all(test, feature = "servers"))]
mod tests;
