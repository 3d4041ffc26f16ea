//! A user's history, newest first: claimed shares, orders and postings of accounts. Also a deposit and a payment by
//! id. All of it comes from the ledger, which follows the engine.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State, http::Uri, response::Response};
use qiang_core::{
    id::{OrderId, PaymentRef, UserId},
    money::Money,
    order::OrderState,
    payment::PaymentOutcome,
    ports::{
        self, Action, DepositRecord, OrderPlace, OrderQuery, Posting, PostingKind, PostingQuery,
    },
};
use qiang_wire::{
    answers::{self, Deposit, PaymentRecord},
    ids::ClaimId,
    lists::{ClaimList, OrderList, PostingList},
    problem::{Problem, ProblemKind},
    words::{ObjectKind, PaymentRecordOutcome},
};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Param, Params, TwoParams},
    http::{
        grant_bodies::order_in_history,
        paging::{Cursor, PageQuery, PagedList, created_range},
        problem::{ApiProblem, NoAnswer},
        wire::{Id, Rfc3339, Text, ToWire as _},
    },
    resources::payment_reports::RefusedReport,
};

const CLAIMS: PagedList = PagedList::new("claims");
const ORDERS: PagedList = PagedList::new("user_orders");
const POSTINGS: PagedList = PagedList::new("postings");

/// Filter and page of a user's orders.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UserOrderListQuery {
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

/// Filter and page of a user's postings.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PostingListQuery {
    /// Postings of this kind.
    kind: Option<String>,
    /// Postings after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

fn posting(posting: Posting) -> answers::Posting {
    let numbered = posting.campaign.zip(posting.number);
    let order = numbered.filter(|_| posting.kind != PostingKind::Grant);
    answers::Posting {
        kind: posting.kind.to_wire(),
        account: posting.account.to_wire(),
        amount: posting.amount.to_wire(),
        campaign: posting.campaign.map(|campaign| campaign.to_wire()),
        order: order.map(|(campaign, number)| OrderId { campaign, number }.to_wire()),
        reference: posting.reference,
        at: posting.place.at.to_wire(),
    }
}

fn refused_payment(reference: &PaymentRef, action: &Action) -> Option<PaymentRecord> {
    let report = RefusedReport::from_action(action)?;
    Some(PaymentRecord {
        reference: reference.to_string(),
        object: ObjectKind::Payment,
        order: report.order.to_wire(),
        user: None,
        outcome: PaymentRecordOutcome::Refused,
        amount: report.money.map(|money| money.to_wire()),
        created_at: action.at.to_wire(),
        problem: Some(report.problem),
    })
}

/// Body of a recorded payment.
pub(crate) fn payment_record(payment: ports::PaymentRecord) -> PaymentRecord {
    PaymentRecord {
        reference: payment.reference.to_string(),
        object: ObjectKind::Payment,
        order: payment.order.to_wire(),
        user: Some(payment.buyer.to_wire()),
        outcome: record_outcome(payment.outcome),
        amount: Some(payment.amount.to_wire()),
        created_at: payment.at.to_wire(),
        problem: None,
    }
}

/// Body of a deposit.
pub(crate) fn deposit_body(id: Uuid, deposit: &DepositRecord) -> Deposit {
    let reversed = Money::new(deposit.reversed_minor, deposit.amount.currency);
    Deposit {
        id: id.to_wire(),
        object: ObjectKind::Deposit,
        user: deposit.user.to_wire(),
        amount: deposit.amount.to_wire(),
        reference: deposit.reference.as_ref().map(ToString::to_string),
        metadata: BTreeMap::new(),
        created_at: deposit.at.to_wire(),
        reversed: deposit.is_reversed(),
        reversed_amount: reversed.to_wire(),
    }
}

fn record_outcome(outcome: PaymentOutcome) -> PaymentRecordOutcome {
    match outcome {
        PaymentOutcome::Paid => PaymentRecordOutcome::Paid,
        PaymentOutcome::Reinstated => PaymentRecordOutcome::Reinstated,
        PaymentOutcome::RefundDue => PaymentRecordOutcome::RefundDue,
    }
}

/// Value of a filter. Any other text is a problem that lists the valid names.
fn word<T>(
    parameter: &'static str,
    text: Option<&str>,
    from_name: fn(&str) -> Option<T>,
    names: &[T],
    name: fn(&T) -> &'static str,
) -> Result<Option<T>, ApiProblem> {
    let unknown = || {
        let names: Vec<_> = names.iter().map(name).collect();
        ApiProblem::bad_request(format!("it is one of {}", names.join(", ")))
            .in_parameter(parameter)
    };
    text.map(|text| from_name(text).ok_or_else(unknown))
        .transpose()
}

/// State that orders are filtered by.
pub(crate) fn order_state(text: Option<&str>) -> Result<Option<OrderState>, ApiProblem> {
    let name = |state: &OrderState| state.name();
    word("state", text, OrderState::from_name, OrderState::ALL, name)
}

impl App {
    /// Whether everything is settled. Refuses a caller who may not see this user's history.
    async fn settled_for(&self, caller: &Caller, user: &UserId) -> Result<bool, ApiProblem> {
        if caller.user != *user {
            caller.require(Scope::ReadAny)?;
        }
        self.settled().await
    }
}

/// Shares of red packets that a user has, newest first.
///
/// Users see their own. Other users' shares need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/claims", tag = "accounts",
    operation_id = "listClaims", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The user"), PageQuery),
    responses((status = 200, body = ClaimList), (status = 403, body = Problem)))]
pub(crate) async fn claims(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<PageQuery>,
) -> Result<Response, ApiProblem> {
    let page = CLAIMS.page(list.after.as_ref(), list.limit)?;
    let settled = app.settled_for(&caller, &user).await?;
    let query = PostingQuery {
        user,
        // Each share is above 0, so each has a posting.
        kind: Some(PostingKind::Grant),
        after: page.after,
        limit: page.reads(),
    };
    let mut postings = app.ports.ledger.postings_of(&query).await?;
    let next = page.cut(&mut postings, |posting| posting.place);
    let claim = |posting: Posting| {
        let (campaign, number) = posting.campaign.zip(posting.number)?;
        Some(answers::Claim {
            id: ClaimId::from_service(&OrderId { campaign, number }),
            object: ObjectKind::Claim,
            campaign: campaign.to_wire(),
            number,
            user: query.user.to_wire(),
            amount: posting.amount.to_wire(),
            created_at: posting.place.at.to_wire(),
            ack: None,
        })
    };
    let claims: Vec<_> = postings.into_iter().filter_map(claim).collect();
    Ok(page.answer(&uri, claims, next, Some(settled)))
}

/// Orders of a user, newest first.
///
/// Users see their own. Other users' orders need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/orders", tag = "accounts",
    operation_id = "listUserOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The user"), UserOrderListQuery),
    responses((status = 200, body = OrderList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem)))]
pub(crate) async fn orders(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<UserOrderListQuery>,
) -> Result<Response, ApiProblem> {
    let page = ORDERS.page::<OrderPlace>(list.after.as_ref(), list.limit)?;
    let state = order_state(list.state.as_deref())?;
    let settled = app.settled_for(&caller, &user).await?;
    let query = OrderQuery {
        user: Some(user),
        campaign: None,
        state,
        created: created_range(list.created_after, list.created_before)?,
        after: page.after,
        limit: page.reads(),
        reads_max: page.reads(),
    };
    let mut orders = app.ports.ledger.orders_of(&query).await?.items;
    let next = page.cut(&mut orders, |order| order.place());
    let orders: Vec<_> = orders.into_iter().map(order_in_history).collect();
    Ok(page.answer(&uri, orders, next, Some(settled)))
}

/// Postings of a user's accounts, newest first.
///
/// Users see their own. Other users' postings need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/postings", tag = "accounts",
    operation_id = "listPostings", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The user"), PostingListQuery),
    responses((status = 200, body = PostingList), (status = 403, body = Problem)))]
pub(crate) async fn postings(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<PostingListQuery>,
) -> Result<Response, ApiProblem> {
    let page = POSTINGS.page(list.after.as_ref(), list.limit)?;
    let (names, name) = (PostingKind::ALL, |kind: &PostingKind| kind.name());
    let kind = word(
        "kind",
        list.kind.as_deref(),
        PostingKind::from_name,
        names,
        name,
    )?;
    let settled = app.settled_for(&caller, &user).await?;
    let query = PostingQuery {
        user,
        kind,
        after: page.after,
        limit: page.reads(),
    };
    let mut postings = app.ports.ledger.postings_of(&query).await?;
    let next = page.cut(&mut postings, |posting| posting.place);
    let postings: Vec<_> = postings.into_iter().map(posting).collect();
    Ok(page.answer(&uri, postings, next, Some(settled)))
}

/// A deposit.
///
/// Users see their own. Other users' deposits need the scope `deposit` or `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/deposits/{id}", tag = "accounts",
    operation_id = "getDeposit", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["deposit"])),
    params(("user" = String, Path, description = "The owner of the account"),
        ("id" = String, Path, description = "The deposit's id")),
    responses((status = 200, body = Deposit), (status = 403, body = Problem),
        (status = 404, description = "`not-found`: the user has no such deposit", body = Problem)))]
pub(crate) async fn deposit(
    State(app): State<Arc<App>>,
    caller: Caller,
    TwoParams(user, Id(id)): TwoParams<UserId, Id>,
) -> Result<Json<Deposit>, ApiProblem> {
    if caller.user != user && !caller.may(Scope::Deposit) {
        caller.require(Scope::ReadAny)?;
    }
    let deposit = app.ports.ledger.deposit_of(id).await?;
    let deposit = deposit.filter(|deposit| deposit.user == user);
    let missing = || ApiProblem::new(ProblemKind::NotFound, "the user has no such deposit");
    let body = deposit_body(id, &deposit.ok_or_else(missing)?);
    let body = match caller.may(Scope::Deposit) || caller.may(Scope::ReadAny) {
        true => app.with_deposit_metadata(body, id).await?,
        false => body,
    };
    Ok(Json(body))
}

/// Outcome of a payment.
///
/// Buyers see those of their orders, sellers those of their sales. Other payments need the scope `pay` or `read:any`.
/// With `read:any` the newest refused report is found, if no payment with the reference was recorded.
#[utoipa::path(get, path = "/v1/payments/{reference}", tag = "orders",
    operation_id = "getPayment", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["pay"])),
    params(("reference" = String, Path, description = "The payment service's reference")),
    responses((status = 200, body = PaymentRecord),
        (status = 404, description = "`not-found`: no such payment, or it is not settled", body = Problem),
        NoAnswer))]
pub(crate) async fn payment(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(reference): Param<PaymentRef>,
) -> Result<Json<PaymentRecord>, ApiProblem> {
    let ledger = &app.ports.ledger;
    let mut payment = ledger.payment_of(&reference).await?;
    if payment.is_none() {
        // It may have arrived a moment ago.
        app.settled().await?;
        payment = ledger.payment_of(&reference).await?;
    }
    let sees = |who: &UserId| *who == caller.user;
    let may = caller.may(Scope::ReadAny);
    let is_recorded = payment.is_some();
    let sees_all = may || caller.may(Scope::Pay);
    let payment = payment.filter(|it| sees_all || sees(&it.buyer) || sees(&it.seller));
    let missing = || ApiProblem::new(ProblemKind::NotFound, "there is no such payment");
    let Some(payment) = payment else {
        let refusal = match may && !is_recorded {
            true => ledger.refusal_of(&reference).await?,
            false => None,
        };
        let found = refusal.and_then(|it| refused_payment(&reference, &it));
        return found.map(Json).ok_or_else(missing);
    };
    Ok(Json(payment_record(payment)))
}
