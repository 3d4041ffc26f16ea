//! Places in the line of a campaign that has a waiting room: entering, asking, and the stream that tells.

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
    ports::EngineError,
    waiting::{Decision, Standing},
};
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::Scope,
    cache::watched::KEEP_ALIVE,
    claims::refusal::refused,
    extract::Call,
    http::{
        client_address::LimitedOrigin,
        problem::{NoAnswer, Problem, ProblemBody, ProblemKind},
        wire::GrantBody,
    },
    protect::open_streams::StreamPermit,
};

/// After how many seconds who waits may ask again.
const RETRY_AFTER_S: u32 = 1;
/// How often a stream looks where its user stands.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A stream tells at most so often that the user has come forward.
const MOVES_EVERY: Duration = Duration::from_secs(1);
/// Keeps nginx from gathering a stream.
pub(crate) const UNBUFFERED: (HeaderName, &str) =
    (HeaderName::from_static("x-accel-buffering"), "no");

/// What can be said of a place: it waits or was granted; what else became of it, in a stream; and that there is none.
pub(crate) const STATES: [&str; 8] = [
    "waiting",
    "granted",
    "sold_out",
    "limit_reached",
    "ended",
    "unknown_campaign",
    "key_reused",
    "none",
];

/// Where a user stands in line, or what became of the place.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Place)]
pub(crate) struct PlaceBody {
    /// waiting; or granted; in a stream also the name of what else became of it: sold_out, limit_reached, ended,
    /// unknown_campaign, key_reused, or none where the caller is not in line any more and should ask again.
    state: &'static str,
    /// The place's number: the order of entry.
    place: u64,
    /// While it waits: how many are before it, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    /// What was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<GrantBody>,
}

impl PlaceBody {
    fn waiting(place: u64, ahead: u64) -> Self {
        Self {
            state: "waiting",
            place,
            ahead: Some(ahead),
            grant: None,
        }
    }

    async fn decided(
        app: &App,
        campaign: CampaignId,
        place: u64,
        decision: &Decision,
    ) -> Result<Self, Problem> {
        let mut body = Self {
            state: decision.name(),
            place,
            ahead: None,
            grant: None,
        };
        if let Decision::Claimed(outcome, ack) = decision
            && let Some(grant) = outcome.grant()
        {
            let meta = app.meta(campaign).await?;
            let meta = meta.ok_or_else(|| Problem::ledger_incomplete(campaign))?;
            body.state = "granted";
            body.grant = Some(GrantBody::new(grant, meta.currency, Some(*ack)));
        }
        Ok(body)
    }
}

/// Lets a claim take its place at the end of the line. `None` if the user waits with another order and the claim was
/// granted before: the engine replays it.
pub(crate) async fn enter(app: &App, claim: &Claim) -> Result<Option<Response>, Problem> {
    let (limits, now) = (app.config.waiting.limits(), app.ports.clock.now());
    let entered = app.ports.waiting_room.enter(claim, now, limits).await;
    if claim.key.is_some()
        && matches!(
            entered,
            Err(EngineError::Refused(Refusal::WaitsWithAnother))
        )
    {
        let known = app.ports.engine.look(claim).await.ok().flatten();
        if known.is_some_and(|outcome| outcome.grant().is_some()) {
            return Ok(None);
        }
    }
    let entered = entered.inspect_err(|_| app.metrics.failed())?;
    let Some(Standing::Waiting { number, ahead }) = entered else {
        app.metrics.failed();
        return Err(Problem::line_full());
    };
    app.metrics.entered();
    app.ports.waiting.entered();
    let location = format!("/v1/campaigns/{}/place", claim.campaign);
    let headers = [
        (header::LOCATION, location),
        (header::RETRY_AFTER, RETRY_AFTER_S.to_string()),
    ];
    let body = Json(PlaceBody::waiting(number, ahead));
    Ok(Some((StatusCode::ACCEPTED, headers, body).into_response()))
}

/// Where the caller stands in the line of a campaign, or what became of the place.
///
/// With `Accept: text/event-stream` it is a stream: an event `place` at once and when the caller has come forward, an
/// event `result` at the end. A stream that ends without a result was long enough, or the service is going down:
/// connect again. What became of a place can be asked for `waiting.kept_ms`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/place", tag = "campaigns",
    operation_id = "getPlace", security(("bearer" = ["claim"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses(
        (status = 200, description = "It waits, or was granted", content(
            (PlaceBody = "application/json"), (String = "text/event-stream"))),
        (status = 401, body = ProblemBody), (status = 403, body = ProblemBody),
        (status = 404, description = "`no-place`: the caller is not in line, and may claim again; `unknown-campaign`",
            body = ProblemBody),
        (status = 409, description = "sold_out or limit_reached", body = ProblemBody),
        (status = 410, description = "ended", body = ProblemBody),
        (status = 422, description = "`key-reused`", body = ProblemBody),
        (status = 429, description = "`too-many-streams`", body = ProblemBody), NoAnswer))]
pub(crate) async fn place(
    call: Call<CampaignId>,
    headers: HeaderMap,
    origin: LimitedOrigin,
) -> Result<Response, Problem> {
    let Call {
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
        Standing::Waiting { number, ahead } => {
            let caching = [
                (header::CACHE_CONTROL, "no-store".to_owned()),
                (header::RETRY_AFTER, RETRY_AFTER_S.to_string()),
            ];
            Ok((caching, Json(PlaceBody::waiting(number, ahead))).into_response())
        }
        Standing::Decided { number, decision } => match decision {
            Decision::KeyReused => Err(Refusal::KeyReused.into()),
            Decision::Claimed(outcome, _) if outcome.grant().is_none() => {
                Ok(refused(&app, &outcome))
            }
            Decision::Claimed(..) => {
                let body = PlaceBody::decided(&app, id, number, &decision).await?;
                Ok(([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response())
            }
        },
    }
}

fn no_place() -> Problem {
    let detail = "claim again to take a place at the end of the line";
    Problem::new(ProblemKind::NoPlace, detail)
}

/// What a client of a stream has had last, by `Last-Event-ID`; none where it has had nothing.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<u32>, Problem> {
    let Some(id) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    let bad = || Problem::new(ProblemKind::BadRequest, "Last-Event-ID is no number");
    number.map(Some).ok_or_else(bad)
}

pub(crate) fn accepts_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    accepted
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|range| range.split(';').next().unwrap_or("").trim() == "text/event-stream")
}

/// A user's stream. It asks and tells one after the other: a client that reads slowly makes it wait, and nothing is
/// gathered.
struct PlaceStream {
    app: Arc<App>,
    campaign: CampaignId,
    user: UserId,
    /// What is to be told next, if that is known already.
    next: Option<Standing>,
    /// What was told last, and when.
    told: Option<(Standing, Instant)>,
    until: Instant,
    over: bool,
    _permit: StreamPermit,
}

fn stream_of(
    app: Arc<App>,
    campaign: CampaignId,
    user: UserId,
    standing: Standing,
    permit: StreamPermit,
) -> Response {
    // A connection on which nothing is asked is closed after `server.idle_timeout_ms`.
    let idle_ms = app.config.server.idle_timeout_ms;
    let lasts_ms = app.config.waiting.stream_ms.min(idle_ms / 2);
    let places = PlaceStream {
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

impl PlaceStream {
    /// The next event; none at the end.
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
                Some(standing @ Standing::Waiting { number, ahead }) => {
                    let is_new = self
                        .told
                        .is_none_or(|(told, at)| told != standing && at.elapsed() >= MOVES_EVERY);
                    if !is_new {
                        continue;
                    }
                    self.told = Some((standing, Instant::now()));
                    ("place", PlaceBody::waiting(number, ahead))
                }
                Some(Standing::Decided { number, decision }) => {
                    self.over = true;
                    let decided = PlaceBody::decided(&self.app, self.campaign, number, &decision);
                    ("result", decided.await.ok()?)
                }
                None => {
                    self.over = true;
                    let nowhere = PlaceBody {
                        state: "none",
                        place: 0,
                        ahead: None,
                        grant: None,
                    };
                    ("result", nowhere)
                }
            };
            // A struct of texts and numbers always serialises.
            return Event::default().event(name).json_data(body).ok();
        }
    }
}
