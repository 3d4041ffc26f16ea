//! Claims, the hot path: authentication, the gate, the engine and a small answer.

pub(crate) mod invitation;
pub(crate) mod members;
pub(crate) mod queue_entries;
pub(crate) mod refusal;
pub(crate) mod requirements;
pub(crate) mod tickets;

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::{
    book::Claim,
    campaign::{AckLevel, CampaignKind},
    id::{CampaignId, UserId},
    outcome::{Grant, Outcome},
    ports::{Claimed, EngineError},
};
use qiang_wire::{
    answers::{self, Place},
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    audience::Credentials,
    auth::Scope,
    cache::campaigns::AnswerFields,
    claims::{refusal::refuse, tickets::SignedTicket},
    extract::{ObjectRequest, OptionalJson},
    http::{
        client_address::{AddressKey, LimitedOrigin},
        grant_bodies::{granted_claim, granted_order},
        problem::ApiProblem,
        request_log::FailedClaim,
        wire::{self, Location},
    },
    observe::claim_log::{ClaimEnd, ClaimTrail},
};

/// Initial capacity for a grant's JSON.
const GRANT_BYTES: usize = 512;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An order of units.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewOrder)]
pub(crate) struct OrderRequest {
    /// Units, at least 1.
    #[schema(minimum = 1, default = 1)]
    quantity: u32,
    /// Invitation, for sales by invitation.
    invitation: Option<String>,
    /// Passphrase, for sales by passphrase.
    passphrase: Option<String>,
}

impl Default for OrderRequest {
    fn default() -> Self {
        Self {
            quantity: 1,
            invitation: None,
            passphrase: None,
        }
    }
}

/// Claims a share of a red packet.
///
/// A repetition returns the same share. A body is needed if the packet requires an invitation or a passphrase.
#[utoipa::path(post, path = "/v1/red-packets/{id}/claims", tag = "red packets", request_body = Option<Credentials>,
    operation_id = "claimShare", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The red packet's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request"),
        ("Grab-Ticket" = Option<String>, Header, description = "If the campaign requires `ticket`")),
    responses(
        (status = 201, description = "Granted now", body = answers::Claim),
        (status = 200, description = "Granted before: the same share", body = answers::Claim),
        (status = 202, description = "In the queue: `Location` is the queue entry", body = Place),
        (status = 401, body = Problem),
        (status = 403, description = "No scope `claim`, or not what the campaign requires: `not-in-audience`, \
         `invitation-invalid`, `passphrase-wrong`, `ticket-…`, `order-check-refused` with the shop's reason",
            body = Problem),
        (status = 404, description = "unknown_campaign", body = Problem),
        (status = 409, description = "sold_out or not_started", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 429, description = "Also `passphrases-throttled`, if the campaign requires a passphrase",
            body = Problem),
        (status = 503, description = "paused, no decision, `queue-full`, `order-check-unavailable` or \
         `ledger-incomplete`; Retry-After has the seconds to wait",
            body = Problem)))]
pub(crate) async fn claim_share(
    call: ObjectRequest<CampaignId>,
    ticket: SignedTicket,
    origin: LimitedOrigin,
    OptionalJson(shown): OptionalJson<Credentials>,
) -> Result<Response, ApiProblem> {
    let proof = Proof {
        ticket,
        shown,
        address: origin.address,
    };
    decide(call, CampaignKind::RedPacket, 1, proof).await
}

/// Orders units of a sale.
///
/// With the same `Idempotency-Key`, a repetition returns the same order in its present state. If a user may have one
/// unit, a repetition without a key also returns the same order; another key is then `limit_reached`.
#[utoipa::path(post, path = "/v1/sales/{id}/orders", tag = "sales", request_body = Option<OrderRequest>,
    operation_id = "orderUnits", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The sale's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request"),
        ("Grab-Ticket" = Option<String>, Header, description = "If the campaign requires `ticket`")),
    responses(
        (status = 201, description = "Granted now", body = answers::Order),
        (status = 200, description = "Granted before: the same order", body = answers::Order),
        (status = 202, description = "In the queue: `Location` is the queue entry", body = Place),
        (status = 401, body = Problem),
        (status = 403, description = "No scope `claim`, or not what the campaign requires: `not-in-audience`, \
         `invitation-invalid`, `passphrase-wrong`, `ticket-…`, `order-check-refused` with the shop's reason",
            body = Problem),
        (status = 404, description = "unknown_campaign", body = Problem),
        (status = 409, description = "sold_out, limit_reached, not_started or `already-waiting`", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 422, description = "Nothing ordered, or the key was used for another quantity", body = Problem),
        (status = 429, description = "Also `passphrases-throttled`, if the campaign requires a passphrase",
            body = Problem),
        (status = 503, description = "paused; not-admitted: pending claims cover the remaining stock, and nothing was \
         decided (sold_out is 409); no decision; `queue-full`, `order-check-unavailable` or `ledger-incomplete`. \
         Retry-After has the seconds to wait",
            body = Problem)))]
pub(crate) async fn order_units(
    call: ObjectRequest<CampaignId>,
    ticket: SignedTicket,
    origin: LimitedOrigin,
    OptionalJson(request): OptionalJson<OrderRequest>,
) -> Result<Response, ApiProblem> {
    if request.quantity == 0 {
        return Err(ApiProblem::invalid_at(
            "#/quantity",
            "an order is for at least 1 unit",
        ));
    }
    let shown = Credentials {
        invitation: request.invitation,
        passphrase: request.passphrase,
    };
    let proof = Proof {
        ticket,
        shown,
        address: origin.address,
    };
    decide(call, CampaignKind::Sale, request.quantity, proof).await
}

/// Runs a claim without the gate and the engine; its grant is invented. Only with `server.noop_route`, for
/// benchmarks.
pub(crate) async fn noop(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    let ObjectRequest {
        app, caller, id, ..
    } = call;
    caller.require(Scope::Claim)?;
    let grant = Grant {
        campaign: id,
        number: 12_345,
        quantity: 1,
        amount_minor: 100,
        granted_at: app.ports.clock.now(),
        order: None,
    };
    let meta = app.meta(id).await?.ok_or(ProblemKind::UnknownCampaign)?;
    let answer = GrantAnswer {
        user: &caller.user,
        meta: &meta,
    };
    Ok(answer.granted(StatusCode::CREATED, &grant, AckLevel::Fsync))
}

/// Credentials of a claim.
struct Proof {
    ticket: SignedTicket,
    shown: Credentials,
    address: Option<AddressKey>,
}

/// Decides a claim, and records it in the claim log. The answer to a failure names campaign and partition for the log.
async fn decide(
    call: ObjectRequest<CampaignId>,
    kind: CampaignKind,
    quantity: u32,
    proof: Proof,
) -> Result<Response, ApiProblem> {
    let app = Arc::clone(&call.app);
    let user = app.claim_log.is_some().then(|| call.caller.user.clone());
    let mut trail = ClaimTrail::begin(call.id);
    let decided = decide_traced(call, kind, quantity, proof, &mut trail).await;
    let (answer, end, problem) = match decided {
        Ok(answer) => {
            let end = match trail.grant {
                Some(_) => ClaimEnd::Granted,
                None => ClaimEnd::Refused,
            };
            (answer, end, None)
        }
        Err(problem) if problem.kind_status().is_client_error() => {
            trail.outcome = "unmet";
            let kind = user.is_some().then(|| problem.slug().to_owned());
            (problem.into_response(), ClaimEnd::Refused, kind)
        }
        Err(problem) => {
            trail.outcome = "failed";
            let kind = user.is_some().then(|| problem.slug().to_owned());
            let mut answer = problem.into_response();
            answer.extensions_mut().insert(FailedClaim {
                campaign: trail.campaign,
                partition: trail.partition,
            });
            (answer, ClaimEnd::Failed, kind)
        }
    };
    if let (Some(log), Some(user)) = (&app.claim_log, user) {
        let seen = (answer.status(), problem.as_deref());
        log.add(end, trail, seen, &user, app.ports.clock.now());
    }
    Ok(answer)
}

async fn decide_traced(
    call: ObjectRequest<CampaignId>,
    kind: CampaignKind,
    quantity: u32,
    proof: Proof,
    trail: &mut ClaimTrail,
) -> Result<Response, ApiProblem> {
    let (app, caller) = (&*call.app, call.caller);
    caller.require(Scope::Claim)?;
    let id = call.id;
    let claim = Claim {
        campaign: id,
        kind,
        user: caller.user,
        quantity,
        key: call.key,
    };
    trail.partition = app.ports.engine.partition_for(&claim);
    let mut known = app
        .known_campaign(&claim, app.ports.engine.try_gate_outcome(&claim))
        .await?;
    if let Some(outcome) = known.filter(|outcome| outcome.grant().is_none()) {
        trail.ended(&outcome);
        let response = refuse(app, id, kind, &outcome).await?;
        app.metrics.answered_by_gate(&outcome);
        return Ok(response);
    }
    // Checked before the claim is decided or replayed.
    let admitted = app.admit(&claim, &proof.shown, proof.address, known.is_some());
    let Some(meta) = admitted
        .await
        .inspect_err(|problem| count_unmet(app, problem))?
    else {
        let outcome = Outcome::UnknownCampaign;
        trail.ended(&outcome);
        app.metrics.claimed(&outcome);
        return refuse(app, id, kind, &outcome).await;
    };
    // A replayed grant is answered here only if its acknowledgement level is certain. Otherwise the engine answers,
    // which knows the level.
    if let Some(Outcome::AlreadyGranted(grant)) = &known
        && meta.ack == AckLevel::Fsync
    {
        let outcome = Outcome::AlreadyGranted(*grant);
        trail.ended(&outcome);
        app.metrics.answered_by_gate(&outcome);
        let answer = GrantAnswer {
            user: &claim.user,
            meta: &meta,
        };
        return Ok(answer.granted(wire::created(false), grant, meta.ack));
    }
    // A user with a known grant gets it again without these checks.
    if known.is_none()
        && let Err(problem) = app.check_requirements(&meta, &claim, &proof.ticket).await
    {
        let may_replay = problem.kind_status().is_client_error();
        known = match may_replay {
            true => app.ports.engine.gate_outcome(&claim).await.ok().flatten(),
            false => None,
        };
        if known.is_none_or(|outcome| outcome.grant().is_none()) {
            count_unmet(app, &problem);
            return Err(problem);
        }
    }
    // A replay needs no queue entry. A sale's claim without a key may be for another order once the first has lapsed.
    let is_replay = known.is_some() && (kind == CampaignKind::RedPacket || claim.key.is_some());
    if meta.waiting_room
        && meta.kind == kind
        && !is_replay
        && let Some(entered) = queue_entries::enter(app, &claim).await?
    {
        trail.outcome = "waiting";
        return Ok(entered);
    }
    // The node may have learned the campaign by now.
    trail.partition = app.ports.engine.partition_for(&claim);
    let user = claim.user.clone();
    let claimed = app.ports.engine.claim(claim).await;
    let Claimed { outcome, ack } = claimed.inspect_err(|error| {
        app.metrics.failed();
        if matches!(error, EngineError::Uncertain { .. }) {
            app.metrics.unconfirmed();
        }
    })?;
    app.metrics.claimed(&outcome);
    trail.ended(&outcome);
    let answer = GrantAnswer {
        user: &user,
        meta: &meta,
    };
    match outcome {
        Outcome::Granted(grant) => Ok(answer.granted(StatusCode::CREATED, &grant, ack)),
        Outcome::AlreadyGranted(grant) => Ok(answer.granted(wire::created(false), &grant, ack)),
        _ => refuse(app, id, kind, &outcome).await,
    }
}

/// Counts a claim without a decision: a requirement is not met, or cannot be checked.
fn count_unmet(app: &App, problem: &ApiProblem) {
    match problem.kind_status().is_client_error() {
        true => app.metrics.unmet(),
        false => app.metrics.failed(),
    }
}

/// Answers the grants of one user in one campaign.
struct GrantAnswer<'a> {
    user: &'a UserId,
    meta: &'a AnswerFields,
}

impl GrantAnswer<'_> {
    fn granted(&self, status: StatusCode, grant: &Grant, ack: AckLevel) -> Response {
        let (user, currency) = (self.user, self.meta.currency);
        match granted_order(grant, user, currency, ack) {
            Some(order) => {
                let location = wire::location(status, || format!("/v1/orders/{}", order.id));
                created(status, location, &order)
            }
            None => {
                let claim = granted_claim(grant, user, currency, ack);
                let path = || format!("/v1/red-packets/{}/claims", claim.campaign);
                created(status, wire::location(status, path), &claim)
            }
        }
    }
}

fn created(status: StatusCode, location: Location, answer: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(GRANT_BYTES);
    match serde_json::to_writer(&mut body, answer) {
        Ok(()) => {
            let content_type = [(header::CONTENT_TYPE, JSON)];
            (status, content_type, location, Body::from(body)).into_response()
        }
        Err(error) => ApiProblem::internal(error.to_string()).into_response(),
    }
}
