//! Campaigns of either kind: their state, and what operators do to them.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::{
    book::{CampaignAction, Command, Reply},
    id::{CampaignId, IdempotencyKey},
};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Key, Param, fingerprint},
    problem::{Problem, ProblemBody, ProblemKind},
    wire::StateBody,
};

impl App {
    async fn state(&self, id: CampaignId) -> Result<StateBody, Problem> {
        let unknown = || Problem::new(ProblemKind::UnknownCampaign, "");
        let meta = self.meta(id).await?.ok_or_else(unknown)?;
        let tally = self.engine.tally(id).await?.ok_or_else(unknown)?;
        Ok(StateBody::new(&tally, meta.window, self.clock.now()))
    }
}

/// A campaign's present numbers; may be asked by anybody, and kept for a second by caches.
#[utoipa::path(get, path = "/v1/campaigns/{id}/state", tag = "campaigns", security(()),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
) -> Result<Response, Problem> {
    let mut response = Json(app.state(id).await?).into_response();
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=1"),
    );
    Ok(response)
}

/// Stops granting for now. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/pause", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody)))]
pub(crate) async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
    Key(key): Key,
) -> Result<Json<StateBody>, Problem> {
    act(
        &app,
        &caller,
        id,
        key.as_ref(),
        ("POST /v1/campaigns/{id}/pause", CampaignAction::Pause),
    )
    .await
}

/// Lets a paused campaign go on. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resume", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody)))]
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
    Key(key): Key,
) -> Result<Json<StateBody>, Problem> {
    act(
        &app,
        &caller,
        id,
        key.as_ref(),
        ("POST /v1/campaigns/{id}/resume", CampaignAction::Resume),
    )
    .await
}

/// Ends a campaign now and gives back what is left. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/close", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody)))]
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
    Key(key): Key,
) -> Result<Json<StateBody>, Problem> {
    act(
        &app,
        &caller,
        id,
        key.as_ref(),
        ("POST /v1/campaigns/{id}/close", CampaignAction::Close),
    )
    .await
}

async fn act(
    app: &App,
    caller: &Caller,
    id: CampaignId,
    key: Option<&IdempotencyKey>,
    (route, action): (&str, CampaignAction),
) -> Result<Json<StateBody>, Problem> {
    caller.require(Scope::Operate)?;
    app.bind(caller, route, key, || fingerprint(&id.to_string(), &()))
        .await?;
    let reply = app
        .engine
        .submit(Command::Act {
            campaign: id,
            action,
        })
        .await?;
    tracing::info!(campaign = %id, ?action, "changed by an operator");
    let meta = app.meta(id).await?;
    match (reply, meta) {
        (Reply::Acted(tally), Some(meta)) => {
            Ok(Json(StateBody::new(&tally, meta.window, app.clock.now())))
        }
        _ => Err(Problem::new(ProblemKind::Internal, "")),
    }
}
