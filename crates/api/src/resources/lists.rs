//! Lists of campaigns: one page at a time, with settled numbers.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{
    campaign::{CampaignKind, Phase},
    id::{CampaignId, ProductId, ShopReference, UserId},
    metadata::{MetadataObject, MetadataSubject},
    ports::{CampaignQuery, CampaignRecord, ReferenceQuery, TimeRange, first_id_at},
    time::Timestamp,
};
use qiang_wire::{
    lists::{RedPacketList, SaleList},
    problem::Problem,
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        paging::{Cursor, ListOrder, Page, PagedList, created_range, wrong_list},
        problem::ApiProblem,
        wire::{Rfc3339, Text},
    },
    resources::{create::CHOSEN_ID_WITHIN_MS, red_packets::listed, sales::sale_body},
};

const SALES: PagedList = PagedList::with_limits("sales", 50, 100).with_gaps();
const RED_PACKETS: PagedList = PagedList::with_limits("red_packets", 50, 100);

/// Largest difference between the time in a campaign's id and its creation: that of a chosen id, and as much again for
/// clocks that differ.
const ID_MARGIN_MS: i64 = 2 * CHOSEN_ID_WITHIN_MS;

/// Filter and page of campaigns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CampaignListQuery {
    /// Campaigns of this sender or seller. Default: the caller; another user needs the scope `read:any`.
    #[param(value_type = Option<String>)]
    owner: Option<Text<UserId>>,
    /// Campaigns of all users; needs the scope `read:any`.
    #[serde(default)]
    all: bool,
    /// Sales of this product, which are its rounds, ordered by start. Without it, the order is by id.
    #[param(value_type = Option<String>)]
    product_id: Option<Text<ProductId>>,
    /// Campaigns with this reference in their metadata, by id. Not together with `product_id`, `open` or `order`.
    #[param(value_type = Option<String>)]
    reference: Option<Text<ShopReference>>,
    /// draft, scheduled, live, paused, ended or closed.
    phase: Option<String>,
    /// Only sales that every user may buy in, of all sellers: without an audience, and with `phase` `scheduled` or
    /// `live`. Needs no scope. A page may have fewer sales than `limit` and still a `next`.
    #[serde(default)]
    open: bool,
    /// Includes archived campaigns.
    #[serde(default)]
    archived: bool,
    /// Campaigns that were created from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Rfc3339>,
    /// Campaigns that were created before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Rfc3339>,
    /// `oldest` (the default) or `newest` first, by id; rounds of a product are ordered by start.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Campaigns after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 50, at most 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// A page of campaigns, as read from the ledger.
struct ListedCampaigns {
    page: Page<'static, CampaignId>,
    records: Vec<CampaignRecord>,
    next: Option<CampaignId>,
    settled: bool,
}

/// Sales of the caller.
///
/// Sales of other sellers need the scope `read:any`. With `open`, any user lists the sales of all sellers that every
/// user may buy in.
#[utoipa::path(get, path = "/v1/sales", tag = "sales", params(CampaignListQuery),
    operation_id = "listSales", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = SaleList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: filters that exclude each other, or a range without a time",
            body = Problem)))]
pub(crate) async fn sales(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<CampaignListQuery>,
) -> Result<Response, ApiProblem> {
    let is_open = list.open;
    let found = records(&app, &caller, list, CampaignKind::Sale).await?;
    let mut sales = Vec::with_capacity(found.records.len());
    let mut ids = Vec::with_capacity(found.records.len());
    for record in found.records {
        if is_open {
            // A sale for some users is not announced to the others.
            let meta = app.meta(record.campaign.id).await?;
            if meta.is_none_or(|meta| meta.audience.is_some()) {
                continue;
            }
        }
        let tally = record.settled_tally(app.ports.engine_clock.now());
        ids.push(MetadataSubject::Campaign(record.campaign.id));
        sales.push(sale_body(record, &tally, &app).await?);
    }
    if !is_open {
        app.fill_metadata(&mut sales, &ids).await?;
    }
    let settled = Some(found.settled);
    Ok(found.page.answer(&uri, sales, found.next, settled))
}

/// Red packets of the caller.
///
/// Red packets of other senders need the scope `read:any`.
#[utoipa::path(get, path = "/v1/red-packets", tag = "red packets", params(CampaignListQuery),
    operation_id = "listRedPackets", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = RedPacketList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: filters that exclude each other, or a range without a time",
            body = Problem)))]
pub(crate) async fn red_packets(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<CampaignListQuery>,
) -> Result<Response, ApiProblem> {
    if list.product_id.is_some() {
        return Err(ApiProblem::invalid("a red packet has no product").in_parameter("product_id"));
    }
    if list.open {
        return Err(ApiProblem::invalid("only sales are open to all users").in_parameter("open"));
    }
    let found = records(&app, &caller, list, CampaignKind::RedPacket).await?;
    let subject = |record: &CampaignRecord| MetadataSubject::Campaign(record.campaign.id);
    let ids: Vec<_> = found.records.iter().map(subject).collect();
    let packet = |record| listed(record, &app);
    let packets: Result<Vec<_>, ApiProblem> = found.records.into_iter().map(packet).collect();
    let mut packets = packets?;
    app.fill_metadata(&mut packets, &ids).await?;
    let settled = Some(found.settled);
    Ok(found.page.answer(&uri, packets, found.next, settled))
}

impl Caller {
    /// Owner of the listed campaigns: the caller unless another is requested; `None` for all owners.
    pub(crate) fn lists(
        &self,
        owner: Option<Text<UserId>>,
        all: bool,
    ) -> Result<Option<UserId>, ApiProblem> {
        let owner = match (owner, all) {
            (Some(_), true) => {
                return Err(ApiProblem::invalid("use either `owner` or `all`")
                    .in_parameter("owner")
                    .in_parameter("all"));
            }
            (None, true) => None,
            (owner, false) => Some(owner.map_or_else(|| self.user.clone(), |owner| owner.0)),
        };
        if owner.as_ref() != Some(&self.user) {
            self.require(Scope::ReadAny)?;
        }
        Ok(owner)
    }

    /// User whose entries a list has; `None` for all users. A caller without `scope` and `read:any` sees their own.
    ///
    /// # Errors
    /// `forbidden`: another user's.
    pub(crate) fn lists_user(
        &self,
        user: Option<Text<UserId>>,
        scope: Scope,
    ) -> Result<Option<UserId>, ApiProblem> {
        let user = user.map(|Text(user)| user);
        if user.as_ref() == Some(&self.user) || self.may(scope) || self.may(Scope::ReadAny) {
            return Ok(user);
        }
        if user.is_some() {
            self.require(Scope::ReadAny)?;
        }
        Ok(Some(self.user.clone()))
    }
}

/// Refuses an `after` of another list: it must be a campaign of this kind and, if given, of this owner.
pub(crate) async fn check_place(
    app: &App,
    after: Option<CampaignId>,
    kind: CampaignKind,
    owner: Option<&UserId>,
) -> Result<(), ApiProblem> {
    let Some(after) = after else { return Ok(()) };
    let meta = app.meta(after).await?;
    let is_listed = meta
        .is_some_and(|meta| meta.kind == kind && owner.is_none_or(|owner| meta.owner == *owner));
    match is_listed {
        true => Ok(()),
        false => Err(wrong_list()),
    }
}

/// Ids between which a page lies that has campaigns of this range. Each id was made about when its campaign was.
fn created_ids(
    created: TimeRange,
    newest_first: bool,
    after: Option<CampaignId>,
) -> (Option<CampaignId>, Option<CampaignId>) {
    let id_at =
        |at: Timestamp, millis: i64| CampaignId::new(first_id_at(at.plus_millis(millis))).ok();
    let first = created.from.and_then(|from| id_at(from, -ID_MARGIN_MS));
    let last = created
        .before
        .and_then(|before| id_at(before, ID_MARGIN_MS));
    match newest_first {
        true => (after.into_iter().chain(last).min(), first),
        false => (after.max(first), last),
    }
}

async fn records(
    app: &App,
    caller: &Caller,
    list: CampaignListQuery,
    kind: CampaignKind,
) -> Result<ListedCampaigns, ApiProblem> {
    let lists = match kind {
        CampaignKind::Sale => &SALES,
        CampaignKind::RedPacket => &RED_PACKETS,
    };
    let page = lists.page(list.after.as_ref(), list.limit)?;
    let phase = list.phase.as_deref().map(|name| {
        let unknown = "a phase is draft, scheduled, live, paused, ended or closed";
        Phase::from_name(name).ok_or_else(|| ApiProblem::bad_request(unknown).in_parameter("phase"))
    });
    let owner = match list.open {
        true => {
            let is_offered = matches!(
                list.phase.as_deref().and_then(Phase::from_name),
                Some(Phase::Scheduled | Phase::Live)
            );
            if !is_offered || list.owner.is_some() || list.all || list.archived {
                let detail = "`open` needs the phase scheduled or live, and excludes `owner`, `all` and `archived`";
                return Err(ApiProblem::invalid(detail).in_parameter("open"));
            }
            None
        }
        false => caller.lists(list.owner, list.all)?,
    };
    if list.order.is_some() && list.product_id.is_some() {
        let detail = "rounds of a product are always ordered by their start";
        return Err(ApiProblem::invalid(detail));
    }
    if list.reference.is_some() && (list.product_id.is_some() || list.open || list.order.is_some())
    {
        let detail = "`reference` excludes `product_id`, `open` and `order`";
        return Err(ApiProblem::invalid(detail).in_parameter("reference"));
    }
    check_place(app, page.after, kind, owner.as_ref()).await?;
    let created = created_range(list.created_after, list.created_before)?;
    let newest_first = list.order == Some(ListOrder::Newest);
    let product_id = list.product_id.map(|id| id.0);
    let (after, until) = match product_id {
        Some(_) => (page.after, None),
        None => created_ids(created, newest_first, page.after),
    };
    let settled = app.settled().await?;
    let query = CampaignQuery {
        kind,
        owner,
        product_id,
        newest_first,
        phase: phase.transpose()?,
        now: app.ports.engine_clock.now(),
        created,
        archived: list.archived,
        after,
        until,
        limit: page.reads(),
    };
    let mut records = match &list.reference {
        Some(Text(reference)) => with_reference(app, &query, reference).await?,
        None => app.ports.ledger.list(&query).await?,
    };
    let next = page.cut(&mut records, |record| record.campaign.id);
    Ok(ListedCampaigns {
        page,
        records,
        next,
        settled,
    })
}

/// Campaigns with a reference that a query would list, by id. They are its owner's, or those of all users for a caller
/// who may read them.
async fn with_reference(
    app: &App,
    query: &CampaignQuery,
    reference: &ShopReference,
) -> Result<Vec<CampaignRecord>, ApiProblem> {
    let ledger = &app.ports.ledger;
    let mut wanted = ReferenceQuery {
        object: MetadataObject::Campaign,
        owner: query.owner.clone(),
        reference: reference.clone(),
        after: query.after.map(|id| id.to_string()),
        limit: query.limit,
    };
    let mut records = Vec::new();
    loop {
        let ids = ledger.with_reference(&wanted).await?;
        for id in &ids {
            let unreadable = |_| ApiProblem::internal("metadata of a campaign has another id");
            let record = ledger.campaign(id.parse().map_err(unreadable)?).await?;
            records.extend(record.filter(|record| is_listed(query, record)));
            if records.len() >= query.limit as usize {
                return Ok(records);
            }
        }
        if ids.len() < query.limit as usize {
            return Ok(records);
        }
        wanted.after = ids.into_iter().next_back();
    }
}

/// Whether a query without a product lists a campaign.
fn is_listed(query: &CampaignQuery, record: &CampaignRecord) -> bool {
    let campaign = &record.campaign;
    let owned = query
        .owner
        .as_ref()
        .is_none_or(|owner| *owner == campaign.owner);
    let phase = record.settled_tally(query.now).phase;
    let created = campaign.created_at;
    campaign.kind() == query.kind
        && owned
        && query.phase.is_none_or(|wanted| wanted == phase)
        && (query.archived || record.archived_at.is_none())
        && query.created.from.is_none_or(|from| created >= from)
        && query.created.before.is_none_or(|before| created < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_times_bounds_the_ids_that_are_read() {
        let id = |at: i64| CampaignId::new(first_id_at(Timestamp::from_millis(at))).unwrap();
        let (from, before) = (10 * ID_MARGIN_MS, 20 * ID_MARGIN_MS);
        let created = TimeRange {
            from: Some(Timestamp::from_millis(from)),
            before: Some(Timestamp::from_millis(before)),
        };
        let (first, last) = (id(from - ID_MARGIN_MS), id(before + ID_MARGIN_MS));
        let inside = id(from);
        for (newest_first, after, expected) in [
            (false, None, (Some(first), Some(last))),
            (true, None, (Some(last), Some(first))),
            (false, Some(inside), (Some(inside), Some(last))),
            (true, Some(inside), (Some(inside), Some(first))),
            (false, Some(id(1)), (Some(first), Some(last))),
            (true, Some(id(2 * before)), (Some(last), Some(first))),
        ] {
            let found = created_ids(created, newest_first, after);
            assert_eq!(found, expected, "{newest_first} {after:?}");
        }
        let all = created_ids(TimeRange::default(), true, Some(inside));
        assert_eq!(all, (Some(inside), None));
    }
}
