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
    order::{OrderState, ReturnPart},
    ports::{Action, ActionKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    cache::campaigns::CampaignMeta,
    extract::{self, Call, OptionalJson, Param},
    http::{
        problem::{NoAnswer, Problem, ProblemBody, ProblemKind},
        wire::{MoneyBody, Text, When},
    },
    idempotency::fingerprint::effect_key,
    resources::{
        actions,
        money_room::Parties,
        order_body::{OrderBody, PaymentBody},
        payment_reports::{self, Paid},
    },
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

/// How many units of an order are returned.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReturn)]
pub(crate) struct ReturnRequest {
    /// At least 1, at most what was not returned yet. Default: all of that. A request with a quantity needs an
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    quantity: Option<u32>,
}

/// How many units of an order are cancelled: all of them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCancellation)]
pub(crate) struct CancelRequest {
    /// The order's quantity: a held order is cancelled whole. Another one is refused. Default: the order's.
    #[serde(default)]
    #[schema(minimum = 1)]
    quantity: Option<u32>,
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

impl App {
    /// Whether the ledger has a return of a part: a late retry of it is answered.
    async fn has_returned(
        &self,
        order: OrderId,
        part: Option<&ReturnPart>,
    ) -> Result<bool, Problem> {
        let Some(part) = part else {
            return Ok(false);
        };
        let before = order.number.saturating_sub(1);
        let ledger = &self.ports.ledger;
        let returns = ledger.settled_returns(order.campaign, before, order.number);
        Ok(returns.await?.iter().any(|known| known.part == *part))
    }
}

/// What is done to an order, written down unless its buyer does it: then the order itself names who did.
async fn recorded(
    call: &Call<OrderId>,
    view: &OrderView,
    (kind, detail): (ActionKind, Value),
) -> Result<Action, Problem> {
    match view.user == call.caller.user {
        true => Ok(call.action(kind, &detail)),
        false => call.record(kind, &detail).await,
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

/// Gives an order's units back, all of them. Buyers may for their own; the scope `admin` is for all. Again changes
/// nothing. An order that costs nothing is paid from the start: it is returned, and nothing is owed.
#[utoipa::path(post, path = "/v1/orders/{id}/cancellation", tag = "orders", request_body = Option<CancelRequest>,
    operation_id = "cancelOrder", security(("bearer" = []), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = OrderBody), (status = 404, body = ProblemBody),
        (status = 409, description = "`order-conflict`: paid or expired; `partial-cancellation`: another quantity than \
            the order's", body = ProblemBody), NoAnswer))]
pub(crate) async fn cancel(
    call: Call<OrderId>,
    OptionalJson(request): OptionalJson<CancelRequest>,
) -> Result<Response, Problem> {
    let (app, order) = (&call.app, call.id);
    let (view, meta) = app
        .visible_order(&call.caller, order, Scope::ReadAny)
        .await?;
    if view.user != call.caller.user {
        call.caller.require(Scope::Admin)?;
    }
    let quantity = view.grant.quantity;
    if request.quantity.is_some_and(|asked| asked != quantity) {
        let why = format!("the order has {quantity} units, and is cancelled whole");
        return Err(Problem::new(ProblemKind::PartialCancellation, why));
    }
    let used = call.key_use("POST /v1/orders/{id}/cancellation", &());
    let app = Arc::clone(app);
    let cancelled = match view.is_paid_for_nothing() {
        true => OrderState::Returned,
        false => OrderState::Cancelled,
    };
    let so = so(&view, cancelled, meta.currency);
    let cancel = async move {
        let action = recorded(&call, &view, (ActionKind::Cancel, json!({}))).await?;
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

/// Returns a paid order: some of its units, or all that are left.
///
/// The units are for sale again, and what paid them is owed to the buyer: the same part of what paid the order, rounded
/// down over all returns so far, so that all returns together owe what paid it. The seller may at any time with the
/// scope `campaigns:write`, and others with `admin`; buyers may without, for as long as the service allows after the
/// order was granted.
///
/// A request without a quantity returns what is left, and again changes nothing. One with a quantity needs an
/// `Idempotency-Key`: the same key again changes nothing, and another key returns as many units again.
#[utoipa::path(post, path = "/v1/orders/{id}/return", tag = "orders", request_body = Option<ReturnRequest>,
    operation_id = "returnOrder",
    security(("bearer" = []), ("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = OrderBody),
        (status = 400, description = "`bad-request`: a quantity without an `Idempotency-Key`", body = ProblemBody),
        (status = 403, description = "`return-period-over`: the buyer is too late", body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "`order-conflict`: not paid, or all is returned; `return-exceeds-order`: fewer \
            units are left", body = ProblemBody),
        (status = 422, description = "`invalid`: no unit, or an account cannot hold that much; `key-reused`",
            body = ProblemBody), NoAnswer))]
pub(crate) async fn return_order(
    call: Call<OrderId>,
    OptionalJson(request): OptionalJson<ReturnRequest>,
) -> Result<Response, Problem> {
    if request.quantity == Some(0) {
        let why = "a return is of at least 1 unit";
        return Err(Problem::invalid_at("#/quantity", why));
    }
    let (app, order) = (&call.app, call.id);
    let caller = &call.caller;
    let (view, meta) = app.visible_order(caller, order, Scope::ReadAny).await?;
    // Without a quantity the fingerprint is that of earlier versions, whose keys are replayed.
    let route = "POST /v1/orders/{id}/return";
    let (used, part) = match request.quantity {
        None => (call.key_use(route, &()), None),
        Some(quantity) => {
            let used = call.key_use(route, &request);
            let key = effect_key(used.as_ref())?;
            (used, Some(ReturnPart { quantity, key }))
        }
    };
    let scope = match meta.owner == caller.user {
        true => Scope::CampaignsWrite,
        false => Scope::Admin,
    };
    match caller.require(scope) {
        Err(_) if view.user == caller.user => {
            if !app.buyer_may_return(&view) && !app.has_returned(order, part.as_ref()).await? {
                return Err(ProblemKind::ReturnPeriodOver.into());
            }
        }
        required => required?,
    }
    let parties = Parties {
        currency: meta.currency,
        seller: meta.owner.clone(),
        buyer: view.user.clone(),
    };
    let is_paid = self::so(&view, OrderState::Paid, meta.currency).is_some();
    // Again it changes nothing. Whether a part was returned before, its key says.
    let so = so(&view, OrderState::Returned, meta.currency).filter(|_| part.is_none());
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
    let return_units = async move {
        let app = &call.app;
        let room = app.room_for_return(&parties, minor).await?;
        let detail = match &part {
            Some(part) => json!({ "quantity": part.quantity }),
            None => json!({}),
        };
        let action = recorded(&call, &view, (ActionKind::Return, detail)).await?;
        let reply = submit(&call, &view, &action, Command::Return { order, part }).await;
        drop(room);
        match reply? {
            Reply::Returned(view) => {
                actions::log(&action);
                Ok(OrderBody::new(&view, meta.currency))
            }
            _ => Err(Problem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, return_units).await
}
