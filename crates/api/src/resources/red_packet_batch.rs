//! Batches of red packets: many in one request, each under its own key and with its own result.

use std::sync::Arc;

use axum::{Json, extract::State};
use futures_util::{StreamExt as _, stream};
use qiang_core::{id::IdempotencyKey, ports::KeyUse, split::Split};
use qiang_wire::{
    answers::RedPacketResult,
    lists::RedPacketResultList,
    problem::{Problem, ProblemKind},
    words::CreationResult,
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
        create::{CreatedCampaign, PreparedCampaign},
        red_packets::{ROUTE, RedPacketRequest},
    },
};

/// Maximum number of red packets in one request.
const PACKETS_MAX: usize = 100;
/// Number of campaigns that are read at the same time for the answer.
pub(crate) const READ_AT_ONCE: usize = 16;
/// Keys of refused campaigns that are looked for in vain, before no further one is looked for.
const MISSES_MAX: usize = 4;
/// Names of the list in the request, and of the packet in one of its items.
const POINTERS: (&str, &str) = ("red_packets", "red_packet");

/// Red packets to send: 1 to 100, with at most as many shares together as one packet may have (`limits.shares_max`).
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRedPackets)]
pub(crate) struct BatchRequest {
    #[schema(min_items = 1, max_items = 100)]
    red_packets: Vec<KeyedRequest>,
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

/// Sends red packets from the caller's account, each as `createRedPacket` does.
///
/// Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
/// example for lack of money, the others are not affected. An invalid field refuses the whole request before anything
/// is done. Repeat the request after a lost answer: created packets are replayed, and the others are created.
#[utoipa::path(post, path = "/v1/red-packets/batch", tag = "red packets", request_body = BatchRequest,
    operation_id = "createRedPackets", security(("bearer" = ["send"])),
    responses((status = 200, body = RedPacketResultList), (status = 403, body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    extract::Json(BatchRequest { red_packets }): extract::Json<BatchRequest>,
) -> Result<Json<RedPacketResultList>, ApiProblem> {
    caller.require(Scope::Send)?;
    let splits = splits(&app, &red_packets)?;
    let mut prepared = Vec::with_capacity(red_packets.len());
    let mut repetitions = Repetitions::new(&app);
    for (asked, split) in red_packets.iter().zip(splits) {
        prepared.push(prepare(&caller, asked, split, &mut repetitions).await);
    }
    refuse_if_invalid(&mut prepared, POINTERS)?;
    let created = app.create_all(prepared).await;
    let created = refuse_if_all_failed(created)?;
    let results = red_packets.into_iter().zip(created);
    let results = results.map(|(asked, created)| result(&app, &caller, asked, created));
    let results: Vec<_> = stream::iter(results).buffered(READ_AT_ONCE).collect().await;
    Ok(Json(RedPacketResultList::whole(logged(results))))
}

/// Results without the causes of the service's failures, which are logged.
pub(crate) fn logged<T>(results: Vec<(T, Option<String>)>) -> Vec<T> {
    let failed = results.iter().filter_map(|(_, cause)| cause.as_ref());
    if let Some(cause) = failed.clone().next() {
        crate::http::request_log::log_of_batch(failed.count(), cause);
    }
    results.into_iter().map(|(result, _)| result).collect()
}

/// Refuses the request if all campaigns failed on the server, so that its client repeats it.
pub(crate) fn refuse_if_all_failed<T>(
    mut created: Vec<Result<T, ApiProblem>>,
) -> Result<Vec<Result<T, ApiProblem>>, ApiProblem> {
    let failed = |it: &Result<T, ApiProblem>| matches!(it, Err(problem) if problem.kind_status().is_server_error());
    match created.iter().all(failed) {
        true => Err(created
            .swap_remove(0)
            .map_or_else(|problem| problem, |_| ProblemKind::Internal.into())),
        false => Ok(created),
    }
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

/// Refuses the whole request if a campaign has invalid fields, and names all of them. `pointers` are the names of the
/// list, and of the campaign in one of its items.
pub(crate) fn refuse_if_invalid<T>(
    checked: &mut [Result<T, ApiProblem>],
    (list, campaign): (&str, &str),
) -> Result<(), ApiProblem> {
    let is_invalid =
        |it: &Result<T, ApiProblem>| matches!(it, Err(problem) if problem.is(ProblemKind::Invalid));
    let invalid = checked
        .iter_mut()
        .enumerate()
        .filter(|(_, it)| is_invalid(it));
    let faults = invalid.filter_map(|(place, it)| {
        let at = format!("#/{list}/{place}/{campaign}");
        Some((at, it.as_mut().err()?))
    });
    ApiProblem::from_parts(faults).map_or(Ok(()), Err)
}

/// Campaigns of a batch that the limit of creations refuses although an earlier request created them, as after a lost
/// answer. Their keys are looked for until some are not found, so a batch of new campaigns costs few looks.
pub(crate) struct Repetitions<'a> {
    pub(crate) app: &'a App,
    misses: usize,
}

impl<'a> Repetitions<'a> {
    pub(crate) fn new(app: &'a App) -> Self {
        Self { app, misses: 0 }
    }

    /// Whether a campaign that the limit refused was created before, under this key.
    pub(crate) async fn is_one(
        &mut self,
        is_throttled: bool,
        used: &KeyUse,
    ) -> Result<bool, ApiProblem> {
        if !is_throttled || self.misses >= MISSES_MAX {
            return Ok(false);
        }
        let is_bound = self.app.is_bound(Some(used)).await?;
        self.misses += usize::from(!is_bound);
        Ok(is_bound)
    }
}

/// Whether the limit of creations refused a campaign.
pub(crate) fn is_throttled<T>(draft: &Result<T, ApiProblem>) -> bool {
    matches!(draft, Err(problem) if problem.is(ProblemKind::CreationsThrottled))
}

/// Checks a packet, which then counts towards the sender's creation limits.
async fn prepare(
    caller: &Caller,
    asked: &KeyedRequest,
    split: Split,
    repetitions: &mut Repetitions<'_>,
) -> Result<(KeyUse, PreparedCampaign), ApiProblem> {
    let KeyedRequest {
        idempotency_key,
        red_packet,
    } = asked;
    let app = repetitions.app;
    let used = key_use(&caller.user, ROUTE, &idempotency_key.0, "", red_packet);
    let draft = red_packet.draft(app, caller, split, false).await;
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
