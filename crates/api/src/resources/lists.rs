//! Lists of campaigns: a page at a time, by what the ledger has settled.

use std::sync::Arc;

use axum::{Json, extract::State, http::Uri, response::Response};
use qiang_core::{
    campaign::{CampaignKind, Phase},
    id::{CampaignId, ProductId, UserId},
    ports::{CampaignQuery, CampaignRecord},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        paging::{cut, limit, with_link},
        problem::{Problem, ProblemBody},
        wire::Text,
    },
    resources::{red_packets::ListedRedPacket, sales::SaleBody},
};

/// Campaigns on a page.
const PAGE_DEFAULT: u32 = 50;
const PAGE_MAX: u32 = 100;

/// Which campaigns, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct List {
    /// Those of this sender or seller. Default: the caller's; of others only with the scope `read:any`.
    #[param(value_type = Option<String>)]
    owner: Option<Text<UserId>>,
    /// Those of everybody, with the scope `read:any`.
    #[serde(default)]
    all: bool,
    /// Sales of this product: its rounds, in the order in which they start. Without it the order is that of the ids.
    #[param(value_type = Option<String>)]
    product_id: Option<Text<ProductId>>,
    /// draft, scheduled, live, paused, ended or closed.
    phase: Option<String>,
    /// Archived ones as well.
    #[serde(default)]
    archived: bool,
    /// `oldest` (the default) or `newest` first, by their ids; rounds of a product have the order of their start.
    #[param(inline)]
    order: Option<Order>,
    /// Those behind this id: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<CampaignId>>,
    /// At most this many; default 50, at most 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// In which order campaigns are listed.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// By their ids.
    Oldest,
    /// By their ids backwards.
    Newest,
}

/// Sales, with their numbers as settled.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sales)]
pub(crate) struct SalesBody {
    sales: Vec<SaleBody>,
    #[serde(flatten)]
    page: PageBody,
}

/// Red packets, with their numbers as settled.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RedPackets)]
pub(crate) struct RedPacketsBody {
    red_packets: Vec<ListedRedPacket>,
    #[serde(flatten)]
    page: PageBody,
}

/// Where a page ends.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
struct PageBody {
    /// Where the next page begins: its `after`. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    next: Option<Text<CampaignId>>,
    /// Whether everything that happened before this request is in the ledger. If not, ask again.
    settled: bool,
}

/// Sales: the caller's own; others' with the scope `read:any`.
#[utoipa::path(get, path = "/v1/sales", tag = "sales", params(List),
    operation_id = "listSales", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = SalesBody), (status = 403, body = ProblemBody),
        (status = 422, description = "`invalid`: filters that exclude each other", body = ProblemBody)))]
pub(crate) async fn sales(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<List>,
) -> Result<Response, Problem> {
    let (records, page) = records(&app, &caller, list, CampaignKind::Sale).await?;
    let mut sales = Vec::with_capacity(records.len());
    for record in records {
        let tally = record.settled_tally(app.ports.engine_clock.now());
        sales.push(SaleBody::new(record, &tally, &app).await?);
    }
    let next = page.next;
    Ok(with_link(&uri, next, Json(SalesBody { sales, page })))
}

/// Red packets: the caller's own; others' with the scope `read:any`.
#[utoipa::path(get, path = "/v1/red-packets", tag = "red packets", params(List),
    operation_id = "listRedPackets", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = RedPacketsBody), (status = 403, body = ProblemBody),
        (status = 422, description = "`invalid`: filters that exclude each other", body = ProblemBody)))]
pub(crate) async fn red_packets(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<List>,
) -> Result<Response, Problem> {
    if list.product_id.is_some() {
        return Err(Problem::invalid("a red packet has no product").of("product_id"));
    }
    let (records, page) = records(&app, &caller, list, CampaignKind::RedPacket).await?;
    let packet = |record| ListedRedPacket::new(record, &app);
    let packets: Result<_, Problem> = records.into_iter().map(packet).collect();
    let (red_packets, next) = (packets?, page.next);
    let body = RedPacketsBody { red_packets, page };
    Ok(with_link(&uri, next, Json(body)))
}

impl Caller {
    /// Whose campaigns are listed: the caller's own unless others' are asked for, or everybody's (none).
    pub(crate) fn lists(
        &self,
        owner: Option<Text<UserId>>,
        all: bool,
    ) -> Result<Option<UserId>, Problem> {
        let owner = match (owner, all) {
            (Some(_), true) => {
                return Err(Problem::invalid("either `owner` or `all`")
                    .of("owner")
                    .of("all"));
            }
            (None, true) => None,
            (owner, false) => Some(owner.map_or_else(|| self.user.clone(), |owner| owner.0)),
        };
        if owner.as_ref() != Some(&self.user) {
            self.require(Scope::ReadAny)?;
        }
        Ok(owner)
    }
}

/// Refuses a place in another list: `after` is a campaign of this kind and of this owner, where there is one.
pub(crate) async fn check_place(
    app: &App,
    after: Option<CampaignId>,
    kind: CampaignKind,
    owner: Option<&UserId>,
) -> Result<(), Problem> {
    let Some(after) = after else { return Ok(()) };
    let meta = app.meta(after).await?;
    let is_listed = meta
        .is_some_and(|meta| meta.kind == kind && owner.is_none_or(|owner| meta.owner == *owner));
    match is_listed {
        true => Ok(()),
        false => {
            let detail = "it is no place in this list: take `next` of the page before";
            Err(Problem::bad_request(detail).of("after"))
        }
    }
}

async fn records(
    app: &App,
    caller: &Caller,
    list: List,
    kind: CampaignKind,
) -> Result<(Vec<CampaignRecord>, PageBody), Problem> {
    let limit = limit(list.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let phase = list.phase.as_deref().map(|name| {
        let unknown = "a phase is draft, scheduled, live, paused, ended or closed";
        Phase::of_name(name).ok_or_else(|| Problem::bad_request(unknown).of("phase"))
    });
    let owner = caller.lists(list.owner, list.all)?;
    if list.order.is_some() && list.product_id.is_some() {
        let detail = "rounds of a product come in the order in which they start";
        return Err(Problem::invalid(detail));
    }
    let after = list.after.map(|after| after.0);
    check_place(app, after, kind, owner.as_ref()).await?;
    let settled = app.settled().await?;
    let query = CampaignQuery {
        kind,
        owner,
        product_id: list.product_id.map(|id| id.0),
        newest_first: list.order == Some(Order::Newest),
        phase: phase.transpose()?,
        now: app.ports.engine_clock.now(),
        archived: list.archived,
        after,
        // One more shows whether there is another page.
        limit: limit + 1,
    };
    let mut records = app.ports.ledger.list(&query).await?;
    let next = cut(&mut records, limit, |record| Text(record.campaign.id));
    Ok((records, PageBody { next, settled }))
}
