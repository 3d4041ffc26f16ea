//! Claims: the hot path. Authentication, the gate, the engine, a small answer, and nothing else.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::{
    book::Claim,
    campaign::{AckLevel, CampaignKind},
    id::CampaignId,
    outcome::{Grant, Outcome},
    ports::Claimed,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::Scope,
    extract::{Call, OptionalJson},
    problem::{Problem, ProblemBody, ProblemKind},
    refusal::refuse,
    tickets::GrabTicket,
    wire::GrantBody,
};

/// Room for a grant's JSON.
const GRANT_BYTES: usize = 384;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What to order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewOrder)]
pub(crate) struct OrderRequest {
    /// Units, at least 1.
    #[schema(minimum = 1, default = 1)]
    quantity: u32,
}

impl Default for OrderRequest {
    fn default() -> Self {
        Self { quantity: 1 }
    }
}

/// Claims a share of a red packet.
///
/// Repeating it gives the same share. A body is not needed.
#[utoipa::path(post, path = "/v1/red-packets/{id}/claims", tag = "red packets",
    operation_id = "claimShare", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The red packet's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request"),
        ("Grab-Ticket" = Option<String>, Header, description = "Where the campaign asks for `ticket`")),
    responses(
        (status = 201, description = "Granted now", body = GrantBody),
        (status = 200, description = "Granted before: the same grant", body = GrantBody),
        (status = 401, body = ProblemBody),
        (status = 403, description = "No scope `claim`, or not what the campaign asks for: `ticket-…`, \
            `order-check-refused` with the shop's reason", body = ProblemBody),
        (status = 404, description = "unknown_campaign", body = ProblemBody),
        (status = 409, description = "sold_out or not_started", body = ProblemBody),
        (status = 410, description = "ended", body = ProblemBody),
        (status = 429, body = ProblemBody),
        (status = 503, description = "paused, no decision, or `order-check-unavailable`; Retry-After says when to come \
            again",
            body = ProblemBody)))]
pub(crate) async fn claim_share(
    call: Call<CampaignId>,
    ticket: GrabTicket,
) -> Result<Response, Problem> {
    decide(call, CampaignKind::RedPacket, 1, ticket).await
}

/// Orders units of a sale.
///
/// Where a user may have one unit, repeating it gives the same order; where more, repeat it with the same
/// `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/sales/{id}/orders", tag = "sales", request_body = Option<OrderRequest>,
    operation_id = "orderUnits", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The sale's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request"),
        ("Grab-Ticket" = Option<String>, Header, description = "Where the campaign asks for `ticket`")),
    responses(
        (status = 201, description = "Granted now", body = GrantBody),
        (status = 200, description = "Granted before: the same order", body = GrantBody),
        (status = 401, body = ProblemBody),
        (status = 403, description = "No scope `claim`, or not what the campaign asks for: `ticket-…`, \
            `order-check-refused` with the shop's reason", body = ProblemBody),
        (status = 404, description = "unknown_campaign", body = ProblemBody),
        (status = 409, description = "sold_out, limit_reached or not_started", body = ProblemBody),
        (status = 410, description = "ended", body = ProblemBody),
        (status = 422, description = "Nothing ordered, or the key was used for another quantity", body = ProblemBody),
        (status = 429, body = ProblemBody),
        (status = 503, description = "paused, no decision, or `order-check-unavailable`; Retry-After says when to come \
            again",
            body = ProblemBody)))]
pub(crate) async fn order_units(
    call: Call<CampaignId>,
    ticket: GrabTicket,
    OptionalJson(OrderRequest { quantity }): OptionalJson<OrderRequest>,
) -> Result<Response, Problem> {
    if quantity == 0 {
        return Err(Problem::invalid("an order is for at least 1 unit"));
    }
    decide(call, CampaignKind::Sale, quantity, ticket).await
}

/// Does what a claim does without the gate and the engine; its grant is made up. Only with `server.noop_route`, for
/// benchmarks.
pub(crate) async fn noop(call: Call<CampaignId>) -> Result<Response, Problem> {
    let Call {
        app, caller, id, ..
    } = call;
    caller.require(Scope::Claim)?;
    app.throttle.check(&caller.user)?;
    let grant = Grant {
        campaign: id,
        number: 12_345,
        quantity: 1,
        amount_minor: 100,
        granted_at: app.ports.clock.now(),
        order: None,
    };
    let meta = app.meta(id).await?.ok_or(ProblemKind::UnknownCampaign)?;
    let body = GrantBody::new(&grant, meta.currency, Some(AckLevel::Fsync));
    Ok(grant_response(StatusCode::CREATED, &body))
}

async fn decide(
    call: Call<CampaignId>,
    kind: CampaignKind,
    quantity: u32,
    ticket: GrabTicket,
) -> Result<Response, Problem> {
    let (app, caller) = (&*call.app, call.caller);
    caller.require(Scope::Claim)?;
    let passed = app.throttle.check(&caller.user);
    passed.inspect_err(|_| app.metrics.throttled())?;
    let id = call.id;
    let claim = Claim {
        campaign: id,
        kind,
        user: caller.user,
        quantity,
        key: call.key,
    };
    let known = app.ports.engine.peek(&claim);
    if let Some(outcome) = &known
        && let Some(response) = gate(app, id, kind, outcome).await?
    {
        app.metrics.claimed(outcome);
        return Ok(response);
    }
    // Who is known to have a grant gets it again without.
    if known.is_none() {
        let checked = app.check_requirements(&claim, &ticket).await;
        checked.inspect_err(|problem| match problem.kind_status().is_client_error() {
            true => app.metrics.unmet(),
            false => app.metrics.failed(),
        })?;
    }
    let claimed = app.ports.engine.claim(claim).await;
    let Claimed { outcome, ack } = claimed.inspect_err(|_| app.metrics.failed())?;
    app.metrics.claimed(&outcome);
    match outcome {
        Outcome::Granted(grant) => granted(app, StatusCode::CREATED, &grant, ack).await,
        Outcome::AlreadyGranted(grant) => granted(app, StatusCode::OK, &grant, ack).await,
        _ => refuse(app, id, kind, &outcome).await,
    }
}

/// The answer that needs no engine. A replayed grant is answered here only if its acknowledgement level is certain;
/// otherwise the engine answers, which knows it.
async fn gate(
    app: &App,
    id: CampaignId,
    kind: CampaignKind,
    outcome: &Outcome,
) -> Result<Option<Response>, Problem> {
    let Some(grant) = outcome.grant() else {
        return refuse(app, id, kind, outcome).await.map(Some);
    };
    let meta = app.campaigns.get(grant.campaign);
    Ok(meta.filter(|meta| meta.ack == AckLevel::Fsync).map(|meta| {
        let body = GrantBody::new(grant, meta.currency, Some(AckLevel::Fsync));
        grant_response(StatusCode::OK, &body)
    }))
}

async fn granted(
    app: &App,
    status: StatusCode,
    grant: &Grant,
    ack: AckLevel,
) -> Result<Response, Problem> {
    // Reads the ledger once a campaign after a restart. Should that fail, a retry replays the grant.
    let meta = app.meta(grant.campaign).await?;
    let meta = meta.ok_or_else(|| Problem::ledger_incomplete(grant.campaign))?;
    let body = GrantBody::new(grant, meta.currency, Some(ack));
    Ok(grant_response(status, &body))
}

fn grant_response(status: StatusCode, grant: &GrantBody) -> Response {
    let mut body = Vec::with_capacity(GRANT_BYTES);
    match serde_json::to_writer(&mut body, grant) {
        Ok(()) => (status, [(header::CONTENT_TYPE, JSON)], Body::from(body)).into_response(),
        Err(error) => Problem::internal(error.to_string()).into_response(),
    }
}
