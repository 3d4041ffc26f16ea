//! Orders of a sale, for its seller.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{campaign::CampaignKind, id::CampaignId};
use qiang_wire::{
    lists::OrderList,
    problem::{Problem, ProblemKind},
};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Param, Params},
    http::{
        grant_bodies::settled_order,
        paging::{GrantPageQuery, PagedList},
        problem::{ApiProblem, NoAnswer},
    },
};

const ORDERS: PagedList = PagedList::new("orders");

/// Orders of a sale with their states. Sellers see those of their own sales.
#[utoipa::path(get, path = "/v1/sales/{id}/orders", tag = "orders",
    operation_id = "listOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The sale's id"), GrantPageQuery),
    responses((status = 200, body = OrderList), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(id): Param<CampaignId>,
    Params(list): Params<GrantPageQuery>,
) -> Result<Response, ApiProblem> {
    let (page, after) = list.page(&ORDERS)?;
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
    let mut grants = app.ports.ledger.grants(id, after, page.reads()).await?;
    let next = page.cut(&mut grants, |last| last.number);
    let orders = grants.into_iter();
    let orders = orders.map(|grant| settled_order(id, grant, meta.currency));
    Ok(page.answer(&uri, orders.collect(), next, Some(settled)))
}
