//! Red packets: creating and reading them, and their claims.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};
use qiang_core::{
    campaign::{
        AckLevel, CampaignKind, Cover, Details, Phase, RedPacket, Rules, Tally, check_title,
    },
    id::{CampaignId, ShopReference},
    money::Money,
    payment::PaymentPolicy,
    ports::CampaignRecord,
    split::{ClientSeed, RuleName, Seed, ServerSeedHash, Split, SplitRule, server_seed_hash},
};
use qiang_wire::{
    answers,
    lists::ClaimList,
    problem::{Problem, ProblemKind},
    words,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    audience::{Audience, AudienceRequest, DrawVisibility},
    auth::{Caller, Scope},
    claims::requirements::RequirementList,
    extract::{self, MaybeCaller, Param, Params, RequestKey},
    http::{
        grant_bodies::settled_claim,
        metadata_bodies::{self, NewMetadata},
        paging::{GrantPageQuery, PagedList},
        problem::{ApiProblem, NoAnswer},
        wire::{self, Location, MoneyBody, OWN_CACHING, Rfc3339, Text, ToWire as _},
    },
    resources::{
        create::{CreatedCampaign, Draft, creation_key},
        new_money, server_seeds,
    },
};

/// Route name for idempotency keys of red packets.
pub(crate) const ROUTE: &str = "POST /v1/red-packets";

/// A red packet to send.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRedPacket)]
pub(crate) struct RedPacketRequest {
    /// The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
    /// finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub(crate) id: Option<Text<CampaignId>>,
    /// Title that users see.
    #[schema(max_length = 1024)]
    title: String,
    /// Hash of the server seed for this `id`; needs `client_seed`. With both, neither side alone chooses the split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) server_seed_hash: Option<Text<ServerSeedHash>>,
    /// 32 random bytes of the sender, as 64 hexadecimal digits. All users will see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) client_seed: Option<Text<ClientSeed>>,
    /// Amount that is taken from the sender's account and split.
    total: MoneyBody,
    /// Number of shares. A user gets at most one.
    #[schema(minimum = 1)]
    shares: u32,
    split: SplitBody,
    /// Default: now.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Rfc3339>,
    /// Time at which unclaimed money returns to the sender. Default: `packets.refund_after_ms` of the configuration
    /// after the start, which is 24 hours unless configured otherwise.
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<Rfc3339>,
    /// Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica
    /// (Redis).
    #[schema(value_type = Option<String>)]
    ack: Option<Text<AckLevel>>,
    /// Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    requirements: RequirementList,
    /// Users who may take part; default: all users.
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<AudienceRequest>,
    /// Users who may see the draws; default: all users.
    #[serde(default, skip_serializing_if = "DrawVisibility::is_everybody")]
    draws: DrawVisibility,
    /// Look of the envelope on the pages; default: `classic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    cover: Option<Text<Cover>>,
    /// Whether claims wait in a queue and are decided in order of arrival; default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_room: Option<bool>,
    /// The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do
    /// not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 128)]
    reference: Option<Text<ShopReference>>,
    /// Whether the reference is unique: if another campaign of the sender has it as a unique one, this one is refused.
    /// Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique_reference: Option<bool>,
    /// Up to 20 texts of the shop by name. Users do not see them.
    #[serde(default, skip_serializing_if = "NewMetadata::is_empty")]
    #[schema(schema_with = metadata_bodies::new_metadata)]
    metadata: NewMetadata,
}

impl RedPacketRequest {
    /// Users who may take part; `None` for all users.
    pub(crate) fn audience(&self) -> Option<&AudienceRequest> {
        self.audience.as_ref()
    }

    /// Split of the request, checked against the limits of this node.
    pub(crate) fn split(&self, app: &App) -> Result<Split, ApiProblem> {
        let shares_max = app.config.limits.shares_max;
        if self.shares > shares_max {
            let detail = format!("a red packet has at most {shares_max} shares here");
            return Err(ApiProblem::invalid_at("#/shares", detail));
        }
        let rule = self.split.rule();
        let split = rule.and_then(|rule| Ok(Split::new(self.total.amount, self.shares, rule)?));
        // Checks the title here as well, so that a batch reports both faults at once.
        split.map_err(|problem| match check_title(&self.title) {
            Err(title) => problem.and(title.into()),
            Ok(()) => problem,
        })
    }

    /// Refuses a level of acknowledgement that the service cannot give.
    pub(crate) fn check_level(&self, app: &App) -> Result<(), ApiProblem> {
        app.check_ack(self.ack)
    }

    /// Campaign to create. It counts towards the sender's creation limits; one that is known to be a repetition counts
    /// with its shares only.
    pub(crate) async fn draft(
        &self,
        app: &App,
        caller: &Caller,
        split: Split,
        is_repetition: bool,
    ) -> Result<Draft, ApiProblem> {
        self.check_level(app)?;
        let limits = &app.limits;
        limits.check_creation(&caller.user, self.shares, is_repetition)?;
        self.counted_draft(app, caller, split).await
    }

    /// Campaign to create, which was counted before.
    pub(crate) async fn counted_draft(
        &self,
        app: &App,
        caller: &Caller,
        split: Split,
    ) -> Result<Draft, ApiProblem> {
        app.check_ack(self.ack)?;
        let currency = self.total.currency.0;
        let hash = self.server_seed_hash.map(|it| it.0);
        let client_seed = self.client_seed.map(|it| it.0);
        let id = self.id.map(|id| id.0);
        let packet = server_seeds::parts_of(app, id, hash, client_seed).map(|parts| match parts {
            Some(parts) => RedPacket::from_parts(split, currency, parts),
            None => RedPacket::new(split, currency, Seed::from_bytes(rand::random())),
        });
        Ok(Draft {
            id,
            owner: caller.user.clone(),
            title: self.title.clone(),
            details: Details {
                cover: self.cover.map(|cover| cover.0),
                ..Details::default()
            },
            metadata: self
                .metadata
                .of_new(self.reference.as_ref(), self.unique_reference)?,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            lasts_ms: app.config.packets.refund_after_ms,
            ack: self.ack,
            requirements: app.requirements(&self.requirements)?,
            rules: self.check_new().and(packet.map(Rules::RedPacket)),
            payment_policy: PaymentPolicy::default(),
            audience: AudienceRequest::keep(self.audience.as_ref(), self.draws).await?,
            waiting_room: self.waiting_room.unwrap_or_default(),
        })
    }

    /// Checks that apply to a new packet only. A repetition is answered before them.
    fn check_new(&self) -> Result<(), ApiProblem> {
        new_money::check(self.total.currency.0, "#/total/currency")?;
        AudienceRequest::check_new(self.audience.as_ref())?;
        let named = self.audience.as_ref().and_then(AudienceRequest::named);
        match named {
            Some(named) if (named as u64) < u64::from(self.shares) => {
                let detail = format!(
                    "a packet for {named} named users has at most {named} shares: a user gets one"
                );
                Err(ApiProblem::invalid_at("#/shares", detail))
            }
            _ => Ok(()),
        }
    }

    /// Answer after the packet was created.
    pub(crate) async fn answer(
        &self,
        app: &App,
        caller: &Caller,
        created: CreatedCampaign,
    ) -> Result<answers::RedPacket, ApiProblem> {
        if !created.is_fresh() {
            let audience = self.audience.as_ref();
            app.check_repeated(created.id, audience).await?;
        }
        let id = created.id;
        let (record, tally) = app.created(created, CampaignKind::RedPacket).await?;
        let mut body = packet_body(record, &tally, app, Some(caller)).await?;
        app.fill_metadata_for(Some(caller), id, &mut body).await?;
        Ok(body)
    }
}

/// Rule that splits the total into shares.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSplitRule)]
pub(crate) struct SplitBody {
    /// normal, double_average, equal or lazy.
    #[schema(value_type = String, example = "double_average")]
    rule: Text<RuleName>,
    /// The smallest share, in minor units; default 1. Not for `equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<i64>,
    /// The largest share, in minor units; `normal` needs it, the others have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<i64>,
}

impl SplitBody {
    fn rule(self) -> Result<SplitRule, ApiProblem> {
        Ok(SplitRule::from_parts(self.rule.0, self.min, self.max)?)
    }
}

fn split_body(rule: SplitRule) -> answers::SplitRule {
    let (name, min, max) = rule.parts();
    answers::SplitRule {
        rule: name.to_wire(),
        min,
        max,
    }
}

/// Packet as the caller may see it; without one, the draws are hidden.
async fn packet_body(
    record: CampaignRecord,
    tally: &Tally,
    app: &App,
    caller: Option<&Caller>,
) -> Result<answers::RedPacket, ApiProblem> {
    let campaign = record.campaign;
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Err(ProblemKind::UnknownCampaign.into());
    };
    let is_over = packet.is_over(record.phase, record.granted);
    let meta = app.meta(campaign.id).await?;
    let audience = meta.as_ref().and_then(|meta| meta.audience.as_deref());
    let draws = audience.map_or_else(DrawVisibility::default, |kept| kept.draws);
    let (id, owner) = (campaign.id, &campaign.owner);
    let luckiest = match (&meta, caller) {
        (Some(meta), Some(caller))
            if is_over && app.may_see_draws(id, owner, draws, caller).await? =>
        {
            meta.luckiest(app.ports.ledger.luckiest(id)).await?
        }
        _ => None,
    };
    let mut state = wire::state_body(tally, campaign.window, app.ports.engine_clock.now());
    if is_over && tally.phase != Phase::Closed {
        state.phase = words::Phase::Ended; // the engine closes it shortly
    }
    let money = |minor| Money::new(minor, packet.currency).to_wire();
    let parts = packet.origin.parts();
    Ok(answers::RedPacket {
        id: campaign.id.to_wire(),
        object: words::ObjectKind::RedPacket,
        sender: campaign.owner.to_wire(),
        total: money(packet.split.total()),
        shares: packet.split.count(),
        split: split_body(packet.split.rule()),
        commitment: packet.commitment(campaign.id).to_string(),
        client_seed: parts.map(|parts| parts.client_seed.to_string()),
        server_seed_hash: parts
            .map(|parts| server_seed_hash(campaign.id, &parts.server_seed).to_string()),
        server_seed: parts
            .filter(|_| is_over)
            .map(|it| it.server_seed.to_string()),
        seed: is_over.then(|| packet.seed.to_string()),
        ack: campaign.ack.to_wire(),
        requirements: campaign
            .requirements
            .iter()
            .map(|it| it.to_wire())
            .collect(),
        audience: audience.and_then(Audience::kind),
        draws: draws.to_wire(),
        cover: record.details.cover.unwrap_or_default().to_wire(),
        luckiest: luckiest.map(|share| settled_claim(campaign.id, share, packet.currency)),
        waiting_room: meta.as_ref().is_some_and(|meta| meta.waiting_room),
        created_at: campaign.created_at.to_wire(),
        updated_at: record.updated_at.to_wire(),
        archived_at: record.archived_at.map(|at| at.to_wire()),
        state,
        claimed: money(tally.claimed_minor),
        remaining: money(tally.remaining_minor),
        refunded: money(tally.refunded_minor),
        withheld: money(tally.withheld_minor),
        reference: None,
        metadata: BTreeMap::new(),
        title: campaign.title,
    })
}

/// Body of a packet in a list.
pub(crate) fn listed(
    record: CampaignRecord,
    app: &App,
) -> Result<answers::ListedRedPacket, ApiProblem> {
    let now = app.ports.engine_clock.now();
    let tally = record.settled_tally(now);
    let (campaign, cover) = (record.campaign, record.details.cover);
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Err(ProblemKind::UnknownCampaign.into());
    };
    Ok(answers::ListedRedPacket {
        id: campaign.id.to_wire(),
        object: words::ObjectKind::RedPacket,
        sender: campaign.owner.to_wire(),
        total: Money::new(packet.split.total(), packet.currency).to_wire(),
        shares: packet.split.count(),
        split: split_body(packet.split.rule()),
        cover: cover.unwrap_or_default().to_wire(),
        created_at: campaign.created_at.to_wire(),
        updated_at: record.updated_at.to_wire(),
        archived_at: record.archived_at.map(|at| at.to_wire()),
        state: wire::state_body(&tally, campaign.window, now),
        reference: None,
        metadata: BTreeMap::new(),
        title: campaign.title,
    })
}

const SHARES: PagedList = PagedList::new("shares");

/// Sends a red packet from the caller's account.
#[utoipa::path(post, path = "/v1/red-packets", tag = "red packets", request_body = RedPacketRequest,
    operation_id = "createRedPacket", security(("bearer" = ["send"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe")),
    responses((status = 201, body = answers::RedPacket),
        (status = 200, description = "Sent before", body = answers::RedPacket),
        (status = 403, body = Problem),
        (status = 409, description = "`insufficient-funds`: too little money; `id-used`: another campaign has the id; \
            `reference-taken`: another campaign of the sender has the unique reference",
            body = Problem),
        (status = 422, description = "`invalid`, `ack-unavailable` or `key-reused`", body = Problem),
        (status = 429, description = "`creations-throttled`: too many campaigns, or shares, in a minute; `throttled`: \
            too many requests, or passphrases under keys that were used before", body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    RequestKey(key): RequestKey,
    extract::Json(request): extract::Json<RedPacketRequest>,
) -> Result<(StatusCode, Location, Json<answers::RedPacket>), ApiProblem> {
    caller.require(Scope::Send)?;
    let split = request.split(&app)?;
    let draft = request.draft(&app, &caller, split, false).await?;
    let key = creation_key(key, request.id);
    let created = app
        .create(&caller, ROUTE, key.as_ref(), &request, draft)
        .await?;
    let (id, status) = (created.id, wire::created(created.is_fresh()));
    let location = wire::location(status, || format!("/v1/red-packets/{id}"));
    let body = request.answer(&app, &caller, created).await?;
    Ok((status, location, Json(body)))
}

/// A red packet: its commitment and its state. No token is needed: a user who has the link sees the packet before
/// signing in. `luckiest` is only for users who may see the draws.
///
/// The entity tag covers everything that the caller may see, except `now`. An answer 304 has the server's time in
/// `Date`.
#[utoipa::path(get, path = "/v1/red-packets/{id}", tag = "red packets",
    operation_id = "getRedPacket", security(()),
    params(("id" = String, Path, description = "The red packet's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = answers::RedPacket), (status = 304, description = "Unchanged since the tag"),
        (status = 401, description = "A token was sent, but it is not valid", body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    MaybeCaller(caller): MaybeCaller,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let (mut record, mut tally) = app.record(id, CampaignKind::RedPacket).await?;
    let closed = tally.phase == Phase::Closed && record.phase != Phase::Closed;
    let claimed = tally.granted == record.campaign.supply() && record.granted != tally.granted;
    if closed || claimed {
        // It ended a moment ago, so the ledger may not have it yet.
        app.settled().await?;
        (record, tally) = app.record(id, CampaignKind::RedPacket).await?;
    }
    let mut body = packet_body(record, &tally, &app, caller.as_ref()).await?;
    app.fill_metadata_for(caller.as_ref(), id, &mut body)
        .await?;
    Ok(wire::tagged(&headers, OWN_CACHING, &body))
}

/// Shares that were granted.
#[utoipa::path(get, path = "/v1/red-packets/{id}/claims", tag = "red packets",
    operation_id = "listShares", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The red packet's id"), GrantPageQuery),
    responses((status = 200, body = ClaimList), (status = 403, description = "`draws-hidden`", body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
    uri: Uri,
    Params(list): Params<GrantPageQuery>,
) -> Result<Response, ApiProblem> {
    let (page, after) = list.page(&SHARES)?;
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    if meta.kind != CampaignKind::RedPacket {
        return Err(ProblemKind::UnknownCampaign.into());
    }
    let settled = app.settled().await?;
    let audience = meta.audience.as_deref();
    let draws = audience.map_or_else(DrawVisibility::default, |kept| kept.draws);
    if !app.may_see_draws(id, &meta.owner, draws, &caller).await? {
        return Err(ProblemKind::DrawsHidden.into());
    }
    let mut grants = app.ports.ledger.grants(id, after, page.reads()).await?;
    let next = page.cut(&mut grants, |last| last.number);
    let shares = grants.into_iter();
    let shares = shares.map(|grant| settled_claim(id, grant, meta.currency));
    Ok(page.answer(&uri, shares.collect(), next, Some(settled)))
}
