//! Grab tickets, required by claims of some campaigns. They are made only after the start, for one user and one
//! campaign, and expire. So no user can claim before the start, or pass a ticket on.

use std::sync::Arc;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
};
use qiang_core::{
    book::Claim,
    campaign::{CampaignKind, Requirement},
    id::{CampaignId, UserId},
    outcome::Outcome,
    time::Timestamp,
};
use qiang_wire::problem::{Problem, ProblemKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{
        Scope,
        seal::{Bearer, SealFault, SealPurpose},
    },
    challenge::TicketChallenge,
    claims::refusal::refuse,
    extract::{ObjectRequest, OptionalJson},
    http::{problem::ApiProblem, wire::Rfc3339},
};

/// Header of a claim with the ticket.
pub(crate) const GRAB_TICKET: &str = "grab-ticket";

/// Ticket of a request.
pub(crate) struct SignedTicket(Option<String>);

impl FromRequestParts<Arc<App>> for SignedTicket {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiProblem> {
        Ok(Self::from_headers(&parts.headers))
    }
}

impl SignedTicket {
    /// A value that is not text is an invalid ticket.
    fn from_headers(headers: &HeaderMap) -> Self {
        let value = headers.get(GRAB_TICKET);
        Self(value.map(|value| value.to_str().unwrap_or("?").to_owned()))
    }

    /// Checks that a claim may go to the engine with the ticket.
    pub(crate) fn check(&self, app: &App, claim: &Claim) -> Result<(), ApiProblem> {
        let bearer = Bearer {
            campaign: claim.campaign,
            user: &claim.user,
        };
        let ticket = self.0.as_deref().ok_or(ProblemKind::TicketMissing)?;
        let checked = checked(app, SealPurpose::Ticket, ticket, bearer)?;
        checked.map(|_| ()).map_err(|fault| {
            match fault {
                SealFault::Invalid => ProblemKind::TicketInvalid,
                SealFault::OtherUser => ProblemKind::TicketOfAnotherUser,
                SealFault::OtherCampaign => ProblemKind::TicketOfAnotherCampaign,
                SealFault::Expired => ProblemKind::TicketExpired,
            }
            .into()
        })
    }
}

/// Solution of a challenge.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = ChallengeSolution)]
pub(crate) struct SolutionBody {
    /// Nonce of the challenge, unchanged.
    nonce: String,
    /// For `proof-of-work`: a text of at most 128 bytes. SHA-256 over nonce, `:` and this text must start with
    /// `difficulty` zero bits.
    solution: String,
}

/// A grab ticket.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GrabTicket)]
pub(crate) struct TicketBody {
    /// Value of the header `Grab-Ticket` in claims.
    ticket: String,
    /// Time until which it is valid.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
}

/// Challenge to solve before a ticket.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ChallengeAnswer)]
pub(crate) struct PosedBody {
    challenge: ChallengeBody,
}

/// A challenge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Challenge)]
pub(crate) struct ChallengeBody {
    /// `proof-of-work`, unless the installation has its own challenge.
    kind: &'static str,
    /// Nonce to send back with the solution.
    nonce: String,
    /// Time until which a solution is accepted.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
    /// Parameters of the challenge: for `proof-of-work` `difficulty`, the number of bits.
    #[serde(flatten)]
    #[schema(value_type = ChallengeParameters)]
    parameters: Map<String, Value>,
}

/// Parameters of a challenge. An installation's own challenge may have others.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
struct ChallengeParameters {
    /// For `proof-of-work`: the number of zero bits.
    #[schema(minimum = 0, maximum = 32)]
    difficulty: Option<u32>,
}

/// Makes a ticket for orders of a sale that requires one.
///
/// If the installation has a challenge, a request without a body gets it, and one with its solution gets the ticket.
/// The same solution always gets the same ticket. Before the start there are no tickets.
#[utoipa::path(post, path = "/v1/sales/{id}/tickets", tag = "sales", request_body = Option<SolutionBody>,
    operation_id = "getSaleTicket", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The sale's id")),
    responses(
        (status = 201, description = "The ticket", body = TicketBody),
        (status = 200, description = "A challenge to solve first", body = PosedBody),
        (status = 401, body = Problem),
        (status = 403, description = "`challenge-failed`: request another one", body = Problem),
        (status = 404, description = "unknown_campaign", body = Problem),
        (status = 409, description = "not_started: Retry-After has the seconds to wait; sold_out; limit_reached; or \
         `ticket-not-needed`", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 429, body = Problem),
        (status = 503, description = "paused, `ledger-incomplete`, or no answer of the ledger", body = Problem)))]
pub(crate) async fn for_sale(
    call: ObjectRequest<CampaignId>,
    OptionalJson(solved): OptionalJson<SolutionBody>,
) -> Result<Response, ApiProblem> {
    ticket(call, CampaignKind::Sale, solved).await
}

/// Makes a ticket for claims of a red packet that requires one.
///
/// As for sales: without a body, the answer is a challenge, if the installation has one. With its solution, it is the
/// ticket.
#[utoipa::path(post, path = "/v1/red-packets/{id}/tickets", tag = "red packets",
    operation_id = "getRedPacketTicket", security(("bearer" = ["claim"])),
    request_body = Option<SolutionBody>,
    params(("id" = String, Path, description = "The red packet's id")),
    responses(
        (status = 201, description = "The ticket", body = TicketBody),
        (status = 200, description = "A challenge to solve first", body = PosedBody),
        (status = 401, body = Problem),
        (status = 403, description = "`challenge-failed`: request another one", body = Problem),
        (status = 404, description = "unknown_campaign", body = Problem),
        (status = 409, description = "not_started: Retry-After has the seconds to wait; sold_out; or \
         `ticket-not-needed`", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 429, body = Problem),
        (status = 503, description = "paused, `ledger-incomplete`, or no answer of the ledger", body = Problem)))]
pub(crate) async fn for_red_packet(
    call: ObjectRequest<CampaignId>,
    OptionalJson(solved): OptionalJson<SolutionBody>,
) -> Result<Response, ApiProblem> {
    ticket(call, CampaignKind::RedPacket, solved).await
}

async fn ticket(
    call: ObjectRequest<CampaignId>,
    kind: CampaignKind,
    solved: SolutionBody,
) -> Result<Response, ApiProblem> {
    let ObjectRequest {
        app, caller, id, ..
    } = call;
    caller.require(Scope::Claim)?;
    if let Some(outcome) = refusal(&app, id, kind, &caller.user).await? {
        return refuse(&app, id, kind, &outcome).await;
    }
    let bearer = Bearer {
        campaign: id,
        user: &caller.user,
    };
    let lasts_ms = i64::try_from(app.config.tickets.ttl_ms).unwrap_or(i64::MAX);
    let mut expires_at = app.ports.clock.now().plus_millis(lasts_ms);
    if let Some(challenge) = app.challenge.as_deref() {
        if solved.nonce.is_empty() {
            let posed = PosedBody {
                challenge: ChallengeBody {
                    kind: challenge.kind(),
                    nonce: sealed(&app, SealPurpose::Challenge, bearer, expires_at)?,
                    expires_at: Rfc3339(expires_at),
                    parameters: challenge.parameters(),
                },
            };
            return Ok((StatusCode::OK, Json(posed)).into_response());
        }
        let posed_until = check_solution(&app, challenge, &solved, bearer).await?;
        // Each solution has one ticket, the same text for each request and on each node.
        expires_at = posed_until.plus_millis(lasts_ms);
    }
    let body = TicketBody {
        ticket: sealed(&app, SealPurpose::Ticket, bearer, expires_at)?,
        expires_at: Rfc3339(expires_at),
    };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Reason why a user gets no ticket: the answer to a claim, as far as this node knows it. A user with a grant gets a
/// ticket, to replay the claim.
async fn refusal(
    app: &App,
    id: CampaignId,
    kind: CampaignKind,
    user: &UserId,
) -> Result<Option<Outcome>, ApiProblem> {
    let Some(meta) = app.meta(id).await?.filter(|meta| meta.kind == kind) else {
        return Ok(Some(Outcome::UnknownCampaign));
    };
    if !meta.requirements.contains(Requirement::Ticket) {
        return Err(ProblemKind::TicketNotNeeded.into());
    }
    let claim = Claim {
        campaign: id,
        kind,
        user: user.clone(),
        quantity: 1,
        key: None,
    };
    let at_hand = app.ports.engine.gate_outcome(&claim).await?;
    if let Some(outcome) = app.known_campaign(&claim, at_hand).await? {
        return Ok(Some(outcome).filter(|outcome| outcome.grant().is_none()));
    }
    let starts_at = app.with_window(id, meta).await.window.starts_at();
    let is_ahead = app.ports.engine_clock.now() < starts_at;
    Ok(is_ahead.then_some(Outcome::NotStarted { starts_at }))
}

/// Checks a solution; returns the expiry of its challenge.
async fn check_solution(
    app: &App,
    challenge: &dyn TicketChallenge,
    solved: &SolutionBody,
    bearer: Bearer<'_>,
) -> Result<Timestamp, ApiProblem> {
    let failed = |detail: &'static str| ApiProblem::new(ProblemKind::ChallengeFailed, detail);
    let nonce = checked(app, SealPurpose::Challenge, &solved.nonce, bearer)?;
    let posed_until = nonce.map_err(|fault| {
        failed(match fault {
            SealFault::Expired => "the challenge has expired: request another one",
            _ => "this is not a challenge for this user and campaign",
        })
    })?;
    match challenge.is_solved(&solved.nonce, &solved.solution).await {
        Ok(true) => Ok(posed_until),
        Ok(false) => Err(failed("the solution is wrong")),
        Err(error) => Err(ApiProblem::unavailable(error.to_string())),
    }
}

fn sealed(
    app: &App,
    purpose: SealPurpose,
    bearer: Bearer<'_>,
    expires_at: Timestamp,
) -> Result<String, ApiProblem> {
    let verifier = app.verifier.load();
    let sealer = verifier.sealer.as_ref().ok_or_else(no_key)?;
    let text = sealer.seal(purpose, bearer, expires_at);
    text.map_err(|error| ApiProblem::internal(error.to_string()))
}

fn checked(
    app: &App,
    purpose: SealPurpose,
    text: &str,
    bearer: Bearer<'_>,
) -> Result<Result<Timestamp, SealFault>, ApiProblem> {
    let verifier = app.verifier.load();
    let sealer = verifier.sealer.as_ref().ok_or_else(no_key)?;
    Ok(sealer.check(purpose, text, bearer, app.ports.clock.now()))
}

/// Another node has created the campaign, or the configuration has changed since.
fn no_key() -> ApiProblem {
    ApiProblem::unavailable("the campaign needs tickets, but auth.ticket_secret is not set")
}
