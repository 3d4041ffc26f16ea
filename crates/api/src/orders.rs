//! Orders: reading, paying, cancelling, returning.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    response::Response,
};
use qiang_core::{
    book::{Command, OrderView, Reply},
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    ports::{Action, ActionKind},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::{
    actions,
    app::App,
    auth::{Caller, Scope},
    campaign_cache::CampaignMeta,
    extract::{self, Call, Param},
    money_room::Parties,
    order_body::{OrderBody, PaymentBody},
    payment_reports::{self, Paid},
    problem::{NoAnswer, Problem, ProblemBody, ProblemKind},
    wire::{MoneyBody, Text, When},
};

/// A payment that arrived.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPayment)]
pub(crate) struct PaymentRequest {
    /// The payment service's name for it. The same one again is a replay: the money of the first report counts, and
    /// nothing of other money is kept. Another one is owed back. It pays one order: for another order it is refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// What was paid, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
    /// `payment_policy` accepts, pay the order. Another amount or currency is owed back, and the order stays as it is.
    amount: MoneyBody,
    /// When it was paid, by the payment service's clock: what was paid in time for the hold pays the order, also when
    /// it is reported a little later. Without it the payment was made just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    paid_at: Option<When>,
    /// Who paid. If the order is another user's, the report is refused and nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    user: Option<Text<UserId>>,
}

impl App {
    /// An order that the caller may see, as its buyer, as the seller, or with this scope; to others it does not exist.
    async fn visible_order(
        &self,
        caller: &Caller,
        id: OrderId,
        scope: Scope,
    ) -> Result<(OrderView, Arc<CampaignMeta>), Problem> {
        let missing = || Problem::new(ProblemKind::NotFound, "there is no such order");
        let view = self.ports.engine.order(id).await?.ok_or_else(missing)?;
        let meta = self.meta(id.campaign).await?;
        let sells = meta.as_ref().is_some_and(|meta| meta.owner == caller.user);
        if view.user != caller.user && !sells && !caller.may(scope) {
            return Err(missing());
        }
        let meta = meta.ok_or_else(|| Problem::ledger_incomplete(id.campaign))?;
        Ok((view, meta))
    }
}

impl App {
    /// Whether the buyer may return an order now. One that is returned already may be returned again: it changes
    /// nothing.
    fn buyer_may_return(&self, view: &OrderView) -> bool {
        let returned = |order: qiang_core::outcome::Order| order.state == OrderState::Returned;
        let since_ms = self.ports.clock.now().millis_since(view.grant.granted_at);
        let period_ms = self.config.limits.buyer_return_ms;
        view.grant.order.is_some_and(returned)
            || i64::try_from(period_ms).map_or(true, |period_ms| since_ms < period_ms)
    }
}

/// What is done to an order, written down unless its buyer does it: then the order itself names who did.
async fn recorded(
    call: &Call<OrderId>,
    view: &OrderView,
    kind: ActionKind,
) -> Result<Action, Problem> {
    match view.user == call.caller.user {
        true => Ok(call.action(kind, &json!({}))),
        false => call.record(kind, &json!({})).await,
    }
}

/// Has the engine change an order. Nothing is recorded of what its buyer does, so a refusal strikes nothing.
async fn submit(
    call: &Call<OrderId>,
    view: &OrderView,
    action: &Action,
    command: Command,
) -> Result<Reply, Problem> {
    match view.user == call.caller.user {
        true => Ok(call.app.ports.engine.submit(command).await?),
        false => call.app.submit_recorded(action, command).await,
    }
}

/// An order that is in this state already.
fn so(view: &OrderView, state: OrderState, currency: Currency) -> Option<OrderBody> {
    let is_so = view.grant.order.is_some_and(|order| order.state == state);
    is_so.then(|| OrderBody::new(view, currency))
}

/// An order. Buyers see their own, sellers those of their sales; others' are seen with the scope `read:any`.
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "orders",
    operation_id = "getOrder", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The order's id")),
    responses((status = 200, body = OrderBody), (status = 404, body = ProblemBody), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<OrderId>,
) -> Result<Json<OrderBody>, Problem> {
    let (view, meta) = app.visible_order(&caller, id, Scope::ReadAny).await?;
    Ok(Json(OrderBody::new(&view, meta.currency)))
}

/// Records a payment that arrived. The payment service calls this.
///
/// The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or currency
/// is answered `refund_due`: it is owed back, and the order stays as it is. An order that costs nothing is
/// paid when it is granted and needs no report; one of nothing is answered `paid` and changes nothing.
///
/// The service keeps nothing of a refused report and logs it. It refuses an unknown order and one of another user
/// than `user`. It refuses a reference that came for another order. It refuses an amount below 1 or above 2^53-1
/// minor units, a code that is no currency, and a `paid_at` that is ahead of now or before the order. It refuses
/// money that it would owe back if as many payments of the order are owed back as may be.
#[utoipa::path(post, path = "/v1/orders/{id}/payment", tag = "orders", request_body = PaymentRequest,
    operation_id = "payOrder", security(("bearer" = ["pay"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = PaymentBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "`payment-used`: it came for another order before; `user-mismatch`: the order is \
            not of the user who paid; `order-conflict`: it would be owed back, and as many payments of the order are \
            as may be",
            body = ProblemBody),
        (status = 422, description = "`invalid`: no money, more than 2^53-1 minor units, no currency, a `paid_at` that \
            cannot be, or the account cannot hold that much; `key-reused`",
            body = ProblemBody), NoAnswer))]
pub(crate) async fn pay(call: Call<OrderId>, request: Request) -> Result<Response, Problem> {
    call.caller.require(Scope::Pay)?;
    let body = extract::json_body(request, &call.app).await?;
    let request: PaymentRequest = payment_reports::parse(&body, Some(call.id))?;
    let used = call.key_use("POST /v1/orders/{id}/payment", &request);
    let paid = Paid {
        reference: request.reference.0,
        amount: request.amount,
        paid_at: request.paid_at,
        user: request.user.map(|user| user.0),
    };
    let report = (call.id, paid);
    call.app.take_payment(call.caller.user, report, used).await
}

/// Gives an order's units back. Buyers may for their own; the scope `admin` is for all. Again changes nothing. An order
/// that costs nothing is paid from the start: it is returned, and nothing is owed.
#[utoipa::path(post, path = "/v1/orders/{id}/cancellation", tag = "orders",
    operation_id = "cancelOrder", security(("bearer" = []), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = OrderBody), (status = 404, body = ProblemBody),
        (status = 409, description = "Paid or expired", body = ProblemBody), NoAnswer))]
pub(crate) async fn cancel(call: Call<OrderId>) -> Result<Response, Problem> {
    let (app, order) = (&call.app, call.id);
    let (view, meta) = app
        .visible_order(&call.caller, order, Scope::ReadAny)
        .await?;
    if view.user != call.caller.user {
        call.caller.require(Scope::Admin)?;
    }
    let used = call.key_use("POST /v1/orders/{id}/cancellation", &());
    let app = Arc::clone(app);
    let cancelled = match view.is_paid_for_nothing() {
        true => OrderState::Returned,
        false => OrderState::Cancelled,
    };
    let so = so(&view, cancelled, meta.currency);
    let cancel = async move {
        let action = recorded(&call, &view, ActionKind::Cancel).await?;
        match submit(&call, &view, &action, Command::Cancel { order }).await? {
            Reply::Cancelled(view) => {
                actions::log(&action);
                Ok(OrderBody::new(&view, meta.currency))
            }
            _ => Err(Problem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, cancel).await
}

/// Takes a paid order back.
///
/// Its units are for sale again, and its price is owed to the buyer. The seller may at any time with the scope
/// `campaigns:write`, and others with `admin`; buyers may without, for as long as the service allows after the order
/// was granted. Again changes nothing.
#[utoipa::path(post, path = "/v1/orders/{id}/return", tag = "orders",
    operation_id = "returnOrder",
    security(("bearer" = []), ("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = OrderBody),
        (status = 403, description = "`return-period-over`: the buyer is too late", body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "Not paid", body = ProblemBody),
        (status = 422, description = "`invalid`: an account cannot hold that much; `key-reused`",
            body = ProblemBody), NoAnswer))]
pub(crate) async fn take_back(call: Call<OrderId>) -> Result<Response, Problem> {
    let (app, order) = (&call.app, call.id);
    let caller = &call.caller;
    let (view, meta) = app.visible_order(caller, order, Scope::ReadAny).await?;
    let scope = match meta.owner == caller.user {
        true => Scope::CampaignsWrite,
        false => Scope::Admin,
    };
    match caller.require(scope) {
        Err(_) if view.user == caller.user => {
            if !app.buyer_may_return(&view) {
                return Err(ProblemKind::ReturnPeriodOver.into());
            }
        }
        required => required?,
    }
    let used = call.key_use("POST /v1/orders/{id}/return", &());
    let parties = Parties {
        currency: meta.currency,
        seller: meta.owner.clone(),
        buyer: view.user.clone(),
    };
    let is_paid = self::so(&view, OrderState::Paid, meta.currency).is_some();
    // Again it changes nothing.
    let so = so(&view, OrderState::Returned, meta.currency);
    let minor = match so {
        Some(_) => 0,
        // The engine refuses it, unless it is paid in this moment.
        None if !is_paid => view.grant.amount_minor,
        None => {
            let price = Money::new(view.grant.amount_minor, meta.currency);
            let policy = meta.payment_policy;
            app.paid_minor_max(order, policy, price).await?
        }
    };
    let app = Arc::clone(app);
    let take_back = async move {
        let app = &call.app;
        let room = app.room_for_return(&parties, minor).await?;
        let action = recorded(&call, &view, ActionKind::Return).await?;
        let reply = submit(&call, &view, &action, Command::Return { order }).await;
        drop(room);
        match reply? {
            Reply::Returned(view) => {
                actions::log(&action);
                Ok(OrderBody::new(&view, meta.currency))
            }
            _ => Err(Problem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, take_back).await
}
