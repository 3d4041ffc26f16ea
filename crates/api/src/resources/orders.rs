//! Orders: reading, paying, cancelling and returning them.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    response::Response,
};
use qiang_core::{
    book::{Command, OrderView, Refusal, Reply},
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::{OrderState, OrderStep, OrderStepError, ReturnPart, owed_for_units_max},
    ports::{Action, ActionKind, EngineError, KeyUse},
};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    cache::campaigns::AnswerFields,
    extract::{self, ObjectRequest, OptionalJson, Param},
    http::{
        grant_bodies::order_body,
        problem::{ApiProblem, NoAnswer},
        wire::{MoneyBody, Rfc3339, Text},
    },
    idempotency::fingerprint::effect_key,
    resources::{money_room::Parties, operation_log, payment_reports::PaidReport},
};

/// A payment that arrived.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPayment)]
pub(crate) struct PaymentRequest {
    /// The payment service's reference of the payment. A report with the same reference is a replay: the money of the
    /// first report counts, and other money is not recorded. A further payment of the order is refunded. A reference
    /// pays one order: for another order it is refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
    /// `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not
    /// change.
    amount: MoneyBody,
    /// Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
    /// reported a little later. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    paid_at: Option<Rfc3339>,
    /// User who paid. If the order is another user's, the report is refused and nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    user: Option<Text<UserId>>,
}

/// Units of an order to return.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReturn)]
pub(crate) struct ReturnRequest {
    /// At least 1, at most what is not returned yet. Default: all of that. A request with a quantity needs an
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    quantity: Option<u32>,
}

/// Units of an order to cancel.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCancellation)]
pub(crate) struct CancelRequest {
    /// At least 1, at most the order's quantity. Default: all units. A request with a quantity needs an
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    quantity: Option<u32>,
}

impl App {
    /// Order that the caller may see as its buyer, as the seller, or with this scope. For other callers it does not
    /// exist.
    pub(crate) async fn visible_order(
        &self,
        caller: &Caller,
        id: OrderId,
        scope: Scope,
    ) -> Result<(OrderView, Arc<AnswerFields>), ApiProblem> {
        let missing = || ApiProblem::new(ProblemKind::NotFound, "there is no such order");
        let view = self.ports.engine.order(id).await?.ok_or_else(missing)?;
        let meta = self.meta(id.campaign).await?;
        let sells = meta.as_ref().is_some_and(|meta| meta.owner == caller.user);
        if view.user != caller.user && !sells && !caller.may(scope) {
            return Err(missing());
        }
        let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(id.campaign))?;
        Ok((view, meta))
    }
}

impl App {
    /// Whether the buyer may return an order now. A returned order may be returned again, which changes nothing.
    fn buyer_may_return(&self, view: &OrderView) -> bool {
        let returned = |order: qiang_core::outcome::OrderTerms| order.state == OrderState::Returned;
        let since_ms = self.ports.clock.now().millis_since(view.grant.granted_at);
        let period_ms = self.config.limits.buyer_return_ms;
        view.grant.order.is_some_and(returned)
            || i64::try_from(period_ms).map_or(true, |period_ms| since_ms < period_ms)
    }
}

impl App {
    /// Whether a request with this key came before. It was in time then, and a retry is answered as it was, even if the
    /// ledger does not have the return yet.
    async fn is_in_time(&self, used: Option<&KeyUse>) -> Result<bool, ApiProblem> {
        match used {
            Some(used) => Ok(self.ports.ledger.bound_key(used).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Whether a part was cancelled or returned before. The ledger may receive it while this request runs: it may lag,
    /// and a ledger that was restored has also forgotten the key.
    ///
    /// # Errors
    /// `uncertain` if the ledger lags by more than a moment.
    async fn had_part(
        &self,
        order: OrderId,
        part: Option<&ReturnPart>,
    ) -> Result<bool, ApiProblem> {
        if part.is_none() || self.has_part(order, part).await? {
            return Ok(part.is_some());
        }
        match self.settled().await? {
            true => self.has_part(order, part).await,
            false => {
                let detail = "the ledger does not have all changes of the order yet";
                Err(ApiProblem::new(ProblemKind::Uncertain, detail))
            }
        }
    }

    /// Whether the ledger has a cancellation or a return of a part: a late retry of it is answered.
    async fn has_part(
        &self,
        order: OrderId,
        part: Option<&ReturnPart>,
    ) -> Result<bool, ApiProblem> {
        let Some(part) = part else {
            return Ok(false);
        };
        let before = order.number.saturating_sub(1);
        let ledger = &self.ports.ledger;
        let returns = ledger.settled_returns(order.campaign, before, order.number);
        Ok(returns.await?.iter().any(|known| known.part == *part))
    }
}

/// Action on an order. It is recorded unless the buyer acts, whom the order itself names.
async fn recorded(
    call: &ObjectRequest<OrderId>,
    view: &OrderView,
    (kind, detail): (ActionKind, Value),
) -> Result<Action, ApiProblem> {
    match view.user == call.caller.user {
        true => Ok(call.action(kind, &detail)),
        false => call.record(kind, &detail).await,
    }
}

/// Submits a command on an order. The buyer's actions are not recorded, so a refusal removes no record.
async fn submit(
    call: &ObjectRequest<OrderId>,
    view: &OrderView,
    action: &Action,
    command: Command,
) -> Result<Reply, ApiProblem> {
    match view.user == call.caller.user {
        true => Ok(call.app.ports.engine.submit(command).await?),
        false => call.app.submit_recorded(action, command).await,
    }
}

impl App {
    /// Answers a change that the order's state refuses for good, so that repetitions under new keys write nothing. A
    /// key that is bound already has the answer. `comes_back` says whether a payment may lead out of the state.
    pub(crate) async fn check_final(
        &self,
        used: Option<&KeyUse>,
        (order, part): (OrderId, Option<&ReturnPart>),
        refused: Option<OrderStepError>,
        comes_back: bool,
    ) -> Result<(), ApiProblem> {
        if (used.is_none() && comes_back) || self.is_bound(used).await? {
            return Ok(());
        }
        match refused {
            // An unsettled state may be lost with Redis.
            Some(refused) if !comes_back && self.settled().await? => {
                // The part may be settled since the first look.
                match self.has_part(order, part).await? {
                    true => Ok(()),
                    false => Err(EngineError::from(Refusal::from(refused)).into()),
                }
            }
            // The engine decides. A refusal is kept with its key, because a later payment must not change it.
            _ if used.is_some() => self.limits.check_order_change(order),
            _ => Ok(()),
        }
    }
}

/// Detail of an action that cancels or returns units of an order.
fn detail_of(part: Option<&ReturnPart>) -> Value {
    match part {
        Some(part) => json!({ "quantity": part.quantity }),
        None => json!({}),
    }
}

/// Refusal of a step by the state of an order.
pub(crate) fn refusal(view: &OrderView, step: OrderStep) -> Option<OrderStepError> {
    let order = view.grant.order?;
    order.state.after(step).err()
}

/// The order, if it is in this state already.
fn so(view: &OrderView, state: OrderState, currency: Currency) -> Option<answers::Order> {
    let is_so = view.grant.order.is_some_and(|order| order.state == state);
    is_so.then(|| order_body(view, currency).ok()).flatten()
}

/// An order.
///
/// Buyers see their own orders, sellers those of their sales. Other orders need the scope `read:any`.
#[utoipa::path(get, path = "/v1/orders/{id}", tag = "orders",
    operation_id = "getOrder", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The order's id")),
    responses((status = 200, body = answers::Order), (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<OrderId>,
) -> Result<Json<answers::Order>, ApiProblem> {
    let (view, meta) = app.visible_order(&caller, id, Scope::ReadAny).await?;
    Ok(Json(order_body(&view, meta.currency)?))
}

/// Records a payment that arrived. The payment service calls this.
///
/// The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
/// currency is answered `refund_due`: it is refunded, and the order does not change. An order that costs nothing is
/// paid when it is granted and needs no report; a report of 0 is answered `paid` and changes nothing.
///
/// The money of a refused report is not recorded. The service logs and counts the report, and lists it in the operation
/// log and under its reference. It refuses an unknown order, and an order of another user than `user`. It refuses a
/// reference that was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an
/// invalid currency, and a
/// `paid_at` in the future or before the order. It refuses money that it would refund if the order has reached its
/// limit of payments with a refund due.
#[utoipa::path(post, path = "/v1/orders/{id}/payment", tag = "orders", request_body = PaymentRequest,
    operation_id = "payOrder", security(("bearer" = ["pay"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = answers::Payment), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`payment-used`: it was reported for another order before; `user-mismatch`: the \
         order is not of the user who paid; `order-conflict`: a refund would be due, and the order has reached its \
         limit of these",
            body = Problem),
        (status = 422, description = "`invalid`: no money, more than 2^53-1 minor units, an invalid currency or \
         `paid_at`, or the account cannot hold that much; `key-reused`",
            body = Problem),
        (status = 503, description = "No answer of the engine or the ledger, or `ledger-incomplete`; `order-changed`: \
         units of the order were cancelled at the same time", body = Problem)))]
pub(crate) async fn pay(
    call: ObjectRequest<OrderId>,
    request: Request,
) -> Result<Response, ApiProblem> {
    call.caller.require(Scope::Pay)?;
    let body = extract::json_body(request, &call.app).await?;
    let request: PaymentRequest = call
        .app
        .parse_report(&call.caller.user, &body, Some(call.id))
        .await?;
    let used = call.key_use("POST /v1/orders/{id}/payment", &request);
    let paid = PaidReport {
        reference: request.reference.0,
        amount: request.amount,
        paid_at: request.paid_at,
        user: request.user.map(|user| user.0),
        sellers: None,
    };
    let report = (call.id, paid);
    call.app.take_payment(call.caller.user, report, used).await
}

/// Cancels a held order: some of its units, or all.
///
/// The units are for sale again, and free the buyer's limit. An order of which some units are cancelled stays `held`
/// with the other ones: its `quantity` and its `amount` fall, and a payment of the new amount pays it. If no unit is
/// left, the order is `cancelled`.
///
/// A request without a quantity cancels the order, and a repetition changes nothing. One with a quantity needs an
/// `Idempotency-Key`: the same key again changes nothing, and another key cancels as many units again.
///
/// Buyers may cancel their own orders. Sellers cancel orders of their own sales with the scope `campaigns:write`; other
/// orders need `admin`. An order that costs nothing is paid from the start: it is returned, and no refund is due.
#[utoipa::path(post, path = "/v1/orders/{id}/cancellation", tag = "orders", request_body = Option<CancelRequest>,
    operation_id = "cancelOrder",
    security(("bearer" = []), ("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = answers::Order), (status = 404, body = Problem),
        (status = 400, description = "`bad-request`: a quantity without an `Idempotency-Key`", body = Problem),
        (status = 409, description = "`order-conflict`: paid or expired; `cancellation-exceeds-order`: the order has \
            fewer units; `too-many-returns`: it was restocked in 1,000 parts", body = Problem),
        (status = 422, description = "`invalid`: no unit; `key-reused`", body = Problem), NoAnswer))]
pub(crate) async fn cancel(
    call: ObjectRequest<OrderId>,
    OptionalJson(request): OptionalJson<CancelRequest>,
) -> Result<Response, ApiProblem> {
    if request.quantity == Some(0) {
        let why = "a cancellation is of at least 1 unit";
        return Err(ApiProblem::invalid_at("#/quantity", why));
    }
    let (app, order) = (&call.app, call.id);
    let (view, meta) = app
        .visible_order(&call.caller, order, Scope::ReadAny)
        .await?;
    if view.user != call.caller.user {
        call.caller.require(match meta.owner == call.caller.user {
            true => Scope::CampaignsWrite,
            false => Scope::Admin,
        })?;
    }
    let route = "POST /v1/orders/{id}/cancellation";
    let (used, part) = match request.quantity {
        None => (call.key_use(route, &()), None),
        Some(quantity) => {
            let used = call.key_use(route, &request);
            let key = effect_key(used.as_ref())?;
            (used, Some(ReturnPart { quantity, key }))
        }
    };
    let app = Arc::clone(app);
    let cancelled = match view.is_paid_for_nothing() {
        true => OrderState::Returned,
        false => OrderState::Cancelled,
    };
    // A cancelled order has no unit left. For a part of a returned one, its key decides whether it was returned before.
    let is_final = part.is_none() || cancelled == OrderState::Cancelled;
    let so = so(&view, cancelled, meta.currency).filter(|_| is_final);
    if so.is_none() && !app.has_part(order, part.as_ref()).await? {
        let step = match view.is_paid_for_nothing() {
            true => OrderStep::Return,
            false => OrderStep::Cancel,
        };
        let changed = (order, part.as_ref());
        app.check_final(used.as_ref(), changed, refusal(&view, step), false)
            .await?;
    }
    let cancel = async move {
        let detail = detail_of(part.as_ref());
        let action = recorded(&call, &view, (ActionKind::Cancel, detail)).await?;
        match submit(&call, &view, &action, Command::Cancel { order, part }).await? {
            Reply::Cancelled(view) => {
                operation_log::log(&action);
                order_body(&view, meta.currency)
            }
            _ => Err(ApiProblem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, cancel).await
}

/// Returns a paid order: some of its units, or all that are left.
///
/// The units are for sale again, and a refund is due to the buyer. It is the returned fraction of what paid the
/// order, rounded down over all returns so far. So all returns together refund what paid it. The seller may return an
/// order at any time with the scope `campaigns:write`, and other users with `admin`. Buyers need no scope within the
/// return period, which starts at the grant.
///
/// A request without a quantity returns what is left, and a repetition changes nothing. One with a quantity needs an
/// `Idempotency-Key`: the same key again changes nothing, and another key returns as many units again.
#[utoipa::path(post, path = "/v1/orders/{id}/return", tag = "orders", request_body = Option<ReturnRequest>,
    operation_id = "returnOrder",
    security(("bearer" = []), ("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = answers::Order),
        (status = 400, description = "`bad-request`: a quantity without an `Idempotency-Key`", body = Problem),
        (status = 403, description = "`return-period-over`: the buyer is too late", body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`order-conflict`: not paid, or all is returned; `return-exceeds-order`: fewer \
            units are left; `too-many-returns`: it was returned in 1,000 parts", body = Problem),
        (status = 422, description = "`invalid`: no unit, or an account cannot hold that much; `key-reused`",
            body = Problem), NoAnswer))]
pub(crate) async fn return_order(
    call: ObjectRequest<OrderId>,
    OptionalJson(request): OptionalJson<ReturnRequest>,
) -> Result<Response, ApiProblem> {
    if request.quantity == Some(0) {
        let why = "a return is of at least 1 unit";
        return Err(ApiProblem::invalid_at("#/quantity", why));
    }
    let (app, order) = (&call.app, call.id);
    let caller = &call.caller;
    let (view, meta) = app.visible_order(caller, order, Scope::ReadAny).await?;
    // Without a quantity, the fingerprint equals that of earlier versions, so their keys are replayed.
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
            let may = app.buyer_may_return(&view)
                || app.is_in_time(used.as_ref()).await?
                || app.had_part(order, part.as_ref()).await?;
            if !may {
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
    // A repetition changes nothing. For a part, its key decides whether it was returned before.
    let so = so(&view, OrderState::Returned, meta.currency).filter(|_| part.is_none());
    if so.is_none() && !app.has_part(order, part.as_ref()).await? {
        let comes_back = view
            .grant
            .order
            .is_some_and(|it| matches!(it.state, OrderState::Held | OrderState::Expired));
        app.check_final(
            used.as_ref(),
            (order, part.as_ref()),
            refusal(&view, OrderStep::Return),
            comes_back,
        )
        .await?;
    }
    let paid_minor = match so {
        Some(_) => 0,
        // The engine refuses it, unless it is paid at this moment.
        None if !is_paid => view.grant.amount_minor,
        None => {
            let price = Money::new(view.grant.amount_minor, meta.currency);
            let policy = meta.payment_policy;
            app.paid_minor_max(order, policy, price).await?
        }
    };
    let before = (view.grant.order).map_or(0, |order| order.returned_quantity);
    let quantity = view.grant.quantity;
    let units = match &part {
        Some(part) => part.quantity,
        None => quantity.saturating_sub(before),
    };
    let minor = owed_for_units_max(paid_minor, units, quantity);
    let app = Arc::clone(app);
    let return_units = async move {
        let app = &call.app;
        let room = match app.room_for_return(&parties, minor).await {
            // Earlier returns need no room again.
            Err(refused) => match app.had_part(order, part.as_ref()).await? {
                true => None,
                false => return Err(refused),
            },
            room => room?,
        };
        let detail = detail_of(part.as_ref());
        let action = recorded(&call, &view, (ActionKind::Return, detail)).await?;
        let reply = submit(&call, &view, &action, Command::Return { order, part }).await;
        drop(room);
        match reply? {
            Reply::Returned(view) => {
                operation_log::log(&action);
                order_body(&view, meta.currency)
            }
            _ => Err(ApiProblem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, return_units).await
}
