//! Orders of a sale, for its seller.

use std::sync::Arc;

use axum::{Json, extract::State, http::Uri, response::Response};
use qiang_core::{
    campaign::CampaignKind,
    id::{CampaignId, OrderId},
    money::{Currency, Money},
    ports::GrantRecord,
};
use qiang_wire::{
    answers::ListedOrder,
    problem::{Problem, ProblemKind},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Param, Params},
    http::{
        paging::{NumberPage, PAGE_DEFAULT, PAGE_MAX, cut, limit, with_link},
        problem::{ApiProblem, NoAnswer},
        wire::{Text, ToWire as _},
    },
};

/// Orders of a sale, ordered by number.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Orders)]
pub(crate) struct OrdersBody {
    orders: Vec<ListedOrder>,
    /// Value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u32>,
    /// Whether everything decided before this request is in the list. If not, repeat the request later.
    settled: bool,
}

fn listed(campaign: CampaignId, grant: GrantRecord, currency: Currency) -> ListedOrder {
    let order = OrderId {
        campaign,
        number: grant.number,
    };
    ListedOrder {
        order: order.to_wire(),
        number: grant.number,
        user: grant.user.to_wire(),
        quantity: grant.quantity,
        returned_quantity: grant.returned,
        amount: Money::new(grant.amount_minor, currency).to_wire(),
        state: grant.state.to_wire(),
        granted_at: grant.granted_at.to_wire(),
    }
}

/// Orders of a sale with their states. Sellers see those of their own sales.
#[utoipa::path(get, path = "/v1/sales/{id}/orders", tag = "orders",
    operation_id = "listOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The sale's id"), NumberPage),
    responses((status = 200, body = OrdersBody), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(id): Param<CampaignId>,
    Params(page): Params<NumberPage>,
) -> Result<Response, ApiProblem> {
    let limit = limit(page.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    if meta.kind != CampaignKind::Sale {
        return Err(ProblemKind::UnknownCampaign.into());
    }
    if meta.owner != caller.user {
        caller.require(Scope::ReadAny)?;
    }
    let settled = app.settled().await?;
    // One more than the page size shows whether there is another page.
    let mut grants = app.ports.ledger.grants(id, page.after, limit + 1).await?;
    let next = cut(&mut grants, limit, |last| last.number);
    let orders = grants.into_iter();
    let orders = orders.map(|grant| listed(id, grant, meta.currency));
    let body = OrdersBody {
        orders: orders.collect(),
        next,
        settled,
    };
    Ok(with_link(&uri, next.map(Text), Json(body)))
}
