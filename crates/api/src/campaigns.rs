//! Campaigns of either kind: their state, and what those who lead them do to them.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{CampaignKind, Phase, Transition},
    id::CampaignId,
    ports::ActionKind,
};
use serde_json::json;

use crate::{
    actions,
    app::App,
    auth::{Caller, Scope},
    extract::{Call, Param},
    once::Pending,
    problem::{NoAnswer, Problem, ProblemBody, ProblemKind},
    wire::{self, StateBody},
};

/// What caches may do with a campaign's numbers: keep them for a second.
const STATE_CACHING: &str = "public, max-age=1, s-maxage=1";

/// A campaign's present numbers; may be asked by anybody, and kept for a second by caches.
///
/// The entity tag stands for everything but `now`; an answer 304 has the server's time in `Date`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/state", tag = "campaigns", security(()),
    operation_id = "getCampaignState",
    params(("id" = String, Path, description = "The campaign's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = StateBody), (status = 304, description = "The numbers are those of the tag"),
        (status = 404, body = ProblemBody), NoAnswer))]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let tally = app.shared_tally(id).await?;
    let tally = tally.ok_or(ProblemKind::UnknownCampaign)?;
    let body = StateBody::new(&tally, meta.window, app.ports.engine_clock.now());
    Ok(wire::tagged(&headers, STATE_CACHING, &body))
}

impl App {
    /// Refuses whoever may not lead a campaign. Its owner may, by the scope that its kind is made with; others may by
    /// the scope for everybody's.
    pub(crate) async fn check_leads(&self, caller: &Caller, id: CampaignId) -> Result<(), Problem> {
        if caller.may(Scope::CampaignsWriteAny) {
            return Ok(());
        }
        let Some(meta) = self.meta(id).await? else {
            return Err(self.missing(id).await);
        };
        caller.require(match meta.kind {
            _ if meta.owner != caller.user => Scope::CampaignsWriteAny,
            CampaignKind::RedPacket => Scope::Send,
            CampaignKind::Sale => Scope::CampaignsWrite,
        })
    }
}

/// Stops granting for now. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/pause", tag = "campaigns",
    operation_id = "pauseCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "`phase-conflict`, or `key-pending`: an earlier request with this key broke off",
            body = ProblemBody), NoAnswer))]
pub(crate) async fn pause(call: Call<CampaignId>) -> Result<Response, Problem> {
    act(&call, CampaignAction::Pause).await
}

/// Lets a paused campaign go on. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resume", tag = "campaigns",
    operation_id = "resumeCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "`phase-conflict`, or `key-pending`: an earlier request with this key broke off",
            body = ProblemBody), NoAnswer))]
pub(crate) async fn resume(call: Call<CampaignId>) -> Result<Response, Problem> {
    act(&call, CampaignAction::Resume).await
}

/// Ends a campaign now and gives back what is left. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/close", tag = "campaigns",
    operation_id = "closeCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody), NoAnswer))]
pub(crate) async fn close(call: Call<CampaignId>) -> Result<Response, Problem> {
    act(&call, CampaignAction::Close).await
}

/// Archives a campaign that is closed: lists do not show it any more unless asked. Again changes nothing.
#[utoipa::path(post, path = "/v1/campaigns/{id}/archive", tag = "campaigns",
    operation_id = "archiveCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = StateBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, body = ProblemBody), NoAnswer))]
pub(crate) async fn archive(call: Call<CampaignId>) -> Result<Response, Problem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let used = call.key_use("POST /v1/campaigns/{id}/archive", &());
    call.app
        .once(used, Pending::Acts, archive_once(&call))
        .await
}

async fn archive_once(call: &Call<CampaignId>) -> Result<StateBody, Problem> {
    let (app, id) = (&call.app, call.id);
    let ledger = &app.ports.ledger;
    let mut record = ledger.campaign(id).await?;
    if record
        .as_ref()
        .is_some_and(|record| record.phase != Phase::Closed)
    {
        // Closed a moment ago: the ledger is about to know.
        app.settled().await?;
        record = ledger.campaign(id).await?;
    }
    let Some(record) = record else {
        return Err(app.missing(id).await);
    };
    let now = app.ports.engine_clock.now();
    let (tally, window) = (record.settled_tally(now), record.campaign.window);
    tally
        .phase
        .after(Transition::Archive)
        .map_err(Refusal::from)?;
    let action = call.action(ActionKind::Archive, &json!({}));
    if !ledger.archive(id, Some(&action)).await? {
        return Err(Problem::internal("a closed campaign could not be archived"));
    }
    actions::log(&action);
    Ok(StateBody::new(&tally, window, now))
}

async fn act(call: &Call<CampaignId>, action: CampaignAction) -> Result<Response, Problem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let (kind, route, pending) = match action {
        CampaignAction::Pause => (
            ActionKind::Pause,
            "POST /v1/campaigns/{id}/pause",
            Pending::Refused,
        ),
        CampaignAction::Resume => (
            ActionKind::Resume,
            "POST /v1/campaigns/{id}/resume",
            Pending::Refused,
        ),
        CampaignAction::Close => (
            ActionKind::Close,
            "POST /v1/campaigns/{id}/close",
            Pending::Acts,
        ),
    };
    let used = call.key_use(route, &());
    call.app
        .once(used, pending, act_once(call, action, kind))
        .await
}

async fn act_once(
    call: &Call<CampaignId>,
    action: CampaignAction,
    kind: ActionKind,
) -> Result<StateBody, Problem> {
    let recorded = match call.record(kind, &json!({})).await {
        // Whoever watches a rush must be able to stop it while the ledger does not answer. The log names them.
        Err(problem) if action == CampaignAction::Pause => {
            tracing::error!(campaign = %call.id, ?problem, "the ledger did not record who pauses");
            call.action(kind, &json!({}))
        }
        recorded => recorded?,
    };
    let (app, campaign) = (&call.app, call.id);
    let command = Command::Act { campaign, action };
    let reply = app.submit_recorded(&recorded, command).await?;
    actions::log(&recorded);
    let meta = app.meta(campaign).await;
    let meta = meta.map_err(Problem::after_the_command)?;
    let meta = meta.ok_or_else(|| Problem::ledger_incomplete(campaign))?;
    match reply {
        Reply::Acted(tally) => Ok(StateBody::new(
            &tally,
            meta.window,
            app.ports.engine_clock.now(),
        )),
        _ => Err(Problem::unexpected_reply()),
    }
}
