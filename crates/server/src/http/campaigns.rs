//! Campaigns of either kind: what never changes about them, their state, and what operators do to them.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use parking_lot::RwLock;
use qiang_core::{
    book::{CampaignAction, Command, Reply, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, Phase, Tally},
    id::CampaignId,
    money::Currency,
    ports::{CampaignRecord, EngineError},
    time::Window,
};

use super::{
    App, Problem, ProblemKind,
    auth::{Caller, Scope},
    extract::{Key, Param, fingerprint},
    problem::ProblemBody,
    wire::StateBody,
};

/// Campaigns remembered at a time; past it, all are forgotten and read anew as they are asked for.
const REMEMBERED_MAX: usize = 65_536;

/// What answers about a campaign need and what never changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) kind: CampaignKind,
    pub(crate) currency: Currency,
    pub(crate) ack: AckLevel,
    pub(crate) window: Window,
}

impl From<&Campaign> for Facts {
    fn from(campaign: &Campaign) -> Self {
        let (kind, currency) = (campaign.kind(), campaign.currency());
        Self {
            kind,
            currency,
            ack: campaign.ack,
            window: campaign.window,
        }
    }
}

/// The facts of the campaigns that were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct Campaigns(RwLock<HashMap<CampaignId, Facts>>);

impl Campaigns {
    pub(crate) fn known(&self, id: CampaignId) -> Option<Facts> {
        self.0.read().get(&id).copied()
    }

    fn remember(&self, id: CampaignId, facts: Facts) {
        let mut known = self.0.write();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(id, facts);
    }
}

impl App {
    /// A campaign's facts, if there is such a campaign.
    pub(crate) async fn facts(&self, id: CampaignId) -> Result<Option<Facts>, Problem> {
        if let Some(facts) = self.campaigns.known(id) {
            return Ok(Some(facts));
        }
        let record = self.ledger.campaign(id).await?;
        Ok(record.map(|record| {
            let facts = Facts::from(&record.campaign);
            self.campaigns.remember(id, facts);
            facts
        }))
    }

    /// A campaign of one kind, and its numbers: the engine's, which are the present ones, or for a campaign that no
    /// engine has taken up, those of its creation.
    pub(crate) async fn record(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), Problem> {
        let record = self
            .ledger
            .campaign(id)
            .await?
            .filter(|record| record.campaign.kind() == kind);
        let record = record.ok_or_else(|| Problem::new(ProblemKind::UnknownCampaign, ""))?;
        let tally = self
            .engine
            .tally(id)
            .await?
            .unwrap_or_else(|| draft_tally(&record));
        Ok((record, tally))
    }

    /// Has the engine take a campaign up. Again changes nothing.
    pub(crate) async fn open(&self, setup: Setup) -> Result<(), EngineError> {
        let (id, facts) = (setup.campaign.id, Facts::from(&setup.campaign));
        self.engine.submit(Command::Open(Box::new(setup))).await?;
        self.campaigns.remember(id, facts);
        Ok(())
    }

    async fn state(&self, id: CampaignId) -> Result<StateBody, Problem> {
        let unknown = || Problem::new(ProblemKind::UnknownCampaign, "");
        let facts = self.facts(id).await?.ok_or_else(unknown)?;
        let tally = self.engine.tally(id).await?.ok_or_else(unknown)?;
        Ok(StateBody::new(&tally, facts.window, self.clock.now()))
    }
}

fn draft_tally(record: &CampaignRecord) -> Tally {
    let campaign = &record.campaign;
    Tally {
        phase: Phase::Draft,
        supply: campaign.supply(),
        granted: 0,
        remaining: campaign.supply(),
        returned: 0,
        funded_minor: campaign.funded_minor(),
        claimed_minor: 0,
        remaining_minor: campaign.funded_minor(),
        refunded_minor: 0,
        grants: 0,
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
        &key,
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
        &key,
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
        &key,
        ("POST /v1/campaigns/{id}/close", CampaignAction::Close),
    )
    .await
}

async fn act(
    app: &App,
    caller: &Caller,
    id: CampaignId,
    key: &Option<qiang_core::id::IdempotencyKey>,
    (route, action): (&str, CampaignAction),
) -> Result<Json<StateBody>, Problem> {
    caller.require(Scope::Operate)?;
    app.bind(caller, route, key.as_ref(), || {
        fingerprint(&id.to_string(), &())
    })
    .await?;
    let reply = app
        .engine
        .submit(Command::Act {
            campaign: id,
            action,
        })
        .await?;
    tracing::info!(campaign = %id, ?action, "changed by an operator");
    let facts = app.facts(id).await?;
    match (reply, facts) {
        (Reply::Acted(tally), Some(facts)) => {
            Ok(Json(StateBody::new(&tally, facts.window, app.clock.now())))
        }
        _ => Err(Problem::new(ProblemKind::Internal, "")),
    }
}
