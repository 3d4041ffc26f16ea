//! A user's history, newest first: claimed shares, orders and postings of accounts. Also a deposit and a payment by
//! id. All of it comes from the ledger, which follows the engine.

use std::sync::Arc;

use axum::{Json, extract::State, http::Uri, response::Response};
use qiang_core::{
    id::{CampaignId, OrderId, PaymentRef, UserId},
    order::OrderState,
    ports::{
        Action, OrderPlace, OrderQuery, Posting, PostingKind, PostingPlace, PostingQuery, UserOrder,
    },
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{Param, Params, TwoParams},
    http::{
        paging::{PAGE_DEFAULT, PAGE_MAX, cut, limit, with_link},
        problem::{ApiProblem, NoAnswer, ProblemBody, ProblemKind},
        wire::{Id, MoneyBody, Rfc3339, Text},
    },
    resources::payment_reports::{REFUSED, RefusedReport},
};

/// Page of a user's claims.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ClaimList {
    /// Claims older than this one: `next` of the page before.
    #[param(value_type = Option<String>, format = "posting-place")]
    after: Option<Text<PostingPlace>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Filter and page of a user's orders.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderList {
    /// Orders in this state.
    state: Option<String>,
    /// Orders older than this one: `next` of the page before.
    #[param(value_type = Option<String>, format = "order-place")]
    after: Option<Text<OrderPlace>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Filter and page of a user's postings.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PostingList {
    /// Postings of this kind.
    kind: Option<String>,
    /// Postings older than this one: `next` of the page before.
    #[param(value_type = Option<String>, format = "posting-place")]
    after: Option<Text<PostingPlace>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Shares of red packets that a user has, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claims)]
pub(crate) struct ClaimsBody {
    claims: Vec<ClaimBody>,
    #[serde(flatten)]
    page: PagePlaceBody,
}

/// End of a page of a user's history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OlderPage)]
struct PagePlaceBody {
    /// Value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Whether everything decided before this request is in the list. If not, repeat the request later.
    settled: bool,
}

/// A share that a user has.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim)]
struct ClaimBody {
    /// The red packet.
    #[schema(value_type = String, format = Uuid)]
    campaign: Text<CampaignId>,
    number: u32,
    amount: MoneyBody,
    #[schema(value_type = String, format = DateTime)]
    granted_at: Rfc3339,
}

/// Orders of a user, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UserOrders)]
pub(crate) struct UserOrdersBody {
    orders: Vec<UserOrderBody>,
    #[serde(flatten)]
    page: PagePlaceBody,
}

/// An order of a user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UserOrder)]
struct UserOrderBody {
    #[schema(value_type = String)]
    order: Text<OrderId>,
    /// The sale.
    #[schema(value_type = String, format = Uuid)]
    campaign: Text<CampaignId>,
    /// Title of the sale.
    title: String,
    quantity: u32,
    /// Units that were returned after the order was paid.
    returned_quantity: u32,
    /// The price of all units.
    amount: MoneyBody,
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    granted_at: Rfc3339,
}

impl UserOrderBody {
    fn new(order: UserOrder) -> Self {
        Self {
            order: Text(order.place().order),
            campaign: Text(order.campaign),
            title: order.title,
            quantity: order.grant.quantity,
            returned_quantity: order.grant.returned,
            amount: MoneyBody::new(order.grant.amount_minor, order.currency),
            state: order.grant.state.name(),
            granted_at: Rfc3339(order.grant.granted_at),
        }
    }
}

/// Postings of a user's accounts, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Postings)]
pub(crate) struct PostingsBody {
    postings: Vec<PostingBody>,
    #[serde(flatten)]
    page: PagePlaceBody,
}

/// Money that entered or left one of a user's accounts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Posting)]
struct PostingBody {
    /// Reason of the posting.
    kind: &'static str,
    /// Account of the two that it changed.
    account: &'static str,
    /// Amount that entered the account; below 0 if it left.
    amount: MoneyBody,
    /// Campaign of the posting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    campaign: Option<Text<CampaignId>>,
    /// Order of the posting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    order: Option<Text<OrderId>>,
    /// The payment service's reference; for a deposit and its reversal, the deposit's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reference: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
}

impl PostingBody {
    fn new(posting: Posting) -> Self {
        let numbered = posting.campaign.zip(posting.number);
        let order = numbered.filter(|_| posting.kind != PostingKind::Grant);
        Self {
            kind: posting.kind.name(),
            account: posting.account.name(),
            amount: posting.amount.into(),
            campaign: posting.campaign.map(Text),
            order: order.map(|(campaign, number)| Text(OrderId { campaign, number })),
            reference: posting.reference,
            at: Rfc3339(posting.place.at),
        }
    }
}

/// A deposit, and the amount of it that was reversed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DepositRecord)]
pub(crate) struct DepositRecordBody {
    #[schema(value_type = String, format = Uuid)]
    id: Text<Uuid>,
    /// Owner of the account.
    user: String,
    amount: MoneyBody,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// Whether all of it was reversed.
    reversed: bool,
    /// Amount that was reversed.
    reversed_amount: MoneyBody,
}

/// A payment that was reported, and its outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentRecord)]
pub(crate) struct PaymentRecordBody {
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    #[schema(value_type = String)]
    order: Text<OrderId>,
    /// The buyer. Absent if the report was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// paid; reinstated: the order had expired and could be reserved again; refund_due: it did not pay the order, so
    /// a refund is due; refused: its money is not recorded.
    outcome: &'static str,
    /// Money of the report. Absent if the amount of a refused report could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<MoneyBody>,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// Problem of a refused report, such as `payment-used`.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl PaymentRecordBody {
    fn from_refusal(reference: PaymentRef, action: &Action) -> Option<Self> {
        let report = RefusedReport::from_action(action)?;
        Some(Self {
            reference: Text(reference),
            order: Text(report.order),
            user: None,
            outcome: REFUSED,
            amount: report.money.map(MoneyBody::from),
            at: Rfc3339(action.at),
            problem: Some(report.problem),
        })
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
    params(("user" = String, Path, description = "The user"), ClaimList),
    responses((status = 200, body = ClaimsBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn claims(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<ClaimList>,
) -> Result<Response, ApiProblem> {
    let limit = limit(list.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let settled = app.settled_for(&caller, &user).await?;
    let query = PostingQuery {
        user,
        // Each share is above 0, so each has a posting.
        kind: Some(PostingKind::Grant),
        after: list.after.map(|after| after.0),
        limit: limit + 1,
    };
    let mut postings = app.ports.ledger.postings_of(&query).await?;
    let next = cut(&mut postings, limit, |posting| posting.place.to_string());
    let claim = |posting: Posting| {
        let (campaign, number) = posting.campaign.zip(posting.number)?;
        Some(ClaimBody {
            campaign: Text(campaign),
            number,
            amount: posting.amount.into(),
            granted_at: Rfc3339(posting.place.at),
        })
    };
    let body = ClaimsBody {
        claims: postings.into_iter().filter_map(claim).collect(),
        page: PagePlaceBody {
            next: next.clone(),
            settled,
        },
    };
    Ok(with_link(&uri, next.map(Text), Json(body)))
}

/// Orders of a user, newest first.
///
/// Users see their own. Other users' orders need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/orders", tag = "accounts",
    operation_id = "listUserOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The user"), OrderList),
    responses((status = 200, body = UserOrdersBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn orders(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<OrderList>,
) -> Result<Response, ApiProblem> {
    let limit = limit(list.limit, PAGE_DEFAULT, PAGE_MAX)?;
    let (names, name) = (OrderState::ALL, |state: &OrderState| state.name());
    let state = word(
        "state",
        list.state.as_deref(),
        OrderState::from_name,
        names,
        name,
    )?;
    let settled = app.settled_for(&caller, &user).await?;
    let query = OrderQuery {
        user,
        state,
        after: list.after.map(|after| after.0),
        limit: limit + 1,
    };
    let mut orders = app.ports.ledger.orders_of(&query).await?;
    let next = cut(&mut orders, limit, |order| order.place().to_string());
    let body = UserOrdersBody {
        orders: orders.into_iter().map(UserOrderBody::new).collect(),
        page: PagePlaceBody {
            next: next.clone(),
            settled,
        },
    };
    Ok(with_link(&uri, next.map(Text), Json(body)))
}

/// Postings of a user's accounts, newest first.
///
/// Users see their own. Other users' postings need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/postings", tag = "accounts",
    operation_id = "listPostings", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The user"), PostingList),
    responses((status = 200, body = PostingsBody), (status = 403, body = ProblemBody)))]
pub(crate) async fn postings(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Param(user): Param<UserId>,
    Params(list): Params<PostingList>,
) -> Result<Response, ApiProblem> {
    let limit = limit(list.limit, PAGE_DEFAULT, PAGE_MAX)?;
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
        after: list.after.map(|after| after.0),
        limit: limit + 1,
    };
    let mut postings = app.ports.ledger.postings_of(&query).await?;
    let next = cut(&mut postings, limit, |posting| posting.place.to_string());
    let body = PostingsBody {
        postings: postings.into_iter().map(PostingBody::new).collect(),
        page: PagePlaceBody {
            next: next.clone(),
            settled,
        },
    };
    Ok(with_link(&uri, next.map(Text), Json(body)))
}

/// A deposit.
///
/// Users see their own. Other users' deposits need the scope `deposit` or `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}/deposits/{id}", tag = "accounts",
    operation_id = "getDeposit", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["deposit"])),
    params(("user" = String, Path, description = "The owner of the account"),
        ("id" = String, Path, description = "The deposit's id")),
    responses((status = 200, body = DepositRecordBody), (status = 403, body = ProblemBody),
        (status = 404, description = "`not-found`: the user has no such deposit", body = ProblemBody)))]
pub(crate) async fn deposit(
    State(app): State<Arc<App>>,
    caller: Caller,
    TwoParams(user, Id(id)): TwoParams<UserId, Id>,
) -> Result<Json<DepositRecordBody>, ApiProblem> {
    if caller.user != user && !caller.may(Scope::Deposit) {
        caller.require(Scope::ReadAny)?;
    }
    let deposit = app.ports.ledger.deposit_of(id).await?;
    let deposit = deposit.filter(|deposit| deposit.user == user);
    let missing = || ApiProblem::new(ProblemKind::NotFound, "the user has no such deposit");
    let deposit = deposit.ok_or_else(missing)?;
    Ok(Json(DepositRecordBody {
        id: Text(id),
        user: deposit.user.to_string(),
        amount: deposit.amount.into(),
        at: Rfc3339(deposit.at),
        reversed: deposit.is_reversed(),
        reversed_amount: MoneyBody::new(deposit.reversed_minor, deposit.amount.currency),
    }))
}

/// Outcome of a payment.
///
/// Buyers see those of their orders, sellers those of their sales. Other payments need the scope `read:any`. With this
/// scope the newest refused report is found, if no payment with the reference was recorded.
#[utoipa::path(get, path = "/v1/payments/{reference}", tag = "orders",
    operation_id = "getPayment", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("reference" = String, Path, description = "The payment service's reference")),
    responses((status = 200, body = PaymentRecordBody),
        (status = 404, description = "`not-found`: no such payment, or it is not settled", body = ProblemBody),
        NoAnswer))]
pub(crate) async fn payment(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(reference): Param<PaymentRef>,
) -> Result<Json<PaymentRecordBody>, ApiProblem> {
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
    let payment = payment.filter(|it| may || sees(&it.buyer) || sees(&it.seller));
    let missing = || ApiProblem::new(ProblemKind::NotFound, "there is no such payment");
    let Some(payment) = payment else {
        let refusal = match may && !is_recorded {
            true => ledger.refusal_of(&reference).await?,
            false => None,
        };
        let found = refusal.and_then(|it| PaymentRecordBody::from_refusal(reference, &it));
        return found.map(Json).ok_or_else(missing);
    };
    Ok(Json(PaymentRecordBody {
        reference: Text(reference),
        order: Text(payment.order),
        user: Some(payment.buyer.to_string()),
        outcome: payment.outcome.name(),
        amount: Some(payment.amount.into()),
        at: Rfc3339(payment.at),
        problem: None,
    }))
}
