//! Batches of red packets: many in one request, each under its own key.

use std::sync::Arc;

use axum::{Json, extract::State};
use futures_util::{StreamExt as _, stream};
use qiang_core::{id::IdempotencyKey, ports::KeyUse, split::Split};
use qiang_wire::{
    answers::RedPacketResult,
    lists::RedPacketResultList,
    problem::Problem,
    words::{BatchMode, CreationResult},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract,
    http::{
        problem::ApiProblem,
        wire::{Text, ToWire as _},
    },
    idempotency::fingerprint::key_use,
    resources::{
        batches::{
            BatchPointers, READ_AT_ONCE, Repetitions, is_throttled, logged, refuse_if_invalid,
        },
        create::{CreatedCampaign, PreparedCampaign},
        red_packets::{ROUTE, RedPacketRequest},
    },
};

/// Maximum number of red packets in one request.
const PACKETS_MAX: usize = 100;
const POINTERS: BatchPointers = BatchPointers("red_packets", "red_packet");

/// Red packets to send: 1 to 100, with at most as many shares together as one packet may have (`limits.shares_max`).
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRedPackets)]
pub(crate) struct BatchRequest {
    #[schema(min_items = 1, max_items = 100)]
    red_packets: Vec<KeyedRequest>,
    /// `each`: a refused packet does not affect the others. `all`: if one packet is refused, none is sent, and the
    /// whole request is refused. Default: `each`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    mode: Option<Text<BatchMode>>,
}

/// A red packet to send, under its key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyedRedPacket)]
struct KeyedRequest {
    /// Idempotency key, with the meaning of the header `Idempotency-Key` of a single packet. The same key identifies
    /// the same packet on both routes.
    #[schema(value_type = String)]
    idempotency_key: Text<IdempotencyKey>,
    red_packet: RedPacketRequest,
}

impl KeyedRequest {
    fn used(&self, caller: &Caller) -> KeyUse {
        let key = &self.idempotency_key.0;
        key_use(&caller.user, ROUTE, key, "", &self.red_packet)
    }
}

/// Sends red packets from the caller's account, each as `createRedPacket` does.
///
/// Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
/// example for lack of money, the others are not affected; with the mode `all`, the whole request is refused with that
/// problem, its `errors` name the refused packets, and none is sent. An invalid field always refuses the whole request
/// before anything is done. Repeat the request after a lost answer: created packets are replayed, and the others are
/// created.
#[utoipa::path(post, path = "/v1/red-packets/batch", tag = "red packets", request_body = BatchRequest,
    operation_id = "createRedPackets", security(("bearer" = ["send"])),
    responses((status = 200, body = RedPacketResultList), (status = 403, body = Problem),
        (status = 409, description = "A packet is refused, and the mode is `all`: none is sent", body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    extract::Json(BatchRequest { red_packets, mode }): extract::Json<BatchRequest>,
) -> Result<Json<RedPacketResultList>, ApiProblem> {
    caller.require(Scope::Send)?;
    let splits = splits(&app, &red_packets)?;
    let mode = mode.map_or(BatchMode::Each, |mode| mode.0);
    let shares = splits.iter().map(|split| u64::from(split.count())).sum();
    let checked = red_packets
        .iter()
        .map(|it| (it.used(&caller), it.red_packet.check_level(&app)));
    let counted = app.count_batch(&caller, (mode, POINTERS), checked.collect(), shares);
    let are_counted = counted.await?;
    let mut prepared = Vec::with_capacity(red_packets.len());
    let mut repetitions = Repetitions::new(&app, are_counted);
    for (asked, split) in red_packets.iter().zip(splits) {
        prepared.push(prepare(&caller, asked, split, &mut repetitions).await);
    }
    refuse_if_invalid(&mut prepared, POINTERS)?;
    let audiences: Vec<_> = red_packets
        .iter()
        .map(|it| it.red_packet.audience())
        .collect();
    let created = app.create_batch(prepared, (mode, POINTERS), &audiences);
    let created = created.await?;
    let results = red_packets.into_iter().zip(created);
    let results = results.map(|(asked, created)| result(&app, &caller, asked, created));
    let results: Vec<_> = stream::iter(results).buffered(READ_AT_ONCE).collect().await;
    Ok(Json(RedPacketResultList::whole(logged(results))))
}

/// Split of each packet; a problem if there are too many packets or shares.
fn splits(app: &App, asked: &[KeyedRequest]) -> Result<Vec<Split>, ApiProblem> {
    let at = "#/red_packets";
    if !(1..=PACKETS_MAX).contains(&asked.len()) {
        let detail = format!("a batch has 1 to {PACKETS_MAX} red packets");
        return Err(ApiProblem::invalid_at(at, detail));
    }
    let mut splits: Vec<_> = asked.iter().map(|it| it.red_packet.split(app)).collect();
    refuse_if_invalid(&mut splits, POINTERS)?;
    let splits: Vec<_> = splits.into_iter().flatten().collect();
    let shares: u64 = splits.iter().map(|split| u64::from(split.count())).sum();
    let shares_max = app.config.limits.shares_max;
    if shares > u64::from(shares_max) {
        let detail = format!("the packets of a batch have at most {shares_max} shares together");
        return Err(ApiProblem::invalid_at(at, detail));
    }
    Ok(splits)
}

/// Checks a packet. It counts towards the sender's creation limits, unless it was counted before.
async fn prepare(
    caller: &Caller,
    asked: &KeyedRequest,
    split: Split,
    repetitions: &mut Repetitions<'_>,
) -> Result<(KeyUse, PreparedCampaign), ApiProblem> {
    let (app, red_packet) = (repetitions.app, &asked.red_packet);
    let used = asked.used(caller);
    let draft = match repetitions.are_counted {
        true => red_packet.counted_draft(app, caller, split).await,
        false => red_packet.draft(app, caller, split, false).await,
    };
    let draft = match repetitions.is_one(is_throttled(&draft), &used).await? {
        true => red_packet.draft(app, caller, split, true).await?,
        false => draft?,
    };
    let prepared = app.prepare(caller, Some(&used), draft).await?;
    Ok((used, prepared))
}

/// Result of one packet, and the cause if the server is at fault.
async fn result(
    app: &App,
    caller: &Caller,
    asked: KeyedRequest,
    created: Result<CreatedCampaign, ApiProblem>,
) -> (RedPacketResult, Option<String>) {
    let answered = match created {
        Ok(created) => {
            let fresh = created.is_fresh();
            let answer = asked.red_packet.answer(app, caller, created).await;
            answer.map(|body| (fresh, body))
        }
        Err(problem) => Err(problem),
    };
    let (result, red_packet, refused) = match answered {
        Ok((true, body)) => (CreationResult::Created, Some(body), None),
        Ok((false, body)) => (CreationResult::Replayed, Some(body), None),
        Err(problem) => (CreationResult::Refused, None, Some(problem.into_part())),
    };
    let (problem, cause) = refused.unzip();
    let body = RedPacketResult {
        idempotency_key: asked.idempotency_key.0.to_wire(),
        result,
        red_packet,
        problem,
    };
    (body, cause.flatten())
}
