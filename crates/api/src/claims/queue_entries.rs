//! Queue entries of campaigns that have a waiting room: joining, reading, and the stream of changes.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use qiang_core::{
    book::{Claim, Refusal},
    id::{CampaignId, UserId},
    outcome::Outcome,
    ports::EngineError,
    queue_entry::{QueueDecision, QueueStatus},
};
use qiang_wire::{
    answers::Place,
    problem::{Problem, ProblemKind},
    words::PlaceState,
};
use tokio::time::Instant;

use crate::{
    app::App,
    auth::Scope,
    cache::watched_campaigns::KEEP_ALIVE,
    claims::refusal::refused,
    extract::ObjectRequest,
    http::{
        client_address::LimitedOrigin,
        grant_bodies::{granted_claim, granted_order},
        problem::{ApiProblem, NoAnswer},
    },
    protect::open_streams::StreamPermit,
};

/// Seconds after which a waiting client may ask again.
const RETRY_AFTER_S: u32 = 1;
/// Interval at which a stream reads its user's queue entry.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Shortest time between two events about progress in the queue.
const MOVES_EVERY: Duration = Duration::from_secs(1);
/// Stops nginx from buffering a stream.
pub(crate) const UNBUFFERED: (HeaderName, &str) =
    (HeaderName::from_static("x-accel-buffering"), "no");

fn waiting(place: u64, ahead: u64) -> Place {
    Place {
        state: PlaceState::Waiting,
        place,
        ahead: Some(ahead),
        claim: None,
        order: None,
    }
}

/// State of an entry without a grant.
fn state_of(decision: &QueueDecision) -> PlaceState {
    match decision {
        QueueDecision::KeyReused => PlaceState::KeyReused,
        QueueDecision::Claimed(outcome, _) => match outcome {
            Outcome::UnknownCampaign => PlaceState::UnknownCampaign,
            Outcome::Ended => PlaceState::Ended,
            Outcome::LimitReached { .. } => PlaceState::LimitReached,
            Outcome::SoldOut { .. } => PlaceState::SoldOut,
            Outcome::Granted(_) | Outcome::AlreadyGranted(_) => PlaceState::Granted,
            // The queue keeps an entry while its campaign is paused or has not started.
            Outcome::Paused | Outcome::NotStarted { .. } => PlaceState::None,
        },
    }
}

async fn decided(
    app: &App,
    campaign: CampaignId,
    user: &UserId,
    place: u64,
    decision: &QueueDecision,
) -> Result<Place, ApiProblem> {
    let mut body = Place {
        state: state_of(decision),
        place,
        ahead: None,
        claim: None,
        order: None,
    };
    if let QueueDecision::Claimed(outcome, ack) = decision
        && let Some(grant) = outcome.grant()
    {
        let meta = app.meta(campaign).await?;
        let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(campaign))?;
        body.order = granted_order(grant, user, meta.currency, *ack);
        if body.order.is_none() {
            body.claim = Some(granted_claim(grant, user, meta.currency, *ack));
        }
    }
    Ok(body)
}

/// Adds a claim at the end of the queue. `None` if the user waits with another order and this claim was granted
/// before: the engine then replays it.
pub(crate) async fn enter(app: &App, claim: &Claim) -> Result<Option<Response>, ApiProblem> {
    let (limits, now) = (app.config.queue.limits(), app.ports.clock.now());
    let entered = app.ports.waiting_room.enter(claim, now, limits).await;
    if claim.key.is_some()
        && matches!(
            entered,
            Err(EngineError::Refused(Refusal::WaitsWithAnother))
        )
    {
        let known = app.ports.engine.gate_outcome(claim).await.ok().flatten();
        if known.is_some_and(|outcome| outcome.grant().is_some()) {
            return Ok(None);
        }
    }
    let entered = entered.inspect_err(|_| app.metrics.failed())?;
    let Some(QueueStatus::Waiting { number, ahead }) = entered else {
        app.metrics.failed();
        return Err(ApiProblem::line_full());
    };
    app.metrics.entered();
    app.ports.waiting.entered();
    let location = format!("/v1/campaigns/{}/queue-entry", claim.campaign);
    let headers = [
        (header::LOCATION, location),
        (header::RETRY_AFTER, RETRY_AFTER_S.to_string()),
    ];
    let body = Json(waiting(number, ahead));
    Ok(Some((StatusCode::ACCEPTED, headers, body).into_response()))
}

/// The caller's queue entry in a campaign, or its result.
///
/// With `Accept: text/event-stream` it is a stream: an event `place` at once and after progress, an event `result` at
/// the end. A stream without a result ended at its time limit, or because the service stops: connect again. The
/// result of an entry can be read for `queue.result_ttl_ms`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/queue-entry", tag = "campaigns",
    operation_id = "getPlace", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses(
        (status = 200, description = "It waits, or was granted", content(
            (Place = "application/json"), (String = "text/event-stream"))),
        (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, description = "`no-queue-entry`: the caller is not queued and may claim; `unknown-campaign`",
            body = Problem),
        (status = 409, description = "sold_out or limit_reached", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 422, description = "`key-reused`", body = Problem),
        (status = 429, description = "`too-many-streams`", body = Problem), NoAnswer))]
pub(crate) async fn place(
    call: ObjectRequest<CampaignId>,
    headers: HeaderMap,
    origin: LimitedOrigin,
) -> Result<Response, ApiProblem> {
    let ObjectRequest {
        app, caller, id, ..
    } = call;
    caller.require(Scope::Claim)?;
    let standing = app.ports.waiting_room.standing(id, &caller.user).await?;
    let standing = standing.ok_or_else(no_place)?;
    if accepts_stream(&headers) {
        let permit = app
            .stream_limits
            .open(&app.streams, origin, Some(&caller))?;
        return Ok(stream_of(app, id, caller.user, standing, permit));
    }
    match standing {
        QueueStatus::Waiting { number, ahead } => {
            let caching = [
                (header::CACHE_CONTROL, "no-store".to_owned()),
                (header::RETRY_AFTER, RETRY_AFTER_S.to_string()),
            ];
            Ok((caching, Json(waiting(number, ahead))).into_response())
        }
        QueueStatus::Decided { number, decision } => match decision {
            QueueDecision::KeyReused => Err(Refusal::KeyReused.into()),
            QueueDecision::Claimed(outcome, _) if outcome.grant().is_none() => {
                Ok(refused(&app, &outcome))
            }
            QueueDecision::Claimed(..) => {
                let body = decided(&app, id, &caller.user, number, &decision).await?;
                Ok(([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response())
            }
        },
    }
}

fn no_place() -> ApiProblem {
    let detail = "claim again to join at the end of the queue";
    ApiProblem::new(ProblemKind::NoQueueEntry, detail)
}

/// Last event that a client of a stream has received, by `Last-Event-ID`; `None` if it has none.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u32>, ApiProblem> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    let bad = || ApiProblem::new(ProblemKind::BadRequest, "Last-Event-ID is not a number");
    number.map(Some).ok_or_else(bad)
}

pub(crate) fn accepts_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|range| range.split(';').next().unwrap_or("").trim() == "text/event-stream")
}

/// Stream of one user's queue entry. It reads and sends in turn: a slow client delays the next read, and no events
/// accumulate.
struct QueueEntryStream {
    app: Arc<App>,
    campaign: CampaignId,
    user: UserId,
    /// Next entry to send, if it was read already.
    next: Option<QueueStatus>,
    /// Last entry that was sent, and its time.
    told: Option<(QueueStatus, Instant)>,
    until: Instant,
    over: bool,
    _permit: StreamPermit,
}

fn stream_of(
    app: Arc<App>,
    campaign: CampaignId,
    user: UserId,
    standing: QueueStatus,
    permit: StreamPermit,
) -> Response {
    // The server closes a connection without requests after `server.idle_timeout_ms`.
    let idle_ms = app.config.server.idle_timeout_ms;
    let lasts_ms = app.config.queue.stream_ms.min(idle_ms / 2);
    let places = QueueEntryStream {
        app,
        campaign,
        user,
        next: Some(standing),
        told: None,
        until: Instant::now() + Duration::from_millis(lasts_ms),
        over: false,
        _permit: permit,
    };
    let events = stream::unfold(places, async |mut places| {
        let event = places.event().await?;
        Some((Ok::<_, Infallible>(event), places))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    ([UNBUFFERED], Sse::new(events).keep_alive(keep_alive)).into_response()
}

impl QueueEntryStream {
    /// The next event; `None` at the end.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if self.over || Instant::now() >= self.until || self.app.readiness.is_draining() {
                return None;
            }
            let standing = match self.next.take() {
                Some(standing) => Some(standing),
                None => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    let room = &self.app.ports.waiting_room;
                    room.standing(self.campaign, &self.user).await.ok()?
                }
            };
            let (name, body) = match standing {
                Some(standing @ QueueStatus::Waiting { number, ahead }) => {
                    let is_new = self
                        .told
                        .is_none_or(|(told, at)| told != standing && at.elapsed() >= MOVES_EVERY);
                    if !is_new {
                        continue;
                    }
                    self.told = Some((standing, Instant::now()));
                    ("place", waiting(number, ahead))
                }
                Some(QueueStatus::Decided { number, decision }) => {
                    self.over = true;
                    let decided = decided(&self.app, self.campaign, &self.user, number, &decision);
                    ("result", decided.await.ok()?)
                }
                None => {
                    self.over = true;
                    let nowhere = Place {
                        state: PlaceState::None,
                        place: 0,
                        ahead: None,
                        claim: None,
                        order: None,
                    };
                    ("result", nowhere)
                }
            };
            // A struct of strings and numbers always serialises.
            return Event::default().event(name).json_data(body).ok();
        }
    }
}
