//! Campaigns of either kind: their state, and what operators do to them.

use std::sync::Arc;

use axum::{Json, extract::State, http::header, response::IntoResponse};
use qiang_core::{
    book::{CampaignAction, Command, Reply},
    id::CampaignId,
};

use crate::{
    app::App,
    auth::Scope,
    extract::{Call, Param},
    problem::{Problem, ProblemBody, ProblemKind},
    wire::StateBody,
};

/// A campaign's present numbers; may be asked by anybody, and kept for a second by caches.
#[utoipa::path(get, path = "/v1/campaigns/{id}/state", tag = "campaigns", security(()),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 404, body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, or `ledger-incomplete`",
            body = ProblemBody)))]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
) -> Result<impl IntoResponse, Problem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let tally = app.ports.engine.tally(id).await?;
    let tally = tally.ok_or(ProblemKind::UnknownCampaign)?;
    let body = StateBody::new(&tally, meta.window, app.ports.clock.now());
    Ok(([(header::CACHE_CONTROL, "public, max-age=1")], Json(body)))
}

/// Stops granting for now. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/pause", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, or `ledger-incomplete`",
            body = ProblemBody)))]
pub(crate) async fn pause(call: Call<CampaignId>) -> Result<Json<StateBody>, Problem> {
    act(&call, CampaignAction::Pause).await
}

/// Lets a paused campaign go on. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resume", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, or `ledger-incomplete`",
            body = ProblemBody)))]
pub(crate) async fn resume(call: Call<CampaignId>) -> Result<Json<StateBody>, Problem> {
    act(&call, CampaignAction::Resume).await
}

/// Ends a campaign now and gives back what is left. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/close", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, or `ledger-incomplete`",
            body = ProblemBody)))]
pub(crate) async fn close(call: Call<CampaignId>) -> Result<Json<StateBody>, Problem> {
    act(&call, CampaignAction::Close).await
}

async fn act(call: &Call<CampaignId>, action: CampaignAction) -> Result<Json<StateBody>, Problem> {
    call.caller.require(Scope::Operate)?;
    let route = match action {
        CampaignAction::Pause => "POST /v1/campaigns/{id}/pause",
        CampaignAction::Resume => "POST /v1/campaigns/{id}/resume",
        CampaignAction::Close => "POST /v1/campaigns/{id}/close",
    };
    call.bind(route, &()).await?;
    let (app, campaign) = (&call.app, call.id);
    let command = Command::Act { campaign, action };
    let reply = app.ports.engine.submit(command).await?;
    tracing::info!(%campaign, ?action, "changed by an operator");
    let meta = app.meta(campaign).await?;
    let meta = meta.ok_or_else(|| Problem::ledger_incomplete(campaign))?;
    match reply {
        Reply::Acted(tally) => Ok(Json(StateBody::new(
            &tally,
            meta.window,
            app.ports.clock.now(),
        ))),
        _ => Err(Problem::unexpected_reply()),
    }
}
