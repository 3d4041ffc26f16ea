//! Campaigns of either kind: their state, and what operators do to them.

use std::sync::Arc;

use axum::{Json, extract::State, http::header, response::IntoResponse};
use qiang_core::{
    book::{CampaignAction, Command, Reply},
    id::{CampaignId, IdempotencyKey},
};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Key, Param},
    problem::{Problem, ProblemBody, ProblemKind},
    wire::StateBody,
};

/// A campaign's present numbers; may be asked by anybody, and kept for a second by caches.
#[utoipa::path(get, path = "/v1/campaigns/{id}/state", tag = "campaigns", security(()),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
) -> Result<impl IntoResponse, Problem> {
    let unknown = ProblemKind::UnknownCampaign;
    let meta = app.meta(id).await?.ok_or(unknown)?;
    let tally = app.ports.engine.tally(id).await?.ok_or(unknown)?;
    let body = StateBody::new(&tally, meta.window, app.ports.clock.now());
    Ok(([(header::CACHE_CONTROL, "public, max-age=1")], Json(body)))
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
    act(&app, &caller, id, key, CampaignAction::Pause).await
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
    act(&app, &caller, id, key, CampaignAction::Resume).await
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
    act(&app, &caller, id, key, CampaignAction::Close).await
}

async fn act(
    app: &App,
    caller: &Caller,
    id: CampaignId,
    key: Option<IdempotencyKey>,
    action: CampaignAction,
) -> Result<Json<StateBody>, Problem> {
    caller.require(Scope::Operate)?;
    let route = match action {
        CampaignAction::Pause => "POST /v1/campaigns/{id}/pause",
        CampaignAction::Resume => "POST /v1/campaigns/{id}/resume",
        CampaignAction::Close => "POST /v1/campaigns/{id}/close",
    };
    app.bind(caller, route, key.as_ref(), &id.to_string(), &())
        .await?;
    let campaign = id;
    let reply = app
        .ports
        .engine
        .submit(Command::Act { campaign, action })
        .await?;
    tracing::info!(campaign = %id, ?action, "changed by an operator");
    match (reply, app.meta(id).await?) {
        (Reply::Acted(tally), Some(meta)) => Ok(Json(StateBody::new(
            &tally,
            meta.window,
            app.ports.clock.now(),
        ))),
        _ => Err(ProblemKind::Internal.into()),
    }
}
