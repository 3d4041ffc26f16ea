//! Flash sales: creating and reading them.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use qiang_core::{
    admission::AdmissionRatio,
    campaign::{
        AckLevel, CampaignError, CampaignKind, Description, Details, Gallery, ImageUrl, Phase,
        Rules, Sale, Tally, check_list_price, check_title,
    },
    id::{CampaignId, ProductId, ShopReference, UserId},
    money::Money,
    payment::{PaymentPolicy, PaymentPolicyKind},
    ports::CampaignRecord,
};
use qiang_wire::{
    answers, ids,
    problem::{Problem, ProblemKind},
    words::ObjectKind,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    audience::{AudienceRequest, DrawVisibility},
    auth::{Caller, Scope},
    claims::requirements::RequirementList,
    extract::{self, MaybeCaller, Param, RequestKey},
    http::{
        entity_tag::{self, StrongTag},
        metadata_bodies::{self, NewMetadata},
        problem::{ApiProblem, NoAnswer},
        wire::{self, Location, MoneyBody, OWN_CACHING, Rfc3339, Text, ToWire as _},
    },
    resources::{
        create::{CreatedCampaign, Draft, SALE_LASTS_MS, creation_key},
        new_money,
    },
};

/// A sale to open.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSale)]
pub(crate) struct SaleRequest {
    /// The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
    /// finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub(crate) id: Option<Text<CampaignId>>,
    /// Title that users see.
    #[schema(max_length = 1024)]
    title: String,
    /// The seller's id of the product. Sales of one product are its rounds. Visible ASCII characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 128)]
    product_id: Option<Text<ProductId>>,
    /// Description of the product; may contain line breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 4096)]
    description: Option<Text<Description>>,
    /// Image of the product: `https://…`, or a path of the shop's own site, which begins with `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    image_url: Option<Text<ImageUrl>>,
    /// Further pictures of the product, at most 8, in their order. Each is like `image_url`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, max_items = 8)]
    gallery: Vec<Text<ImageUrl>>,
    /// Price of one unit before the discount: above `unit_price`, in its currency. Buyers see the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list_price: Option<MoneyBody>,
    /// Seller; default: the caller. Another seller needs the scope `campaigns:write:any`.
    #[schema(value_type = Option<String>)]
    seller: Option<Text<UserId>>,
    /// Units for sale. Their total price is at most 9007199254740991 minor units.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    stock: u64,
    /// Units that one user may have; default 1.
    per_user_limit: Option<u32>,
    unit_price: MoneyBody,
    /// Seconds for which an unpaid order keeps its units; default 900.
    hold_seconds: Option<u32>,
    /// Users admitted to a decision at a time for each 100 units that are left: 100 to 10000, or 0 for all; default
    /// 150. Other claims wait, and most of them end with sold out. A sale that is spread over partitions admits all
    /// and ignores this value.
    #[schema(maximum = 10_000)]
    // Left out if absent, so that keys that were bound before the field existed match the same requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission_percent: Option<u32>,
    /// Payments other than the price that pay an order. `owed`: none; another amount is refunded. `accept_over`: each
    /// larger amount. `accept_with_tolerance`: amounts that differ from the price by at most `payment_tolerance`. The
    /// seller receives the whole payment; if the order is returned, all of it is refunded. The policy never changes.
    /// A sale at 0 has `owed`. Default: `owed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    payment_policy: Option<Text<PaymentPolicyKind>>,
    /// For `accept_with_tolerance` only: 0 or more, below the unit price, in its currency. It applies to the whole
    /// order, for any number of units. An order with an amount not above the tolerance accepts its exact amount only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payment_tolerance: Option<MoneyBody>,
    /// Default: now.
    #[schema(value_type = Option<String>, format = DateTime)]
    starts_at: Option<Rfc3339>,
    /// Default: 24 hours after the start.
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
    /// Whether claims wait in a queue and are decided in order of arrival; default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_room: Option<bool>,
    /// The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do
    /// not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 128)]
    reference: Option<Text<ShopReference>>,
    /// Whether the reference is unique: if another campaign of the seller has it as a unique one, this one is refused.
    /// Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique_reference: Option<bool>,
    /// Up to 20 texts of the shop by name. Users do not see them.
    #[serde(default, skip_serializing_if = "NewMetadata::is_empty")]
    #[schema(schema_with = metadata_bodies::new_metadata)]
    metadata: NewMetadata,
}

/// Default seconds for which an unpaid order keeps its units.
const HOLD_S: u32 = 900;
/// Route name for idempotency keys of sales.
pub(crate) const ROUTE: &str = "POST /v1/sales";

impl SaleRequest {
    /// Refuses a caller who may not open the sale.
    pub(crate) fn check_scope(&self, caller: &Caller) -> Result<(), ApiProblem> {
        let seller = self.seller.as_ref();
        let is_own = seller.is_none_or(|seller| seller.0 == caller.user);
        caller.require(match is_own {
            true => Scope::CampaignsWrite,
            false => Scope::CampaignsWriteAny,
        })
    }

    /// Users who may take part; `None` for all users.
    pub(crate) fn audience(&self) -> Option<&AudienceRequest> {
        self.audience.as_ref()
    }

    /// Rules of the sale, and the payments that pay an order.
    fn checked(&self) -> Result<(Sale, PaymentPolicy), ApiProblem> {
        let hold_ms = i64::from(self.hold_seconds.unwrap_or(HOLD_S)) * 1_000;
        let limit = self.per_user_limit.unwrap_or(1);
        let price = self.unit_price.money();
        let ratio = self.admission_percent.map(AdmissionRatio::from_percent);
        let faults = Sale::faults(self.stock, limit, price, hold_ms)
            .chain(check_title(&self.title).err())
            .map(ApiProblem::from);
        let (policy, no_policy) = match payment_policy(self) {
            Ok(policy) => (policy, None),
            Err(problem) => (PaymentPolicy::default(), Some(problem)),
        };
        let no_ratio = ratio.and_then(Result::err).map(ApiProblem::from);
        if let Some(problem) = faults
            .chain(no_ratio)
            .chain(no_policy)
            .reduce(ApiProblem::and)
        {
            return Err(problem);
        }
        let sale = Sale::new(self.stock, limit, price, hold_ms)?;
        let sale = match ratio {
            None => sale,
            Some(ratio) => sale.with_admission(ratio?),
        };
        Ok((sale, policy))
    }

    /// Refuses what is wrong without a look at the ledger.
    pub(crate) fn check_fields(&self, app: &App) -> Result<(), ApiProblem> {
        app.check_ack(self.ack)?;
        self.checked().map(drop)
    }

    /// Campaign to create. It counts towards the caller's creation limit, unless it is known to be a repetition.
    pub(crate) async fn draft(
        &self,
        app: &App,
        caller: &Caller,
        is_repetition: bool,
    ) -> Result<Draft, ApiProblem> {
        self.check_fields(app)?;
        app.limits.check_creation(&caller.user, 0, is_repetition)?;
        self.counted_draft(app, caller).await
    }

    /// Campaign to create, which was counted before.
    pub(crate) async fn counted_draft(
        &self,
        app: &App,
        caller: &Caller,
    ) -> Result<Draft, ApiProblem> {
        app.check_ack(self.ack)?;
        let (sale, policy) = self.checked()?;
        let seller = self.seller.as_ref().map(|seller| &seller.0);
        Ok(Draft {
            id: self.id.map(|id| id.0),
            owner: seller.unwrap_or(&caller.user).clone(),
            title: self.title.clone(),
            details: Details {
                product_id: self.product_id.clone().map(|id| id.0),
                description: self.description.clone().map(|text| text.0),
                image_url: self.image_url.clone().map(|url| url.0),
                gallery: gallery(&self.gallery)?,
                list_price_minor: list_price_minor(self.list_price, self.unit_price.money())?,
                cover: None,
            },
            metadata: self
                .metadata
                .of_new(self.reference.as_ref(), self.unique_reference)?,
            starts_at: self.starts_at,
            ends_at: self.ends_at,
            lasts_ms: SALE_LASTS_MS,
            ack: self.ack,
            requirements: app.requirements(&self.requirements)?,
            rules: new_money::check(self.unit_price.currency.0, "#/unit_price/currency")
                .and_then(|()| AudienceRequest::check_new(self.audience.as_ref()))
                .map(|()| Rules::Sale(sale)),
            payment_policy: policy,
            audience: AudienceRequest::keep(self.audience.as_ref(), DrawVisibility::Everybody)
                .await?,
            waiting_room: self.waiting_room.unwrap_or_default(),
        })
    }

    /// Answer after the sale was created.
    pub(crate) async fn answer(
        &self,
        app: &App,
        caller: &Caller,
        created: CreatedCampaign,
    ) -> Result<answers::Sale, ApiProblem> {
        let id = created.id;
        if !created.is_fresh() {
            app.check_repeated(id, self.audience.as_ref()).await?;
        }
        let (record, tally) = app.created(created, CampaignKind::Sale).await?;
        let mut body = sale_body(record, &tally, app).await?;
        app.fill_metadata_for(Some(caller), id, &mut body).await?;
        Ok(body)
    }
}

/// Body of a sale.
pub(crate) async fn sale_body(
    record: CampaignRecord,
    tally: &Tally,
    app: &App,
) -> Result<answers::Sale, ApiProblem> {
    let (campaign, details) = (record.campaign, record.details);
    let meta = app.meta(campaign.id).await?;
    let Rules::Sale(sale) = &campaign.rules else {
        return Err(ProblemKind::UnknownCampaign.into());
    };
    // The engine's terms are newer: the ledger follows the engine.
    let (limit, price) = match tally.terms {
        Some(terms) => (
            terms.per_user_limit,
            Money::new(terms.unit_price_minor, campaign.currency()),
        ),
        None => (sale.per_user_limit(), sale.unit_price()),
    };
    let admission = tally.terms.map(|terms| terms.admission);
    let admission = admission.unwrap_or_else(|| sale.admission().into());
    let policy = campaign.payment_policy;
    // The engine's stock is newer: the ledger follows the engine.
    let stock = match tally.phase {
        Phase::Closed => sale.stock(),
        _ => tally.supply,
    };
    Ok(answers::Sale {
        id: campaign.id.to_wire(),
        object: ObjectKind::Sale,
        seller: campaign.owner.to_wire(),
        stock,
        per_user_limit: limit,
        unit_price: price.to_wire(),
        hold_seconds: u32::try_from(sale.hold_ms() / 1_000).unwrap_or(u32::MAX),
        admission_percent: admission.percent(),
        payment_policy: policy.kind().to_wire(),
        payment_tolerance: policy
            .tolerance_minor()
            .map(|minor| Money::new(minor, campaign.currency()).to_wire()),
        ack: campaign.ack.to_wire(),
        requirements: campaign
            .requirements
            .iter()
            .map(|it| it.to_wire())
            .collect(),
        audience: meta
            .as_ref()
            .and_then(|meta| meta.audience.as_deref()?.kind()),
        waiting_room: meta.as_ref().is_some_and(|meta| meta.waiting_room),
        created_at: campaign.created_at.to_wire(),
        updated_at: record.updated_at.to_wire(),
        archived_at: record.archived_at.map(|at| at.to_wire()),
        product_id: details.product_id.map(|id| ids::Id::from_service(&id)),
        description: details.description.map(|text| text.to_string()),
        image_url: details.image_url.map(|url| url.to_string()),
        gallery: details
            .gallery
            .iter()
            .flat_map(Gallery::urls)
            .map(str::to_owned)
            .collect(),
        list_price: details
            .list_price_minor
            .map(|minor| Money::new(minor, campaign.currency()).to_wire()),
        reference: None,
        metadata: BTreeMap::new(),
        state: wire::state_body(tally, campaign.window, app.ports.engine_clock.now()),
        title: campaign.title,
    })
}

/// Opens a sale.
#[utoipa::path(post, path = "/v1/sales", tag = "sales", request_body = SaleRequest,
    operation_id = "createSale", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe")),
    responses((status = 201, body = answers::Sale), (status = 200, description = "Opened before", body = answers::Sale),
        (status = 403, body = Problem),
        (status = 409, description = "`id-used`: another campaign has the id; `reference-taken`: another campaign of \
            the seller has the unique reference", body = Problem),
        (status = 422, description = "`invalid`, `ack-unavailable` or `key-reused`", body = Problem),
        (status = 429, description = "`creations-throttled`: too many campaigns in a minute; `throttled`: \
            too many requests, or passphrases under keys that were used before", body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    RequestKey(key): RequestKey,
    extract::Json(request): extract::Json<SaleRequest>,
) -> Result<(StatusCode, Location, Json<answers::Sale>), ApiProblem> {
    request.check_scope(&caller)?;
    let draft = request.draft(&app, &caller, false).await?;
    let key = creation_key(key, request.id);
    let created = app
        .create(&caller, ROUTE, key.as_ref(), &request, draft)
        .await?;
    let (id, status) = (created.id, wire::created(created.is_fresh()));
    let body = request.answer(&app, &caller, created).await?;
    let location = wire::location(status, || format!("/v1/sales/{id}"));
    Ok((status, location, Json(body)))
}

/// Gallery of these pictures; `None` without any.
pub(crate) fn gallery(urls: &[Text<ImageUrl>]) -> Result<Option<Gallery>, CampaignError> {
    let urls: Vec<_> = urls.iter().map(|url| url.0.clone()).collect();
    (!urls.is_empty()).then(|| Gallery::new(&urls)).transpose()
}

/// List price in minor units, checked with the price of a unit.
pub(crate) fn list_price_minor(
    list_price: Option<MoneyBody>,
    unit_price: Money,
) -> Result<Option<i64>, ApiProblem> {
    let Some(list_price) = list_price.map(MoneyBody::money) else {
        return Ok(None);
    };
    if list_price.currency != unit_price.currency {
        let why = "a list price is in the currency of the unit price";
        return Err(ApiProblem::invalid_at("#/list_price/currency", why));
    }
    check_list_price(list_price.minor, unit_price.minor)?;
    Ok(Some(list_price.minor))
}

/// Payment policy of the request.
fn payment_policy(request: &SaleRequest) -> Result<PaymentPolicy, ApiProblem> {
    let kind = request.payment_policy.as_ref().map(|kind| kind.0);
    let kind = kind.unwrap_or(PaymentPolicyKind::Owed);
    let price = request.unit_price.money();
    let tolerance = request.payment_tolerance.map(MoneyBody::money);
    if tolerance.is_some_and(|tolerance| tolerance.currency != price.currency) {
        let why = "a payment tolerance is in the currency of the unit price";
        return Err(ApiProblem::invalid_at("#/payment_tolerance/currency", why));
    }
    let minor = tolerance.map(|tolerance| tolerance.minor);
    if minor.is_some() != (kind == PaymentPolicyKind::AcceptWithTolerance) {
        let why = "the payment policy `accept_with_tolerance` has a payment tolerance, and no other policy does";
        return Err(ApiProblem::invalid_at("#/payment_tolerance", why));
    }
    let policy = PaymentPolicy::from_parts(kind, minor);
    let policy = policy.filter(|policy| policy.fits(price.minor));
    policy.ok_or_else(|| CampaignError::PaymentPolicy.into())
}

/// A sale and its state. No token is needed: a user who has the link sees the sale before signing in.
///
/// The entity tag covers everything except `now`. It is strong for callers who may change the sale, and serves as
/// `If-Match` there; it is weak while the engine's primary or the ledger's latest rows cannot be read. An answer 304
/// has the server's time in `Date`.
#[utoipa::path(get, path = "/v1/sales/{id}", tag = "sales",
    operation_id = "getSale", security(()),
    params(("id" = String, Path, description = "The sale's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = answers::Sale), (status = 304, description = "Unchanged since the tag"),
        (status = 401, description = "A token was sent, but it is not valid", body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    MaybeCaller(caller): MaybeCaller,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let settled = match may_change(&app, caller.as_ref(), id).await? {
        // Without an answer of the primary, the caller reads what other readers do, with a weak tag.
        true => match app.settled_sale(id).await {
            Err(problem) if problem.kind_status().is_server_error() => None,
            settled => settled?,
        },
        false => None,
    };
    let is_strong = settled.is_some();
    let (record, tally) = match settled {
        Some(settled) => settled,
        None => app.record(id, CampaignKind::Sale).await?,
    };
    let mut body = sale_body(record, &tally, &app).await?;
    app.fill_metadata_for(caller.as_ref(), id, &mut body)
        .await?;
    Ok(match is_strong {
        true => entity_tag::tagged(&headers, &StrongTag::from_sale(&body), &body),
        false => wire::tagged(&headers, OWN_CACHING, &body),
    })
}

/// Whether a caller may change a sale.
async fn may_change(
    app: &App,
    caller: Option<&Caller>,
    id: CampaignId,
) -> Result<bool, ApiProblem> {
    match caller {
        Some(caller) if caller.may(Scope::CampaignsWriteAny) => Ok(true),
        Some(caller) if caller.may(Scope::CampaignsWrite) => {
            let meta = app.meta(id).await?;
            Ok(meta.is_some_and(|meta| meta.owner == caller.user))
        }
        _ => Ok(false),
    }
}
