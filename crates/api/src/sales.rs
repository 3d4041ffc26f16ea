//! Flash sales: creating and reading them.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use qiang_core::{
    admission::AdmissionRatio,
    book::{Command, Reply},
    campaign::{
        AckLevel, CampaignKind, Description, Details, DetailsChange, ImageUrl, Phase, Rules, Sale,
        Tally, TermsChange, check_title,
    },
    id::{CampaignId, ProductId, UserId},
    money::{Currency, Money},
    ports::{ActionKind, CampaignRecord},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    actions,
    app::App,
    audience::{AudienceRequest, Draws},
    auth::{Caller, Scope},
    create::{Draft, SALE_LASTS_MS, creation_key},
    extract::{self, Call, Key, Param},
    new_money,
    once::Pending,
    problem::{NoAnswer, Problem, ProblemBody, ProblemKind},
    requirements::{RequirementList, list},
    wire::{self, Location, MoneyBody, OWN_CACHING, StateBody, Text, When, nullable},
};

/// A sale to open.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSale)]
pub(crate) struct SaleRequest {
    /// The campaign's id: a UUID of version 7 that the caller has made within a day, at random: who guesses it finds
    /// the campaign. Without an `Idempotency-Key` it is one, too. Default: the service makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub(crate) id: Option<Text<CampaignId>>,
    /// What people see.
    #[schema(max_length = 1024)]
    title: String,
    /// The seller's id of the product: sales of one product are its rounds. Visible ASCII characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 128)]
    product_id: Option<Text<ProductId>>,
    /// What it is, in words; lines may break.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 4096)]
    description: Option<Text<Description>>,
    /// Where its picture is: `https://…`, or a path of the shop's own site, which begins with `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    image_url: Option<Text<ImageUrl>>,
    /// Who sells; default: the caller. For others only with the scope `campaigns:write:any`.
    #[schema(value_type = Option<String>)]
    seller: Option<Text<UserId>>,
    /// Units for sale. All together cost at most 9007199254740991 minor units.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    stock: u64,
    /// Units that one user may have; default 1.
    per_user_limit: Option<u32>,
    unit_price: MoneyBody,
    /// How long an unpaid order keeps its units; default 900.
    hold_seconds: Option<u32>,
    /// How many users may be on their way to a decision for each unit that is left, in percent: 100 to 10000, or 0 for
    /// all; default 150. Others wait, most of them until they are answered that it is sold out. A sale that is spread
    /// over partitions admits all, whatever it says here.
    #[schema(maximum = 10_000)]
    // Keys that were bound before the field was there stand for the same requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission_percent: Option<u32>,
    /// Default: now.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<When>,
    /// Default: 24 hours after the start.
    #[schema(value_type = Option<String>, format = DateTime)]
    ends_at: Option<When>,
    /// What a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis).
    #[schema(value_type = Option<String>)]
    ack: Option<Text<AckLevel>>,
    /// What a claim needs before it is decided: `ticket`, a grab ticket; `order_check`, that the shop allows it.
    /// Default: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    requirements: RequirementList,
    /// Who may take part; default: everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<AudienceRequest>,
    /// Whether claims wait in line and are decided in the order in which they came; default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_room: Option<bool>,
}

/// How long an unpaid order keeps its units when nothing else is said: a quarter of an hour.
const HOLD_S: u32 = 900;

/// A flash sale.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sale)]
pub(crate) struct SaleBody {
    #[schema(value_type = String, format = Uuid)]
    id: Text<CampaignId>,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    product_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<String>,
    seller: String,
    stock: u64,
    per_user_limit: u32,
    unit_price: MoneyBody,
    hold_seconds: i64,
    /// What it was opened with. A sale that is spread over partitions admits all.
    admission_percent: u32,
    ack: &'static str,
    /// What a claim needs before it is decided.
    #[schema(value_type = Vec<String>)]
    requirements: RequirementList,
    /// Who may take part: users, invitation or passphrase. Absent: everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<&'static str>,
    /// Whether claims wait in line.
    waiting_room: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: When,
    /// Since when lists do not show it unless asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    archived_at: Option<When>,
    state: StateBody,
}

impl SaleBody {
    pub(crate) async fn new(
        record: CampaignRecord,
        tally: &Tally,
        app: &App,
    ) -> Result<Self, Problem> {
        let (campaign, details) = (record.campaign, record.details);
        let meta = app.meta(campaign.id).await?;
        let Rules::Sale(sale) = &campaign.rules else {
            return Err(ProblemKind::UnknownCampaign.into());
        };
        // The ledger follows the engine.
        let (limit, price) = match tally.terms {
            Some(terms) => (
                terms.per_user_limit,
                Money::new(terms.unit_price_minor, campaign.currency()),
            ),
            None => (sale.per_user_limit(), sale.unit_price()),
        };
        // The ledger follows the engine, which withholds some units after a repair.
        let stock = match tally.phase {
            Phase::Closed => sale.stock(),
            _ => tally.supply,
        };
        Ok(Self {
            id: Text(campaign.id),
            seller: campaign.owner.to_string(),
            stock,
            per_user_limit: limit,
            unit_price: price.into(),
            hold_seconds: sale.hold_ms() / 1_000,
            admission_percent: sale.admission().map_or(0, AdmissionRatio::percent),
            ack: campaign.ack.name(),
            requirements: list(campaign.requirements),
            audience: meta
                .as_ref()
                .and_then(|meta| meta.audience.as_deref()?.kind()),
            waiting_room: meta.as_ref().is_some_and(|meta| meta.waiting_room),
            created_at: When(campaign.created_at),
            archived_at: record.archived_at.map(When),
            product_id: details.product_id.map(|id| id.to_string()),
            description: details.description.map(|text| text.to_string()),
            image_url: details.image_url.map(|url| url.to_string()),
            state: StateBody::new(tally, campaign.window, app.ports.engine_clock.now()),
            title: campaign.title,
        })
    }
}

/// Opens a sale.
#[utoipa::path(post, path = "/v1/sales", tag = "sales", request_body = SaleRequest,
    operation_id = "createSale", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe")),
    responses((status = 201, body = SaleBody), (status = 200, description = "Opened before", body = SaleBody),
        (status = 403, body = ProblemBody),
        (status = 409, description = "`id-used`: another campaign has the id", body = ProblemBody),
        (status = 422, description = "`invalid`, `ack-unavailable` or `key-reused`", body = ProblemBody),
        (status = 429, description = "`creations-throttled`: too many campaigns in a minute; `throttled`: \
            too many requests, or passphrases under keys that were used before", body = ProblemBody)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Key(key): Key,
    extract::Json(request): extract::Json<SaleRequest>,
) -> Result<(StatusCode, Location, Json<SaleBody>), Problem> {
    let seller = request.seller.as_ref().map(|seller| &seller.0);
    let is_own = seller.is_none_or(|seller| *seller == caller.user);
    caller.require(match is_own {
        true => Scope::CampaignsWrite,
        false => Scope::CampaignsWriteAny,
    })?;
    app.check_ack(request.ack)?;
    let hold_ms = i64::from(request.hold_seconds.unwrap_or(HOLD_S)) * 1_000;
    let limit = request.per_user_limit.unwrap_or(1);
    let price = request.unit_price.money();
    let ratio = request.admission_percent.map(AdmissionRatio::of_percent);
    let faults = Sale::faults(request.stock, limit, price, hold_ms)
        .chain(check_title(&request.title).err())
        .map(Problem::from);
    let no_ratio = ratio.and_then(Result::err).map(Problem::from);
    if let Some(problem) = faults.chain(no_ratio).reduce(Problem::and) {
        return Err(problem);
    }
    let sale = Sale::new(request.stock, limit, price, hold_ms)?;
    let sale = match ratio {
        None => sale,
        Some(ratio) => sale.with_admission(ratio?),
    };
    app.limits.check_creation(&caller.user, 0)?;
    let draft = Draft {
        id: request.id.map(|id| id.0),
        owner: seller.unwrap_or(&caller.user).clone(),
        title: request.title.clone(),
        details: Details {
            product_id: request.product_id.clone().map(|id| id.0),
            description: request.description.clone().map(|text| text.0),
            image_url: request.image_url.clone().map(|url| url.0),
        },
        starts_at: request.starts_at,
        ends_at: request.ends_at,
        lasts_ms: SALE_LASTS_MS,
        ack: request.ack,
        requirements: app.requirements(&request.requirements)?,
        rules: new_money::check(price.currency, "#/unit_price/currency")
            .and_then(|()| AudienceRequest::check_new(request.audience.as_ref()))
            .map(|()| Rules::Sale(sale)),
        audience: AudienceRequest::keep(request.audience.as_ref(), Draws::Everybody).await?,
        waiting_room: request.waiting_room.unwrap_or_default(),
    };
    let key = creation_key(key, request.id);
    let created = app
        .create(&caller, "POST /v1/sales", key.as_ref(), &request, draft)
        .await?;
    let (id, status) = (created.id, wire::created(created.is_fresh()));
    if !created.is_fresh() {
        let audience = request.audience.as_ref();
        app.check_repeated(id, audience).await?;
    }
    let (record, tally) = app.created(created, CampaignKind::Sale).await?;
    let location = wire::location(status, || format!("/v1/sales/{id}"));
    let body = SaleBody::new(record, &tally, &app).await?;
    Ok((status, location, Json(body)))
}

/// A sale and its state.
///
/// The entity tag stands for everything but `now`; an answer 304 has the server's time in `Date`.
#[utoipa::path(get, path = "/v1/sales/{id}", tag = "sales",
    operation_id = "getSale",
    params(("id" = String, Path, description = "The sale's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = SaleBody), (status = 304, description = "It is as it was with the tag"),
        (status = 404, body = ProblemBody), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    _: Caller,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (record, tally) = app.record(id, CampaignKind::Sale).await?;
    let body = SaleBody::new(record, &tally, &app).await?;
    Ok(wire::tagged(&headers, OWN_CACHING, &body))
}

/// What to change about a sale: its stock, or its terms; and what people see of it. What is absent stays.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SaleChange)]
pub(crate) struct SaleChange {
    /// Units for sale in all, those that users have included. Not less than users have, and not less than the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    stock: Option<u64>,
    /// When it opens: not in the past, and only while it has not opened.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<When>,
    /// When it ends: not in the past, and only while it has not ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<When>,
    /// Units that one user may have: 1 up to the stock. Whoever has more keeps them.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    per_user_limit: Option<u32>,
    /// The price of one unit, in the sale's currency, for orders from then on. Others keep the price at which they were
    /// granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_price: Option<MoneyBody>,
    /// What people see.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// The seller's id of the product; null for none.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 128)]
    product_id: Option<Option<Text<ProductId>>>,
    /// What it is, in words; null for none.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    description: Option<Option<Text<Description>>>,
    /// Where its picture is; null for none.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 2048)]
    image_url: Option<Option<Text<ImageUrl>>>,
}

impl SaleChange {
    fn details(&self) -> Result<DetailsChange, Problem> {
        fn inner<T: Clone>(change: Option<&Option<Text<T>>>) -> Option<Option<T>> {
            change.map(|to| to.as_ref().map(|to| to.0.clone()))
        }
        let change = DetailsChange {
            title: self.title.clone(),
            product_id: inner(self.product_id.as_ref()),
            description: inner(self.description.as_ref()),
            image_url: inner(self.image_url.as_ref()),
        };
        change.check()?;
        Ok(change)
    }

    fn terms(&self) -> TermsChange {
        TermsChange {
            starts_at: self.starts_at.map(|when| when.0),
            ends_at: self.ends_at.map(|when| when.0),
            per_user_limit: self.per_user_limit,
            unit_price_minor: self.unit_price.map(|price| price.amount),
        }
    }

    /// The command, which is one entry of the log; none where only what people see is to change.
    fn command(&self, campaign: CampaignId) -> Result<Option<Command>, Problem> {
        let change = self.terms();
        match (self.stock, change == TermsChange::default()) {
            (Some(stock), true) => Ok(Some(Command::SetStock { campaign, stock })),
            (None, false) => Ok(Some(Command::SetTerms { campaign, change })),
            (Some(_), false) => Err(Problem::invalid("the stock is changed by itself")),
            (None, true) => Ok(None),
        }
    }

    /// What is changed, for the record: what people see without its texts.
    fn changed(&self) -> Value {
        // A struct of texts and numbers always serialises.
        let mut changed = serde_json::to_value(self).unwrap_or_default();
        for (field, value) in changed.as_object_mut().into_iter().flatten() {
            if ["title", "description", "image_url"].contains(&&**field) {
                *value = Value::Null;
            }
        }
        changed
    }

    fn check_currency(&self, sold_in: Currency) -> Result<(), Problem> {
        let price = self.unit_price.map(MoneyBody::money);
        match price.is_some_and(|price| price.currency != sold_in) {
            true => Err(Problem::invalid_at(
                "#/unit_price/currency",
                format!("the price of this sale is in {sold_in}"),
            )),
            false => Ok(()),
        }
    }
}

/// Changes a sale. Its stock is raised or lowered, or its window, limit and price are changed, while it is not over; if
/// that is refused, nothing changes. Title, product, description and picture may change at any time. What is so already
/// stays.
#[utoipa::path(patch, path = "/v1/sales/{id}", tag = "sales", request_body = SaleChange,
    operation_id = "changeSale", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("id" = String, Path, description = "The sale's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the change is made once")),
    responses((status = 200, body = SaleBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody),
        (status = 409, description = "`stock-granted`: users have more; `phase-conflict`: it is over, or has opened; \
            `key-pending`: an earlier request with this key broke off",
            body = ProblemBody),
        (status = 422, body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, `ledger-incomplete`, or `uncertain`: the \
            ledger does not have it yet",
            body = ProblemBody)))]
pub(crate) async fn change(
    call: Call<CampaignId>,
    extract::Json(request): extract::Json<SaleChange>,
) -> Result<Response, Problem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let details = request.details()?;
    let command = request.command(call.id)?;
    if details == DetailsChange::default() && command.is_none() {
        return Err(Problem::invalid("there is nothing to change"));
    }
    let used = call.key_use("PATCH /v1/sales/{id}", &request);
    let change = change_once(&call, &request, &details, command);
    call.app.once(used, Pending::Refused, change).await
}

async fn change_once(
    call: &Call<CampaignId>,
    request: &SaleChange,
    details: &DetailsChange,
    command: Option<Command>,
) -> Result<SaleBody, Problem> {
    let (app, campaign) = (&call.app, call.id);
    let (record, tally) = app.record(campaign, CampaignKind::Sale).await?;
    request.check_currency(record.campaign.currency())?;
    let detail = request.changed();
    let action = match command {
        Some(_) => call.record(ActionKind::Change, &detail).await?,
        None => call.action(ActionKind::Change, &detail),
    };
    // With the details, where no engine was asked.
    let by = command.is_none().then_some(&action);
    let tally = match command {
        Some(command) => match app.submit_recorded(&action, command).await? {
            Reply::Acted(tally) => tally,
            _ => return Err(Problem::unexpected_reply()),
        },
        None => tally,
    };
    let changed = async {
        app.campaigns.outdate(campaign);
        let record = match *details == DetailsChange::default() {
            true => record,
            false => {
                app.ports.ledger.describe(campaign, details, by).await?;
                let now = app.ports.ledger.campaign(campaign).await?;
                now.ok_or_else(|| Problem::ledger_incomplete(campaign))?
            }
        };
        actions::log(&action);
        SaleBody::new(record, &tally, app).await
    };
    let body = changed.await.map_err(Problem::after_the_command)?;
    // The parts of a spread sale are counted one after the other, while units move between them.
    let stock = request.stock.unwrap_or(body.stock);
    Ok(SaleBody { stock, ..body })
}
