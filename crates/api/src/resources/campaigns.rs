//! Campaigns of both kinds: their state, and the operations of their owners.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use qiang_core::{
    book::{CampaignAction, Command, Refusal, Reply},
    campaign::{CampaignKind, Phase, Tally, Transition},
    id::CampaignId,
    ports::{Action, ActionKind, CampaignRecord},
};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
};
use serde_json::{Value, json};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{ObjectRequest, Param},
    http::{
        problem::{ApiProblem, NoAnswer},
        wire,
    },
    resources::{
        changes::{BegunChange, Change},
        operation_log,
    },
};

/// Caching of a campaign's numbers: one second.
const STATE_CACHING: &str = "public, max-age=1, s-maxage=1";

/// A campaign's present numbers. No token is needed, and caches may keep them for a second.
///
/// The entity tag covers everything except `now`. An answer 304 has the server's time in `Date`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/state", tag = "campaigns", security(()),
    operation_id = "getCampaignState",
    params(("id" = String, Path, description = "The campaign's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = answers::State), (status = 304, description = "Unchanged since the tag"),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn state(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let tally = app.shared_tally(id).await?;
    let tally = tally.ok_or(ProblemKind::UnknownCampaign)?;
    let body = wire::state_body(&tally, meta.window, app.ports.engine_clock.now());
    Ok(wire::tagged(&headers, STATE_CACHING, &body))
}

impl App {
    /// Refuses a caller who may not operate a campaign. Its owner needs the scope that creates its kind; other users
    /// need the scope for all campaigns.
    pub(crate) async fn check_leads(
        &self,
        caller: &Caller,
        id: CampaignId,
    ) -> Result<(), ApiProblem> {
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

/// Pauses a campaign, which stops its grants. Idempotent. A campaign that is paused before its start grants nothing at
/// its start.
///
/// A pause stops claims only. Holds of unpaid orders continue: users can pay and cancel during the pause, and an unpaid
/// order expires at its `hold_until`. The window does not move: at `ends_at` a paused campaign closes for good.
#[utoipa::path(post, path = "/v1/campaigns/{id}/pause", tag = "campaigns",
    operation_id = "pauseCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = answers::State), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`phase-conflict`; `superseded`: an earlier request with this key broke off, and \
            a later one may have set the phase; `key-pending`: the same, and Redis lost entries in between",
            body = Problem), NoAnswer))]
pub(crate) async fn pause(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let used = call.key_use("POST /v1/campaigns/{id}/pause", &());
    let (app, action) = (Arc::clone(&call.app), CampaignAction::Pause);
    app.change(used, true, PhaseRequest { call, action }).await
}

/// Resumes a paused campaign. Idempotent. Before its start it is scheduled again.
#[utoipa::path(post, path = "/v1/campaigns/{id}/resume", tag = "campaigns",
    operation_id = "resumeCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = answers::State), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`phase-conflict`; `superseded`: an earlier request with this key broke off, and \
            a later one may have set the phase; `key-pending`: the same, and Redis lost entries in between",
            body = Problem), NoAnswer))]
pub(crate) async fn resume(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let used = call.key_use("POST /v1/campaigns/{id}/resume", &());
    let (app, action) = (Arc::clone(&call.app), CampaignAction::Resume);
    app.change(used, false, PhaseRequest { call, action }).await
}

/// Starts a scheduled sale now: its window begins at this moment, and its end stays. A live sale does not change.
///
/// Waiting users can claim at once. A start that was announced for later is over: tell the users who planned with it.
/// Resume a paused sale first.
#[utoipa::path(post, path = "/v1/sales/{id}/start", tag = "sales",
    operation_id = "startSale", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("id" = String, Path, description = "The sale's id")),
    responses((status = 200, body = answers::State), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`phase-conflict`: it is paused or over; `superseded`: an earlier request with \
            this key broke off, and a later one may have moved the start; `key-pending`: the same, and Redis lost \
            entries in between", body = Problem), NoAnswer))]
pub(crate) async fn start(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let meta = call.app.meta(call.id).await?;
    if meta.is_some_and(|meta| meta.kind != CampaignKind::Sale) {
        return Err(ProblemKind::UnknownCampaign.into());
    }
    let used = call.key_use("POST /v1/sales/{id}/start", &());
    let (app, action) = (Arc::clone(&call.app), CampaignAction::Start);
    app.change(used, false, PhaseRequest { call, action }).await
}

/// Ends a campaign now and returns what is left. Idempotent.
#[utoipa::path(post, path = "/v1/campaigns/{id}/close", tag = "campaigns",
    operation_id = "closeCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = answers::State), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn close(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let used = call.key_use("POST /v1/campaigns/{id}/close", &());
    let (app, action) = (Arc::clone(&call.app), CampaignAction::Close);
    let close = PhaseRequest { call, action };
    let so = close.already().await.ok().flatten();
    let begun = BegunChange::free(app.fresh_id());
    let make = async move { close.make(&begun).await };
    app.once_for_good(used, so, make).await
}

/// Archives a closed campaign: lists leave it out, unless a filter includes it. Idempotent.
#[utoipa::path(post, path = "/v1/campaigns/{id}/archive", tag = "campaigns",
    operation_id = "archiveCampaign", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = answers::State), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, body = Problem), NoAnswer))]
pub(crate) async fn archive(call: ObjectRequest<CampaignId>) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let used = call.key_use("POST /v1/campaigns/{id}/archive", &());
    let app = Arc::clone(&call.app);
    let so = archived(&app, call.id).await.ok().flatten();
    let archive = async move { archive_once(&call).await };
    app.once_for_good(used, so, archive).await
}

/// State of a campaign that is archived.
async fn archived(app: &App, id: CampaignId) -> Result<Option<answers::State>, ApiProblem> {
    let record = app.ports.ledger.campaign(id).await?;
    let record = record.filter(|record| record.archived_at.is_some());
    let now = app.ports.engine_clock.now();
    let state = |record: CampaignRecord| {
        wire::state_body(&record.settled_tally(now), record.campaign.window, now)
    };
    Ok(record.map(state))
}

async fn archive_once(call: &ObjectRequest<CampaignId>) -> Result<answers::State, ApiProblem> {
    let (app, id) = (&call.app, call.id);
    let ledger = &app.ports.ledger;
    let mut record = ledger.campaign(id).await?;
    if record
        .as_ref()
        .is_some_and(|record| record.phase != Phase::Closed)
    {
        // It was closed a moment ago, so the ledger may not have it yet.
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
        return Err(ApiProblem::internal("cannot archive a closed campaign"));
    }
    operation_log::log(&action);
    Ok(wire::state_body(&tally, window, now))
}

/// A requested pause, resumption, start or close.
struct PhaseRequest {
    call: ObjectRequest<CampaignId>,
    action: CampaignAction,
}

impl PhaseRequest {
    fn kind(&self) -> ActionKind {
        match self.action {
            CampaignAction::Pause => ActionKind::Pause,
            CampaignAction::Resume => ActionKind::Resume,
            CampaignAction::Start => ActionKind::Start,
            CampaignAction::Close => ActionKind::Close,
        }
    }

    /// Detail for the operation log: a start has the time before.
    async fn detail(&self) -> Result<Value, ApiProblem> {
        if self.action != CampaignAction::Start {
            return Ok(json!({}));
        }
        let tally = self
            .call
            .app
            .ports
            .engine
            .present_tally(self.call.id)
            .await?;
        let terms = tally.and_then(|tally| tally.terms);
        Ok(terms.map_or(json!({}), |terms| {
            let starts_at = wire::Rfc3339(terms.window.starts_at()).to_string();
            json!({ (operation_log::BEFORE): { "starts_at": starts_at } })
        }))
    }

    async fn body(&self, tally: &Tally) -> Result<answers::State, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        let meta = app.meta(campaign).await?;
        let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(campaign))?;
        let now = app.ports.engine_clock.now();
        Ok(wire::state_body(tally, meta.window, now))
    }
}

/// Whether a change of a sale with this detail may have moved its start: it names the start, or a repair has copied the
/// ledger's values.
fn may_move_start(detail: &str) -> bool {
    let detail: Result<Value, _> = serde_json::from_str(detail);
    detail.map_or(true, |detail| {
        ["starts_at", "campaigns_from"]
            .iter()
            .any(|field| !detail[field].is_null())
    })
}

impl Change for PhaseRequest {
    type Body = answers::State;

    fn campaign(&self) -> CampaignId {
        self.call.id
    }

    async fn already(&self) -> Result<Option<answers::State>, ApiProblem> {
        let engine = &self.call.app.ports.engine;
        let Some(tally) = engine.present_tally(self.call.id).await? else {
            return Ok(None);
        };
        let so = match self.action {
            // A pause that was interrupted is completed.
            CampaignAction::Pause => {
                tally.phase == Phase::Paused && engine.is_paused_throughout(self.call.id).await?
            }
            CampaignAction::Resume => matches!(tally.phase, Phase::Scheduled | Phase::Live),
            CampaignAction::Start => tally.phase == Phase::Live,
            CampaignAction::Close => tally.phase == Phase::Closed,
        };
        match so {
            true => Ok(Some(self.body(&tally).await?)),
            false => Ok(None),
        }
    }

    fn is_undone_by(&self, action: &Action) -> bool {
        match self.action {
            CampaignAction::Pause => action.kind == ActionKind::Resume,
            CampaignAction::Resume => action.kind == ActionKind::Pause,
            CampaignAction::Start => {
                action.kind == ActionKind::Change && may_move_start(&action.detail)
            }
            CampaignAction::Close => false,
        }
    }

    async fn present(&self) -> Result<answers::State, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        match app.ports.engine.present_tally(campaign).await? {
            Some(tally) => self.body(&tally).await,
            None => Err(app.missing(campaign).await),
        }
    }

    async fn make(&self, begun: &BegunChange) -> Result<answers::State, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        let detail = self.detail().await?;
        let action = self.call.action_begun(begun, self.kind(), &detail);
        let is_recorded = match app.record_begun(begun, &action).await {
            // A user must be able to pause a rush while the ledger does not answer. The log names the user.
            Err(problem) if self.action == CampaignAction::Pause && !begun.is_late() => {
                tracing::error!(%campaign, ?problem, "the ledger did not record who pauses");
                false
            }
            recorded => recorded.map(|()| true)?,
        };
        let command = begun.keyed_command(Command::Act {
            campaign,
            action: self.action,
        });
        let reply = app.submit_recorded(&action, command).await;
        let may_be_made = match &reply {
            Ok(_) => true,
            Err(problem) => problem.is(ProblemKind::Uncertain),
        };
        if !is_recorded && may_be_made {
            app.record_later(campaign, action.clone());
        }
        let reply = reply?;
        operation_log::log(&action);
        match reply {
            Reply::Acted(tally) => {
                let meta = app.meta(campaign).await;
                meta.map_err(ApiProblem::after_the_command)?;
                self.body(&tally).await
            }
            _ => Err(ApiProblem::unexpected_reply()),
        }
    }
}
