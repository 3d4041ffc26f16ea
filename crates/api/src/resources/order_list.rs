//! Orders of all sales, newest first.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{
    id::{CampaignId, OrderId, ShopReference, UserId},
    metadata::{MetadataObject, MetadataSubject},
    ports::{OrderPlace, OrderQuery, ReferenceQuery, UserOrder},
};
use qiang_wire::{answers, lists::OrderList, problem::Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        grant_bodies::order_in_history,
        paging::{Cursor, PagedList, created_range},
        problem::{ApiProblem, NoAnswer},
        wire::{Rfc3339, Text},
    },
    resources::histories::order_state,
};

const ORDERS: PagedList = PagedList::new("all_orders").with_gaps();
const REFERENCED: PagedList = PagedList::new("referenced_orders").with_gaps();

/// Entries that a page reads of all users, if a filter may reject most of them.
pub(crate) const READS_MAX: u32 = 10_000;

/// Filter and page of orders.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderListQuery {
    /// Orders of this sale. Its seller sees all of them.
    #[param(value_type = Option<String>)]
    campaign: Option<Text<CampaignId>>,
    /// Orders of this buyer. Default: all that the caller sees.
    #[param(value_type = Option<String>)]
    user: Option<Text<UserId>>,
    /// Orders with this reference in their metadata, by id, as far as the caller may read the metadata. Not together
    /// with other filters.
    #[param(value_type = Option<String>)]
    reference: Option<Text<ShopReference>>,
    /// Orders in this state.
    state: Option<String>,
    /// Orders from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Rfc3339>,
    /// Orders from before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Rfc3339>,
    /// Orders after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Orders, newest first.
///
/// Users see their own, and sellers those of their own sale `campaign`. With the scope `read:any` the list has the
/// orders of all users.
///
/// With `state` and without `user`, a page may have fewer orders than `limit`, or none, and still a `next`. Orders with
/// a `reference` are listed by id: those of the caller's own sales or, with `read:any`, of all.
#[utoipa::path(get, path = "/v1/orders", tag = "orders", params(OrderListQuery),
    operation_id = "listAllOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = OrderList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<OrderListQuery>,
) -> Result<Response, ApiProblem> {
    if let Some(Text(reference)) = &list.reference {
        return with_reference(&app, &caller, &uri, &list, reference).await;
    }
    let (user, campaign) = (list.user.map(|it| it.0), list.campaign.map(|it| it.0));
    let user = match (user, campaign) {
        (Some(user), _) if user == caller.user => Some(user),
        (user, _) if caller.may(Scope::ReadAny) => user,
        (user, Some(sale)) if is_seller(&app, &caller, sale).await? => user,
        (Some(_), _) => {
            caller.require(Scope::ReadAny)?;
            None
        }
        (None, _) => Some(caller.user.clone()),
    };
    let page = ORDERS.page::<OrderPlace>(list.after.as_ref(), list.limit)?;
    let query = OrderQuery {
        user,
        campaign,
        state: order_state(list.state.as_deref())?,
        created: created_range(list.created_after, list.created_before)?,
        after: page.after,
        limit: page.reads(),
        reads_max: READS_MAX,
    };
    let settled = app.settled().await?;
    let found = app.ports.ledger.orders_of(&query).await?;
    let mut orders = found.items;
    let early = found.read_from.map(|at| OrderPlace { at, order: None });
    let next = page.cut(&mut orders, |order| order.place()).or(early);
    let reads_metadata = match campaign {
        _ if caller.may(Scope::ReadAny) => true,
        Some(sale) => is_seller(&app, &caller, sale).await?,
        None => false,
    };
    let orders = bodies(&app, orders, reads_metadata).await?;
    Ok(page.answer(&uri, orders, next, Some(settled)))
}

/// Bodies of orders, with their metadata if the caller may read it.
async fn bodies(
    app: &App,
    orders: Vec<UserOrder>,
    reads_metadata: bool,
) -> Result<Vec<answers::Order>, ApiProblem> {
    let id = |order: &UserOrder| OrderId {
        campaign: order.campaign,
        number: order.grant.number,
    };
    let ids = orders.iter().map(id).map(MetadataSubject::Order);
    let ids: Vec<_> = ids.collect();
    let mut bodies: Vec<_> = orders.into_iter().map(order_in_history).collect();
    if reads_metadata {
        app.fill_metadata(&mut bodies, &ids).await?;
    }
    Ok(bodies)
}

/// Orders with a reference, by id.
async fn with_reference(
    app: &App,
    caller: &Caller,
    uri: &Uri,
    list: &OrderListQuery,
    reference: &ShopReference,
) -> Result<Response, ApiProblem> {
    let has_others = list.campaign.is_some()
        || list.user.is_some()
        || list.state.is_some()
        || list.created_after.is_some()
        || list.created_before.is_some();
    if has_others {
        let detail = "`reference` excludes all other filters";
        return Err(ApiProblem::invalid(detail).in_parameter("reference"));
    }
    let page = REFERENCED.page::<OrderId>(list.after.as_ref(), list.limit)?;
    let ledger = &app.ports.ledger;
    let settled = app.settled().await?;
    let query = ReferenceQuery {
        object: MetadataObject::Order,
        owner: (!caller.may(Scope::ReadAny)).then(|| caller.user.clone()),
        reference: reference.clone(),
        after: page.after.map(|id| id.to_string()),
        limit: page.reads(),
    };
    let found = ledger.with_reference(&query);
    let mut ids = Vec::new();
    for id in found.await? {
        let unreadable = |_| ApiProblem::internal("metadata of an order has another id");
        ids.push(id.parse::<OrderId>().map_err(unreadable)?);
    }
    let next = page.cut(&mut ids, |id| *id);
    let mut orders = Vec::with_capacity(ids.len());
    for id in ids {
        let record = ledger.campaign(id.campaign).await?;
        let before = id.number.saturating_sub(1);
        let grants = ledger.grants(id.campaign, before, 1).await?;
        let grant = grants.into_iter().find(|grant| grant.number == id.number);
        if let (Some(record), Some(grant)) = (record, grant) {
            orders.push(UserOrder {
                campaign: id.campaign,
                currency: record.campaign.currency(),
                title: record.campaign.title,
                grant,
            });
        }
    }
    let orders = bodies(app, orders, true).await?;
    Ok(page.answer(uri, orders, next, Some(settled)))
}

async fn is_seller(app: &App, caller: &Caller, sale: CampaignId) -> Result<bool, ApiProblem> {
    let meta = app.meta(sale).await?;
    Ok(meta.is_some_and(|meta| meta.owner == caller.user))
}
